//! Event in its two API groups: core `v1`, which is the storage version, and `events.k8s.io/v1`.
//!
//! See `pkg/apis/core/validation/events.go` and `pkg/registry/core/event/strategy.go`.

use jiff::Timestamp;

use crate::field_errors::{BadValue, ErrorList, Path};
use crate::json::fields::{drop_zero, is_empty_value, non_null, semantic_equal, str_field};
use crate::json::{Map, Value, json};
use crate::printers::column::{CellSource, Column, Description, NAME};
use crate::printers::duration;
use crate::printers::format::{number, text, text_or};
use crate::registry::builder::{ResourceBuilder, resource};
use crate::registry::names::{self, NameFormat};
use crate::registry::served_resource::Conversion;
use crate::registry::strategy::{Strategy, StrategyContext};
use crate::registry::{checks, meta, time};

/// The resource `events`.
pub(in crate::registry) fn core_v1() -> ResourceBuilder {
    resource("", "v1", "events", "Event", "io.k8s.api.core.v1.Event")
        .short(&["ev"])
        .hash("r2yiGXH7wu8=")
        .fields(&[
            ("involvedObject.kind", ""),
            ("involvedObject.namespace", ""),
            ("involvedObject.name", ""),
            ("involvedObject.uid", ""),
            ("involvedObject.apiVersion", ""),
            ("involvedObject.resourceVersion", ""),
            ("involvedObject.fieldPath", ""),
            ("reason", ""),
            ("reportingComponent", ""),
            ("source", ""),
            ("type", ""),
        ])
        .rules(CoreV1Event)
        .columns(COLUMNS)
}

/// The resource `events` of `events.k8s.io/v1`.
pub(in crate::registry) fn events_v1() -> ResourceBuilder {
    resource("events.k8s.io", "v1", "events", "Event", "io.k8s.api.events.v1.Event")
        .short(&["ev"])
        .hash("r2yiGXH7wu8=")
        .fields(&[
            ("regarding.kind", ""),
            ("regarding.namespace", ""),
            ("regarding.name", ""),
            ("regarding.uid", ""),
            ("regarding.apiVersion", ""),
            ("regarding.resourceVersion", ""),
            ("regarding.fieldPath", ""),
            ("reason", ""),
            ("reportingController", ""),
            ("type", ""),
        ])
        .rules(EventsV1Event)
        .with_conversion(&CONVERSION)
        .stored_as("", "events")
        .columns(COLUMNS)
}

/// The strategy of core `v1` events.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CoreV1Event;

/// The strategy of `events.k8s.io/v1` events.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EventsV1Event;

/// The strategy of `events.k8s.io/v1beta1` events: those of `v1` with the rules of core `v1`.
#[derive(Debug, Clone, Copy)]
pub(in crate::registry) struct EventsV1Beta1Event;

/// Converts between the two groups.
pub(crate) const CONVERSION: Conversion = Conversion { to_storage: to_core, from_storage: from_core };

/// Renamed fields: name in `events.k8s.io/v1`, name in core `v1`.
const RENAMED_FIELDS: [(&str, &str); 7] = [
    ("regarding", "involvedObject"),
    ("note", "message"),
    ("reportingController", "reportingComponent"),
    ("deprecatedSource", "source"),
    ("deprecatedFirstTimestamp", "firstTimestamp"),
    ("deprecatedLastTimestamp", "lastTimestamp"),
    ("deprecatedCount", "count"),
];

pub(in crate::registry) fn to_core(mut event: Value) -> Value {
    if let Some(map) = event.as_object_mut() {
        for (new, core) in RENAMED_FIELDS {
            if let Some(value) = map.remove(new) {
                map.insert(core.to_owned(), value);
            }
        }
        map.insert("apiVersion", "v1".into());
        default_core_v1(map);
    }
    event
}

pub(in crate::registry) fn from_core(mut event: Value) -> Value {
    if let Some(map) = event.as_object_mut() {
        for (new, core) in RENAMED_FIELDS {
            if let Some(value) = map.remove(core) {
                map.insert(new.to_owned(), value);
            }
        }
        map.insert("apiVersion", "events.k8s.io/v1".into());
        default_events_v1(map);
    }
    event
}

