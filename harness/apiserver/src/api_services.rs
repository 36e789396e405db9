//! The controllers of API services, which kube-apiserver runs itself: each version of a definition is registered, and
//! the condition `Available` says whether an API answers. They follow
//! `pkg/controlplane/controller/crdregistration/crdregistration_controller.go`, and `controllers/autoregister` and
//! `controllers/status` in `staging/src/k8s.io/kube-aggregator/pkg`.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use http::Method;

use crate::backoff::Retries;
use crate::controllers::{ControllerClient, WatchChange, WatchMux, WatchSet};
use crate::handlers::check_discovery;
use crate::json::fields::array_field;
use crate::json::{Value, json};
use crate::metadata;
use crate::object_lifecycle::rfc3339;
use crate::server::ApiServer;
use crate::store::ResourceId;

const GROUP: &str = "apiregistration.k8s.io";
const PATH: &str = "/apis/apiregistration.k8s.io/v1/apiservices";

/// The label of API services that a controller keeps up to date, with its value for those of definitions.
const MANAGED: (&str, &str) = ("kube-aggregator.kubernetes.io/automanaged", "true");

/// Time between two checks of an API that has not changed.
const RESYNC: Duration = Duration::from_secs(30);

/// Registers the versions of definitions as API services, and writes the status of all API services. Never returns.
pub async fn publish_api_services(server: ApiServer) {
    let agent = ControllerClient::new(&server, "plumbline/apiservice-controller");
    let watched = vec![api_services(), definitions(), ResourceId::new("", "services"), slices()];
    let mut feed = WatchMux::new(&server, WatchSet::Resources(watched));
    let mut known = KnownServices::default();
    let mut retries: Retries<String> = Retries::default();
    let mut resync = server.clock().now() + RESYNC;
    loop {
        let resynced = (!known.remote.is_empty()).then_some(resync);
        let changes = feed.next_until(resynced.into_iter().chain(retries.next()).min()).await;
        let now = server.clock().now();
        let mut due = retries.due(now);
        let mut touched = BTreeSet::new();
        for (resource, change) in changes {
            if resource == api_services() {
                known.note_services(&server, change, &mut due);
            } else if resource == definitions() {
                known.note_definitions(&server, change, &mut due);
            } else {
                change.add_namespaces(&mut touched);
            }
        }
        if now >= resync {
            due.extend(known.remote.keys().cloned());
            resync = now + RESYNC;
        }
        due.extend(known.remote.iter().filter(|(_, of)| touched.contains(*of)).map(|(name, _)| name.clone()));
        let checks = due.iter().map(|name| sync(&agent, &known, name));
        futures::future::join_all(checks).await;
        let refused = agent.take_refusal();
        for name in due {
            retries.settle(&name, refused, server.clock().now());
        }
    }
}

fn api_services() -> ResourceId {
    ResourceId::new(GROUP, "apiservices")
}

fn definitions() -> ResourceId {
    ResourceId::new("apiextensions.k8s.io", "customresourcedefinitions")
}

fn slices() -> ResourceId {
    ResourceId::new("discovery.k8s.io", "endpointslices")
}

/// The definitions and API services that exist, so that a change of one needs no look at the others.
#[derive(Default)]
struct KnownServices {
    /// The API services that each definition wants, by the definition's name.
    wanted: BTreeMap<String, BTreeSet<String>>,
    /// The definitions that want each API service.
    wanted_by: BTreeMap<String, BTreeSet<String>>,
    /// The API services of other servers, with the namespaces of their services.
    remote: BTreeMap<String, String>,
}

impl KnownServices {
    fn note_services(&mut self, server: &ApiServer, change: WatchChange, due: &mut BTreeSet<String>) {
        for stored in change.objects() {
            due.insert(stored.name().to_owned());
        }
        for name in &*due {
            let object = server.get(&api_services(), "", name).map(|stored| stored.value());
            let namespace = object.as_ref().and_then(|object| object["spec"]["service"]["namespace"].as_str());
            match namespace {
                Some(namespace) => self.remote.insert(name.clone(), namespace.to_owned()),
                None => self.remote.remove(name),
            };
        }
    }

