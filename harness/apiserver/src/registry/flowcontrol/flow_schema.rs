//! `FlowSchema`: its condition `Dangling`, which upstream's controller of priority and fairness sets
//! (`staging/src/k8s.io/apiserver/pkg/util/flowcontrol/apf_controller.go`).

use std::cmp::Ordering;

use crate::field_errors::{BadValue, ErrorList, Path};
use crate::json::fields::{array_field, non_null, object_or_insert, semantic_equal, spec_of, str_field};
use crate::json::{Value, json};
use crate::metadata;
use crate::printers::TableHandler;
use crate::printers::column::{AGE, CellSource, Column, Description, NAME};
use crate::printers::format::{NONE, items, number, text, text_or};
use crate::registry::builder::{ResourceBuilder, resource};
use crate::registry::flowcontrol::conditions;
use crate::registry::generic::{Generation, Generic, MetadataRules};
use crate::registry::strategy::{Strategy, StrategyContext};
use crate::registry::time::rfc3339;
use crate::registry::{checks, names};

/// The resource `flowschemas` of `flowcontrol.apiserver.k8s.io/v1`.
pub(in crate::registry) fn definition() -> ResourceBuilder {
    resource("flowcontrol.apiserver.k8s.io", "v1", "flowschemas", "FlowSchema", "io.k8s.api.flowcontrol.v1.FlowSchema")
        .cluster()
        .status_without_metadata()
        .hash("GJVAJZSZBIw=")
        .rules(FlowSchema)
        .table(TableHandler::new(COLUMNS).sorted_by(order))
}

/// The strategy of flow schemas.
#[derive(Debug, Clone, Copy)]
struct FlowSchema;

const RULES: Generic = Generic {
    generation: Generation::Spec,
    status: true,
    namespaced: false,
    updates: MetadataRules::Whole,
    ..Generic::NEW
};

/// Sets the condition: the schema names a priority level that does not exist.
fn set_dangling(object: &mut Value, ctx: &StrategyContext<'_>) {
    let level = object.pointer("/spec/priorityLevelConfiguration/name").and_then(Value::as_str).unwrap_or_default();
    let found = ctx.lookup.get("flowcontrol.apiserver.k8s.io", "prioritylevelconfigurations", "", level).is_some();
    let (status, reason, what) =
        if found { ("False", "Found", "and it exists") } else { ("True", "NotFound", "but there is no such object") };
    let message = format!("This FlowSchema references the PriorityLevelConfiguration object named {level:?} {what}");
    let conditions = object.pointer("/status/conditions").and_then(Value::as_array);
    let known = conditions
        .into_iter()
        .flatten()
        .any(|condition| str_field(condition, "type") == "Dangling" && str_field(condition, "message") == message);
    if let Some(fields) = object.as_object_mut().filter(|_| !known) {
        let status = json!({"conditions": [{"type": "Dangling", "status": status,
            "lastTransitionTime": rfc3339(ctx.now), "reason": reason, "message": message}]});
        fields.insert("status", status);
    }
}

impl Strategy for FlowSchema {
    fn default(&self, object: &mut Value) {
        /// `FlowSchemaDefaultMatchingPrecedence`.
        const PRECEDENCE: i64 = 1_000;
        if let Some(spec) = object_or_insert(object, "spec")
            && spec.get("matchingPrecedence").and_then(Value::as_i64).unwrap_or(0) == 0
        {
            spec.insert("matchingPrecedence", PRECEDENCE.into());
        }
    }

    fn prepare_for_create(&self, object: &mut Value, ctx: &StrategyContext<'_>) {
        RULES.prepare_for_create(object, ctx);
        set_dangling(object, ctx);
    }

    fn validate(&self, object: &Value) -> ErrorList {
        let mut errors = RULES.validate(object);
        errors.append(validate_spec(object));
        errors
    }

    fn prepare_for_update(&self, new: &mut Value, old: &Value, ctx: &StrategyContext<'_>) {
        RULES.prepare_for_update(new, old, ctx);
        set_dangling(new, ctx);
    }

    fn validate_update(&self, new: &Value, old: &Value) -> ErrorList {
        let mut errors = RULES.validate_update(new, old);
        errors.append(validate_spec(new));
        errors
    }

    fn validate_status_update(&self, new: &Value, _old: &Value) -> ErrorList {
        conditions::validate(new)
    }

