//! `pods/eviction`: deletes a pod if its disruption budget allows. Follows `pkg/registry/core/pod/storage/eviction.go`
//! of Kubernetes 1.36 and 1.37.
//!
//! The order of the steps is upstream's. Pods that are pending, finished or already being deleted are deleted without a
//! budget check. Otherwise the one matching budget is charged *before* the pod is marked and deleted, so a delete that
//! then fails leaves the budget charged until its claim expires after two minutes.

use std::future::Future;
use std::time::Duration;

use crate::field_errors::{ErrorList, FieldError, Path};
use crate::json::fields::{array_field, object_or_insert, str_field};
use crate::json::{Map, Value, json};
use crate::metadata;
use crate::registry::{conditions, label_selector};
use crate::status::{Details, GroupResource, Status};
use crate::version::KubernetesVersion;

/// Attempts at a step that fails with a conflict.
pub(crate) const ATTEMPTS: u32 = 20;

/// Server time between two attempts. Upstream adds up to 10% of jitter, omitted here to stay reproducible.
pub(crate) const RETRY_INTERVAL: Duration = Duration::from_millis(500);

/// Largest number of claims in a budget. More mean that its controller no longer confirms them.
pub(crate) const MAX_DISRUPTED_PODS: usize = 2000;

/// `Retry-After` while a budget is being processed.
const RETRY_AFTER_SECONDS: i32 = 10;

const REFUSED: &str = "Cannot evict pod as it would violate the pod's disruption budget.";

/// The server operations that an eviction needs. Each method is one atomic step on the store.
pub(crate) trait EvictionBackend {
    /// Returns the pod, or 404.
    fn pod(&self, namespace: &str, name: &str) -> Result<Value, Status>;

    /// Reads the latest pod, changes it with `change`, and writes it as a status update. Returns the new pod.
    fn update_pod_status(
        &self,
        namespace: &str,
        name: &str,
        change: &mut (dyn FnMut(&mut Value) -> Result<(), Status> + Send),
    ) -> Result<Value, Status>;

    /// Deletes the pod like a DELETE request with these `DeleteOptions`.
    fn delete_pod(&self, namespace: &str, name: &str, options: &Value) -> Result<(), Status>;

    /// Returns all budgets of the namespace by name.
    fn budgets(&self, namespace: &str) -> Result<Vec<Value>, Status>;

    /// Returns one budget, or 404.
    fn budget(&self, namespace: &str, name: &str) -> Result<Value, Status>;

    /// Replaces the status of a budget; 409 unless its resourceVersion is the current one.
    fn update_budget_status(&self, namespace: &str, budget: Value) -> Result<(), Status>;

    /// Returns the release of Kubernetes that the server behaves as.
    fn kubernetes_version(&self) -> KubernetesVersion;

    /// Returns server time as RFC 3339 with whole seconds.
    fn now(&self) -> String;

    /// Waits in server time.
    fn pause(&self, time: Duration) -> impl Future<Output = ()> + Send;
}

/// Evicts the pod `name` by the `Eviction` in `body`; `dry_run` holds the values of the request's `dryRun`.
///
/// # Errors
/// 429 if the budget forbids it, 400 or 422 for a bad body, 404 without the pod, 409 for failed preconditions, 500 if
/// several budgets match.
pub(crate) async fn evict<B: EvictionBackend + Sync>(
    backend: &B,
    namespace: &str,
    name: &str,
    body: &Value,
    dry_run: &[String],
) -> Result<Status, Status> {
    let request = EvictionRequest::read(namespace, name, body, dry_run)?;
    let Some(pod) = delete_without_budget(backend, &request).await? else { return Ok(created_status()) };
    let charged = charge_budget(backend, &request, &pod).await?;
    let mut options = request.options.clone();
    if charged.pin_version {
        set_resource_version(&mut options, resource_version(&pod));
    }
    match mark_and_delete(backend, &request, options) {
        Err(status) if status.code == 409 && charged.pin_version && !request.client_pins_version => {
            // The pod changed after it was found unready: the client has to try again.
            Err(budget_not_observed(&charged.budget))
        }
        Err(status) => Err(status),
        Ok(()) => Ok(created_status()),
    }
}

