//! PATCH: builds the new object from the patch; the guaranteed update does the rest. Follows
//! `staging/src/k8s.io/apiserver/pkg/endpoints/handlers/patch.go` of Kubernetes 1.36.

use http::header::CONTENT_TYPE;

use super::body::{self, metadata_error};
use super::field_manager;
use super::options::WriteOptions;
use super::request_scope::RequestScope;
use super::write;
use super::write_outcome::{UpdateOptions, WriteOutcome, WriteTarget};
use crate::idle_apply::ApplyInput;
use crate::json::Value;
use crate::json::fields::str_field;
use crate::patch::{self, PatchType};
use crate::registry::{ErrorList, Path};
use crate::status::{Details, Status, go_quote};
use crate::{metadata, object_lifecycle, schema};

/// Handles PATCH of an object or of its status.
pub(crate) async fn object(scope: &RequestScope<'_>, part: WriteTarget) -> Result<WriteOutcome, Status> {
    let content_type = scope.request.header(CONTENT_TYPE);
    let patch_type = match content_type.split(';').next().unwrap_or_default().trim() {
        "application/json-patch+json" => PatchType::Json,
        "application/merge-patch+json" => PatchType::Merge,
        "application/strategic-merge-patch+json" => PatchType::Strategic,
        _ => return apply(scope, part).await,
    };
    let options = WriteOptions::parse(scope.query, "PatchOptions", Some(false))?;
    let manager = scope.manager(&options.field_manager);
    let rules = UpdateOptions { dry_run: options.dry_run, ..UpdateOptions::default() };
    write::guaranteed_update(scope, part, &rules, &mut |old| {
        let old = old.ok_or_else(|| scope.not_found(&scope.path.name))?;
        let new = apply_patch(scope, patch_type, old.clone(), &options)?;
        Ok(field_manager::update_managed_fields(scope, Some(old), new, &manager))
    })
    .await
}

/// Returns the patched object: decoded, with defaults, checked to be still the object of the path.
fn apply_patch(
    scope: &RequestScope<'_>,
    patch_type: PatchType,
    old: Value,
    options: &WriteOptions,
) -> Result<Value, Status> {
    let body = &scope.request.body;
    let foreign = |value: &Value| kind_error(scope, value);
    let patched =
        patch::apply_checked_patch(patch_type, scope.schema(), old, body, options.field_validation, &foreign)?;
    let mut value = patched.value;
    check_custom_type_unchanged(scope, &value)?;
    if !scope.kind.is_unstructured()
        && str_field(&value, "kind").is_empty()
        && !str_field(&value, "apiVersion").is_empty()
    {
        value["kind"] = scope.kind.kind.as_ref().into();
    }
    patched.warnings.into_iter().for_each(|warning| scope.warn(warning));
    if !scope.kind.is_unstructured() && str_field(&value, "apiVersion").is_empty() {
        // Upstream then decodes into a type without any JSON fields, which has no name, either.
        object_lifecycle::check_name(&Value::Null, &scope.path.name)?;
    }
    scope.kind.strategy.default(&mut value);
    object_lifecycle::ensure_namespace(&mut value, &scope.path.namespace)?;
    object_lifecycle::check_name(&value, &scope.path.name)?;
    Ok(value)
}

/// Rejects a patch that changes kind or apiVersion of a custom resource, with the message specific to custom
/// resources.
fn check_custom_type_unchanged(scope: &RequestScope<'_>, value: &Value) -> Result<(), Status> {
    let text = |field: &str| value.get(field).and_then(Value::as_str).unwrap_or_default();
    let kind = text("kind");
    let api_version = text("apiVersion");
    if !scope.kind.is_unstructured() || (kind == scope.kind.kind && api_version == scope.kind.api_version()) {
        return Ok(());
    }
    let (field, found, wanted) = if kind == scope.kind.kind {
        ("apiVersion", api_version, scope.kind.api_version())
    } else {
        ("kind", kind, scope.kind.kind.to_string())
    };
    let mut errors = ErrorList::new();
    errors.invalid(&Path::new(field), found, format!("must be {wanted}"));
    Err(Status::invalid(&scope.kind.group, kind, &scope.path.name, &errors))
}