    fn allow_unconditional_update(&self) -> bool {
        true
    }
}

const SPEC: Path<'static> = Path::new("spec");

const VERBS: [&str; 9] = ["create", "delete", "deletecollection", "get", "list", "patch", "proxy", "update", "watch"];

const SUBJECTS: [&str; 3] = ["Group", "ServiceAccount", "User"];

/// Largest matching precedence.
const PRECEDENCE_MAX: i64 = 10_000;

/// Validates a `FlowSchema`.
fn validate_spec(object: &Value) -> ErrorList {
    let mut errors = ErrorList::new();
    let spec = spec_of(object);
    let path = SPEC.child("matchingPrecedence");
    let precedence = spec["matchingPrecedence"].as_i64().unwrap_or(0);
    match precedence {
        ..=0 => errors.invalid(&path, precedence, "must be a positive value"),
        1 if metadata::name(object) != "exempt" => {
            errors.invalid(&path, precedence, "only the schema named 'exempt' may have matchingPrecedence 1");
        }
        _ if precedence > PRECEDENCE_MAX => {
            errors.invalid(&path, precedence, format!("must not be greater than {PRECEDENCE_MAX}"));
        }
        _ => {}
    }
    if let Some(method) = non_null(spec, "distinguisherMethod") {
        let supported = ["ByNamespace", "ByUser"];
        let kind = str_field(method, "type");
        if !supported.contains(&kind) {
            let shown = BadValue::Raw(format!("{{\"Type\":{}}}", Value::from(kind)));
            errors.not_supported(&SPEC.child("distinguisherMethod").child("type"), shown, &supported);
        }
    }
    let path = SPEC.child("priorityLevelConfiguration");
    let level = &spec["priorityLevelConfiguration"];
    match str_field(level, "name") {
        "" => errors.required(&path.child("name"), "must reference a priority level"),
        name => checks::format(name, names::dns1123_subdomain, &path.child("name"), &mut errors),
    }
    let root = SPEC.child("rules");
    for (index, one) in array_field(spec, "rules").iter().enumerate() {
        rules_with_subjects(one, &root.index(index), &mut errors);
    }
    let name = metadata::name(object);
    if mandatory_spec(name).is_some_and(|fixed| !semantic_equal(Some(spec), Some(&fixed))) {
        errors.invalid(&SPEC, spec, format!("spec of '{name}' must equal the fixed value"));
    }
    errors
}

fn rules_with_subjects(rule: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let root = path.child("subjects");
    let subjects = array_field(rule, "subjects");
    if subjects.is_empty() {
        errors.required(&root, "subjects must contain at least one value");
    }
    for (index, one) in subjects.iter().enumerate() {
        subject(one, &root.index(index), errors);
    }
    let resources = array_field(rule, "resourceRules");
    let paths = array_field(rule, "nonResourceRules");
    if resources.is_empty() && paths.is_empty() {
        errors.required(path, "at least one of resourceRules and nonResourceRules has to be non-empty");
    }
    let root = path.child("resourceRules");
    for (index, one) in resources.iter().enumerate() {
        resource_rule(one, &root.index(index), errors);
    }
    let root = path.child("nonResourceRules");
    for (index, one) in paths.iter().enumerate() {
        let path = root.index(index);
        verbs(one, &path.child("verbs"), errors);
        let urls = array_field(one, "nonResourceURLs");
        let path = path.child("nonResourceURLs");
        if list(
            one,
            "nonResourceURLs",
            ("nonResourceURLs must contain at least one value", "non-resource URLs"),
            &path,
            errors,
        ) {
            for (index, url) in urls.iter().filter_map(Value::as_str).enumerate() {
                if let Some(why) = url_error(url) {
                    errors.invalid(&path.index(index), url, why);
                }
            }
        }
    }
}

/// Returns what is wrong with a path of other requests than those for resources: `ValidateNonResourceURLPath`.
fn url_error(url: &str) -> Option<&'static str> {
    match url {
        "" => Some("must not be empty"),
        "/" => None,
        _ if !url.starts_with('/') => Some("must start with slash"),
        _ if url.contains(' ') => Some("must not contain white-space"),
        _ if url.contains("//") => Some("must not contain double slash"),
        _ => match url.matches('*').count() {
            0 => None,
            1 if url.ends_with("/*") => None,
            _ => Some("wildcard can only do suffix matching"),
        },
    }
}

