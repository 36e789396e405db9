//! Core `v1` `PersistentVolumeClaim`, and the claim templates of pods and stateful sets. See
//! `pkg/registry/core/persistentvolumeclaim/strategy.go`, and `ValidatePersistentVolumeClaimSpec` in
//! `pkg/apis/core/validation/validation.go`.

use crate::field_errors::{BadValue, ErrorList, Path};
use crate::json::fields::{
    array_field, non_null, object_mut, object_or_default, object_or_insert, str_field, text_default, value_default,
};
use crate::json::{Map, Value, json};
use crate::metadata;
use crate::printers::column::{AGE, CellSource, Column, Description, NAME};
use crate::printers::format::{UNSET, text, text_or};
use crate::quantity::Quantity;
use crate::registry::builder::{ResourceBuilder, resource};
use crate::registry::core::internal_json;
use crate::registry::core::limit_ranger;
use crate::registry::core::persistent_volume;
use crate::registry::generic::{Generic, MetadataRules};
use crate::registry::kind_strategy::KindStrategy;
use crate::registry::prepare::spec_values_equal;
use crate::registry::resource_list;
use crate::registry::strategy::StrategyContext;
use crate::registry::{checks, default_class, label_selector, names};
use crate::status::{GroupResource, Status};

/// The resource `persistentvolumeclaims`.
pub(in crate::registry) fn definition() -> ResourceBuilder {
    resource("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", "io.k8s.api.core.v1.PersistentVolumeClaim")
        .short(&["pvc"])
        .status()
        .hash("QWTyNDq0dC4=")
        .rules(
            KindStrategy::new(Generic { status: true, updates: MetadataRules::Both, ..Generic::NEW }, defaults)
                .admit_with(admit_default_class)
                .check_admission_with(check_admission)
                .check_new_with(|claim| validate(claim, false))
                .check_update_with(validate_update)
                .warn_with(warnings)
                .with_finalizer(CLAIM_FINALIZER)
                .check_status_with(|new, _| validate_status(new))
                .drop_with(complete_data_sources),
        )
        .columns(COLUMNS)
}

/// The finalizer of `PersistentVolumeClaim`s, added by admission.
pub(crate) const CLAIM_FINALIZER: &str = "kubernetes.io/pvc-protection";

/// Defaults of `PersistentVolumeClaim`.
fn defaults(map: &mut Map) {
    if let Some(spec) = object_or_default(map, "spec") {
        spec_defaults(spec);
    }
    if let Some(status) = object_or_default(map, "status") {
        text_default(status, "phase", "Pending");
    }
}

/// Defaults of a `PersistentVolumeClaimSpec`.
pub(in crate::registry) fn spec_defaults(spec: &mut Map) {
    value_default(spec, "volumeMode", "Filesystem");
    value_default(spec, "resources", json!({}));
    if let Some(resources) = object_mut(spec, "resources") {
        resource_list::resource_lists(resources);
    }
}

/// The plugin `DefaultStorageClass`: a claim that names no class gets the default one, of several the newest. See
/// `plugin/pkg/admission/storage/storageclass/setdefault/admission.go`.
fn admit_default_class(claim: &mut Value, ctx: &StrategyContext<'_>) {
    let given = claim.pointer("/spec/storageClassName").is_some_and(|class| !class.is_null());
    if given || metadata::annotation(claim, BETA_CLASS).is_some() {
        return;
    }
    let classes = ctx.lookup.list_holding("storage.k8s.io", "storageclasses", "", default_class::HELD);
    let newest = default_class::newest(&classes, default_class::STORAGE_CLASS);
    if let (Some(class), Some(spec)) = (newest, object_or_insert(claim, "spec")) {
        spec.insert("storageClassName", class.into());
    }
}

