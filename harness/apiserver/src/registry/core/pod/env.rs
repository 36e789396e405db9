//! Validation of environment variables and their sources.
//!
//! See `ValidateEnv` and `ValidateEnvFrom` in `pkg/apis/core/validation/validation.go`.

use crate::field_errors::{ErrorList, Path};
use crate::json::Value;
use crate::json::fields::{array_field, non_null, str_field};
use crate::quantity::Quantity;
use crate::registry::core::pod::paths;
use crate::registry::resource_list::quantity_text;
use crate::registry::{checks, names};

const FIELDS: &[&str] = &[
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];

const RESOURCES: &[&str] = &[
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
];

/// Validates `env`.
pub(super) fn variables(variables: &[Value], path: &Path<'_>, errors: &mut ErrorList) {
    for (i, variable) in variables.iter().enumerate() {
        let path = path.index(i);
        let name = str_field(variable, "name");
        if name.is_empty() {
            errors.required(&path.child("name"), "");
        } else {
            for message in names::env_var_name(name) {
                errors.invalid(&path.child("name"), name, message);
            }
        }
        if let Some(from) = non_null(variable, "valueFrom") {
            value_from(variable, from, &path.child("valueFrom"), errors);
        }
    }
}

fn value_from(variable: &Value, from: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let mut sources = 0;
    if let Some(field) = non_null(from, "fieldRef") {
        sources += 1;
        field_selector(field, FIELDS, &path.child("fieldRef"), errors);
    }
    if let Some(resource) = non_null(from, "resourceFieldRef") {
        sources += 1;
        resource_selector(resource, false, &path.child("resourceFieldRef"), errors);
    }
    for field in ["configMapKeyRef", "secretKeyRef"] {
        let Some(key) = non_null(from, field) else { continue };
        sources += 1;
        let path = path.child(field);
        let object = str_field(key, "name");
        for message in names::dns1123_subdomain(object) {
            errors.invalid(&path.child("name"), object, message);
        }
        let name = str_field(key, "key");
        if name.is_empty() {
            errors.required(&path.child("key"), "");
        } else {
            for message in names::config_map_key(name) {
                errors.invalid(&path.child("key"), name, message);
            }
        }
    }
    if let Some(key) = non_null(from, "fileKeyRef") {
        sources += 1;
        file_key(key, &path.child("fileKeyRef"), errors);
    }
    if sources == 0 {
        let why =
            "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`";
        errors.invalid(path, "", why);
    } else if !str_field(variable, "value").is_empty() {
        errors.invalid(path, "", "may not be specified when `value` is not empty");
    } else if sources > 1 {
        errors.invalid(path, "", "may not have more than one field specified at a time");
    }
}

fn file_key(key: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    checks::required_format(key, "key", names::env_var_name, path, errors);
    checks::required_format(key, "volumeName", names::dns1123_label, path, errors);
    let target = str_field(key, "path");
    let path = path.child("path");
    if target.is_empty() {
        errors.required(&path, "");
    } else {
        paths::validate_no_backsteps(target, &path, errors);
    }
}

/// Requires the volumes of variables from files to be empty directories.
pub(super) fn volumes_of_files(spec: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let volumes = array_field(spec, "volumes");
    for list in ["initContainers", "containers", "ephemeralContainers"] {
        let root = path.child(list);
        for (i, container) in array_field(spec, list).iter().enumerate() {
            let path = root.index(i);
            let path = path.child("env");
            for (j, variable) in array_field(container, "env").iter().enumerate() {
                let Some(key) = variable.pointer("/valueFrom/fileKeyRef").filter(|key| !key.is_null()) else {
                    continue;
                };
                let path = path.index(j);
                let name = str_field(key, "volumeName");
                let path = path.child("valueFrom");
                let path = path.child("fileKeyRef");
                let path = path.child("volumeName");
                match volumes.iter().rfind(|volume| str_field(volume, "name") == name) {
                    None => errors.not_found(&path, name),
                    Some(volume) if non_null(volume, "emptyDir").is_none() => {
                        errors.invalid(&path, name, "referenced volume must be of type emptyDir");
                    }
                    Some(_) => {}
                }
            }
        }
    }
}

