//! The `scale` subresource: reads and writes a `Scale` in place of the object. Follows
//! `pkg/registry/apps/deployment/storage/storage.go` of Kubernetes 1.36.

use http::header::CONTENT_TYPE;

use super::options::WriteOptions;
use super::reply::encode;
use super::request_scope::RequestScope;
use super::write_outcome::{UpdateOptions, WriteOutcome, WriteTarget};
use super::{body, field_manager, patch, reply, write};
use crate::json::{Value, json};
use crate::managedfields::{self, BEFORE_FIRST_APPLY};
use crate::negotiate::{Negotiation, Representation};
use crate::patch::PatchType;
use crate::{metadata, object_lifecycle, printers, schema};

use crate::json::fields::str_field;
use crate::request::Reply;
use crate::status::{GroupResource, Status};
use crate::subresources::scale;

const SCALE_SCHEMA: &str = "io.k8s.api.autoscaling.v1.Scale";

pub(super) async fn handle(scope: &RequestScope<'_>, verb: &str) -> Result<Reply, Status> {
    let negotiated = reply::negotiate(scope)?;
    if verb == "get" {
        let shown = scale_of(scope, &*scope.current_value(&*scope.stored()?).await?)?;
        return show_scale(scope, &shown, negotiated);
    }
    if verb == "patch" && scope.request.header(CONTENT_TYPE).starts_with("application/apply-patch") {
        return show_scale(scope, &apply_scale(scope).await?, negotiated);
    }
    let (options, wanted) = scale_transform(scope, verb)?;
    let rules = UpdateOptions { dry_run: options.dry_run, ..UpdateOptions::default() };
    let manager = scope.manager(&options.field_manager);
    let written = write::guaranteed_update(scope, WriteTarget::Whole, &rules, &mut |old| {
        let old = old.ok_or_else(|| scope.not_found(&scope.path.name))?;
        let wanted = wanted(&current_scale(scope, old)?)?;
        let uid = metadata::uid(&wanted);
        let present = metadata::uid(old);
        if !uid.is_empty() && uid != present {
            if verb == "update" {
                return Err(write::uid_mismatch(scope, uid, present));
            }
            let why = format!("Precondition failed: UID in precondition: {uid}, UID in object meta: {present}");
            let scales = format!("{}/scale", scope.kind.plural);
            let resource = GroupResource::new(&scope.kind.group, &scales);
            return Err(Status::conflict(resource, &scope.path.name, &why));
        }
        let mut new = old.clone();
        scale::apply(&mut new, &wanted, scope.scale_paths().as_ref())?;
        // A Scale without a resourceVersion applies to any version, even if updates of the kind must set one.
        if metadata::resource_version(&new).is_empty() {
            let version = metadata::resource_version(old).to_owned();
            metadata::fields_mut(&mut new).insert("resourceVersion", version.into());
        }
        if replicas_are_owned(scope, old) {
            if is_scaled_to_zero(scope, old, &wanted) {
                // Go omits a zero from a Scale, so its owners lose the field.
                managedfields::remove_ownership(&mut new, &["spec", "replicas"]);
            } else {
                new = field_manager::update_managed_fields(scope, Some(old), new, &manager);
                drop_scale_entry_times(&mut new);
            }
        }
        Ok(new)
    })
    .await?;
    let shown = match &written {
        WriteOutcome::Stored { stored, .. } => scale_of(scope, &scope.value(stored))?,
        WriteOutcome::Transient { object, .. } => scale_of(scope, object)?,
    };
    show_scale(scope, &shown, negotiated)
}

fn show_scale(scope: &RequestScope<'_>, shown: &Value, negotiated: Negotiation) -> Result<Reply, Status> {
    Ok(match negotiated.transform {
        Some((Representation::Table, version)) => {
            let printer = printers::scale_printer(scope.kind.is_unstructured());
            let rendering = reply::rendering(scope, version)?;
            encode(200, &printers::table_of_object(&printer, shown, &rendering, true), negotiated.media)
        }
        Some((Representation::PartialObjectMetadata, version)) => {
            encode(200, &printers::partial_metadata(shown, version), negotiated.media)
        }
        _ => encode(200, shown, negotiated.media),
    })
}

