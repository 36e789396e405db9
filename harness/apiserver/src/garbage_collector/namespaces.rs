//! The namespace controller: deletes the objects of terminating namespaces, pods first, reports what is left in the
//! namespace's conditions, and removes the namespace's finalizer.
//! See `pkg/controller/namespace/deletion/namespaced_resources_deleter.go` and `status_condition_utils.go` there.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use super::namespace_conditions::{self, RemainingContent};
use crate::controllers::{ControllerClient, ControllerResponse, WatchChange, WatchMux, WatchSet, path_of};
use crate::json::fields::array_field;
use crate::json::{Value, json};
use crate::metadata::{self, is_deleted};
use crate::registry::Resource;
use crate::server::{ApiServer, storage_id};
use crate::store::{ResourceId, StoredObject};

const FINALIZER: &str = "kubernetes";

/// Shortest and longest time until a namespace is looked at again after an error (`nsControllerRateLimiter`).
const RETRY: (Duration, Duration) = (Duration::from_secs(5), Duration::from_mins(1));

/// The namespaces that end.
#[derive(Default)]
struct EndingNamespaces {
    names: BTreeSet<String>,
    /// The time at which a namespace is looked at again without an event, and the number of errors in a row.
    due: BTreeMap<String, (Timestamp, u32)>,
}

impl EndingNamespaces {
    /// Adds to `look_at` the namespaces that a change concerns.
    fn note(&mut self, resource: &ResourceId, change: WatchChange, look_at: &mut BTreeSet<String>) {
        let of_namespaces = resource.group.is_empty() && &*resource.resource == "namespaces";
        let is_deletion = change.is_deletion();
        for object in change.objects() {
            if of_namespaces && is_deletion {
                self.names.remove(object.name());
                self.due.remove(object.name());
            } else if of_namespaces && is_ending(&object.value()) {
                self.names.insert(object.name().to_owned());
                look_at.insert(object.name().to_owned());
            } else if self.names.contains(object.namespace()) {
                look_at.insert(object.namespace().to_owned());
            }
        }
    }

    /// Adds to `look_at` the namespaces that are due.
    fn add_due(&self, now: Timestamp, look_at: &mut BTreeSet<String>) {
        look_at.extend(self.due.iter().filter(|(_, (at, _))| *at <= now).map(|(name, _)| name.clone()));
    }

    /// Notes when to look at a namespace again.
    fn plan(&mut self, now: Timestamp, name: &str, outcome: TerminationStep) {
        let errors = self.due.remove(name).map_or(0, |(_, errors)| errors);
        let (pause, errors) = match outcome {
            TerminationStep::Done | TerminationStep::Wait(None) => return,
            TerminationStep::Wait(Some(pause)) => (pause, 0),
            TerminationStep::Failed => (RETRY.0.saturating_mul(1 << errors.min(10)).min(RETRY.1), errors + 1),
        };
        if self.names.contains(name) {
            self.due.insert(name.to_owned(), (now + pause, errors));
        }
    }
}

/// Empties and finalizes terminating namespaces, waiting for `pause` before a round of writes. Never returns.
pub async fn terminate_namespaces(server: ApiServer, pause: Duration) {
    let agent = ControllerClient::new(&server, "plumbline/namespace-controller");
    let clock = server.clock().clone();
    let mut feed = WatchMux::new(&server, WatchSet::All);
    let mut ending = EndingNamespaces::default();
    loop {
        let mut look_at: BTreeSet<String> = BTreeSet::new();
        let due = ending.due.values().map(|(at, _)| *at).min();
        for (resource, change) in feed.next_until(due).await {
            ending.note(&resource, change, &mut look_at);
        }
        ending.add_due(clock.now(), &mut look_at);
        if !look_at.is_empty() {
            clock.sleep(pause).await;
        }
        for namespace in look_at {
            let outcome = terminate(&agent, &namespace).await;
            ending.plan(clock.now(), &namespace, outcome);
        }
    }
}

fn is_ending(namespace: &Value) -> bool {
    let finalizers = namespace["spec"]["finalizers"].as_array();
    is_deleted(namespace) && finalizers.is_some_and(|all| all.iter().any(|finalizer| finalizer == FINALIZER))
}

/// The result of one look at a namespace.
enum TerminationStep {
    /// The namespace has no content any more, or is none of those that end.
    Done,
    /// Objects are left; look again after this time, or when one of them changes.
    Wait(Option<Duration>),
    /// A request failed, or objects are left without a reason.
    Failed,
}