    fn note_definitions(&mut self, server: &ApiServer, change: WatchChange, due: &mut BTreeSet<String>) {
        let names: BTreeSet<String> = change.objects().iter().map(|stored| stored.name().to_owned()).collect();
        for name in names {
            let definition = server.get(&definitions(), "", &name).map(|stored| server.decoded(&stored));
            let now: BTreeSet<String> = definition.iter().flat_map(versions).collect();
            let before = self.wanted.insert(name.clone(), now.clone()).unwrap_or_default();
            if definition.is_none() {
                self.wanted.remove(&name);
            }
            for service in before.difference(&now) {
                let by = self.wanted_by.entry(service.clone()).or_default();
                by.remove(&name);
                if by.is_empty() {
                    self.wanted_by.remove(service);
                }
            }
            for service in &now {
                self.wanted_by.entry(service.clone()).or_default().insert(name.clone());
            }
            due.extend(before.symmetric_difference(&now).cloned());
        }
    }
}

/// Returns the names of the API services of a definition's served versions.
fn versions(definition: &Value) -> Vec<String> {
    let spec = &definition["spec"];
    let group = spec["group"].as_str().unwrap_or_default();
    let served = array_field(spec, "versions").iter().filter(|version| version["served"] == true);
    served.map(|version| format!("{}.{group}", version["name"].as_str().unwrap_or_default())).collect()
}

/// Creates, corrects or deletes an API service, if it is one of a definition, and writes its status.
async fn sync(agent: &ControllerClient, known: &KnownServices, name: &str) {
    let server = agent.server();
    let (label, value) = MANAGED;
    let stored = server.get(&api_services(), "", name);
    let wanted = name.split_once('.').filter(|_| known.wanted_by.contains_key(name)).map(|(version, group)| {
        json!({"group": group, "version": version, "groupPriorityMinimum": 1000, "versionPriority": 100})
    });
    let path = format!("{PATH}/{name}");
    match (&stored, wanted) {
        (None, None) => return,
        (None, Some(spec)) => {
            let object = json!({"apiVersion": format!("{GROUP}/v1"), "kind": "APIService",
                "metadata": {"name": name, "labels": {label: value}}, "spec": spec});
            agent.create(PATH, &object).await;
        }
        (Some(stored), None) if stored.label(label) == Some(value) => {
            agent.delete(&path, Some(&json!({"preconditions": {"uid": stored.uid()}}))).await;
            return;
        }
        (Some(stored), Some(spec)) if stored.label(label) == Some(value) => {
            let mut object = stored.value();
            if object["spec"] != spec {
                object["spec"] = spec;
                agent.replace(&path, &object).await;
            }
        }
        (Some(_), _) => {}
    }
    if let Some(stored) = server.get(&api_services(), "", name) {
        write_status(agent, stored.value()).await;
    }
}

/// Writes the condition of an API service if it has changed.
async fn write_status(agent: &ControllerClient, mut object: Value) {
    let (available, reason, message) = check(agent.server(), &object).await;
    let mut conditions = array_field(&object["status"], "conditions").to_vec();
    let known = conditions.iter().position(|condition| condition["type"] == "Available");
    let before = known.map(|index| conditions.remove(index));
    let same = before.as_ref().filter(|before| before["status"] == *available);
    let since = same
        .map_or_else(|| rfc3339(agent.server().clock().now()).into(), |before| before["lastTransitionTime"].clone());
    let now = json!({"type": "Available", "status": available, "lastTransitionTime": since, "reason": reason,
        "message": message});
    if before.as_ref() == Some(&now) {
        return;
    }
    conditions.insert(known.unwrap_or(conditions.len()), now);
    object["status"]["conditions"] = conditions.into();
    let path = format!("{PATH}/{}/status", metadata::name(&object));
    agent.send(Method::PUT, &path, "application/json", Some(&object)).await;
}