/// Returns the spec of a schema that must exist: `MandatoryFlowSchemas` in
/// `staging/src/k8s.io/apiserver/pkg/apis/flowcontrol/bootstrap/default.go`.
fn mandatory_spec(name: &str) -> Option<Value> {
    let (precedence, groups, method) = match name {
        "exempt" => (1, &["system:masters"][..], Value::Null),
        "catch-all" => {
            (PRECEDENCE_MAX, &["system:unauthenticated", "system:authenticated"][..], json!({"type": "ByUser"}))
        }
        _ => return None,
    };
    let subjects: Vec<Value> = groups.iter().map(|group| json!({"kind": "Group", "group": {"name": group}})).collect();
    Some(json!({
        "priorityLevelConfiguration": {"name": name},
        "matchingPrecedence": precedence,
        "distinguisherMethod": method,
        "rules": [{
            "subjects": subjects,
            "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "namespaces": ["*"],
                "clusterScope": true}],
            "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
        }],
    }))
}

fn subject(subject: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let kind = str_field(subject, "kind");
    let fields = [("ServiceAccount", "serviceAccount"), ("User", "user"), ("Group", "group")];
    let Some((_, own)) = fields.iter().find(|(name, _)| *name == kind) else {
        return errors.not_supported(&path.child("kind"), kind, &SUBJECTS);
    };
    match non_null(subject, own) {
        None => errors.required(&path.child(own), format!("{own} is required when subject kind is '{kind}'")),
        Some(named) => {
            let path = path.child(own);
            match str_field(named, "name") {
                "" => errors.required(&path.child("name"), ""),
                name if kind == "ServiceAccount" && name != "*" => {
                    checks::format(name, names::dns1123_subdomain, &path.child("name"), errors);
                }
                _ => {}
            }
            if kind == "ServiceAccount" {
                match str_field(named, "namespace") {
                    "" => errors.required(&path.child("namespace"), "must specify namespace for service account"),
                    name => checks::format(name, names::dns1123_label, &path.child("namespace"), errors),
                }
            }
        }
    }
    for (other, field) in fields.iter().filter(|(name, _)| *name != kind) {
        if non_null(subject, field).is_some() {
            errors.forbidden(&path.child(field), format!("{field} is forbidden when subject kind is not '{other}'"));
        }
    }
}

fn verbs(rule: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let supported = |verb: &Value| verb.as_str().is_some_and(|verb| VERBS.contains(&verb));
    if list(rule, "verbs", ("verbs must contain at least one value", "verbs"), path, errors)
        && !array_field(rule, "verbs").iter().all(supported)
    {
        errors.not_supported(path, &rule["verbs"], &VERBS);
    }
}

/// Checks that a list is not empty, and that `*` is its only item. Returns true for a list without `*`.
fn list(rule: &Value, field: &str, (required, others): (&str, &str), path: &Path<'_>, errors: &mut ErrorList) -> bool {
    let all = array_field(rule, field);
    if all.is_empty() {
        errors.required(path, required);
        return false;
    }
    let open = all.iter().any(|one| *one == "*");
    if open && all.len() > 1 {
        errors.invalid(path, &rule[field], format!("if '*' is present, must not specify other {others}"));
    }
    !open
}

fn resource_rule(rule: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    const NAMESPACE: &str = "each member of this list must be '*' or a DNS-1123 label; ";
    verbs(rule, &path.child("verbs"), errors);
    for (field, required, others) in [
        ("apiGroups", "resource rules must supply at least one api group", "api groups"),
        ("resources", "resource rules must supply at least one resource", "resources"),
    ] {
        list(rule, field, (required, others), &path.child(field), errors);
    }
    let path = path.child("namespaces");
    let namespaces = array_field(rule, "namespaces");
    let open = namespaces.iter().any(|one| *one == "*");
    if namespaces.is_empty() && rule["clusterScope"] != Value::Bool(true) {
        errors.required(&path, "resource rules that are not cluster scoped must supply at least one namespace");
    } else if open && namespaces.len() > 1 {
        errors.invalid(&path, &rule["namespaces"], "if '*' is present, must not specify other namespaces");
    } else if !open {
        for (index, name) in namespaces.iter().filter_map(Value::as_str).enumerate() {
            for why in names::dns1123_label(name) {
                errors.invalid(&path.index(index), name, format!("{NAMESPACE}{why}"));
            }
        }
    }
}