/// Returns an error if a patched object is of another kind than the path; of custom resources only the metadata is
/// checked.
fn kind_error(scope: &RequestScope<'_>, value: &Value) -> Option<String> {
    if scope.kind.is_unstructured() {
        return metadata_error(scope, value);
    }
    let text = |field: &str| value.get(field).and_then(Value::as_str).unwrap_or_default();
    let kind = text("kind");
    let api_version = text("apiVersion");
    // An apiVersion without a kind counts as the path's kind.
    let is_own_kind = kind == scope.kind.kind || kind.is_empty();
    if is_own_kind && (api_version.is_empty() || api_version == scope.kind.api_version()) {
        return None;
    }
    if api_version.is_empty() {
        let group = go_quote(&scope.kind.group);
        return Some(format!(
            "no kind {} is registered for the internal version of group {group} in scheme \"{}\"",
            go_quote(kind),
            body::LEGACY_SCHEME
        ));
    }
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let registry = scope.server.registry();
    let other = registry.resource_for_kind(group, version, kind).and_then(|other| schema::builtin(&other.schema));
    let unreadable = other.and_then(|schema| schema.decode(value.to_string().as_bytes()).err());
    Some(unreadable.map_or_else(|| body::wrong_kind_error(scope, kind, api_version), |error| error.to_string()))
}

/// Handles server-side apply.
async fn apply(scope: &RequestScope<'_>, part: WriteTarget) -> Result<WriteOutcome, Status> {
    let options = WriteOptions::parse(scope.query, "PatchOptions", Some(true))?;
    let input = repeatable(scope);
    let before = input.as_ref().and_then(|_| scope.stored().ok());
    if let (Some(input), Some(stored)) = (&input, &before)
        && scope.server.idle_applies().has(stored.revision(), input)
    {
        return Ok(WriteOutcome::Stored { stored: stored.clone(), created: false });
    }
    let create = part == WriteTarget::Whole;
    let rules = UpdateOptions { dry_run: options.dry_run, create, ..UpdateOptions::default() };
    let force = options.force.unwrap_or(false);
    let written = write::guaranteed_update(scope, part, &rules, &mut |old| {
        let mut new = field_manager::apply_body(scope, old, &options.field_manager, force)?;
        if old.is_none() && !metadata::uid(&new).is_empty() {
            let uid = metadata::uid(&new);
            let why =
                format!("uid mismatch: the provided object specified uid {uid}, and no existing object was found");
            return Err(Status::conflict(scope.group_resource(), &scope.path.name, &why));
        }
        object_lifecycle::ensure_namespace(&mut new, &scope.path.namespace)?;
        object_lifecycle::check_name(&new, &scope.path.name)?;
        Ok(new)
    })
    .await?;
    if let (Some(input), Some(before), WriteOutcome::Stored { stored, .. }) = (input, before, &written)
        && stored.revision() == before.revision()
        && !scope.has_warnings()
    {
        scope.server.idle_applies().add(stored.revision(), input);
    }
    Ok(written)
}

/// Returns the input of an apply whose outcome depends on nothing but this and the stored object; `None` for kinds
/// whose updates are admitted by the look of other objects, and where webhooks or policies are asked.
fn repeatable(scope: &RequestScope<'_>) -> Option<ApplyInput> {
    let by_others = scope.kind.group.is_empty() && matches!(&*scope.kind.plural, "pods" | "services");
    if by_others || scope.webhook().is_some() || scope.server.admission().is_some() {
        return None;
    }
    Some(ApplyInput {
        kind: scope.kind.clone(),
        subresource: scope.path.subresource.clone(),
        query: scope.request.query.clone(),
        content_type: scope.request.header(CONTENT_TYPE).to_owned(),
        user: scope.parsed.user.name.clone(),
        body: scope.request.body.clone(),
    })
}

/// Checks that the content type of a PATCH is one of the patch formats.
pub(crate) fn check_content_type(scope: &RequestScope<'_>) -> Result<(), Status> {
    let content_type = scope.request.header(CONTENT_TYPE);
    let content_type = content_type.split(';').next().unwrap_or_default().trim();
    let supported = scope.kind.patch_types();
    if supported.contains(&content_type) {
        return Ok(());
    }
    if !scope.kind.is_routed() {
        return Err(Status::unsupported_media_type(supported));
    }
    Err(Status::failure(415, "UnsupportedMediaType", "415: Unsupported Media Type").with_details(Details::default()))
}
