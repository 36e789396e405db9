//! Validation of requests for devices: classes, claims and their templates. See
//! `pkg/apis/resource/validation/validation.go` and, for administrative access, `pkg/registry/resource/utils.go`. PURE.

use crate::field_errors::{BadValue, ErrorList, Path};
use crate::json::fields::{array_field, non_null, str_field};
use crate::json::{Map, Value};
use crate::registry::core::internal_json;
use crate::registry::storage::common;
use crate::registry::strategy::StrategyContext;
use crate::registry::{checks, names};
use crate::{expressions, metadata};

const SPEC: Path<'static> = Path::new("spec");

/// Most requests, constraints, configurations and selectors.
pub(super) const MOST: usize = 32;

/// Most alternatives of a request.
const MOST_ALTERNATIVES: usize = 8;

/// Longest parameters and expression in bytes.
const LONGEST: usize = 10 * 1024;

/// Longest name of an attribute or capacity in bytes, without its domain.
const LONGEST_NAME: usize = 32;

/// The effects of taints.
const EFFECTS: [&str; 3] = ["NoExecute", "NoSchedule", "None"];

/// Requires the spec to be unchanged.
pub(super) fn spec_stays(new: &Value, old: &Value) -> ErrorList {
    let mut errors = ErrorList::new();
    internal_json::immutable("=ResourceClaimSpec", new.get("spec"), old.get("spec"), &SPEC, &mut errors);
    errors
}

/// Requires the label of the namespace that allows administrative access, if a claim asks for it.
pub(super) fn access(claim_spec: &Value, object: &Value, ctx: &StrategyContext<'_>) -> ErrorList {
    const LABEL: &str = "resource.kubernetes.io/admin-access";
    let mut errors = ErrorList::new();
    let Some(index) = admin_request(claim_spec) else { return errors };
    let namespace = metadata::namespace(object);
    if ctx.lookup.label("", "namespaces", "", namespace, LABEL).as_deref() != Some("true") {
        let path = SPEC.child("devices");
        let path = path.child("requests");
        let why = format!("admin access to devices requires the `{LABEL}: true` label on the containing namespace");
        errors.forbidden(&path.index(index).child("adminAccess"), why);
    }
    errors
}

/// Returns the index of the first request for administrative access.
pub(super) fn admin_request(claim_spec: &Value) -> Option<usize> {
    let requests = claim_spec.pointer("/devices/requests").and_then(Value::as_array)?;
    requests.iter().position(|request| request.pointer("/exactly/adminAccess") == Some(&Value::Bool(true)))
}

