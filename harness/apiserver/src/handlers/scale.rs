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
use crate::patch::{PatchType, apply};
use crate::{metadata, object_lifecycle, printers, schema};

use crate::json::fields::str_field;
use crate::request::Reply;
use crate::status::{GroupResource, Status};
use crate::subresources::scale;

const SCALE_SCHEMA: &str = "io.k8s.api.autoscaling.v1.Scale";

pub(super) async fn handle(scope: &RequestScope<'_>, verb: &str) -> Result<Reply, Status> {
    let negotiated = reply::negotiate(scope)?;
    if verb == "get" {
        let object = scope.current_value(&*scope.stored()?).await?;
        let shown = scale::shown_scale(&object, scope.scale_paths().as_ref())?;
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
        let wanted = wanted(&scale::current_scale(old, scope.scale_paths().as_ref())?)?;
        let uid = metadata::uid(&wanted);
        let present = metadata::uid(old);
        if !uid.is_empty() && uid != present {
            if verb == "update" {
                return Err(write::uid_mismatch(scope, uid, present, options.dry_run));
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
    // Upstream reads the body when it has found the object.
    if scope.server.get(&scope.resource, &scope.path.namespace, &scope.path.name).is_none() {
        return Err(scope.not_found(&scope.path.name));
    }
    let (scale, again) = field_manager::decode_apply_body(scope)?;
    let kind = str_field(&scale, "kind");
    let version = str_field(&scale, "apiVersion");
    if kind != "Scale" || version != "autoscaling/v1" {
        let why = format!("invalid object type: {}", apply::shown_kind(&scale));
        return Err(Status::bad_request(why));
    }
    let schema = schema::builtin(SCALE_SCHEMA).ok_or_else(Status::unknown_resource)?;
    apply::check_fit(&schema, &scale)?;
    field_manager::report_duplicate_keys(scope, again)?;
    let paths = scope.scale_paths().unwrap_or_default();
    let mut config = json!({
        "apiVersion": scope.kind.api_version(), "kind": scope.kind.kind, "metadata": {"name": scope.path.name},
    });
    if !metadata::namespace(&scale).is_empty() {
        config["metadata"]["namespace"] = scope.path.namespace.as_str().into();
    }
    if let Some(replicas) = scale.pointer("/spec/replicas") {
        scale::set_replicas(&mut config, &paths, replicas.clone());
    }
    let written = write::guaranteed_update(scope, WriteTarget::Whole, &rules, &mut |old| {
        let old = old.ok_or_else(|| scope.not_found(&scope.path.name))?;
        let force = options.force.unwrap_or(false);
        let before = with_owned_replicas(scope, old)?;
        let mut new = field_manager::apply_config(scope, Some(&before), config.clone(), &options.field_manager, force)
            .map_err(|refusal| in_terms_of_scale(scope, refusal))?;
        if replicas_are_owned(scope, old) && !replicas_are_owned(scope, &new) {
            // The last owner gave up the field: a Scale without replicas means zero, not the default.
            scale::set_replicas(&mut new, &paths, 0.into());
        }
        drop_scale_entry_times(&mut new);
        let mut wanted = apply::merged(&schema, &scale_of(scope, &new)?, &scale)?;
        object_lifecycle::ensure_namespace(&mut wanted, &scope.path.namespace)?;
        object_lifecycle::check_name(&wanted, &scope.path.name)?;
        scale::check_replicas(wanted.pointer("/spec/replicas"), scope.scale_paths().as_ref())?;
        let errors = scale::validate(&wanted);
        // For custom resources, their own validation refuses bad replicas.
        if errors.is_empty() || scope.scale_paths().is_some() {
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
        write::dedup_owners(scope, &mut body, false);
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
        let mut patched = crate::patch::apply_patch(patch_type, &schema, present.clone(), body, validation)?;
        patched.warnings.into_iter().for_each(|warning| scope.warn(warning));
        object_lifecycle::ensure_namespace(&mut patched.value, &scope.path.namespace)?;
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
    let paths = scope.scale_paths();
    let replicas = scale::current_scale(&object, paths.as_ref())?.pointer("/spec/replicas").cloned();
    if replicas_are_owned(scope, &object) {
        return Ok(object);
    }
    let Some(replicas) = replicas else { return Ok(object) };
    if let Some(paths) = &paths {
        // Missing replicas are the smallest number, which is owned as any other.
        scale::set_replicas(&mut object, paths, replicas);
    }
    let mut fields = json!({});
    for step in replicas_path(scope).rsplit('.').filter(|step| !step.is_empty()) {
        fields = json!({ (format!("f:{step}")): fields });
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

/// Returns the Scale of an object that was written.
fn scale_of(scope: &RequestScope<'_>, object: &Value) -> Result<Value, Status> {
    scale::scale_of(object, scope.scale_paths().as_ref()).map_err(|error| Status::bad_request(error.to_string()))
}

/// Replaces the owners' API version and the path of the replicas in conflicts by the Scale's, as upstream.
fn in_terms_of_scale(scope: &RequestScope<'_>, mut refusal: Status) -> Status {
    let version = format!("using {}", scope.kind.api_version());
    let path = replicas_path(scope);
    let own = apply::shown_kind(&json!({"apiVersion": scope.kind.api_version(), "kind": scope.kind.kind}));
    let reword = |text: &mut String| {
        *text = text.replace(&version, "using autoscaling/v1").replace(&path, ".spec.replicas");
        *text = text.replace(&own, "autoscaling/v1, Kind=Scale");
    };
    reword(&mut refusal.message);
    for cause in refusal.details.iter_mut().flat_map(|details| &mut details.causes) {
        reword(&mut cause.message);
        reword(&mut cause.field);
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

#[cfg(test)]
mod tests {
    use http::{HeaderValue, Method};

    use super::*;
    use crate::ApiServerConfig;
    use crate::clock::Clock;
    use crate::request::{ApiRequest, ReplyBody};
    use crate::server::ApiServer;

    const WEB: &str = "/apis/ex.io/v1/webs/w/scale";
    const APPLY: &str = "application/apply-patch+yaml";
    const MERGE: &str = "application/merge-patch+json";

    async fn send(server: &ApiServer, method: Method, path: &str, media: &'static str, body: Value) -> (u16, Value) {
        let mut request = ApiRequest::new(method, path);
        request.headers.insert(CONTENT_TYPE, HeaderValue::from_static(media));
        request.body = if body.is_null() { bytes::Bytes::new() } else { body.to_string().into() };
        let ReplyBody::Full(bytes) = server.handle(request).await.body else { panic!("no stream was asked for") };
        let body: Value = serde_json::from_slice(&bytes).expect("JSON");
        (u16::try_from(body["code"].as_u64().unwrap_or(200)).expect("a code"), body)
    }

    /// A server with a custom resource that has these fields.
    async fn server_with(fields: Value) -> ApiServer {
        let server = ApiServer::new(ApiServerConfig::new(Clock::wall()));
        let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        let definition = json!({"metadata": {"name": "webs.ex.io"}, "spec": {"group": "ex.io", "scope": "Cluster",
            "names": {"plural": "webs", "kind": "Web"}, "versions": [{"name": "v1", "served": true, "storage": true,
                "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.size.count",
                    "statusReplicasPath": ".status.count"}},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": open, "status": open}}}}]}});
        let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        assert_eq!(send(&server, Method::POST, definitions, "application/json", definition).await.0, 200);
        let mut web = json!({"apiVersion": "ex.io/v1", "kind": "Web", "metadata": {"name": "w"}});
        for (field, value) in fields.as_object().into_iter().flatten() {
            web[field.as_str()] = value.clone();
        }
        let (code, created) = send(&server, Method::POST, "/apis/ex.io/v1/webs", "application/json", web).await;
        assert_eq!(code, 200, "{created}");
        server
    }

    fn applied(spec: Value) -> Value {
        json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "w"}, "spec": spec})
    }

    /// `scaleUpdatedObjectInfo` of `pkg/registry/customresource/etcd.go` in `apiextensions-apiserver`.
    #[tokio::test]
    async fn replicas_that_are_missing_are_written() {
        let missing = "the spec replicas field \".spec.size.count\" cannot be empty";
        let server = server_with(json!({})).await;
        let (code, read) = send(&server, Method::GET, WEB, MERGE, Value::Null).await;
        let why = "Internal error occurred: the spec replicas field \".spec.size.count\" does not exist";
        assert_eq!((code, read["message"].as_str()), (500, Some(why)));
        let (code, refused) = send(&server, Method::PATCH, WEB, MERGE, json!({"metadata": {"labels": {}}})).await;
        assert_eq!((code, refused["message"].as_str()), (400, Some(missing)));
        let path = format!("{WEB}?fieldManager=m");
        let (code, refused) = send(&server, Method::PATCH, &path, APPLY, applied(json!({}))).await;
        assert_eq!((code, refused["message"].as_str()), (400, Some(missing)), "{refused}");
        let (code, refused) = send(&server, Method::PATCH, &path, APPLY, applied(json!({"replicas": 2}))).await;
        let why = "Apply failed with 1 conflict: conflict with \"before-first-apply\" with subresource \"scale\" using autoscaling/v1: .spec.replicas";
        assert_eq!((code, refused["message"].as_str()), (409, Some(why)));
        let forced = format!("{path}&force=true");
        let (code, scale) = send(&server, Method::PATCH, &forced, APPLY, applied(json!({"replicas": 2}))).await;
        assert_eq!((code, &scale["spec"]), (200, &json!({"replicas": 2})), "{scale}");
        let (code, scale) = send(&server, Method::PATCH, &path, APPLY, applied(json!({}))).await;
        assert_eq!((code, &scale["spec"]), (200, &json!({})), "{scale}");
        let (_, web) = send(&server, Method::GET, "/apis/ex.io/v1/webs/w", MERGE, Value::Null).await;
        assert_eq!(web["spec"], json!({"size": {"count": 0}}));
    }

    #[tokio::test]
    async fn a_merge_patch_and_a_put_set_missing_replicas() {
        let server = server_with(json!({})).await;
        let (code, scale) = send(&server, Method::PATCH, WEB, MERGE, json!({"spec": {"replicas": 3}})).await;
        assert_eq!((code, &scale["spec"]), (200, &json!({"replicas": 3})), "{scale}");
        let server = server_with(json!({})).await;
        let (code, scale) = send(&server, Method::PUT, WEB, "application/json", applied(json!({"replicas": 4}))).await;
        assert_eq!((code, &scale["spec"]), (200, &json!({"replicas": 4})), "{scale}");
        let operations = json!([{"op": "test", "path": "/spec/replicas", "value": 4},
            {"op": "replace", "path": "/spec/replicas", "value": 5}]);
        let (code, scale) = send(&server, Method::PATCH, WEB, "application/json-patch+json", operations).await;
        assert_eq!((code, &scale["spec"]), (200, &json!({"replicas": 5})), "{scale}");
    }

    /// `applyPatch` in `staging/src/k8s.io/apiserver/pkg/endpoints/handlers/patch.go`.
    #[tokio::test]
    async fn a_patch_does_not_move_a_scale_to_another_namespace() {
        let server = ApiServer::new(ApiServerConfig::new(Clock::wall()));
        let web = json!({"metadata": {"name": "w"}, "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": {
            "metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}}});
        let deployments = "/apis/apps/v1/namespaces/default/deployments";
        assert_eq!(send(&server, Method::POST, deployments, "application/json", web).await.0, 200);
        let scale = format!("{deployments}/w/scale");
        let moved = json!({"metadata": {"namespace": "other"}});
        let why = "the namespace of the provided object does not match the namespace sent on the request";
        let (code, refused) = send(&server, Method::PATCH, &scale, MERGE, moved).await;
        assert_eq!((code, refused["message"].as_str()), (400, Some(why)));
        let none = json!({"metadata": {"namespace": null}, "spec": {"replicas": 2}});
        let (code, scale) = send(&server, Method::PATCH, &scale, MERGE, none).await;
        assert_eq!((code, &scale["spec"]["replicas"]), (200, &json!(2)), "{scale}");
    }
}
