//! The controller of resource quotas, optional: the status of each quota has its limits and the usage of its namespace.
//! Without it, a quota limits nothing, since admission goes by the status. See
//! `pkg/controller/resourcequota/resource_quota_controller.go`.

use std::collections::BTreeSet;
use std::time::Duration;

use http::Method;
use jiff::Timestamp;

use crate::backoff::Retries;
use crate::controllers::{ControllerClient, WatchChange, WatchMux, WatchSet};
use crate::json::Value;
use crate::metadata;
use crate::registry::quota::{QuotaRequest, recount};
use crate::server::{ApiServer, storage_id};
use crate::store::{EventType, LogEntry, ResourceId};

/// Time between two counts of everything: the usage of a pod ends with its grace period, without an event
/// (`ResourceQuotaSyncPeriod`).
const RESYNC: Duration = Duration::from_mins(5);

/// Writes the usage of resource quotas. Never returns.
pub async fn publish_quota_usage(server: ApiServer) {
    let agent = ControllerClient::new(&server, "plumbline/resourcequota-controller");
    let quotas = ResourceId::new("", "resourcequotas");
    let mut feed = WatchMux::new(&server, WatchSet::All);
    let mut resync = server.clock().now() + RESYNC;
    let mut retries: Retries<String> = Retries::default();
    loop {
        let changes = feed.next_until(retries.next().into_iter().chain([resync]).min()).await;
        let now = server.clock().now();
        let has_quota = |event: &LogEntry| !server.list(&quotas, Some(event.current.namespace())).is_empty();
        let mut touched: BTreeSet<String> = BTreeSet::new();
        for (resource, change) in changes {
            // Most namespaces have no quota, and comparing objects is expensive.
            let counts = match &change {
                WatchChange::Replace(_) => true,
                WatchChange::Event(event) => has_quota(event) && is_relevant(&server, &resource, event, now),
            };
            if counts {
                change.add_namespaces(&mut touched);
            }
        }
        if now >= resync {
            touched.extend(server.list(&quotas, None).iter().map(|quota| quota.namespace().to_owned()));
            resync = now + RESYNC;
        }
        touched.extend(retries.due(now));
        for namespace in touched {
            for quota in server.list(&quotas, Some(&namespace)) {
                sync(&agent, &namespace, &quota.value()).await;
            }
            retries.settle(&namespace, agent.take_refusal(), server.clock().now());
        }
    }
}

/// Returns true if the usage has to be counted again. Creations are charged by admission, and counting before a charged
/// object is stored would give its share away (`resource_quota_monitor.go`, and `AddEventHandler` of the controller).
fn is_relevant(server: &ApiServer, resource: &ResourceId, event: &LogEntry, now: Timestamp) -> bool {
    let of_quotas = resource.group.is_empty() && &*resource.resource == "resourcequotas";
    match (event.event_type, &event.previous) {
        (EventType::Added, _) => of_quotas,
        (EventType::Deleted, _) | (EventType::Modified, None) => true,
        // Charges leave `status.hard` alone; another client's change of it is put right.
        (EventType::Modified, Some(previous)) if of_quotas => {
            let old = previous.value();
            let new = event.current.value();
            old["spec"] != new["spec"] || new["spec"]["hard"] != new["status"]["hard"]
        }
        (EventType::Modified, Some(previous)) => {
            let old = previous.value();
            let new = event.current.value();
            QuotaRequest { old: Some(&old), ..request(server, resource, &new, now) }.changes_usage()
        }
    }
}

/// Recounts one quota.
async fn sync(agent: &ControllerClient, namespace: &str, quota: &Value) {
    if metadata::is_deleted(quota) {
        return;
    }
    let server = agent.server();
    let now = server.clock().now();
    let registry = server.registry();
    let mut resources: Vec<ResourceId> =
        registry.kinds().filter(|kind| kind.is_stored() && kind.namespaced).map(|kind| storage_id(kind)).collect();
    // Resources with several versions are stored once.
    resources.sort();
    resources.dedup();
    let limits: Vec<String> =
        quota["spec"]["hard"].as_object().into_iter().flatten().map(|(name, _)| name.to_string()).collect();
    let mut objects: Vec<(ResourceId, Value)> = Vec::new();
    let mut counted: BTreeSet<&str> = BTreeSet::new();
    for resource in resources {
        let probe = request(server, &resource, &Value::Null, now);
        let matched: Vec<&str> =
            limits.iter().map(|limit| &**limit).filter(|limit| probe.matches_resource(limit)).collect();
        if !matched.is_empty() {
            counted.extend(matched);
            let stored = server.list(&resource, Some(namespace));
            objects.extend(stored.iter().map(|stored| (resource.clone(), stored.value())));
        }
    }
    let requests = objects.iter().map(|(resource, object)| request(server, resource, object, now));
    let Some(status) = recount(quota, |limit| counted.contains(limit), requests) else { return };
    let mut changed = quota.clone();
    changed["status"] = status;
    let path = format!("/api/v1/namespaces/{namespace}/resourcequotas/{}/status", metadata::name(quota));
    agent.send(Method::PUT, &path, "application/json", Some(&changed)).await;
}