fn default_core_v1(map: &mut Map) {
    for field in ["involvedObject", "source"] {
        if map.get(field).is_none_or(Value::is_null) {
            map.insert(field.to_owned(), Value::Object(Map::new()));
        }
    }
    for field in ["firstTimestamp", "lastTimestamp", "eventTime"] {
        map.entry(field).or_insert(Value::Null);
    }
    for field in ["reportingComponent", "reportingInstance"] {
        if map.get(field).is_none_or(Value::is_null) {
            map.insert(field.to_owned(), "".into());
        }
    }
    drop_zero(map, &["count"]);
    time::normalize_seconds(map, &["firstTimestamp", "lastTimestamp"]);
    time::normalize_micros(map, &["eventTime"]);
    series_default(map);
}

fn default_events_v1(map: &mut Map) {
    for field in ["regarding", "deprecatedSource"] {
        if map.get(field).is_none_or(Value::is_null) {
            map.insert(field.to_owned(), Value::Object(Map::new()));
        }
    }
    for field in ["deprecatedFirstTimestamp", "deprecatedLastTimestamp", "eventTime"] {
        map.entry(field).or_insert(Value::Null);
    }
    for field in ["reportingController", "reportingInstance"] {
        if is_empty_value(map.get(field)) {
            map.remove(field);
        }
    }
    drop_zero(map, &["deprecatedCount"]);
    time::normalize_seconds(map, &["deprecatedFirstTimestamp", "deprecatedLastTimestamp"]);
    time::normalize_micros(map, &["eventTime"]);
    series_default(map);
}

fn series_default(map: &mut Map) {
    if let Some(series) = map.get_mut("series").and_then(Value::as_object_mut) {
        time::normalize_micros(series, &["lastObservedTime"]);
    }
}

impl Strategy for CoreV1Event {
    fn default(&self, object: &mut Value) {
        if let Some(map) = object.as_object_mut() {
            default_core_v1(map);
        }
    }

    fn validate(&self, object: &Value) -> ErrorList {
        validate_legacy(object, "reportingComponent")
    }

    fn validate_update(&self, new: &Value, _old: &Value) -> ErrorList {
        validate_legacy(new, "reportingComponent")
    }

    fn allow_create_on_update(&self) -> bool {
        true
    }
}

impl Strategy for EventsV1Event {
    fn default(&self, object: &mut Value) {
        if let Some(map) = object.as_object_mut() {
            default_events_v1(map);
        }
    }

    fn prepare_for_create(&self, _object: &mut Value, _ctx: &StrategyContext<'_>) {}

    fn validate(&self, object: &Value) -> ErrorList {
        let event = to_core(object.clone());
        let mut errors = validate_legacy(&event, "reportingController");
        errors.append(meta::validate(&event, true, NameFormat::Subdomain, &Path::new("metadata")));
        validate_series(&event, &mut errors);
        validate_v1_create(&event, &mut errors);
        errors
    }

    fn validate_update(&self, new: &Value, old: &Value) -> ErrorList {
        let new = to_core(new.clone());
        let old = to_core(old.clone());
        let mut errors = validate_legacy(&new, "reportingController");
        errors.append(meta::validate_update(&new, &old, &Path::new("metadata")));
        if !semantic_equal(new.get("series"), old.get("series")) {
            validate_series(&new, &mut errors);
        }
        immutable(&new, &old, &mut errors);
        errors
    }

    fn allow_create_on_update(&self) -> bool {
        true
    }
}

impl Strategy for EventsV1Beta1Event {
    fn default(&self, object: &mut Value) {
        EventsV1Event.default(object);
    }

    fn validate(&self, object: &Value) -> ErrorList {
        validate_legacy(&to_core(object.clone()), "reportingController")
    }

    fn validate_update(&self, new: &Value, _old: &Value) -> ErrorList {
        self.validate(new)
    }