/// The plugins `LimitRanger`, and `PersistentVolumeClaimResize`: only bound claims of a class that allows it may grow.
/// See `plugin/pkg/admission/storage/persistentvolume/resize/admission.go`.
fn check_admission(new: &Value, old: Option<&Value>, ctx: &StrategyContext<'_>) -> Result<(), Status> {
    if !old.is_some_and(metadata::is_deleted) {
        limit_ranger::check_claim(new, ctx)?;
    }
    let Some(old) = old else { return Ok(()) };
    let (Some(wanted), Some(known)) = (storage(new), storage(old)) else { return Ok(()) };
    if wanted <= known {
        return Ok(());
    }
    let forbid =
        |why: &str| Err(Status::forbidden(GroupResource::new("", "persistentvolumeclaims"), metadata::name(new), why));
    if str_field(&old["status"], "phase") != "Bound" {
        return forbid("Only bound persistent volume claims can be expanded");
    }
    let class_of = |claim: &Value| match metadata::annotation(claim, BETA_CLASS) {
        Some(class) => class.to_owned(),
        None => str_field(&claim["spec"], "storageClassName").to_owned(),
    };
    let class = class_of(new);
    let before = class_of(old);
    let found = ctx.lookup.get("storage.k8s.io", "storageclasses", "", &class);
    let allows = found.is_some_and(|class| class["allowVolumeExpansion"] == true);
    if class.is_empty() || class != before || !allows {
        return forbid(
            "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize",
        );
    }
    Ok(())
}

fn storage(claim: &Value) -> Option<Quantity> {
    Quantity::parse(&claim.pointer("/spec/resources/requests/storage").map(resource_list::quantity_text)?)
}

/// The annotation that named the class of a claim before the field.
pub(in crate::registry) const BETA_CLASS: &str = "volume.beta.kubernetes.io/storage-class";

/// The warning about it.
pub(in crate::registry) const BETA_CLASS_WARNING: &str =
    "deprecated since v1.8; use \"storageClassName\" attribute instead";

/// Returns the warnings about a claim: `GetWarningsForPersistentVolumeClaim` in
/// `pkg/api/persistentvolumeclaim/util.go`.
fn warnings(claim: &Value, _old: Option<&Value>) -> Vec<String> {
    let mut warnings = Vec::new();
    if metadata::annotation(claim, BETA_CLASS).is_some() {
        warnings.push(format!("metadata.annotations[{BETA_CLASS}]: {BETA_CLASS_WARNING}"));
    }
    warnings.extend(spec_warnings(&claim["spec"], "spec"));
    warnings
}

/// Returns the warnings about the spec of a claim or of a template for claims:
/// `GetWarningsForPersistentVolumeClaimSpec`.
pub(in crate::registry) fn spec_warnings(spec: &Value, path: &str) -> Vec<String> {
    let mut warnings = Vec::new();
    for field in ["requests", "limits"] {
        let text = spec.pointer(&format!("/resources/{field}/storage")).map(resource_list::quantity_text);
        let fraction = text.filter(|text| Quantity::parse(text).is_some_and(|amount| !amount.is_whole()));
        warnings.extend(fraction.map(|text| {
            format!("{path}.resources.{field}[storage]: fractional byte value {text:?} is invalid, must be an integer")
        }));
    }
    warnings
}