/// Validates a reference to a field of the pod.
fn field_selector(selector: &Value, allowed: &[&str], path: &Path<'_>, errors: &mut ErrorList) {
    let field = str_field(selector, "fieldPath");
    let version = str_field(selector, "apiVersion");
    if version.is_empty() {
        errors.required(&path.child("apiVersion"), "");
        return;
    }
    if field.is_empty() {
        errors.required(&path.child("fieldPath"), "");
        return;
    }
    let refuse = |why: String, errors: &mut ErrorList| {
        errors.invalid(&path.child("fieldPath"), field, format!("error converting fieldPath: {why}"));
    };
    if version != "v1" {
        return refuse(format!("unsupported pod version: {version}"), errors);
    }
    let subscripted = field.strip_suffix("']").and_then(|f| f.split_once("['")).filter(|(map, _)| !map.is_empty());
    if let Some((map, key)) = subscripted {
        let key = match map {
            "metadata.annotations" => key.to_lowercase(),
            "metadata.labels" => key.to_owned(),
            _ => return refuse(format!("field label does not support subscript: {field}"), errors),
        };
        for message in names::qualified_name(&key) {
            errors.invalid(path, subscript_of(field), message);
        }
        return;
    }
    // Old clients send `spec.host`.
    let field = if field == "spec.host" { "spec.nodeName" } else { field };
    let known = FIELDS.contains(&field)
        || matches!(
            field,
            "metadata.annotations" | "metadata.labels" | "spec.restartPolicy" | "spec.schedulerName" | "status.phase"
        );
    if !known {
        refuse(format!("field label not supported: {field}"), errors);
    } else if !allowed.contains(&field) {
        errors.not_supported(&path.child("fieldPath"), field, allowed);
    }
}

/// Returns the key in a path such as `metadata.labels['a']`.
fn subscript_of(field: &str) -> &str {
    field.split_once("['").map_or("", |(_, key)| key.trim_end_matches("']"))
}

/// Validates a reference to a container's resource.
fn resource_selector(selector: &Value, volume: bool, path: &Path<'_>, errors: &mut ErrorList) {
    let resource = str_field(selector, "resource");
    if volume && str_field(selector, "containerName").is_empty() {
        errors.required(&path.child("containerName"), "");
    } else if resource.is_empty() {
        errors.required(&path.child("resource"), "");
    } else if !RESOURCES.contains(&resource)
        && !resource.starts_with("requests.hugepages-")
        && !resource.starts_with("limits.hugepages-")
    {
        errors.not_supported(&path.child("resource"), resource, RESOURCES);
    } else {
        divisor(resource, selector.get("divisor"), &path.child("divisor"), errors);
    }
}

/// Validates the divisor of a resource reference; a missing one and 0 mean 1.
fn divisor(resource: &str, divisor: Option<&Value>, path: &Path<'_>, errors: &mut ErrorList) {
    const BYTES: &[&str] = &["1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"];
    let Some(divisor) = divisor.map(quantity_text).filter(|d| Quantity::parse(d).is_some_and(|q| q.sign() != 0)) else {
        return;
    };
    let (allowed, what) = match resource.split_once('.').map_or("", |(_, name)| name) {
        "cpu" => (&["1m", "1"][..], "cpu"),
        "memory" => (BYTES, "memory"),
        "ephemeral-storage" => (BYTES, "local ephemeral storage"),
        _ => (BYTES, "hugepages"),
    };
    if !allowed.contains(&&*divisor) {
        let listed = if what == "cpu" { "1m and 1".to_owned() } else { allowed.join(", ") };
        let why = format!("only divisor's values {listed} are supported with the {what} resource");
        errors.invalid(path, resource, why);
    }
}