fn request<'o>(server: &'o ApiServer, resource: &'o ResourceId, object: &'o Value, now: Timestamp) -> QuotaRequest<'o> {
    let (group, plural) = (&*resource.group, &*resource.resource);
    QuotaRequest { group, plural, subresource: "", object, old: None, now, lookup: server }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ApiServerConfig;
    use crate::clock::{Clock, epoch, run_virtual, settle};
    use crate::json::json;

    fn quota(server: &ApiServer) -> Value {
        server.get(&ResourceId::new("", "resourcequotas"), "default", "q").expect("the quota").value()
    }

    fn usage(server: &ApiServer) -> Value {
        quota(server)["status"].clone()
    }

    /// Writes a value into the quota's status.
    async fn overwrite(server: &ApiServer, client: &ControllerClient, field: &str, pods: &str) {
        let mut changed = quota(server);
        changed["status"][field]["pods"] = pods.into();
        let path = "/api/v1/namespaces/default/resourcequotas/q/status";
        assert!(client.replace(path, &changed).await.is_ok());
        settle().await;
    }

    #[test]
    fn a_charge_stays_until_its_object_is_stored() {
        run_virtual(async {
            let server = ApiServer::new(ApiServerConfig::new(Clock::virtual_from(epoch())));
            let client = ControllerClient::new(&server, "user");
            let quota = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"},
                "spec": {"hard": {"pods": "5"}}});
            assert!(client.create("/api/v1/namespaces/default/resourcequotas", &quota).await.is_ok());
            tokio::spawn(publish_quota_usage(server.clone()));
            settle().await;
            // As admission does between the charge and the creation.
            overwrite(&server, &client, "used", "1").await;
            assert_eq!(usage(&server)["used"]["pods"], "1");
            overwrite(&server, &client, "hard", "9").await;
            assert_eq!(usage(&server)["hard"]["pods"], "5");
            overwrite(&server, &client, "used", "1").await;
            // A charge whose creation failed. Other objects change all the time.
            for minute in 0..5 {
                let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": format!("m{minute}")}});
                assert!(client.create("/api/v1/namespaces/kube-system/configmaps", &map).await.is_ok());
                server.clock().sleep(RESYNC / 5).await;
            }
            settle().await;
            assert_eq!(usage(&server)["used"]["pods"], "0");
        })
        .expect("a runtime");
    }

    #[test]
    fn usage_is_counted_and_given_back() {
        run_virtual(async {
            let server = ApiServer::new(ApiServerConfig::new(Clock::virtual_from(epoch())));
            let client = ControllerClient::new(&server, "user");
            let pods = "/api/v1/namespaces/default/pods";
            let pod = |name: &str| {
                let requests = json!({"requests": {"cpu": "300m"}});
                json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
                    "spec": {"containers": [{"name": "c", "image": "i", "resources": requests}]}})
            };
            assert!(client.create(pods, &pod("before")).await.is_ok());
            let hard = json!({"requests.cpu": "1", "pods": "2", "count/jobs.batch": "5"});
            let quota = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"},
                "spec": {"hard": hard}});
            assert!(client.create("/api/v1/namespaces/default/resourcequotas", &quota).await.is_ok());
            tokio::spawn(publish_quota_usage(server.clone()));
            settle().await;
            let used = json!({"requests.cpu": "300m", "pods": "1", "count/jobs.batch": "0"});
            assert_eq!(usage(&server), json!({"hard": hard, "used": used}));
            assert!(client.create(pods, &pod("second")).await.is_ok());
            assert_eq!(client.create(pods, &pod("third")).await.code, 403);
            client.delete(&format!("{pods}/before?gracePeriodSeconds=0"), None).await;
            settle().await;
            assert_eq!(usage(&server)["used"]["requests.cpu"], "300m");
            assert!(client.create(pods, &pod("third")).await.is_ok(), "there is room again");
            settle().await;
            let before = server.transcript().len();
            server.clock().sleep(Duration::from_hours(1)).await;
            assert_eq!(server.transcript().len(), before, "nothing is written without a change");
        })
        .expect("a runtime");
    }

    /// Limits of no resource are not counted, and their last count stays when the resource goes: `CalculateUsage` in
    /// `staging/src/k8s.io/apiserver/pkg/quota/v1/resources.go`, `syncResourceQuota` in
    /// `pkg/controller/resourcequota/resource_quota_controller.go`.
    #[test]
    fn unknown_resources_are_not_counted() {
        run_virtual(async {
            let server = ApiServer::new(ApiServerConfig::new(Clock::virtual_from(epoch())));
            let client = ControllerClient::new(&server, "user");
            let hard = json!({"count/widgets.example.com": "3", "count/configmaps": "5", "example.com/thing": "1"});
            let quota = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"},
                "spec": {"hard": hard}});
            assert!(client.create("/api/v1/namespaces/default/resourcequotas", &quota).await.is_ok());
            tokio::spawn(publish_quota_usage(server.clone()));
            settle().await;
            assert_eq!(usage(&server), json!({"hard": hard, "used": {"count/configmaps": "0"}}));
            let mut changed = self::quota(&server);
            changed["status"]["used"]["count/widgets.example.com"] = "2".into();
            let path = "/api/v1/namespaces/default/resourcequotas/q/status";
            assert!(client.replace(path, &changed).await.is_ok());
            server.clock().sleep(RESYNC).await;
            settle().await;
            let used = json!({"count/configmaps": "0", "count/widgets.example.com": "2"});
            assert_eq!(usage(&server)["used"], used);
        })
        .expect("a runtime");
    }

    /// Each resource of the limits that a cluster counts is in `used`: `CalculateUsageStats` and `CalculateUsage` in
    /// `staging/src/k8s.io/apiserver/pkg/quota/v1`.
    #[test]
    fn what_is_not_used_is_zero() {
        run_virtual(async {
            let server = ApiServer::new(ApiServerConfig::new(Clock::virtual_from(epoch())));
            let client = ControllerClient::new(&server, "user");
            let counted = [
                "pods",
                "cpu",
                "memory",
                "ephemeral-storage",
                "requests.cpu",
                "requests.memory",
                "requests.ephemeral-storage",
                "limits.cpu",
                "limits.memory",
                "limits.ephemeral-storage",
                "hugepages-2Mi",
                "requests.hugepages-2Mi",
                "requests.example.com/gpu",
                "count/pods",
                "services",
                "services.nodeports",
                "services.loadbalancers",
                "replicationcontrollers",
                "resourcequotas",
                "secrets",
                "configmaps",
                "persistentvolumeclaims",
                "requests.storage",
                "gold.storageclass.storage.k8s.io/requests.storage",
                "gold.storageclass.storage.k8s.io/persistentvolumeclaims",
                "count/services",
                "count/secrets",
                "count/deployments.apps",
                "count/jobs.batch",
                "count/leases.coordination.k8s.io",
                "count/persistentvolumeclaims",
                "count/resourceclaims.resource.k8s.io",
                "gpu.deviceclass.resource.k8s.io/devices",
            ];
            let hard: crate::json::Map = counted.iter().map(|name| ((*name).to_owned(), json!("5"))).collect();
            let quota = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"},
                "spec": {"hard": hard}});
            assert!(client.create("/api/v1/namespaces/default/resourcequotas", &quota).await.is_ok());
            tokio::spawn(publish_quota_usage(server.clone()));
            settle().await;
            let used = usage(&server)["used"].clone();
            let expected: crate::json::Map = counted
                .iter()
                .map(|name| {
                    let own = u8::from(matches!(*name, "resourcequotas"));
                    ((*name).to_owned(), json!(own.to_string()))
                })
                .collect();
            assert_eq!(used, Value::Object(expected));
        })
        .expect("a runtime");
    }
}