/// Handles server-side apply of a Scale: the manager comes to own the field behind `spec.replicas`, and no other.
async fn apply_scale(scope: &RequestScope<'_>) -> Result<Value, Status> {
    let options = WriteOptions::parse(scope.query, "PatchOptions", Some(true))?;
    let rules = UpdateOptions { dry_run: options.dry_run, ..UpdateOptions::default() };
    let (scale, again) = field_manager::decode_apply_body(scope)?;
    let kind = str_field(&scale, "kind");
    let version = str_field(&scale, "apiVersion");
    if kind != "Scale" || version != "autoscaling/v1" {
        let slash = if version.contains('/') { "" } else { "/" };
        let why = format!("invalid object type: {slash}{version}, Kind={kind}");
        return Err(Status::bad_request(why));
    }
    if !metadata::name(&scale).is_empty() {
        object_lifecycle::check_name(&scale, &scope.path.name)?;
    }
    field_manager::report_duplicate_keys(scope, again)?;
    let paths = scope.scale_paths().unwrap_or_default();
    let mut config = json!({
        "apiVersion": scope.kind.api_version(), "kind": scope.kind.kind, "metadata": {"name": scope.path.name},
    });
    if let Some(replicas) = scale.pointer("/spec/replicas") {
        scale::set_replicas(&mut config, &paths, replicas.clone());
    }
    let written = write::guaranteed_update(scope, WriteTarget::Whole, &rules, &mut |old| {
        let old = old.ok_or_else(|| scope.not_found(&scope.path.name))?;
        let force = options.force.unwrap_or(false);
        let before = with_owned_replicas(scope, old)?;
        let mut new = field_manager::apply_config(scope, Some(&before), config.clone(), &options.field_manager, force)
            .map_err(|refusal| with_scale_api_version(refusal, &scope.kind.api_version()))?;
        if scope.scale_paths().is_none() && replicas_are_owned(scope, old) && !replicas_are_owned(scope, &new) {
            // The last owner gave up the field: a Scale without replicas means zero, not the default.
            new["spec"]["replicas"] = 0.into();
        }
        drop_scale_entry_times(&mut new);
        let errors = scale::validate(&scale_of(scope, &new)?);
        if errors.is_empty() {
            return Ok(new);
        }
        Err(Status::invalid("autoscaling", "Scale", &scope.path.name, &errors))
    })
    .await?;
    match &written {
        WriteOutcome::Stored { stored, .. } => scale_of(scope, &scope.value(stored)),
        WriteOutcome::Transient { object, .. } => scale_of(scope, object),
    }
}

/// Returns the Scale that a write starts from; missing replicas of a custom resource count as zero.
fn current_scale(scope: &RequestScope<'_>, object: &Value) -> Result<Value, Status> {
    scale_of(scope, object).or_else(|refusal| {
        let paths = scope.scale_paths().ok_or(refusal)?;
        let mut filled = object.clone();
        scale::set_replicas(&mut filled, &paths, 0.into());
        scale_of(scope, &filled)
    })
}

/// Returns a function that makes the desired Scale from the current one.
#[expect(clippy::type_complexity, reason = "a closure over the request's body")]
fn scale_transform<'s>(
    scope: &'s RequestScope<'_>,
    verb: &str,
) -> Result<(WriteOptions, Box<dyn Fn(&Value) -> Result<Value, Status> + Send + Sync + 's>), Status> {
    if verb == "update" {
        let options = WriteOptions::parse(scope.query, "UpdateOptions", None)?;
        let schema = schema::builtin(SCALE_SCHEMA);
        let mut body = body::decode_kind(scope, &options, "Scale", "autoscaling", "v1", schema)?;
        object_lifecycle::ensure_namespace(&mut body, &scope.path.namespace)?;
        object_lifecycle::check_name(&body, &scope.path.name)?;
        return Ok((options, Box::new(move |_| Ok(body.clone()))));
    }
    patch::check_content_type(scope)?;
    let content_type = scope.request.header(CONTENT_TYPE);
    let patch_type = match content_type.split(';').next().unwrap_or_default().trim() {
        "application/json-patch+json" => PatchType::Json,
        "application/merge-patch+json" => PatchType::Merge,
        _ => PatchType::Strategic,
    };
    let options = WriteOptions::parse(scope.query, "PatchOptions", Some(false))?;
    let validation = options.field_validation;
    let schema = schema::builtin(SCALE_SCHEMA).ok_or_else(Status::unknown_resource)?;
    let patch = move |present: &Value| {
        let body = &scope.request.body;
        let patched = crate::patch::apply_patch(patch_type, &schema, present.clone(), body, validation)?;
        patched.warnings.into_iter().for_each(|warning| scope.warn(warning));
        object_lifecycle::check_name(&patched.value, &scope.path.name)?;
        Ok(patched.value)
    };
    Ok((options, Box::new(patch)))
}