/// Status, reason and message of the condition `Available`.
type Availability = (&'static str, &'static str, String);

async fn check(server: &ApiServer, object: &Value) -> Availability {
    let wanted = &object["spec"]["service"];
    if !wanted.is_object() {
        return ("True", "Local", "Local APIServices are always available".to_owned());
    }
    let text = |field: &str| wanted[field].as_str().unwrap_or_default();
    let namespace = text("namespace");
    let name = text("name");
    let Some(service) = server.get(&ResourceId::new("", "services"), namespace, name) else {
        return ("False", "ServiceNotFound", format!("service/{name} in {namespace:?} is not present"));
    };
    if let Some(missing) = missing_backend(server, (namespace, name), wanted["port"].as_u64(), &service.value()["spec"])
    {
        return missing;
    }
    match check_discovery(server, object).await {
        Ok(()) => ("True", "Passed", "all checks passed".to_owned()),
        Err(error) => ("False", "FailedDiscoveryCheck", error.to_string()),
    }
}

/// Returns what a service with a cluster IP lacks.
fn missing_backend(
    server: &ApiServer,
    (namespace, name): (&str, &str),
    port: Option<u64>,
    spec: &Value,
) -> Option<Availability> {
    if spec["type"] != "ClusterIP" {
        return None;
    }
    let port = port.unwrap_or(443);
    let Some(listening) = array_field(spec, "ports").iter().find(|known| known["port"] == port) else {
        let why = format!("service/{name} in {namespace:?} is not listening on port {port}");
        return Some(("False", "ServicePortError", why));
    };
    let port = listening["name"].as_str().unwrap_or_default();
    let own: Vec<Value> = server
        .list(&slices(), Some(namespace))
        .iter()
        .filter(|slice| slice.label("kubernetes.io/service-name") == Some(name))
        .map(|slice| slice.value())
        .collect();
    if own.is_empty() {
        let why = format!("cannot find endpointslices for service/{name} in {namespace:?}");
        return Some(("False", "EndpointsNotFound", why));
    }
    let is_ready = |endpoint: &Value| endpoint["conditions"]["ready"] != false;
    let is_port = |known: &Value| known["name"].as_str().unwrap_or_default() == port && known["port"].is_number();
    let serves = |slice: &Value| {
        array_field(slice, "endpoints").iter().any(is_ready) && array_field(slice, "ports").iter().any(is_port)
    };
    let why = format!("endpointslices for service/{name} in {namespace:?} have no addresses with port name {port:?}");
    (!own.iter().any(serves)).then_some(("False", "MissingEndpoints", why))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::{run_virtual, settle};

    async fn create(client: &ControllerClient, path: &str, object: Value) {
        let reply = client.create(path, &object).await;
        assert!(reply.is_ok(), "{}", reply.body());
    }

    /// Returns status, reason and message of the condition of an API service.
    fn availability(server: &ApiServer, name: &str) -> [String; 3] {
        let object = server.get(&api_services(), "", name).expect("an API service").value();
        let condition = &object["status"]["conditions"][0];
        ["status", "reason", "message"].map(|field| condition[field].as_str().unwrap_or_default().to_owned())
    }

    #[test]
    fn each_version_of_a_definition_is_registered() {
        run_virtual(async {
            let server = ApiServer::builder().build();
            tokio::spawn(publish_api_services(server.clone()));
            let client = ControllerClient::new(&server, "user");
            let version = |name: &str, served: bool| {
                json!({"name": name, "served": served, "storage": name == "v1",
                "schema": {"openAPIV3Schema": {"type": "object"}}})
            };
            let definition = |served: bool| {
                json!({"metadata": {"name": "as.ex.io"}, "spec": {"group": "ex.io",
                "scope": "Cluster", "names": {"plural": "as", "kind": "A"},
                "versions": [version("v1", true), version("v2", served), version("v3", false)]}})
            };
            let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
            create(&client, path, definition(true)).await;
            settle().await;
            let names =
                || server.list(&api_services(), None).iter().map(|one| one.name().to_owned()).collect::<Vec<_>>();
            assert_eq!(names(), ["v1.ex.io", "v2.ex.io"]);
            assert_eq!(availability(&server, "v1.ex.io"), ["True", "Local", "Local APIServices are always available"]);
            let spec = server.get(&api_services(), "", "v1.ex.io").expect("an API service").value()["spec"].clone();
            let expected =
                json!({"group": "ex.io", "version": "v1", "groupPriorityMinimum": 1000, "versionPriority": 100});
            assert_eq!(spec, expected);

            let versions = json!({"spec": {"versions": definition(false)["spec"]["versions"]}});
            client.patch(&format!("{path}/as.ex.io"), "application/merge-patch+json", &versions).await;
            settle().await;
            assert_eq!(names(), ["v1.ex.io"]);
            client.delete(&format!("{path}/as.ex.io"), None).await;
            settle().await;
            assert_eq!(names(), Vec::<String>::new());
        })
        .expect("a runtime");
    }

    /// The reasons in the order of the checks of `remote_available_controller.go`.
    #[test]
    fn an_api_of_another_server_is_available_if_that_answers() {
        run_virtual(async {
            let server = ApiServer::builder().build();
            tokio::spawn(publish_api_services(server.clone()));
            let client = ControllerClient::new(&server, "user");
            let object = json!({"metadata": {"name": "v1.other.io"}, "spec": {"group": "other.io", "version": "v1",
                "groupPriorityMinimum": 100, "versionPriority": 10, "insecureSkipTLSVerify": true,
                "service": {"namespace": "default", "name": "other"}}});
            create(&client, PATH, object).await;
            settle().await;
            let now = || availability(&server, "v1.other.io");
            assert_eq!(now(), ["False", "ServiceNotFound", "service/other in \"default\" is not present"]);

            let services = "/api/v1/namespaces/default/services";
            let ports = |port: u16| json!({"spec": {"ports": [{"name": "https", "port": port}]}});
            let mut service = ports(80);
            service["metadata"] = json!({"name": "other"});
            create(&client, services, service).await;
            settle().await;
            assert_eq!(
                now(),
                ["False", "ServicePortError", "service/other in \"default\" is not listening on port 443"]
            );

            client.patch(&format!("{services}/other"), "application/merge-patch+json", &ports(443)).await;
            settle().await;
            assert_eq!(
                now(),
                ["False", "EndpointsNotFound", "cannot find endpointslices for service/other in \"default\""]
            );

            let slices = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";
            let slice = |ready: bool| {
                json!({"metadata": {"name": "s", "labels": {"kubernetes.io/service-name": "other"}},
                "addressType": "IPv4", "ports": [{"name": "https", "port": 1}],
                "endpoints": [{"addresses": ["192.0.2.1"], "conditions": {"ready": ready}}]})
            };
            create(&client, slices, slice(false)).await;
            settle().await;
            let why = "endpointslices for service/other in \"default\" have no addresses with port name \"https\"";
            assert_eq!(now(), ["False", "MissingEndpoints", why]);

            client.patch(&format!("{slices}/s"), "application/merge-patch+json", &slice(true)).await;
            settle().await;
            let [status, reason, message] = now();
            assert_eq!((&*status, &*reason), ("False", "FailedDiscoveryCheck"));
            assert!(message.starts_with("failing or missing response from https://"), "{message}");
            assert!(message.contains(":443/apis/other.io/v1: "), "{message}");
        })
        .expect("a runtime");
    }
}