/// Validates `envFrom`.
pub(super) fn sources(sources: &[Value], path: &Path<'_>, errors: &mut ErrorList) {
    for (i, source) in sources.iter().enumerate() {
        let item = path.index(i);
        let prefix = str_field(source, "prefix");
        if !prefix.is_empty() {
            for message in names::env_var_name(prefix) {
                errors.invalid(&item.child("prefix"), prefix, message);
            }
        }
        let mut count = 0;
        for field in ["configMapRef", "secretRef"] {
            let Some(reference) = non_null(source, field) else { continue };
            count += 1;
            let path = item.child(field);
            let name = str_field(reference, "name");
            if name.is_empty() {
                errors.required(&path.child("name"), "");
            } else {
                for message in names::dns1123_subdomain(name) {
                    errors.invalid(&path.child("name"), name, message);
                }
            }
        }
        if count == 0 {
            errors.invalid(path, "", "must specify one of: `configMapRef` or `secretRef`");
        } else if count > 1 {
            errors.invalid(path, "", "may not have more than one field specified at a time");
        }
    }
}

/// Validates the items of a downward API volume, which may refer to whole maps.
pub(super) fn downward_items(items: &[Value], path: &Path<'_>, errors: &mut ErrorList) {
    const ALLOWED: &[&str] =
        &["metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"];
    for item in items {
        let target = str_field(item, "path");
        if target.is_empty() {
            errors.required(&path.child("path"), "");
        }
        paths::local_path(target, &path.child("path"), errors);
        match (non_null(item, "fieldRef"), non_null(item, "resourceFieldRef")) {
            (Some(field), resource) => {
                field_selector(field, ALLOWED, &path.child("fieldRef"), errors);
                if resource.is_some() {
                    let why = "fieldRef and resourceFieldRef can not be specified simultaneously";
                    errors.invalid(path, "resource", why);
                }
            }
            (None, Some(resource)) => resource_selector(resource, true, &path.child("resourceFieldRef"), errors),
            (None, None) => errors.required(path, "one of fieldRef and resourceFieldRef is required"),
        }
        paths::mode(item.get("mode"), &path.child("mode"), errors);
    }
}

/// Validates `items` of config map and secret volumes.
pub(super) fn key_items(source: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let items_path = path.child("items");
    for (i, item) in array_field(source, "items").iter().enumerate() {
        let path = items_path.index(i);
        if str_field(item, "key").is_empty() {
            errors.required(&path.child("key"), "");
        }
        let target = str_field(item, "path");
        if target.is_empty() {
            errors.required(&path.child("path"), "");
        }
        paths::local_path(target, &path.child("path"), errors);
        paths::mode(item.get("mode"), &path.child("mode"), errors);
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::json::json;

    /// `ConvertDownwardAPIFieldLabel` of `pkg/apis/core/pods/helpers.go`, and `validateObjectFieldSelector` of
    /// `pkg/apis/core/validation/validation.go`.
    #[rstest]
    #[case::name("metadata.name", "")]
    #[case::label("metadata.labels['a/b']", "")]
    #[case::upper_annotation("metadata.annotations['A/b']", "")]
    #[case::old("spec.host", "")]
    #[case::scheduler(
        "spec.schedulerName",
        "f.fieldPath: Unsupported value: \"spec.schedulerName\": supported values: "
    )]
    #[case::unknown(
        "spec.x",
        "f.fieldPath: Invalid value: \"spec.x\": error converting fieldPath: field label not supported: spec.x"
    )]
    #[case::subscript(
        "spec.x['a']",
        "f.fieldPath: Invalid value: \"spec.x['a']\": error converting fieldPath: field label does not support subscript: spec.x['a']"
    )]
    #[case::subscript_alone(
        "['a']",
        "f.fieldPath: Invalid value: \"['a']\": error converting fieldPath: field label not supported: ['a']"
    )]
    #[case::bad_key("metadata.annotations['A B']", "f: Invalid value: \"A B\": name part must consist of")]
    fn paths_of_fields(#[case] field: &str, #[case] why: &str) {
        let mut errors = ErrorList::new();
        field_selector(&json!({"apiVersion": "v1", "fieldPath": field}), FIELDS, &Path::new("f"), &mut errors);
        let found = errors.to_aggregate_message().unwrap_or_default();
        assert!(found.starts_with(why) && (found.is_empty() == why.is_empty()), "{found}");
    }
}