/// The columns of `flowschemas`.
const COLUMNS: &[Column] = &[
    NAME,
    Column::string(
        "PriorityLevel",
        Description::Field("api.flowcontrol.v1.PriorityLevelConfigurationReference", "name"),
        CellSource::Text("/spec/priorityLevelConfiguration/name", ""),
    ),
    Column::string(
        "MatchingPrecedence",
        Description::Field("api.flowcontrol.v1.FlowSchemaSpec", "matchingPrecedence"),
        CellSource::Number("/spec/matchingPrecedence"),
    ),
    Column::string(
        "DistinguisherMethod",
        Description::Field("api.flowcontrol.v1.FlowSchemaSpec", "distinguisherMethod"),
        CellSource::Optional("/spec/distinguisherMethod/type", NONE),
    ),
    AGE,
    Column::string(
        "MissingPL",
        Description::Text("references a broken or non-existent PriorityLevelConfiguration"),
        CellSource::Custom(|schema, _| {
            let dangling = items(schema, "/status/conditions").iter().find(|one| text(one, "/type") == "Dangling");
            json!(dangling.map_or("?", |one| text_or(one, "/status", "?")))
        }),
    ),
];

/// Compares flow schemas by matching precedence, then by name.
fn order(one: &Value, other: &Value) -> Ordering {
    let precedence = |schema: &Value| number(schema, "/spec/matchingPrecedence");
    precedence(one).cmp(&precedence(other)).then_with(|| text(one, "/metadata/name").cmp(text(other, "/metadata/name")))
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use rstest::rstest;

    use super::*;

    use crate::registry::lister::EmptyLister;

    #[test]
    fn a_schema_without_a_level_is_dangling() {
        let now = Timestamp::UNIX_EPOCH;
        let ctx = StrategyContext { now, ..StrategyContext::of_test(&EmptyLister) };
        let mut schema = json!({"metadata": {"name": "a"}, "spec": {"priorityLevelConfiguration": {"name": "b"}}});
        FlowSchema.prepare_for_create(&mut schema, &ctx);
        let condition = &schema["status"]["conditions"][0];
        assert_eq!((&condition["status"], &condition["reason"]), (&json!("True"), &json!("NotFound")));
        assert_eq!(
            condition["message"],
            "This FlowSchema references the PriorityLevelConfiguration object named \"b\" but there is no such object"
        );
    }

    /// `TestFlowSchemaValidation` in `pkg/apis/flowcontrol/validation/validation_test.go`.
    #[rstest]
    #[case::fixed("catch-all", 10_000, None)]
    #[case::changed("catch-all", 9_999, Some("spec of 'catch-all' must equal the fixed value"))]
    #[case::other("mine", 9_999, None)]
    fn a_mandatory_schema_stays(#[case] name: &str, #[case] precedence: i64, #[case] expected: Option<&str>) {
        let mut spec = mandatory_spec("catch-all").unwrap();
        spec["matchingPrecedence"] = precedence.into();
        let errors = validate_spec(&json!({"metadata": {"name": name}, "spec": spec}));
        assert_eq!(errors.iter().map(|error| &*error.detail).collect::<Vec<_>>(), Vec::from_iter(expected));
    }

    /// `TestValidateNonResourceURLPath` in the same file.
    #[rstest]
    #[case("/", None)]
    #[case("/healthz", None)]
    #[case("/healthz/*", None)]
    #[case("", Some("must not be empty"))]
    #[case("healthz", Some("must start with slash"))]
    #[case("/health z", Some("must not contain white-space"))]
    #[case("//healthz", Some("must not contain double slash"))]
    #[case("/healthz*", Some("wildcard can only do suffix matching"))]
    #[case("/*/healthz/*", Some("wildcard can only do suffix matching"))]
    fn paths(#[case] url: &str, #[case] expected: Option<&str>) {
        assert_eq!(url_error(url), expected);
    }

    #[test]
    fn conditions_have_types_of_their_own() {
        let schema = json!({"metadata": {"name": "n"}, "status": {"conditions": [{"type": "A"}, {"type": "A"}, {}]}});
        let errors = FlowSchema.validate_status_update(&schema, &schema);
        let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
        let twice = "status.conditions[1].type: Duplicate value: \"A\"";
        assert_eq!(errors, [twice, "status.conditions[2].type: Required value"]);
    }
}