fn created_status() -> Status {
    let mut status = Status::success(Details::default());
    status.details = None;
    status.code = 201;
    status
}

struct EvictionRequest<'a> {
    namespace: &'a str,
    name: &'a str,
    /// The client's `DeleteOptions`, with the request's dry run.
    options: Value,
    dry_run: bool,
    client_pins_version: bool,
}

impl<'a> EvictionRequest<'a> {
    fn read(namespace: &'a str, name: &'a str, body: &Value, dry_run: &[String]) -> Result<Self, Status> {
        if metadata::name(body) != name {
            return Err(Status::bad_request("name in URL does not match name in Eviction object"));
        }
        let given = body.get("deleteOptions").filter(|o| o.is_object());
        if given.and_then(|o| o.get("ignoreStoreReadErrorWithClusterBreakingPotential")) == Some(&Value::Bool(true)) {
            let options = Path::new("deleteOptions");
            let path = options.child("ignoreStoreReadErrorWithClusterBreakingPotential");
            let detail = "can not be set for pod eviction, try after removing the option";
            let errors = ErrorList::from(FieldError::invalid(&path, true, detail));
            return Err(Status::invalid("policy", "Eviction", name, &errors));
        }
        let mut options = given.cloned().unwrap_or_else(|| Value::Object(Map::new()));
        let in_body: Vec<String> =
            array_field(&options, "dryRun").iter().filter_map(|v| v.as_str().map(str::to_owned)).collect();
        if in_body.is_empty() {
            if !dry_run.is_empty() {
                options["dryRun"] = dry_run.into();
            }
        } else if !dry_run.is_empty() && dry_run != in_body {
            let message = format!(
                "Non-matching dry-run options in request and content: [{}] and [{}]",
                dry_run.join(" "),
                in_body.join(" ")
            );
            let mut status = Status::failure(500, "", message);
            status.details = None;
            return Err(status);
        }
        Ok(Self {
            namespace,
            name,
            dry_run: array_field(&options, "dryRun").iter().any(|v| v == "All"),
            client_pins_version: pinned_version(&options).is_some(),
            options,
        })
    }
}

/// Deletes the pod if no budget needs to be checked; otherwise returns the pod.
async fn delete_without_budget<B: EvictionBackend + Sync>(
    backend: &B,
    request: &EvictionRequest<'_>,
) -> Result<Option<Value>, Status> {
    let mut attempt = 1;
    loop {
        let pod = backend.pod(request.namespace, request.name)?;
        if !can_ignore_budget(&pod) {
            return Ok(Some(pod));
        }
        let mut options = request.options.clone();
        if !request.client_pins_version && phase(&pod) == "Pending" && !metadata::is_deleted(&pod) {
            // The pod may become ready in between; then a budget has to be checked.
            set_resource_version(&mut options, resource_version(&pod));
        }
        match mark_and_delete(backend, request, options) {
            Ok(()) => return Ok(None),
            Err(status) if status.code != 409 || request.client_pins_version || attempt == ATTEMPTS => {
                return Err(status);
            }
            Err(_) => backend.pause(RETRY_INTERVAL).await,
        }
        attempt += 1;
    }
}

/// The outcome of the budget check.
struct BudgetDecision {
    budget: String,
    /// The pod may be deleted because it is unready, but only in this version.
    pin_version: bool,
}