    fn allow_create_on_update(&self) -> bool {
        true
    }
}

/// Validates the rules of both groups on the core form (`legacyValidateEvent`). Events with an `eventTime` must be
/// complete.
fn validate_legacy(event: &Value, controller: &str) -> ErrorList {
    let mut errors = ErrorList::new();
    let empty = Value::Null;
    let namespace = str_field(event.get("metadata").unwrap_or(&empty), "namespace");
    let regarding = str_field(event.get("involvedObject").unwrap_or(&empty), "namespace");
    let object = Path::new("involvedObject");
    let mismatch = if is_empty_value(event.get("eventTime")) {
        if regarding.is_empty() { !matches!(namespace, "" | "default") } else { namespace != regarding }
    } else {
        regarding.is_empty() && !matches!(namespace, "default" | "kube-system")
    };
    if mismatch {
        errors.invalid(&object.child("namespace"), regarding, "does not match event.namespace");
    }
    if !is_empty_value(event.get("eventTime")) {
        let reporter = str_field(event, "reportingComponent");
        let path = Path::new(controller);
        if reporter.is_empty() {
            errors.required(&path, "");
        }
        for message in names::qualified_name(reporter) {
            errors.invalid(&path, reporter, message);
        }
        for field in ["reportingInstance", "action", "reason"] {
            required_up_to_128(event, field, &mut errors);
        }
        if str_field(event, "message").len() > 1024 {
            errors.invalid(&Path::new("message"), "", "can have at most 1024 characters");
        }
    }
    for message in names::dns1123_subdomain(namespace) {
        errors.invalid(&Path::new("namespace"), namespace, message);
    }
    errors
}

fn required_up_to_128(event: &Value, field: &str, errors: &mut ErrorList) {
    let value = str_field(event, field);
    if value.is_empty() {
        errors.required(&Path::new(field), "");
    }
    if value.len() > 128 {
        errors.invalid(&Path::new(field), "", "can have at most 128 characters");
    }
}

fn validate_series(event: &Value, errors: &mut ErrorList) {
    let Some(series) = non_null(event, "series") else { return };
    if series.get("count").and_then(Value::as_i64).unwrap_or(0) < 2 {
        errors.invalid(&Path::new("series.count"), "", "should be at least 2");
    }
    if is_empty_value(series.get("lastObservedTime")) {
        errors.required(&Path::new("series.lastObservedTime"), "");
    }
}

/// Validates the rules for creations through `events.k8s.io/v1`.
fn validate_v1_create(event: &Value, errors: &mut ErrorList) {
    if is_empty_value(event.get("eventTime")) {
        errors.required(&Path::new("eventTime"), "");
    }
    let kind = str_field(event, "type");
    if !matches!(kind, "Normal" | "Warning") {
        errors.invalid(&Path::new("type"), "", format!("has invalid value: {kind}"));
    }
    for field in ["firstTimestamp", "lastTimestamp"] {
        if !is_empty_value(event.get(field)) {
            errors.invalid(&Path::new(field), "", "needs to be unset");
        }
    }
    if event.get("count").and_then(Value::as_i64).unwrap_or(0) != 0 {
        errors.invalid(&Path::new("count"), "", "needs to be unset");
    }
    let source = event.get("source").unwrap_or(&Value::Null);
    if !str_field(source, "component").is_empty() || !str_field(source, "host").is_empty() {
        errors.invalid(&Path::new("source"), "", "needs to be unset");
    }
}

/// Requires fields to be unchanged in updates through `events.k8s.io/v1`; `reason` is reported twice, as upstream
/// does.
fn immutable(new: &Value, old: &Value, errors: &mut ErrorList) {
    let fields = [
        "involvedObject",
        "reason",
        "message",
        "source",
        "firstTimestamp",
        "lastTimestamp",
        "count",
        "reason",
        "type",
        "eventTime",
        "action",
        "related",
        "reportingComponent",
        "reportingInstance",
    ];
    for field in fields {
        let now = new.get(field);
        let before = old.get(field);
        if semantic_equal(now, before) {
            continue;
        }
        let path = if field == "reportingComponent" { "reportingController" } else { field };
        let shown = match field {
            "involvedObject" | "related" => BadValue::Raw(reference_json(now)),
            "source" => {
                let part = |field: &str| Value::from(now.map_or("", |source| str_field(source, field)));
                let shown = format!("{{\"Component\":{},\"Host\":{}}}", part("component"), part("host"));
                BadValue::Raw(shown)
            }
            "reason" | "message" | "type" | "action" | "reportingComponent" | "reportingInstance" => {
                BadValue::from(now.and_then(Value::as_str).unwrap_or_default())
            }
            "count" => BadValue::from(now.and_then(Value::as_i64).unwrap_or_default()),
            _ => BadValue::from(now),
        };
        errors.invalid(&Path::new(path), shown, checks::IMMUTABLE_MESSAGE);
    }
}

fn reference_json(reference: Option<&Value>) -> String {
    let Some(reference) = reference.filter(|r| !r.is_null()) else { return "null".to_owned() };
    let fields = [
        ("Kind", "kind"),
        ("Namespace", "namespace"),
        ("Name", "name"),
        ("UID", "uid"),
        ("APIVersion", "apiVersion"),
        ("ResourceVersion", "resourceVersion"),
        ("FieldPath", "fieldPath"),
    ];
    let all: Vec<String> =
        fields.iter().map(|(go, json)| format!("\"{go}\":{}", Value::from(str_field(reference, json)))).collect();
    format!("{{{}}}", all.join(","))
}

/// The columns of `events` in both groups.
const COLUMNS: &[Column] = &[
    Column::string(
        "Last Seen",
        Description::Field("api.core.v1.Event", "lastTimestamp"),
        CellSource::Custom(|event, now| json!(last_seen(event, now))),
    ),
    Column::string("Type", Description::Field("api.core.v1.Event", "type"), CellSource::Text("/type", "")),
    Column::string("Reason", Description::Field("api.core.v1.Event", "reason"), CellSource::Text("/reason", "")),
    Column::string(
        "Object",
        Description::Field("api.core.v1.Event", "involvedObject"),
        CellSource::Custom(|event, _| json!(involved(event))),
    ),
    Column::string(
        "Subobject",
        Description::Field("api.core.v1.ObjectReference", "fieldPath"),
        CellSource::Custom(|event, _| json!(text(event, "/involvedObject/fieldPath"))),
    )
    .wide(),
    Column::string(
        "Source",
        Description::Field("api.core.v1.Event", "source"),
        CellSource::Custom(|event, _| json!(source(event))),
    )
    .wide(),
    Column::string(
        "Message",
        Description::Field("api.core.v1.Event", "message"),
        CellSource::Custom(|event, _| json!(text(event, "/message").trim())),
    ),
    Column::string(
        "First Seen",
        Description::Field("api.core.v1.Event", "firstTimestamp"),
        CellSource::Custom(|event, now| json!(first_seen(event, now))),
    )
    .wide(),
    Column::string(
        "Count",
        Description::Field("api.core.v1.Event", "count"),
        CellSource::Custom(|event, _| json!(event_count(event))),
    )
    .wide(),
    NAME.wide(),
];

fn first_seen(event: &Value, now: Timestamp) -> String {
    let first = event.get("firstTimestamp").filter(|time| !time.is_null());
    duration::since(first.or_else(|| event.get("eventTime")), now)
}

fn last_seen(event: &Value, now: Timestamp) -> String {
    if event.get("series").is_some_and(Value::is_object) {
        return duration::since(event.pointer("/series/lastObservedTime"), now);
    }
    match event.get("lastTimestamp").filter(|time| !time.is_null()) {
        Some(last) => duration::since(Some(last), now),
        None => first_seen(event, now),
    }
}

fn event_count(event: &Value) -> i64 {
    if event.get("series").is_some_and(Value::is_object) {
        return number(event, "/series/count");
    }
    match number(event, "/count") {
        0 => 1,
        count => count,
    }
}

fn involved(event: &Value) -> String {
    let kind = text(event, "/involvedObject/kind").to_lowercase();
    match text(event, "/involvedObject/name") {
        "" => kind,
        name => format!("{kind}/{name}"),
    }
}

fn source(event: &Value) -> String {
    let component = text_or(event, "/source/component", text(event, "/reportingComponent"));
    match text_or(event, "/source/host", text(event, "/reportingInstance")) {
        "" => component.to_owned(),
        instance => format!("{component}, {instance}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_faces_convert_into_each_other() {
        let mut event = json!({"kind": "Event", "apiVersion": "events.k8s.io/v1", "metadata": {"name": "e"},
            "regarding": {"kind": "Pod", "name": "p"}, "note": "m", "reportingController": "c", "type": "Normal"});
        EventsV1Event.default(&mut event);
        let core = to_core(event.clone());
        assert_eq!(core["message"], "m");
        assert_eq!(core["involvedObject"], json!({"kind": "Pod", "name": "p"}));
        assert_eq!(core["apiVersion"], "v1");
        assert_eq!(from_core(core), event);
    }

    #[test]
    fn the_namespace_of_the_object_must_be_the_events() {
        let event = json!({"metadata": {"name": "e", "namespace": "a"}, "involvedObject": {"namespace": "b"}});
        let errors = CoreV1Event.validate(&event);
        let text = "involvedObject.namespace: Invalid value: \"b\": does not match event.namespace";
        assert_eq!(errors.to_aggregate_message().as_deref(), Some(text));
    }

    #[test]
    fn new_events_must_be_complete() {
        let event = json!({"metadata": {"name": "e", "namespace": "a"}, "regarding": {"namespace": "a"},
            "deprecatedCount": 3, "series": {"count": 1}});
        let fields: Vec<String> = EventsV1Event.validate(&event).into_iter().map(|e| e.field).collect();
        assert_eq!(fields, ["series.count", "series.lastObservedTime", "eventTime", "type", "count"]);
    }
}