/// Deletes the remaining objects of a namespace; finalizes the namespace if there are none.
async fn terminate(agent: &ControllerClient, name: &str) -> TerminationStep {
    let server = agent.server();
    let namespace = server.get(&ResourceId::new("", "namespaces"), "", name).map(|stored| stored.value());
    let Some(namespace) = namespace.filter(is_ending) else { return TerminationStep::Done };
    let deleted_at = metadata::text(&namespace, "deletionTimestamp").parse().unwrap_or_default();
    let registry = server.registry();
    let mut kinds: Vec<(&Resource, ResourceId)> = Vec::new();
    let mut seen: BTreeSet<ResourceId> = BTreeSet::new();
    for kind in registry.kinds().filter(|kind| kind.namespaced && kind.is_stored()) {
        let resource = storage_id(kind);
        if seen.insert(resource.clone()) {
            kinds.push((kind, resource));
        }
    }
    let (pods, others): (Vec<_>, Vec<_>) = kinds.into_iter().partition(|(kind, _)| namespace_conditions::is_pod(kind));
    let mut content = RemainingContent::new(undiscovered(server));
    for (kind, resource) in &pods {
        delete_all(agent, kind, resource, name, deleted_at, &mut content).await;
    }
    // Until the pods are gone, nothing else is deleted, and the conditions count nothing.
    let has_pods = !content.is_empty();
    if !has_pods {
        for (kind, resource) in &others {
            delete_all(agent, kind, resource, name, deleted_at, &mut content).await;
        }
    }
    let now = server.clock().now();
    if let Some(changed) = namespace_conditions::update(namespace, &content, !has_pods, now) {
        agent.replace(&format!("/api/v1/namespaces/{name}/status"), &changed).await;
    }
    if content.is_empty() && content.undiscovered.is_empty() {
        finalize(agent, name).await;
        return if agent.take_refusal() { TerminationStep::Failed } else { TerminationStep::Done };
    }
    if agent.take_refusal() || !content.errors.is_empty() || !content.undiscovered.is_empty() {
        return TerminationStep::Failed;
    }
    TerminationStep::Wait(
        content.pods_until.map(|until| Duration::try_from(until.duration_since(now)).unwrap_or_default()),
    )
}

/// Returns the groups and versions of the aggregated APIs that are not available: those that discovery calls stale.
fn undiscovered(server: &ApiServer) -> Vec<String> {
    let services = server.list(&ResourceId::new("apiregistration.k8s.io", "apiservices"), None);
    let stale = services.iter().filter_map(|stored| {
        let service = server.decoded(stored);
        let conditions = array_field(&service["status"], "conditions");
        let available = conditions.iter().find(|condition| condition["type"] == "Available")?;
        let is_stale = service["spec"]["service"].is_object() && available["status"] != "True";
        let text = |field: &str| service["spec"][field].as_str().unwrap_or_default().to_owned();
        is_stale.then(|| format!("{}/{}", text("group"), text("version")))
    });
    stale.collect()
}

/// Deletes the objects of a resource, and notes what is left.
async fn delete_all(
    agent: &ControllerClient,
    kind: &Resource,
    resource: &ResourceId,
    namespace: &str,
    deleted_at: Timestamp,
    content: &mut RemainingContent,
) {
    let server = agent.server();
    let left = server.list(resource, Some(namespace));
    if left.iter().any(|stored| !stored.is_terminating())
        && let Err(refusal) = delete_collection(agent, kind, namespace, &left).await
    {
        content.errors.push(refusal.body()["message"].as_str().unwrap_or_default().to_owned());
        return;
    }
    let left = server.list(resource, Some(namespace));
    if left.is_empty() {
        return;
    }
    content.add(kind, &left);
    let until = deleted_at + namespace_conditions::longest_grace_period(kind, &left);
    if until > server.clock().now() {
        content.pods_until = Some(until);
    } else if !left.iter().any(|stored| stored.has_finalizers()) {
        content.errors.push(format!(
            "unexpected items still remain in namespace: {namespace} for gvr: {}/{}, Resource={}",
            kind.group, kind.version, kind.plural
        ));
    }
}