/// Validates an update of a claim: `ValidatePersistentVolumeClaimUpdate`.
fn validate_update(new: &Value, old: &Value) -> ErrorList {
    let in_group = |field: &str| non_null(&old["spec"], field).is_some_and(|at| non_null(at, "apiGroup").is_some());
    let mut errors = validate(new, in_group("dataSource") || in_group("dataSourceRef"));
    let mut after = new["spec"].clone();
    let mut before = old["spec"].clone();
    let set = |spec: &mut Value, field: &str, value: Option<&Value>| {
        let Some(spec) = spec.as_object_mut() else { return };
        match value {
            Some(value) => drop(spec.insert(field.to_owned(), value.clone())),
            None => drop(spec.remove(field)),
        }
    };
    if str_field(&old["spec"], "volumeName").is_empty() {
        set(&mut before, "volumeName", new["spec"].get("volumeName"));
    }
    let class = |claim: &Value| non_null(&claim["spec"], "storageClassName").cloned();
    let wanted = class(new);
    let known = class(old);
    let beta = |claim: &Value| metadata::annotation(claim, BETA_CLASS).map(str::to_owned);
    let fits = |beta: Option<String>| beta.is_none_or(|beta| wanted.as_ref().is_some_and(|class| *class == *beta));
    let is_moved = beta(old).is_some() && (beta(new).is_none() || beta(new) == beta(old));
    if wanted.is_some() && known.is_none() && fits(beta(old)) {
        set(&mut after, "storageClassName", None);
    }
    let is_upgraded = known.is_none() && wanted.is_some() && fits(beta(old)) && is_moved;
    if !is_upgraded && beta(new).unwrap_or_default() != beta(old).unwrap_or_default() {
        let path = Path::new("metadata");
        let path = path.child("annotations");
        let value = beta(new).unwrap_or_default();
        errors.invalid(&path.child(BETA_CLASS), value, checks::IMMUTABLE_MESSAGE);
    }
    if str_field(&new["status"], "phase") == "Bound" {
        set(&mut after, "volumeAttributesClassName", before.get("volumeAttributesClassName"));
        if let Some(requests) = after.pointer_mut("/resources/requests").and_then(Value::as_object_mut) {
            match before.pointer("/resources/requests/storage") {
                Some(size) => requests.insert("storage", size.clone()),
                None => requests.remove("storage"),
            };
        }
    }
    let path = Path::new("spec");
    if !spec_values_equal(new, &after, &before) {
        errors.forbidden(
            &path,
            format!(
                "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims\n{}",
                internal_json::difference_of("PersistentVolumeClaimSpec", &before, &after)
            ),
        );
    }
    // A size that is missing counts as 0.
    let size = |amount: Option<Quantity>| amount.unwrap_or_else(|| Quantity::from(0));
    let wanted = size(storage(new));
    let capacity = old.pointer("/status/capacity/storage").and_then(Quantity::of);
    if wanted < size(storage(old)) && wanted <= size(capacity) {
        let path = path.child("resources");
        let path = path.child("requests");
        errors.forbidden(&path.child("storage"), "field can not be less than status.capacity");
    }
    errors.append(unchanged_mode(new, old));
    let of = |claim: &Value| non_null(&claim["spec"], "volumeAttributesClassName").cloned();
    let has_class = non_null(&old["status"], "currentVolumeAttributesClassName").is_some();
    if has_class && of(new) != of(old) {
        let why = match non_null(&new["spec"], "volumeAttributesClassName").and_then(Value::as_str) {
            None => "update to nil is forbidden when status.currentVolumeAttributesClassName is not nil",
            Some("") => "update to empty string is forbidden when status.currentVolumeAttributesClassName is not nil",
            Some(_) => return errors,
        };
        errors.forbidden(&path.child("volumeAttributesClassName"), why);
    }
    errors
}

/// Requires the mode of a volume or claim to be unchanged. Upstream's path has no `spec`.
pub(in crate::registry) fn unchanged_mode(new: &Value, old: &Value) -> ErrorList {
    let mut errors = ErrorList::new();
    let mode = |object: &Value| object["spec"].get("volumeMode").cloned();
    checks::validate_immutable(mode(new).as_ref(), mode(old).as_ref(), &Path::new("volumeMode"), &mut errors);
    errors
}

const ACCESS_MODES: [&str; 4] = ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];