/// Calls `check` for each item of a list, unless there are too many.
pub(super) fn for_items(
    items: &[Value],
    most: usize,
    path: &Path<'_>,
    errors: &mut ErrorList,
    check: impl Fn(&Value, &Path<'_>, &mut ErrorList),
) {
    if items.len() > most {
        return errors.too_many(path, items.len(), most);
    }
    for (index, item) in items.iter().enumerate() {
        check(item, &path.index(index), errors);
    }
}

/// Like [`for_items`] for a list whose items are unique by a text.
pub(super) fn for_set<'a>(
    items: &'a [Value],
    most: usize,
    key: impl Fn(&'a Value) -> &'a str,
    path: &Path<'_>,
    errors: &mut ErrorList,
    check: impl Fn(&Value, &Path<'_>, &mut ErrorList),
) {
    for_items(items, most, path, errors, check);
    if items.len() > most {
        return;
    }
    let repeated = checks::repeated(items, &key);
    for (index, item) in items.iter().enumerate().filter(|(index, _)| repeated[*index]) {
        errors.duplicate(&path.index(index), key(item));
    }
}

fn name_of(item: &Value) -> &str {
    str_field(item, "name")
}

/// Returns an item that is a text.
pub(super) fn text_of(item: &Value) -> &str {
    item.as_str().unwrap_or_default()
}

/// Validates the spec of a claim.
pub(super) fn claim_spec(spec: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let path = path.child("devices");
    let devices = &spec["devices"];
    let requests = array_field(devices, "requests");
    for_set(requests, MOST, name_of, &path.child("requests"), errors, request);
    let all = array_field(devices, "constraints");
    for_items(all, MOST, &path.child("constraints"), errors, |item, path, errors| {
        constraint(item, requests, path, errors);
    });
    let all = array_field(devices, "config");
    for_items(all, MOST, &path.child("config"), errors, |item, path, errors| {
        request_names(item, requests, path, errors);
        configuration(item, path, errors);
    });
}

fn request(request: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    const ONE: &str = "exactly one of `exactly` or `firstAvailable` is required";
    checks::format(name_of(request), names::dns1123_label, &path.child("name"), errors);
    let alternatives = array_field(request, "firstAvailable");
    match (non_null(request, "exactly"), alternatives.is_empty()) {
        (None, true) => errors.required(path, ONE),
        (Some(_), false) => {
            let why = format!("{ONE}, but multiple fields are set");
            errors.invalid(path, BadValue::Raw("null".to_owned()), why);
        }
        (Some(exactly), true) => device_request(exactly, &path.child("exactly"), errors),
        (None, false) => {
            let path = path.child("firstAvailable");
            for_set(alternatives, MOST_ALTERNATIVES, name_of, &path, errors, |one, path, errors| {
                checks::format(name_of(one), names::dns1123_label, &path.child("name"), errors);
                device_request(one, path, errors);
            });
        }
    }
}

fn device_request(request: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    checks::required_format(request, "deviceClassName", names::dns1123_subdomain, path, errors);
    selectors(request, path, errors);
    let count = request.get("count").and_then(Value::as_i64).unwrap_or(0);
    match str_field(request, "allocationMode") {
        "All" if count != 0 => {
            errors.invalid(&path.child("count"), count, "must not be specified when allocationMode is 'All'");
        }
        "ExactCount" if count <= 0 => errors.invalid(&path.child("count"), count, "must be greater than zero"),
        "All" | "ExactCount" => {}
        other => errors.not_supported(&path.child("allocationMode"), other, &["All", "ExactCount"]),
    }
    let path = path.child("tolerations");
    for (index, item) in array_field(request, "tolerations").iter().enumerate() {
        toleration(item, &path.index(index), errors);
    }
}

fn toleration(toleration: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let key = str_field(toleration, "key");
    let value = str_field(toleration, "value");
    if !key.is_empty() {
        checks::format(key, names::qualified_name, &path.child("key"), errors);
    }
    let path_of_value = path.child("value");
    match str_field(toleration, "operator") {
        "Exists" if !value.is_empty() => {
            errors.invalid(&path_of_value, value, "must be empty for operator `Exists`");
        }
        "Exists" => {}
        "Equal" => checks::format(value, names::label_value, &path_of_value, errors),
        "" => errors.required(&path.child("operator"), ""),
        other => errors.not_supported(&path.child("operator"), other, &["Equal", "Exists"]),
    }
    let effect = str_field(toleration, "effect");
    if !effect.is_empty() && !EFFECTS.contains(&effect) {
        errors.not_supported(&path.child("effect"), effect, &EFFECTS);
    }
}

/// Validates a taint of a device.
pub(super) fn taint(taint: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    checks::format(str_field(taint, "key"), names::qualified_name, &path.child("key"), errors);
    checks::format(str_field(taint, "value"), names::label_value, &path.child("value"), errors);
    checks::required_one_of(taint, "effect", &EFFECTS, path, errors);
}

/// Validates the selectors of devices.
pub(super) fn selectors(holder: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    for_items(array_field(holder, "selectors"), MOST, &path.child("selectors"), errors, selector);
}

fn selector(selector: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let path = path.child("cel");
    let Some(cel) = non_null(selector, "cel") else { return errors.required(&path, "") };
    let path = path.child("expression");
    let source = str_field(cel, "expression");
    if source.len() > LONGEST {
        return errors.too_long(&path, LONGEST);
    }
    if let Some(why) = expressions::device_selector_error(source) {
        errors.invalid(&path, source, why);
    }
}

fn constraint(constraint: &Value, requests: &[Value], path: &Path<'_>, errors: &mut ErrorList) {
    request_names(constraint, requests, path, errors);
    let attribute = ["matchAttribute", "distinctAttribute"]
        .into_iter()
        .find_map(|field| Some((field, non_null(constraint, field).and_then(Value::as_str)?)));
    let Some((field, name)) = attribute else {
        let why = "exactly one of \"matchAttribute\" or \"distinctAttribute\" is required, but multiple fields are set";
        return errors.required(path, why);
    };
    let path = path.child(field);
    attribute_name(name, &path, errors);
    if !name.contains('/') {
        errors.invalid(&path, name, "a fully qualified name must be a domain and a name separated by a slash");
    }
}

/// Validates the names of requests in a constraint or configuration.
pub(super) fn request_names(holder: &Value, requests: &[Value], path: &Path<'_>, errors: &mut ErrorList) {
    let path = path.child("requests");
    for_set(array_field(holder, "requests"), MOST, text_of, &path, errors, |item, path, errors| {
        request_name(text_of(item), requests, path, errors);
    });
}

/// Validates the name of a request, or of an alternative in one.
pub(super) fn request_name(name: &str, requests: &[Value], path: &Path<'_>, errors: &mut ErrorList) {
    const WHY: &str =
        "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'";
    let parts: Vec<&str> = name.split('/').collect();
    if parts.len() > 2 {
        return errors.invalid(path, name, WHY);
    }
    for part in &parts {
        checks::format(part, names::dns1123_label, path, errors);
    }
    let known = requests.iter().rfind(|request| name_of(request) == parts[0]).is_some_and(|request| {
        let alternatives = array_field(request, "firstAvailable");
        parts.get(1).is_none_or(|part| alternatives.iter().any(|one| name_of(one) == *part))
    });
    if !known {
        errors.invalid(path, name, WHY);
    }
}

/// Validates a configuration of devices.
pub(super) fn configuration(configuration: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let path = path.child("opaque");
    let Some(opaque) = non_null(configuration, "opaque") else { return errors.required(&path, "") };
    common::csi_driver_name(str_field(opaque, "driver"), &path.child("driver"), errors);
    let path = path.child("parameters");
    match non_null(opaque, "parameters") {
        None => errors.required(&path, ""),
        Some(parameters) => raw_object(parameters, &path, errors),
    }
}

/// Validates a value whose fields only a driver knows: `validateRawExtension`.
pub(super) fn raw_object(value: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    if value.to_string().len() > LONGEST {
        errors.too_long(path, LONGEST);
    } else if !value.is_object() {
        errors.invalid(path, "<value omitted>", "must be a valid JSON object");
    }
}

/// Validates the name of an attribute or capacity, which may have a domain.
pub(super) fn attribute_name(name: &str, path: &Path<'_>, errors: &mut ErrorList) {
    match name.split('/').collect::<Vec<_>>().as_slice() {
        [id] => identifier(id, path, errors),
        [domain, id] => {
            if domain.is_empty() {
                errors.invalid(path, "", "the domain must not be empty");
            } else {
                common::csi_driver_name(domain, path, errors);
            }
            if id.is_empty() {
                errors.invalid(path, "", "the name must not be empty");
            } else {
                identifier(id, path, errors);
            }
        }
        // Upstream accepts names with more slashes.
        _ => {}
    }
}

fn identifier(id: &str, path: &Path<'_>, errors: &mut ErrorList) {
    const WHY: &str = "a valid C identifier must start with alphabetic character or '_', followed by a string of alphanumeric characters or '_'";
    if id.len() > LONGEST_NAME {
        errors.too_long(path, LONGEST_NAME);
    }
    let begins = |first: char| first.is_ascii_alphabetic() || first == '_';
    if !id.starts_with(begins) || !id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
        let why = names::regex_error(WHY, "[A-Za-z_][A-Za-z0-9_]*", &["my_name", "MY_NAME", "MyName"]);
        errors.invalid(path, id, why);
    }
}

/// Returns the entries of a map field.
pub(super) fn entries<'a>(holder: &'a Value, field: &str) -> impl Iterator<Item = (&'a str, &'a Value)> {
    let map: Option<&Map> = holder.get(field).and_then(Value::as_object);
    map.into_iter().flatten().map(|(name, value)| (name.as_str(), value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::json;

    #[test]
    fn administrative_access_is_found() {
        let claim = json!({"devices": {"requests": [{}, {"exactly": {"adminAccess": true}}]}});
        assert_eq!(admin_request(&claim), Some(1));
        assert_eq!(admin_request(&json!({})), None);
    }
}
