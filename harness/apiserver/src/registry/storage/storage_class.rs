//! `storage.k8s.io/v1` `StorageClass`. See `pkg/registry/storage/storageclass/strategy.go` and
//! `pkg/apis/storage/validation/validation.go`.

use std::collections::{BTreeMap, BTreeSet};

use crate::field_errors::{ErrorList, FieldError, Path};
use crate::json::fields::{array_field, str_field, value_default};
use crate::json::{Map, Value, json};
use crate::printers::column::{AGE, CellSource, Column, Description, NAME};
use crate::printers::format::default_class;
use crate::registry::builder::{ResourceBuilder, resource};
use crate::registry::core::node_selector::deprecated_label;
use crate::registry::default_class::STORAGE_CLASS;
use crate::registry::generic::{Generic, MetadataRules};
use crate::registry::kind_strategy::KindStrategy;
use crate::registry::storage::common::{parameters, provisioner};
use crate::registry::{checks, names};

/// The resource `storageclasses` of `storage.k8s.io/v1`.
pub(in crate::registry) fn definition() -> ResourceBuilder {
    resource("storage.k8s.io", "v1", "storageclasses", "StorageClass", "io.k8s.api.storage.v1.StorageClass")
        .cluster()
        .short(&["sc"])
        .hash("K+m6uJwbjGY=")
        .rules(
            KindStrategy::new(
                Generic { namespaced: false, updates: MetadataRules::ObjectFirst, ..Generic::NEW },
                defaults,
            )
            .check_with(validate)
            .check_update_with(validate_update)
            .warn_with(warnings),
        )
        .columns(COLUMNS)
}

/// Defaults of `StorageClass`.
fn defaults(map: &mut Map) {
    value_default(map, "reclaimPolicy", "Delete");
    value_default(map, "volumeBindingMode", "Immediate");
}

/// Returns the warnings about deprecated labels of nodes: `GetWarningsForStorageClass` in `pkg/api/storage/util.go`.
fn warnings(class: &Value, _old: Option<&Value>) -> Vec<String> {
    let mut warnings = Vec::new();
    for (i, term) in array_field(class, "allowedTopologies").iter().enumerate() {
        for (j, expression) in array_field(term, "matchLabelExpressions").iter().enumerate() {
            let text = deprecated_label(str_field(expression, "key"));
            let path = format!("allowedTopologies[{i}].matchLabelExpressions[{j}].key");
            warnings.extend(text.map(|text| format!("{path}: {text}")));
        }
    }
    warnings
}

/// Validates a `StorageClass`.
fn validate(object: &Value) -> ErrorList {
    let mut errors = ErrorList::new();
    let root = |field| Path::new(field);
    provisioner(object, "provisioner", &mut errors);
    parameters(object, true, &mut errors);
    if !str_field(object, "reclaimPolicy").is_empty() {
        let supported = ["Delete", "Retain"];
        let given = str_field(object, "reclaimPolicy");
        if !supported.contains(&given) {
            errors.not_supported(&root("reclaimPolicy"), given, &supported);
        }
    }
    let supported = ["Immediate", "WaitForFirstConsumer"];
    match object["volumeBindingMode"].as_str() {
        None => errors.required(&root("volumeBindingMode"), ""),
        Some(given) if !supported.contains(&given) => {
            errors.not_supported(&root("volumeBindingMode"), given, &supported);
        }
        Some(_) => {}
    }
    let path = root("allowedTopologies");
    let terms = array_field(object, "allowedTopologies");
    let mut seen: BTreeMap<_, usize> = BTreeMap::new();
    for (index, term) in terms.iter().enumerate() {
        let path = path.index(index);
        topology_term(term, &path, &mut errors);
        let before = seen.entry(topology(term)).or_default();
        // Upstream compares an empty term with as many empty ones as there are terms, too.
        let unset = if array_field(term, "matchLabelExpressions").is_empty() { terms.len() } else { 0 };
        errors.push_times(*before + unset, || FieldError::duplicate(&path.child("matchLabelExpressions"), ""));
        *before += 1;
    }
    errors
}

/// Returns the values of each key of a topology term.
fn topology(term: &Value) -> BTreeMap<&str, BTreeSet<&str>> {
    let all = array_field(term, "matchLabelExpressions").iter();
    all.map(|one| {
        let values = array_field(one, "values").iter().filter_map(Value::as_str).collect();
        (str_field(one, "key"), values)
    })
    .collect()
}

fn topology_term(term: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let root = path.child("matchLabelExpressions");
    let expressions = array_field(term, "matchLabelExpressions");
    let repeated_keys = checks::repeated(expressions, |expression| str_field(expression, "key"));
    for (index, expression) in expressions.iter().enumerate() {
        let path = root.index(index);
        let key = str_field(expression, "key");
        let values = array_field(expression, "values");
        let of_values = path.child("values");
        if values.is_empty() {
            errors.required(&of_values, "");
        }
        let repeated = checks::repeated(values, Value::as_str);
        for (index, value) in values.iter().enumerate().filter(|(index, _)| repeated[*index]) {
            errors.duplicate(&of_values.index(index), value);
        }
        checks::format(key, names::qualified_name, &path.child("key"), errors);
        if repeated_keys[index] {
            errors.duplicate(&path.child("key"), key);
        }
    }
}

/// Validates an update of a `StorageClass`.
fn validate_update(new: &Value, old: &Value) -> ErrorList {
    let mut errors = ErrorList::new();
    for field in ["parameters", "provisioner", "reclaimPolicy", "volumeBindingMode"] {
        checks::validate_immutable(new.get(field), old.get(field), &Path::new(field), &mut errors);
    }
    errors
}

/// The columns of `storageclasses`.
const COLUMNS: &[Column] = &[
    NAME.with_source(CellSource::Custom(|class, _| json!(default_class(class, STORAGE_CLASS)))),
    Column::string(
        "Provisioner",
        Description::Field("api.storage.v1.StorageClass", "provisioner"),
        CellSource::Text("/provisioner", ""),
    ),
    Column::string(
        "ReclaimPolicy",
        Description::Field("api.storage.v1.StorageClass", "reclaimPolicy"),
        CellSource::Optional("/reclaimPolicy", "Delete"),
    ),
    Column::string(
        "VolumeBindingMode",
        Description::Field("api.storage.v1.StorageClass", "volumeBindingMode"),
        CellSource::Optional("/volumeBindingMode", "Immediate"),
    ),
    Column::string(
        "AllowVolumeExpansion",
        Description::Field("api.storage.v1.StorageClass", "allowVolumeExpansion"),
        CellSource::Flag("/allowVolumeExpansion"),
    ),
    AGE,
];
