//! Handlers of subresources that have logic of their own: eviction, binding, finalize and others.
//! See `storage.go` and `eviction.go` in `pkg/registry/core/pod/storage`, and `pkg/registry/core/namespace/storage`.

use std::time::Duration;

use super::options::{DeleteOptions, WriteOptions};
use super::reply::ReplyContent;
use super::request_scope::RequestScope;
use super::write_outcome::{UpdateOptions, WriteOutcome, WriteTarget};
use super::{admission, body, delete, field_manager, log, patch, proxy, read, reply, scale, token, write};
use crate::json::Value;
use crate::metadata;
use crate::object_lifecycle;
use crate::request::Reply;
use crate::status::Status;
use crate::subresources::{binding, eviction};
use crate::version::KubernetesVersion;

/// Field manager of an evicted pod's changes to a budget's status.
const EVICTION_MANAGER: &str = "kube-apiserver";

/// Handles subresources other than `status`.
pub(crate) async fn dispatch(scope: &RequestScope<'_>, verb: &str) -> Result<Reply, Status> {
    match (&*scope.path.subresource, verb) {
        ("eviction", "create") => evict(scope).await,
        ("binding", "create") => bind(scope, Some(&scope.path.name)).await,
        ("scale", _) => scale::handle(scope, verb).await,
        ("finalize", "update") => write::respond(scope, finalize(scope)).await,
        ("log", "get") => log::get(scope),
        ("token", "create") => token::issue(scope).await,
        ("ephemeralcontainers" | "resize" | "approval", "get") => read::get(scope).await,
        ("ephemeralcontainers" | "resize" | "approval", "update") => {
            write::respond(scope, write::update(scope, WriteTarget::Subresource)).await
        }
        ("ephemeralcontainers" | "resize" | "approval", "patch") => {
            patch::check_content_type(scope)?;
            write::respond(scope, patch::object(scope, WriteTarget::Subresource)).await
        }
        ("exec" | "attach" | "portforward", _) => {
            admission::admit_connection(scope).await?;
            proxy::upgrade(scope)
        }
        (subresource, _) => {
            scope.stored()?;
            tracing::info!(path = scope.request.path, subresource, "this subresource is not served");
            Err(Status::method_not_allowed())
        }
    }
}

async fn evict(scope: &RequestScope<'_>) -> Result<Reply, Status> {
    let negotiated = reply::negotiate_transient(scope)?;
    WriteOptions::parse(scope.query, "CreateOptions", None)?;
    let mut body = body::decode_builtin(scope, "policy/v1", "Eviction", "io.k8s.api.policy.v1.Eviction")?;
    write::dedup_owners(scope, &mut body, false);
    object_lifecycle::ensure_namespace(&mut body, &scope.path.namespace)?;
    let dry_run: Vec<String> = scope.query.all("dryRun").map(str::to_owned).collect();
    let body = admission::admit_body(scope, body, !dry_run.is_empty()).await?;
    let outcome = eviction::evict(scope, &scope.path.namespace, &scope.path.name, &body, &dry_run).await?;
    let code = if outcome.code == 0 { 201 } else { outcome.code };
    reply::object(scope, code, ReplyContent::Status(&outcome), negotiated)
}

/// Handles POST of a Binding, to a pod (`name`) or to the old `bindings` collection.
pub(crate) async fn bind(scope: &RequestScope<'_>, name: Option<&str>) -> Result<Reply, Status> {
    let negotiated = reply::negotiate_transient(scope)?;
    let options = WriteOptions::parse(scope.query, "CreateOptions", None)?;
    let mut body = body::decode_builtin(scope, "v1", "Binding", "io.k8s.api.core.v1.Binding")?;
    write::dedup_owners(scope, &mut body, false);
    if name.is_none() {
        object_lifecycle::wipe_system_fields(&mut body);
    }
    object_lifecycle::ensure_namespace(&mut body, &scope.path.namespace)?;
    binding::check(&body, name)?;
    binding::admit(&mut body, scope.server);
    let pod_name = metadata::name(&body).to_owned();
    if pod_name.is_empty() {
        return Err(Status::bad_request("Name parameter required."));
    }
    object_lifecycle::check_name_in_path(&pod_name)?;
    let body = admission::admit_body(scope, body, options.dry_run).await?;
    let pods = scope.scope_for("", "v1", "pods", &scope.path.namespace, &pod_name)?;
    let now = object_lifecycle::rfc3339(scope.server.clock().now());
    let rules = UpdateOptions { dry_run: options.dry_run, ..UpdateOptions::default() };
    write::raw_update(&pods, &rules, &mut |pod| binding::apply(pod, &body, &now, options.dry_run))?;
    let mut status = Status::success(crate::status::Details::default());
    status.details = None;
    status.code = 201;
    reply::object(scope, 201, ReplyContent::Status(&status), negotiated)
}