/// Completes the two fields for the source of a claim's data. References to other namespaces are behind a feature gate
/// that is off by default, and unknown kinds without a reference are dropped; both stay in an update of a claim that
/// has a source. See `pkg/api/persistentvolumeclaim/util.go`.
fn complete_data_sources(claim: &mut Value, old: Option<&Value>) {
    let Some(spec) = claim.get_mut("spec").and_then(Value::as_object_mut) else { return };
    let text = |value: &Value, field: &str| str_field(value, field).to_owned();
    let had = |field: &str| old.is_some_and(|old| non_null(&old["spec"], field).is_some());
    let is_foreign = |reference: &Value| !str_field(reference, "namespace").is_empty();
    if spec.get("dataSourceRef").is_some_and(is_foreign) && !had("dataSourceRef") {
        spec.remove("dataSourceRef");
    }
    let set = |spec: &Map, field: &str| spec.get(field).filter(|value| !value.is_null()).cloned();
    match (set(spec, "dataSource"), set(spec, "dataSourceRef")) {
        (Some(source), None) => {
            let known = [("", "PersistentVolumeClaim"), ("snapshot.storage.k8s.io", "VolumeSnapshot")];
            let group = text(&source, "apiGroup");
            let kind = text(&source, "kind");
            if known.contains(&(group.as_str(), kind.as_str())) || had("dataSource") || had("dataSourceRef") {
                spec.insert("dataSourceRef", source);
            } else {
                spec.remove("dataSource");
            }
        }
        (None, Some(mut reference)) if !is_foreign(&reference) => {
            if let Some(reference) = reference.as_object_mut() {
                reference.remove("namespace");
            }
            spec.insert("dataSource", reference);
        }
        _ => {}
    }
}

/// Validates a `PersistentVolumeClaim`, except for its metadata.
///
/// With `any_group`, groups of data sources are not judged, as for updates of claims that name one.
fn validate(claim: &Value, any_group: bool) -> ErrorList {
    let mut errors = ErrorList::new();
    validate_spec(claim.get("spec").unwrap_or(&Value::Null), any_group, &Path::new("spec"), &mut errors);
    errors
}

/// Validates the status of a claim: `ValidatePersistentVolumeClaimStatusUpdate`.
fn validate_status(claim: &Value) -> ErrorList {
    const STATES: [&str; 5] = [
        "ControllerResizeInProgress",
        "ControllerResizeInfeasible",
        "NodeResizeInProgress",
        "NodeResizeInfeasible",
        "NodeResizePending",
    ];
    let mut errors = ErrorList::new();
    let status = &claim["status"];
    let path = Path::new("status");
    if array_field(&claim["spec"], "accessModes").is_empty() {
        errors.required(&Path::new("Spec").child("accessModes"), "");
    }
    for field in ["capacity", "allocatedResources"] {
        let root = path.child(field);
        for (name, amount) in resource_list::amounts(status.get(field)) {
            if field == "allocatedResources" && !validate_resource_key(&name, &root, &mut errors) {
                continue;
            }
            resource_list::basic_resource(amount, &root.key(&name), &mut errors);
        }
    }
    let root = path.child("allocatedResourceStatuses");
    for (name, state) in status["allocatedResourceStatuses"].as_object().into_iter().flatten() {
        validate_resource_key(name, &root, &mut errors);
        if !STATES.contains(&state.as_str().unwrap_or_default()) {
            errors.not_supported(&root, name.as_str(), &STATES);
        }
    }
    errors
}

/// Validates the name of a resource of a claim; returns true if it is valid.
fn validate_resource_key(name: &str, path: &Path<'_>, errors: &mut ErrorList) -> bool {
    let wrong = names::qualified_name(name);
    let native = !name.contains('/') || name.contains("kubernetes.io/");
    let unknown = wrong.is_empty() && native && name != "storage";
    if unknown {
        errors.not_supported(path, name, &["storage"]);
    }
    let valid = wrong.is_empty() && !unknown;
    for why in wrong {
        errors.invalid(path, name, why);
    }
    valid
}