async fn charge_budget<B: EvictionBackend + Sync>(
    backend: &B,
    request: &EvictionRequest<'_>,
    pod: &Value,
) -> Result<BudgetDecision, Status> {
    let labels = pod.get("metadata").and_then(|m| m.get("labels"));
    let mut matching = backend.budgets(request.namespace)?;
    matching.retain(|b| label_selector::matches(b.get("spec").and_then(|s| s.get("selector")), labels) == Some(true));
    if matching.len() > 1 {
        let message =
            "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
        return Err(Status::failure(500, "", message));
    }
    let Some(mut budget) = matching.pop() else {
        return Ok(BudgetDecision { budget: String::new(), pin_version: false });
    };
    let name = metadata::name(&budget).to_owned();
    if !is_ready(pod) && can_evict_unready(&budget) {
        return Ok(BudgetDecision { budget: name, pin_version: true });
    }
    let mut attempt = 1;
    loop {
        let charged = check_and_decrement(&budget, request.name, &backend.now(), backend.kubernetes_version())?;
        if request.dry_run {
            break;
        }
        match backend.update_budget_status(request.namespace, charged) {
            Ok(()) => break,
            Err(status) if status.code != 409 || attempt == ATTEMPTS => return Err(status),
            Err(_) => backend.pause(RETRY_INTERVAL).await,
        }
        attempt += 1;
        budget = backend.budget(request.namespace, &name)?;
    }
    Ok(BudgetDecision { budget: name, pin_version: false })
}

/// Returns true if an unready pod may be deleted without charging the budget.
fn can_evict_unready(budget: &Value) -> bool {
    let policy = budget.get("spec").map_or("", |s| str_field(s, "unhealthyPodEvictionPolicy"));
    if policy == "AlwaysAllow" {
        return true;
    }
    let current = count(budget, "currentHealthy");
    let desired = count(budget, "desiredHealthy");
    current >= desired && desired > 0
}

/// Returns the budget with one allowed disruption fewer and the pod claimed, or the reason why none is left.
fn check_and_decrement(budget: &Value, pod: &str, now: &str, version: KubernetesVersion) -> Result<Value, Status> {
    let name = metadata::name(budget);
    if count(budget, "observedGeneration") < metadata::generation(budget) {
        return Err(budget_not_observed(name));
    }
    let allowed = count(budget, "disruptionsAllowed");
    if allowed < 0 {
        let why = "pdb disruptions allowed is negative";
        return Err(eviction_forbidden(name, why, why, version));
    }
    let claims = budget.pointer("/status/disruptedPods").and_then(Value::as_object).map_or(0, Map::len);
    if claims > MAX_DISRUPTED_PODS {
        let why = "DisruptedPods map too big - too many evictions not confirmed by PDB controller";
        let cause = "too many pending evictions not confirmed by PDB controller";
        return Err(eviction_forbidden(name, why, cause, version));
    }
    if allowed == 0 {
        return Err(disruption_not_allowed(budget, name));
    }
    let mut charged = budget.clone();
    let observed = count(budget, "observedGeneration");
    let Some(status) = charged.get_mut("status") else { return Err(disruption_not_allowed(budget, name)) };
    status["disruptionsAllowed"] = (allowed - 1).into();
    if allowed == 1 {
        conditions::upsert(status, "DisruptionAllowed", "False", observed, "InsufficientPods", "", now);
    }
    if let Some(pods) = object_or_insert(status, "disruptedPods") {
        pods.insert(pod.to_owned(), now.into());
    }
    Ok(charged)
}

fn count(budget: &Value, field: &str) -> i64 {
    budget.get("status").and_then(|s| s.get(field)).and_then(Value::as_i64).unwrap_or(0)
}

fn budget_not_observed(budget: &str) -> Status {
    Status::too_many_requests(REFUSED, RETRY_AFTER_SECONDS).with_cause(
        "DisruptionBudget",
        format!("The disruption budget {budget} is still being processed by the server."),
        "",
    )
}

/// Returns the refusal of a budget whose status makes no sense. Kubernetes 1.37 added a cause to it
/// (kubernetes/kubernetes#138003).
fn eviction_forbidden(budget: &str, why: &str, cause: &str, version: KubernetesVersion) -> Status {
    let status = Status::forbidden(GroupResource::new("policy", "poddisruptionbudget"), budget, why);
    if version < KubernetesVersion::V1_37 {
        return status;
    }
    let cause = format!("The disruption budget {budget} does not allow evicting pods currently: {cause}");
    status.with_cause("DisruptionBudget", cause, "")
}