/// Handles PUT of `namespaces/…/finalize`, which changes everything except the status.
async fn finalize(scope: &RequestScope<'_>) -> Result<WriteOutcome, Status> {
    let options = WriteOptions::parse(scope.query, "UpdateOptions", None)?;
    let object = body::decode_object(scope, &options)?;
    object_lifecycle::check_name(&object, &scope.path.name)?;
    let rules = UpdateOptions { dry_run: options.dry_run, ..UpdateOptions::default() };
    let manager = scope.manager(&options.field_manager);
    write::guaranteed_update(scope, WriteTarget::Finalize, &rules, &mut |old| {
        let old = old.ok_or_else(|| scope.not_found(&scope.path.name))?;
        Ok(field_manager::update_managed_fields(scope, Some(old), object.clone(), &manager))
    })
    .await
}

impl eviction::EvictionBackend for RequestScope<'_> {
    fn pod(&self, namespace: &str, name: &str) -> Result<Value, Status> {
        let pods = self.scope_for("", "v1", "pods", namespace, name)?;
        Ok(pods.value(&*pods.stored()?))
    }

    fn update_pod_status(
        &self,
        namespace: &str,
        name: &str,
        change: &mut (dyn FnMut(&mut Value) -> Result<(), Status> + Send),
    ) -> Result<Value, Status> {
        let pods = self.scope_for("", "v1", "pods", namespace, name)?;
        let written = write::update_internally(&pods, WriteTarget::Status, &mut |old| {
            let mut new = old.cloned().ok_or_else(|| pods.not_found(name))?;
            change(&mut new)?;
            Ok(new)
        })?;
        Ok(written.value(&pods))
    }

    fn delete_pod(&self, namespace: &str, name: &str, options: &Value) -> Result<(), Status> {
        let pods = self.scope_for("", "v1", "pods", namespace, name)?;
        delete::delete_internally(&pods, namespace, name, &DeleteOptions::from_body(options)?)
    }

    fn budgets(&self, namespace: &str) -> Result<Vec<Value>, Status> {
        let budgets = self.scope_for("policy", "v1", "poddisruptionbudgets", namespace, "")?;
        let stored = self.server.list(&budgets.resource, Some(namespace));
        Ok(stored.iter().map(|stored| budgets.value(stored)).collect())
    }

    fn budget(&self, namespace: &str, name: &str) -> Result<Value, Status> {
        let budgets = self.scope_for("policy", "v1", "poddisruptionbudgets", namespace, name)?;
        Ok(budgets.value(&*budgets.stored()?))
    }

    fn update_budget_status(&self, namespace: &str, budget: Value) -> Result<(), Status> {
        let name = metadata::name(&budget).to_owned();
        let mut budgets = self.scope_for("policy", "v1", "poddisruptionbudgets", namespace, &name)?;
        "status".clone_into(&mut budgets.path.to_mut().subresource);
        let update = &mut |old: Option<&Value>| {
            Ok(field_manager::update_managed_fields(&budgets, old, budget.clone(), EVICTION_MANAGER))
        };
        write::update_internally(&budgets, WriteTarget::Status, update).map(|_| ())
    }

    fn kubernetes_version(&self) -> KubernetesVersion {
        self.server.config().kubernetes_version
    }

    fn now(&self) -> String {
        object_lifecycle::rfc3339(self.server.clock().now())
    }

    fn pause(&self, time: Duration) -> impl Future<Output = ()> + Send {
        let clock = self.server.clock().clone();
        async move { clock.sleep(time).await }
    }
}