/// Validates the spec of a claim; with `any_group`, not the groups of data sources.
pub(in crate::registry) fn validate_spec(claim: &Value, any_group: bool, path: &Path<'_>, errors: &mut ErrorList) {
    let modes = array_field(claim, "accessModes");
    let modes_path = path.child("accessModes");
    if modes.is_empty() {
        errors.required(&modes_path, "at least 1 access mode is required");
    }
    errors.append(label_selector::validate(non_null(claim, "selector"), false, &path.child("selector")));
    let known = |mode: &&str| ACCESS_MODES.contains(mode);
    let texts = || modes.iter().map(|mode| mode.as_str().unwrap_or_default());
    for mode in texts().filter(|mode| !known(mode)) {
        errors.not_supported(&modes_path, mode, &ACCESS_MODES);
    }
    if modes.iter().any(|m| m == "ReadWriteOncePod") && texts().filter(known).any(|m| m != "ReadWriteOncePod") {
        errors.forbidden(&modes_path, "may not use ReadWriteOncePod with other access modes");
    }
    let resources = path.child("resources");
    let storage_path = resources.key("storage");
    match claim.pointer("/resources/requests/storage").map(resource_list::quantity_text) {
        None => errors.required(&storage_path, ""),
        Some(text) => {
            let storage = Quantity::parse(&text);
            if storage.is_some_and(|storage| storage.sign() <= 0) {
                errors.invalid(&storage_path, text, "must be greater than zero");
            }
        }
    }
    validate_class_name(claim, "storageClassName", path, errors);
    if let Some(mode) = non_null(claim, "volumeMode").and_then(Value::as_str)
        && !matches!(mode, "Block" | "Filesystem")
    {
        errors.not_supported(&path.child("volumeMode"), mode, &["Block", "Filesystem"]);
    }
    data_sources(claim, any_group, path, errors);
    validate_class_name(claim, "volumeAttributesClassName", path, errors);
}

fn data_sources(claim: &Value, any_group: bool, path: &Path<'_>, errors: &mut ErrorList) {
    let source = non_null(claim, "dataSource");
    let reference = non_null(claim, "dataSourceRef");
    if let Some(source) = source {
        data_source(source, any_group, &path.child("dataSource"), errors);
    }
    let namespace = reference.map_or("", |reference| str_field(reference, "namespace"));
    if let Some(reference) = reference {
        let path = path.child("dataSourceRef");
        data_source(reference, any_group, &path, errors);
        if !namespace.is_empty() {
            checks::format(namespace, names::dns1123_label, &path.child("namespace"), errors);
        }
    }
    let (Some(source), Some(reference)) = (source, reference) else { return };
    // A group that is empty is another one than one that is missing.
    let same = ["kind", "name"].iter().all(|field| str_field(source, field) == str_field(reference, field))
        && non_null(source, "apiGroup") == non_null(reference, "apiGroup");
    // Upstream shows the path of the field, which has no members in JSON.
    let shown = BadValue::Raw("{}".to_owned());
    if !namespace.is_empty() {
        errors.invalid(path, shown, "may not be specified when dataSourceRef.namespace is specified");
    } else if !same {
        errors.invalid(path, shown, "must match dataSourceRef");
    }
}

fn data_source(source: &Value, any_group: bool, path: &Path<'_>, errors: &mut ErrorList) {
    for field in ["name", "kind"] {
        if str_field(source, field).is_empty() {
            errors.required(&path.child(field), "");
        }
    }
    let group = str_field(source, "apiGroup");
    let kind = str_field(source, "kind");
    if !group.is_empty() {
        if any_group {
            return;
        }
        checks::format(group, names::dns1123_subdomain, &path.child("apiGroup"), errors);
    } else if kind != "PersistentVolumeClaim" {
        errors.invalid(path, kind, "must be 'PersistentVolumeClaim' when referencing the default apiGroup");
    }
}

fn validate_class_name(claim: &Value, field: &str, path: &Path<'_>, errors: &mut ErrorList) {
    let name = str_field(claim, field);
    if !name.is_empty() {
        for message in names::dns1123_subdomain(name) {
            errors.invalid(&path.child(field), name, message);
        }
    }
}