fn disruption_not_allowed(budget: &Value, name: &str) -> Status {
    let empty = Value::Null;
    let condition = budget
        .get("status")
        .and_then(|s| conditions::find(s, "DisruptionAllowed"))
        .filter(|c| str_field(c, "status") == "False" && !str_field(c, "message").is_empty());
    let (reason, message) = {
        let c = condition.unwrap_or(&empty);
        (str_field(c, "reason"), str_field(c, "message"))
    };
    let current = count(budget, "currentHealthy");
    let desired = count(budget, "desiredHealthy");
    let why = if condition.is_some() && reason == "SyncFailed" {
        format!("The disruption budget {name} does not allow evicting pods currently because it failed sync: {message}")
    } else if current <= desired {
        format!("The disruption budget {name} needs {desired} healthy pods and has {current} currently")
    } else if condition.is_some() {
        format!("The disruption budget {name} does not allow evicting pods currently ({reason}): {message}")
    } else {
        format!("The disruption budget {name} does not allow evicting pods currently")
    };
    Status::too_many_requests(REFUSED, 0).with_cause("DisruptionBudget", why, "")
}

fn mark_and_delete<B: EvictionBackend>(
    backend: &B,
    request: &EvictionRequest<'_>,
    mut options: Value,
) -> Result<(), Status> {
    if !request.dry_run {
        let now = backend.now();
        let marked = backend.update_pod_status(request.namespace, request.name, &mut |pod| {
            check_preconditions(pod, &options)?;
            if !pod.get("status").is_some_and(Value::is_object) {
                pod["status"] = json!({});
            }
            conditions::upsert_pod_condition(
                &mut pod["status"],
                "DisruptionTarget",
                "True",
                "EvictionByEvictionAPI",
                "Eviction API: evicting",
                &now,
            );
            Ok(())
        })?;
        if pinned_version(&options).is_some() {
            // Marking the pod changed its version.
            set_resource_version(&mut options, resource_version(&marked));
        }
    }
    backend.delete_pod(request.namespace, request.name, &options)
}

fn check_preconditions(pod: &Value, options: &Value) -> Result<(), Status> {
    let Some(wanted) = options.get("preconditions") else { return Ok(()) };
    let uid = str_field(wanted, "uid");
    let version = str_field(wanted, "resourceVersion");
    let actual_uid = metadata::uid(pod);
    let actual_version = metadata::resource_version(pod);
    let why = if !uid.is_empty() && uid != actual_uid {
        format!(
            "the UID in the precondition ({uid}) does not match the UID in record ({actual_uid}). The object might have been deleted and then recreated"
        )
    } else if !version.is_empty() && version != actual_version {
        format!(
            "the ResourceVersion in the precondition ({version}) does not match the ResourceVersion in record ({actual_version}). The object might have been modified"
        )
    } else {
        return Ok(());
    };
    Err(Status::conflict(GroupResource::new("", "Pod"), metadata::name(pod), &why))
}

fn pinned_version(options: &Value) -> Option<&str> {
    options.get("preconditions").and_then(|p| p.get("resourceVersion")).and_then(Value::as_str)
}

fn set_resource_version(options: &mut Value, version: &str) {
    if let Some(preconditions) = object_or_insert(options, "preconditions") {
        preconditions.insert("resourceVersion", version.into());
    }
}

fn resource_version(object: &Value) -> &str {
    metadata::resource_version(object)
}

fn phase(pod: &Value) -> &str {
    pod.get("status").map_or("", |s| str_field(s, "phase"))
}

fn can_ignore_budget(pod: &Value) -> bool {
    matches!(phase(pod), "Succeeded" | "Failed" | "Pending") || metadata::is_deleted(pod)
}

fn is_ready(pod: &Value) -> bool {
    pod.get("status").is_some_and(|s| conditions::is_true(s, "Ready"))
}

#[cfg(test)]
mod tests;