/// Returns true if a built-in workload is scaled from some replicas to zero.
fn is_scaled_to_zero(scope: &RequestScope<'_>, old: &Value, wanted: &Value) -> bool {
    let count = |object: &Value| object.pointer("/spec/replicas").and_then(Value::as_i64).unwrap_or(0);
    scope.scale_paths().is_none() && count(old) != 0 && count(wanted) == 0
}

/// Returns the object that an apply of a Scale starts from: replicas without an owner get `before-first-apply`.
fn with_owned_replicas(scope: &RequestScope<'_>, object: &Value) -> Result<Value, Status> {
    let mut object = object.clone();
    if replicas_are_owned(scope, &object) || scale_of(scope, &object)?.pointer("/spec/replicas").is_none() {
        return Ok(object);
    }
    let mut fields = json!({});
    for step in replicas_path(scope).rsplit('.').filter(|step| !step.is_empty()) {
        fields = json!({format!("f:{step}"): fields});
    }
    let entry = json!({
        "manager": BEFORE_FIRST_APPLY, "operation": "Update", "apiVersion": scope.kind.api_version(),
        "subresource": "scale", "fieldsType": "FieldsV1", "fieldsV1": fields,
    });
    let entries = metadata::fields_mut(&mut object).entry("managedFields").or_insert_with(|| json!([]));
    entries.as_array_mut().into_iter().for_each(|entries| entries.push(entry.clone()));
    Ok(object)
}

/// Returns the path of the replicas behind the Scale.
fn replicas_path(scope: &RequestScope<'_>) -> String {
    scope.scale_paths().map_or_else(|| ".spec.replicas".to_owned(), |paths| paths.spec_replicas)
}

/// Returns true if the field behind the Scale has an owner; without one, scaling does not create ownership.
fn replicas_are_owned(scope: &RequestScope<'_>, object: &Value) -> bool {
    let pointer = replicas_path(scope).replace('.', "/f:");
    let entries = object.pointer("/metadata/managedFields").and_then(Value::as_array);
    entries.is_some_and(|entries| entries.iter().any(|entry| entry["fieldsV1"].pointer(&pointer).is_some()))
}

fn scale_of(scope: &RequestScope<'_>, object: &Value) -> Result<Value, Status> {
    scale::scale_of(object, scope.scale_paths().as_ref())
}

/// Replaces the owners' API version in conflicts by the Scale's, as upstream.
fn with_scale_api_version(mut refusal: Status, own_version: &str) -> Status {
    let reword = |text: &mut String| *text = text.replace(&format!("using {own_version}"), "using autoscaling/v1");
    reword(&mut refusal.message);
    if let Some(details) = &mut refusal.details {
        details.causes.iter_mut().for_each(|cause| reword(&mut cause.message));
    }
    refusal
}

/// Removes the time from entries gained through a Scale, and sorts entries without a time before the others of their
/// operation. Upstream loses the time when it translates the entries between the two kinds.
fn drop_scale_entry_times(object: &mut Value) {
    let Some(entries) = object.pointer_mut("/metadata/managedFields").and_then(Value::as_array_mut) else { return };
    for entry in entries.iter_mut().filter(|entry| entry["subresource"] == "scale") {
        if let Some(entry) = entry.as_object_mut() {
            entry.remove("time");
        }
    }
    entries.sort_by_key(|entry| (entry["operation"] != "Apply", entry.get("time").is_some()));
}