/// The columns of `persistentvolumeclaims`.
const COLUMNS: &[Column] = &[
    NAME,
    Column::string(
        "Status",
        Description::Field("api.core.v1.PersistentVolumeClaimStatus", "phase"),
        CellSource::Custom(|claim, _| json!(persistent_volume::shown_phase(claim))),
    ),
    Column::string(
        "Volume",
        Description::Field("api.core.v1.PersistentVolumeClaimSpec", "volumeName"),
        CellSource::Text("/spec/volumeName", ""),
    ),
    Column::string(
        "Capacity",
        Description::Field("api.core.v1.PersistentVolumeClaimStatus", "capacity"),
        CellSource::Custom(|claim, _| match text(claim, "/spec/volumeName") {
            "" => json!(""),
            _ => json!(text_or(claim, "/status/capacity/storage", "0")),
        }),
    ),
    Column::string(
        "Access Modes",
        Description::Field("api.core.v1.PersistentVolumeClaimStatus", "accessModes"),
        CellSource::Custom(|claim, _| match text(claim, "/spec/volumeName") {
            "" => json!(""),
            _ => json!(persistent_volume::shown_modes(claim, "/status/accessModes")),
        }),
    ),
    Column::string(
        "StorageClass",
        Description::Text("StorageClass of the pvc"),
        CellSource::Custom(|claim, _| json!(persistent_volume::shown_class(claim))),
    ),
    Column::string(
        "VolumeAttributesClass",
        Description::Text("VolumeAttributesClass of the pvc"),
        CellSource::Optional("/spec/volumeAttributesClassName", UNSET),
    ),
    AGE,
    Column::string(
        "VolumeMode",
        Description::Field("api.core.v1.PersistentVolumeClaimSpec", "volumeMode"),
        CellSource::Optional("/spec/volumeMode", UNSET),
    )
    .wide(),
];

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    use crate::registry::lister::ObjectLister;

    #[rstest]
    #[case::foreign(json!({"dataSource": {"kind": "Tape", "name": "t"}}), json!({}))]
    #[case::claim(json!({"dataSource": {"kind": "PersistentVolumeClaim", "name": "c"}}),
        json!({"dataSource": {"kind": "PersistentVolumeClaim", "name": "c"}, "dataSourceRef": {"kind": "PersistentVolumeClaim", "name": "c"}}))]
    #[case::reference(json!({"dataSourceRef": {"apiGroup": "a.io", "kind": "Tape", "name": "t"}}),
        json!({"dataSource": {"apiGroup": "a.io", "kind": "Tape", "name": "t"}, "dataSourceRef": {"apiGroup": "a.io", "kind": "Tape", "name": "t"}}))]
    #[case::namespace(json!({"dataSourceRef": {"kind": "PersistentVolumeClaim", "name": "c", "namespace": "n"}}), json!({}))]
    fn data_sources_are_completed(#[case] given: Value, #[case] expected: Value) {
        let mut claim = json!({"spec": given});
        complete_data_sources(&mut claim, None);
        assert_eq!(claim, json!({"spec": expected}));
    }

    /// An update keeps what a new claim would lose: `dataSourceInUse` and `dataSourceRefInUse`.
    #[rstest]
    #[case::foreign(json!({"dataSource": {"kind": "Tape", "name": "t"}}),
        json!({"dataSource": {"kind": "Tape", "name": "t"}, "dataSourceRef": {"kind": "Tape", "name": "t"}}))]
    #[case::namespace(json!({"dataSourceRef": {"kind": "PersistentVolumeClaim", "name": "c", "namespace": "n"}}),
        json!({"dataSourceRef": {"kind": "PersistentVolumeClaim", "name": "c", "namespace": "n"}}))]
    #[case::no_namespace(json!({"dataSourceRef": {"kind": "PersistentVolumeClaim", "name": "c", "namespace": ""}}),
        json!({"dataSource": {"kind": "PersistentVolumeClaim", "name": "c"},
            "dataSourceRef": {"kind": "PersistentVolumeClaim", "name": "c", "namespace": ""}}))]
    fn data_sources_stay_in_updates(#[case] given: Value, #[case] expected: Value) {
        let source = json!({"kind": "PersistentVolumeClaim", "name": "c"});
        let old = json!({"spec": {"dataSource": source, "dataSourceRef": source}});
        let mut claim = json!({"spec": given});
        complete_data_sources(&mut claim, Some(&old));
        assert_eq!(claim, json!({"spec": expected}));
    }

    /// `allowInvalidAPIGroupInDataSourceOrRef`, and `isDataSourceEqualDataSourceRef`.
    #[rstest]
    #[case::known_group(json!({"apiGroup": "a_b"}), json!({"apiGroup": "a_b"}), true, &[])]
    #[case::new_group(json!({"apiGroup": "a_b"}), json!({"apiGroup": "a_b"}), false,
        &["spec.dataSource.apiGroup", "spec.dataSourceRef.apiGroup"])]
    #[case::empty_group(json!({"apiGroup": ""}), json!({}), false, &["spec"])]
    fn groups_of_data_sources(
        #[case] source: Value,
        #[case] reference: Value,
        #[case] any_group: bool,
        #[case] expected: &[&str],
    ) {
        let [source, reference] = [source, reference].map(|mut at| {
            at["kind"] = "PersistentVolumeClaim".into();
            at["name"] = "c".into();
            at
        });
        let claim = json!({"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1"}},
            "dataSource": source, "dataSourceRef": reference}});
        let errors = validate(&claim, any_group);
        assert_eq!(errors.iter().map(|error| error.field.as_str()).collect::<Vec<_>>(), expected);
    }

    #[rstest]
    #[case::fine(json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}), &[])]
    #[case::nothing(
        json!({}),
        &["spec.accessModes: Required value: at least 1 access mode is required", "spec.resources[storage]: Required value"]
    )]
    #[case::odd(
        json!({"accessModes": ["ReadWriteOncePod", "ReadWriteOnce"], "resources": {"requests": {"storage": "0"}},
            "volumeMode": "Tape"}),
        &[
            "spec.accessModes: Forbidden: may not use ReadWriteOncePod with other access modes",
            "spec.resources[storage]: Invalid value: \"0\": must be greater than zero",
            "spec.volumeMode: Unsupported value: \"Tape\": supported values: \"Block\", \"Filesystem\"",
        ]
    )]
    fn claims_ask_for_something(#[case] spec: Value, #[case] expected: &[&str]) {
        let errors = validate(&json!({"spec": spec}), false);
        assert_eq!(errors.iter().map(ToString::to_string).collect::<Vec<_>>(), expected);
    }

    /// Three classes, two of which are defaults.
    struct Classes;

    impl ObjectLister for Classes {
        fn get(&self, _: &str, _: &str, _: &str, _: &str) -> Option<Value> {
            None
        }

        fn list(&self, _: &str, _: &str, _: &str) -> Vec<Value> {
            let class = |name: &str, created: &str, key: &str, value: &str| {
                let metadata = json!({"name": name, "creationTimestamp": created, "annotations": {key: value}});
                json!({"metadata": metadata})
            };
            vec![
                class("old", "2026-01-01T00:00:00Z", default_class::STORAGE_CLASS[0], "true"),
                class("new", "2026-01-02T00:00:00Z", default_class::STORAGE_CLASS[1], "true"),
                class("other", "2026-01-03T00:00:00Z", default_class::STORAGE_CLASS[0], "false"),
            ]
        }
    }

    fn claim(spec: Value, status: Value) -> Value {
        let mut spec = spec;
        spec["accessModes"] = json!(["ReadWriteOnce"]);
        if spec.get("resources").is_none() {
            spec["resources"] = json!({"requests": {"storage": "1Gi"}});
        }
        json!({"metadata": {"name": "c"}, "spec": spec, "status": status})
    }

    fn sized(size: &str, phase: &str) -> Value {
        claim(
            json!({"resources": {"requests": {"storage": size}}, "storageClassName": "fast"}),
            json!({"phase": phase, "capacity": {"storage": "2Gi"}}),
        )
    }

    /// `TestValidatePersistentVolumeClaimUpdate`: the first line of each error.
    #[rstest]
    #[case::grows(sized("1Gi", "Bound"), sized("3Gi", "Bound"), &[])]
    #[case::pending(sized("1Gi", "Pending"), sized("3Gi", "Pending"),
        &["spec: Forbidden: spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims"])]
    #[case::shrinks(sized("3Gi", "Bound"), sized("1Gi", "Bound"),
        &["spec.resources.requests.storage: Forbidden: field can not be less than status.capacity"])]
    #[case::recovers(sized("4Gi", "Bound"), sized("3Gi", "Bound"), &[])]
    #[case::bound_once(claim(json!({}), json!({})), claim(json!({"volumeName": "v"}), json!({})), &[])]
    #[case::bound_again(claim(json!({"volumeName": "v"}), json!({})), claim(json!({"volumeName": "w"}), json!({})),
        &["spec: Forbidden: spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims"])]
    #[case::class_once(claim(json!({}), json!({})), claim(json!({"storageClassName": "a"}), json!({})), &[])]
    #[case::mode(claim(json!({"volumeMode": "Block"}), json!({})), claim(json!({"volumeMode": "Filesystem"}), json!({})),
        &["spec: Forbidden: spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims",
            "volumeMode: Invalid value: \"Filesystem\": field is immutable"])]
    #[case::attributes(
        claim(json!({"volumeAttributesClassName": "a"}), json!({"phase": "Bound", "currentVolumeAttributesClassName": "a"})),
        claim(json!({}), json!({"phase": "Bound", "currentVolumeAttributesClassName": "a"})),
        &["spec.volumeAttributesClassName: Forbidden: update to nil is forbidden when status.currentVolumeAttributesClassName is not nil"])]
    fn claims_stay(#[case] old: Value, #[case] new: Value, #[case] expected: &[&str]) {
        let errors = validate_update(&new, &old);
        let texts: Vec<String> =
            errors.iter().map(|error| error.to_string().lines().next().unwrap_or_default().to_owned()).collect();
        assert_eq!(texts, expected);
    }

    #[rstest]
    #[case::fraction(json!({"spec": {"resources": {"requests": {"storage": "1500m"}}}}),
        "spec.resources.requests[storage]: fractional byte value \"1500m\" is invalid, must be an integer")]
    #[case::annotation(json!({"metadata": {"annotations": {"volume.beta.kubernetes.io/storage-class": "x"}}}),
        "metadata.annotations[volume.beta.kubernetes.io/storage-class]: deprecated since v1.8; use \"storageClassName\" attribute instead")]
    fn claims_with_warnings(#[case] claim: Value, #[case] expected: &str) {
        assert_eq!(warnings(&claim, None), [expected]);
    }

    /// `TestPVCResizeAdmission`.
    #[rstest]
    #[case::fine("Bound", Some(true), None)]
    #[case::pending("Pending", Some(true), Some("Only bound persistent volume claims can be expanded"))]
    #[case::fixed(
        "Bound",
        Some(false),
        Some(
            "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize"
        )
    )]
    #[case::no_class(
        "Bound",
        None,
        Some(
            "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize"
        )
    )]
    fn some_claims_grow(#[case] phase: &str, #[case] expands: Option<bool>, #[case] why: Option<&str>) {
        struct Class(Option<bool>);
        impl ObjectLister for Class {
            fn get(&self, _: &str, _: &str, _: &str, _: &str) -> Option<Value> {
                self.0.map(|expands| json!({"allowVolumeExpansion": expands}))
            }

            fn list(&self, _: &str, _: &str, _: &str) -> Vec<Value> {
                Vec::new()
            }
        }
        let class = Class(expands);
        let ctx = StrategyContext::of_test(&class);
        let admitted = check_admission(&sized("2Gi", phase), Some(&sized("1Gi", phase)), &ctx);
        let expected = why.map(|why| format!("persistentvolumeclaims \"c\" is forbidden: {why}"));
        assert_eq!(admitted.err().map(|status| status.message), expected);
    }

    #[rstest]
    #[case::none(json!({"spec": {}}), json!("new"))]
    #[case::empty(json!({"spec": {"storageClassName": ""}}), json!(""))]
    #[case::own(json!({"spec": {"storageClassName": "own"}}), json!("own"))]
    #[case::beta(json!({"metadata": {"annotations": {"volume.beta.kubernetes.io/storage-class": "x"}}, "spec": {}}), json!(null))]
    fn a_claim_without_a_class_gets_the_newest_default(#[case] mut claim: Value, #[case] expected: Value) {
        let ctx = StrategyContext::of_test(&Classes);
        admit_default_class(&mut claim, &ctx);
        assert_eq!(claim["spec"]["storageClassName"], expected);
    }
}