/// Deletes a collection, or each of its objects if it cannot be deleted as a whole. The error is the first refusal.
async fn delete_collection(
    agent: &ControllerClient,
    kind: &Resource,
    namespace: &str,
    objects: &[Arc<StoredObject>],
) -> Result<(), ControllerResponse> {
    let options = json!({"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"});
    let is_unsupported = |response: &ControllerResponse| matches!(response.code, 404 | 405);
    let all = agent.delete(&path_of(kind, namespace, ""), Some(&options)).await;
    if !is_unsupported(&all) {
        return if all.is_ok() { Ok(()) } else { Err(all) };
    }
    for object in objects {
        let one = agent.delete(&path_of(kind, namespace, object.name()), Some(&options)).await;
        if !one.is_ok() && !is_unsupported(&one) {
            return Err(one);
        }
    }
    Ok(())
}

/// Removes the namespace's finalizer.
async fn finalize(agent: &ControllerClient, name: &str) {
    let Some(stored) = agent.server().get(&ResourceId::new("", "namespaces"), "", name) else { return };
    let mut namespace = stored.value();
    if !is_deleted(&namespace) {
        return;
    }
    if let Some(finalizers) = namespace.pointer_mut("/spec/finalizers").and_then(Value::as_array_mut) {
        finalizers.retain(|finalizer| finalizer != FINALIZER);
    }
    agent.replace(&format!("/api/v1/namespaces/{name}/finalize"), &namespace).await;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ApiServerConfig;
    use crate::clock::{Clock, epoch, run_virtual, settle};
    use crate::controllers::MERGE_PATCH;

    const SHOP: &str = "/api/v1/namespaces/shop";

    /// Runs a test with the namespace `shop`, which has a config map and a pod with `metadata` and `spec`.
    fn with_shop(metadata: Value, spec: Value, test: impl AsyncFnOnce(&ApiServer, &ControllerClient)) {
        run_virtual(async {
            let server = ApiServer::new(ApiServerConfig::new(Clock::virtual_from(epoch())));
            tokio::spawn(terminate_namespaces(server.clone(), Duration::from_millis(10)));
            let client = ControllerClient::new(&server, "user");
            let shop = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}});
            assert!(client.create("/api/v1/namespaces", &shop).await.is_ok());
            let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}});
            assert!(client.create(&format!("{SHOP}/configmaps"), &map).await.is_ok());
            let mut pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec});
            pod["metadata"]["name"] = "p".into();
            pod["spec"]["containers"] = json!([{"name": "c", "image": "i"}]);
            assert!(client.create(&format!("{SHOP}/pods"), &pod).await.is_ok());
            assert!(client.delete(SHOP, None).await.is_ok());
            server.clock().sleep(Duration::from_secs(1)).await;
            test(&server, &client).await;
        })
        .expect("a runtime");
    }

    /// Returns status, reason and message of a condition of the namespace.
    fn condition(server: &ApiServer, kind: &str) -> [String; 3] {
        let namespace = server.get(&ResourceId::new("", "namespaces"), "", "shop").expect("the namespace").value();
        let conditions = namespace["status"]["conditions"].as_array().expect("conditions");
        let found = conditions.iter().find(|condition| condition["type"] == kind).expect("the condition");
        ["status", "reason", "message"].map(|field| found[field].as_str().unwrap_or_default().to_owned())
    }

    fn count(server: &ApiServer, resource: &str) -> usize {
        server.list(&ResourceId::new("", resource), Some("shop")).len()
    }

    /// `ensureOrderedDeletion` in `test/e2e/apimachinery/namespace.go`.
    #[test]
    fn pods_are_deleted_before_everything_else() {
        with_shop(json!({"finalizers": ["example.com/f"]}), json!({}), async |server, client| {
            assert_eq!((count(server, "pods"), count(server, "configmaps")), (1, 1));
            assert_eq!(condition(server, "NamespaceDeletionContentFailure")[0], "False");
            // Only counted once the pods are gone.
            assert_eq!(condition(server, "NamespaceContentRemaining")[..2], ["False", "ContentRemoved"]);
            let none = json!({"metadata": {"finalizers": null}});
            assert!(client.patch(&format!("{SHOP}/pods/p"), MERGE_PATCH, &none).await.is_ok());
            settle().await;
            server.clock().sleep(Duration::from_secs(1)).await;
            assert_eq!((count(server, "pods"), count(server, "configmaps")), (0, 0));
            assert!(server.get(&ResourceId::new("", "namespaces"), "", "shop").is_none());
        });
    }

    #[test]
    fn pods_that_do_not_end_are_reported_after_their_grace_period() {
        let spec = json!({"nodeName": "n", "terminationGracePeriodSeconds": 20});
        with_shop(json!({}), spec, async |server, client| {
            assert_eq!(condition(server, "NamespaceDeletionContentFailure")[0], "False");
            server.clock().sleep(Duration::from_secs(25)).await;
            let message = "Failed to delete all resource types, 1 remaining: unexpected items still remain in namespace: \
                           shop for gvr: /v1, Resource=pods";
            let expected = ["True", "ContentDeletionFailed", message];
            assert_eq!(condition(server, "NamespaceDeletionContentFailure"), expected);
            let before = server.transcript().len();
            server.clock().sleep(Duration::from_hours(1)).await;
            assert_eq!(server.transcript().len(), before, "nothing is written without a change");
            assert!(client.delete(&format!("{SHOP}/pods/p?gracePeriodSeconds=0"), None).await.is_ok());
            server.clock().sleep(Duration::from_mins(2)).await;
            assert!(server.get(&ResourceId::new("", "namespaces"), "", "shop").is_none());
        });
    }

    /// A public kind of report: a namespace stays `Terminating` because the API of metrics is down. See
    /// `ProcessDiscoverResourcesErr`.
    #[test]
    fn an_api_that_is_down_keeps_a_namespace() {
        with_shop(json!({}), json!({}), async |server, client| {
            let services = "/apis/apiregistration.k8s.io/v1/apiservices";
            let service = json!({"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
                "metadata": {"name": "v1beta1.custom.metrics.k8s.io"}, "spec": {"group": "custom.metrics.k8s.io",
                    "version": "v1beta1", "groupPriorityMinimum": 100, "versionPriority": 100,
                    "insecureSkipTLSVerify": true, "service": {"namespace": "default", "name": "adapter"}}});
            let made = client.create(services, &service).await;
            assert!(made.is_ok(), "{}", made.body());
            let path = format!("{services}/v1beta1.custom.metrics.k8s.io");
            let down = json!({"status": {"conditions": [{"type": "Available", "status": "False"}]}});
            assert!(client.patch(&format!("{path}/status"), MERGE_PATCH, &down).await.is_ok());
            let shop = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}});
            assert!(client.create("/api/v1/namespaces", &shop).await.is_ok());
            assert!(client.delete(SHOP, None).await.is_ok());
            server.clock().sleep(Duration::from_secs(1)).await;
            let text = "Discovery failed for some groups, 1 failing: unable to retrieve the complete list of server \
                        APIs: custom.metrics.k8s.io/v1beta1: stale GroupVersion discovery: custom.metrics.k8s.io/v1beta1";
            assert_eq!(condition(server, "NamespaceDeletionDiscoveryFailure"), ["True", "DiscoveryFailed", text]);
            assert_eq!(condition(server, "NamespaceDeletionContentFailure")[0], "False");
            let groups = client.send(http::Method::GET, "/apis", "", None).await.body();
            let mut groups = array_field(&groups, "groups").iter();
            assert!(groups.any(|group| group["name"] == "custom.metrics.k8s.io"), "clients learn of the API");
            assert!(client.delete(&path, None).await.is_ok());
            server.clock().sleep(Duration::from_mins(1)).await;
            assert!(server.get(&ResourceId::new("", "namespaces"), "", "shop").is_none());
        });
    }

    #[test]
    fn what_waits_for_finalizers_is_counted() {
        with_shop(json!({}), json!({}), async |server, client| {
            assert!(server.get(&ResourceId::new("", "namespaces"), "", "shop").is_none());
            let shop = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}});
            assert!(client.create("/api/v1/namespaces", &shop).await.is_ok());
            let map = json!({"apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": "m", "finalizers": ["example.com/f"]}});
            assert!(client.create(&format!("{SHOP}/configmaps"), &map).await.is_ok());
            assert!(client.delete(SHOP, None).await.is_ok());
            server.clock().sleep(Duration::from_secs(1)).await;
            let text = "Some resources are remaining: configmaps. has 1 resource instances";
            assert_eq!(condition(server, "NamespaceContentRemaining"), ["True", "SomeResourcesRemain", text]);
            let text = "Some content in the namespace has finalizers remaining: example.com/f in 1 resource instances";
            assert_eq!(condition(server, "NamespaceFinalizersRemaining"), ["True", "SomeFinalizersRemain", text]);
        });
    }
}
