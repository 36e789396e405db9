//! Connects handlers to managed fields and server-side apply.
//! See `staging/src/k8s.io/apimachinery/pkg/util/managedfields/fieldmanager.go`.

use super::request_scope::RequestScope;
use super::versions::KindVersions;
use crate::json::Value;
use crate::managedfields::{self, WriteInfo};
use crate::patch::{self, apply::ApplyRequest};
use crate::status::Status;
use crate::yaml;

/// Updates managedFields for the changes by `manager`.
pub(crate) fn update_managed_fields(
    scope: &RequestScope<'_>,
    old: Option<&Value>,
    mut new: Value,
    manager: &str,
) -> Value {
    let schema = scope.schema();
    let fits = |object: &Value| patch::apply::fits(schema, object);
    if scope.kind.is_unstructured() && !(fits(&new) && old.is_none_or(fits)) {
        // Upstream cannot track the fields of an object that does not fit its type, and drops all owners.
        managedfields::take_managed_fields(&mut new);
        return new;
    }
    let api_version = scope.kind.api_version();
    let versions = KindVersions::of(scope);
    managedfields::update(schema, old, &mut new, &managed_fields_write(scope, manager, &api_version, &versions));
    new
}

fn managed_fields_write<'w>(
    scope: &'w RequestScope<'_>,
    manager: &'w str,
    api_version: &'w str,
    versions: &'w KindVersions<'_>,
) -> WriteInfo<'w> {
    let subresource = scope.path.subresource.as_str();
    let reset = scope.kind.reset_fields.of(subresource);
    WriteInfo { manager, api_version, subresource, reset, versions, now: scope.server.clock().now() }
}

/// Applies the body by server-side apply; returns the object with defaults.
pub(crate) fn apply_body(
    scope: &RequestScope<'_>,
    old: Option<&Value>,
    manager: &str,
    force: bool,
) -> Result<Value, Status> {
    let (config, again) = decode_apply_body(scope)?;
    let applied = apply_config(scope, old, config, manager, force)?;
    report_duplicate_keys(scope, again)?;
    Ok(applied)
}

/// Reports duplicate keys in the body of a server-side apply as an error or as warnings. Call it after all other
/// checks.
pub(crate) fn report_duplicate_keys(scope: &RequestScope<'_>, again: Vec<String>) -> Result<(), Status> {
    match scope.query.get("fieldValidation").unwrap_or_default() {
        "Ignore" => {}
        "Strict" if !again.is_empty() => {
            let why = yaml::duplicate_keys_error(&again);
            let why = format!("error strict decoding YAML: error converting YAML to JSON: {why}");
            return Err(Status::bad_request(why));
        }
        _ => again.into_iter().for_each(|warning| scope.warn(warning)),
    }
    Ok(())
}

/// Decodes the body of a server-side apply, an object in YAML or JSON. Also returns complaints about duplicate
/// keys.
pub(crate) fn decode_apply_body(scope: &RequestScope<'_>) -> Result<(Value, Vec<String>), Status> {
    let refuse = |why: String| Status::bad_request(format!("error decoding YAML: {why}"));
    let read =
        yaml::to_json(&scope.request.body).map_err(|why| refuse(format!("error converting YAML to JSON: {why}")))?;
    let config: Value = serde_json::from_slice(&read.json).map_err(|error| refuse(error.to_string()))?;
    if config.is_null() {
        return Err(Status::bad_request("invalid object type: /, Kind="));
    }
    if !config.is_object() {
        let found = config.json_type();
        return Err(refuse(format!(
            "error unmarshaling JSON: while decoding JSON: json: cannot unmarshal {found} into Go value of type map[string]interface {{}}"
        )));
    }
    Ok((config, read.again))
}

/// Applies `config` by server-side apply; returns the object with defaults.
pub(crate) fn apply_config(
    scope: &RequestScope<'_>,
    old: Option<&Value>,
    config: Value,
    manager: &str,
    force: bool,
) -> Result<Value, Status> {
    let api_version = scope.kind.api_version();
    let versions = KindVersions::of(scope);
    let write = managed_fields_write(scope, manager, &api_version, &versions);
    let request = ApplyRequest { write, force, kind: &scope.kind.kind };
    let mut applied = patch::apply::apply(scope.schema(), old, config, &request)?;
    scope.kind.strategy.default_applied(&mut applied);
    Ok(applied)
}
