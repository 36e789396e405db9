//! The events of a cluster, optional: those of the controllers of workloads, of the scheduler and of kubelets about
//! pods, replica sets and jobs. One observer writes them for all, from the changes of the objects.
//!
//! See `pkg/controller/controller_utils.go` (pods of a controller), `pkg/controller/deployment/sync.go`,
//! `pkg/controller/statefulset/stateful_pod_control.go`, `pkg/controller/job/job_controller.go`,
//! `pkg/scheduler/schedule_one.go`, `pkg/kubelet/images/image_manager.go` and
//! `pkg/kubelet/kuberuntime/kuberuntime_container.go` of Kubernetes 1.36.

mod correlator;
mod object;
mod series;

use std::sync::Arc;

use tokio::sync::mpsc;

use correlator::EventCorrelator;
use object::SCHEDULER;
use series::EventSeriesLog;

use crate::controllers::{ControllerClient, WatchChange, WatchMux, WatchSet};
use crate::event_sink::{Event, component_of};
use crate::json::fields::array_field;
use crate::json::{Value, json};
use crate::metadata::{self, reference};
use crate::server::ApiServer;
use crate::store::{EventType, LogEntry, ResourceId};
use crate::workloads::is_managed_elsewhere;

/// Writes the events of changes from now on. Never returns.
pub async fn publish_events(server: ApiServer) {
    let agent = ControllerClient::new(&server, "plumbline/event-recorder");
    let [pods, sets, jobs] = [("", "pods"), ("apps", "replicasets"), ("batch", "jobs")]
        .map(|(group, plural)| ResourceId::new(group, plural));
    let mut feed = WatchMux::new(&server, WatchSet::Resources(vec![pods.clone(), sets.clone(), jobs]));
    let (sender, mut recorded) = mpsc::unbounded_channel();
    server.events().attach(sender);
    let mut log = EventLog::new(agent);
    loop {
        let next = log.series.next();
        let changes = tokio::select! {
            biased;
            changes = feed.next_until(next) => changes,
            Some(event) = recorded.recv() => {
                log.write(event).await;
                continue;
            }
        };
        if next.is_some_and(|next| next <= server.clock().now()) {
            log.series.tick(&log.agent).await;
        }
        for (resource, change) in changes {
            let WatchChange::Event(entry) = change else { continue };
            let change = ObjectUpdate::of(&entry);
            let events = match &resource {
                resource if *resource == pods => events_of_pod(&change),
                resource if *resource == sets => events_of_replica_set(&change),
                _ => events_of_job(&change),
            };
            for event in events {
                log.write(event).await;
            }
        }
    }
}

/// The events of both APIs.
struct EventLog {
    agent: ControllerClient,
    /// Number of the events so far.
    written: i128,
    correlator: EventCorrelator,
    series: EventSeriesLog,
}

impl EventLog {
    fn new(agent: ControllerClient) -> Self {
        Self { agent, written: 0, correlator: EventCorrelator::default(), series: EventSeriesLog::default() }
    }

    async fn write(&mut self, event: Event) {
        self.written += 1;
        if event.component == SCHEDULER {
            self.series.write(&self.agent, &event, self.written).await;
        } else {
            self.correlator.write(&self.agent, event, self.written).await;
        }
    }
}

/// A change of an object.
struct ObjectUpdate {
    old: Value,
    new: Value,
    deleted: bool,
}

impl ObjectUpdate {
    fn of(entry: &Arc<LogEntry>) -> Self {
        Self {
            old: entry.previous.as_ref().map(|stored| stored.value()).unwrap_or_default(),
            new: entry.current.value(),
            deleted: entry.event_type == EventType::Deleted,
        }
    }

    fn is_new(&self) -> bool {
        self.old.is_null()
    }
}

const KUBELET: &str = "kubelet";

/// Returns the reference to the controller of an object, if it is of a kind.
fn controller(object: &Value, api_version: &str, kind: &str) -> Option<Value> {
    let owner = metadata::controller(object).filter(|owner| metadata::refers_to(owner, api_version, kind))?;
    Some(json!({"apiVersion": owner["apiVersion"], "kind": owner["kind"], "namespace": metadata::namespace(object),
        "name": owner["name"], "uid": owner["uid"]}))
}

fn events_of_pod(change: &ObjectUpdate) -> Vec<Event> {
    let mut events = Vec::new();
    let old = &change.old;
    let new = &change.new;
    if change.deleted {
        return events;
    }
    let name = metadata::name(new);
    if change.is_new() {
        for (api_version, kind) in [
            ("apps/v1", "ReplicaSet"),
            ("v1", "ReplicationController"),
            ("apps/v1", "DaemonSet"),
            ("batch/v1", "Job"),
            ("apps/v1", "StatefulSet"),
        ] {
            let Some(owner) = controller(new, api_version, kind) else { continue };
            let message = match kind {
                "StatefulSet" => {
                    let set = owner["name"].as_str().unwrap_or_default();
                    format!("Create Pod {name} in StatefulSet {set} successful")
                }
                _ => format!("Created pod: {name}"),
            };
            events.push(Event::new(owner, component_of(kind), "SuccessfulCreate", message));
        }
    }
    let node = new["spec"]["nodeName"].as_str().unwrap_or_default();
    if !change.is_new() && !node.is_empty() && old["spec"]["nodeName"].as_str().unwrap_or_default().is_empty() {
        let message = format!("Successfully assigned {}/{name} to {node}", metadata::namespace(new));
        events.push(Event::new(reference("v1", "Pod", new), SCHEDULER, "Scheduled", message));
    }
    for (list, statuses, field) in [
        ("initContainers", "initContainerStatuses", "spec.initContainers"),
        ("containers", "containerStatuses", "spec.containers"),
        ("ephemeralContainers", "ephemeralContainerStatuses", "spec.ephemeralContainers"),
    ] {
        for container in array_field(&new["spec"], list) {
            let name = container["name"].as_str().unwrap_or_default();
            let mut about = reference("v1", "Pod", new);
            about["fieldPath"] = format!("{field}{{{name}}}").into();
            let [before, now] = [old, new].map(|pod| container_status(pod, statuses, name));
            let mut described = container_events(new, container, before, now);
            if is_running(now) && metadata::is_deleted(new) && !metadata::is_deleted(old) {
                described.push((false, "Killing", format!("Stopping container {name}")));
            }
            events.extend(described.into_iter().map(|(warning, reason, message)| Event {
                host: node.to_owned(),
                warning,
                ..Event::new(about.clone(), KUBELET, reason, message)
            }));
        }
    }
    events
}

/// Returns the status of a container of a pod.
fn container_status<'p>(pod: &'p Value, statuses: &str, name: &str) -> &'p Value {
    let found = array_field(&pod["status"], statuses).iter().find(|status| status["name"] == *name);
    found.unwrap_or(&Value::Null)
}

fn is_running(status: &Value) -> bool {
    status["state"]["running"].is_object()
}

/// Returns what a kubelet tells about a container whose status changes: kind, reason and message of each event.
fn container_events(pod: &Value, container: &Value, before: &Value, now: &Value) -> Vec<(bool, &'static str, String)> {
    let starts = |status: &Value| status["restartCount"].as_i64().unwrap_or(0);
    let has_run = |status: &Value| is_running(status) || status["state"]["terminated"].is_object();
    let is_new = if is_running(now) { !is_running(before) } else { has_run(now) && !has_run(before) };
    if is_new || has_run(now) && starts(now) > starts(before) && !before.is_null() {
        return started(container);
    }
    let waiting = &now["state"]["waiting"];
    if waiting.is_null() || waiting["reason"] == before["state"]["waiting"]["reason"] {
        return Vec::new();
    }
    let image = container["image"].as_str().unwrap_or_default();
    let message = waiting["message"].as_str().unwrap_or_default();
    match waiting["reason"].as_str().unwrap_or_default() {
        "CreateContainerConfigError" => vec![(true, "Failed", format!("Error: {message}"))],
        reason @ ("ErrImageNeverPull" | "InvalidImageName") => {
            let of_image = if reason == "InvalidImageName" { "InspectFailed" } else { "ErrImageNeverPull" };
            vec![(true, of_image, message.to_owned()), (true, "Failed", format!("Error: {reason}"))]
        }
        "CrashLoopBackOff" => {
            let name = container["name"].as_str().unwrap_or_default();
            let (namespace, uid) = (metadata::namespace(pod), metadata::uid(pod));
            let pod = metadata::name(pod);
            let message = format!("Back-off restarting failed container {name} in pod {pod}_{namespace}({uid})");
            vec![(true, "BackOff", message)]
        }
        "ImagePullBackOff" => vec![
            (false, "Pulling", format!("Pulling image {image:?}")),
            (true, "Failed", format!("Failed to pull image {image:?}: {image}: not found")),
            (true, "Failed", "Error: ErrImagePull".to_owned()),
            (false, "BackOff", format!("Back-off pulling image {image:?}")),
            (true, "Failed", "Error: ImagePullBackOff".to_owned()),
        ],
        _ => Vec::new(),
    }
}

/// Returns what a kubelet tells about a container that starts. An image is pulled in no time.
fn started(container: &Value) -> Vec<(bool, &'static str, String)> {
    let image = container["image"].as_str().unwrap_or_default();
    let mut described = if container["imagePullPolicy"] == "Always" {
        let pulled = format!("Successfully pulled image {image:?} in 0s (0s including waiting). Image size: 0 bytes.");
        vec![(false, "Pulling", format!("Pulling image {image:?}")), (false, "Pulled", pulled)]
    } else {
        let present = format!("Container image {image:?} already present on machine and can be accessed by the pod");
        vec![(false, "Pulled", present)]
    };
    let steps = [("Created", "Container created"), ("Started", "Container started")];
    described.extend(steps.map(|(reason, message)| (false, reason, message.to_owned())));
    described
}

fn events_of_replica_set(change: &ObjectUpdate) -> Vec<Event> {
    let size = |set: &Value| set["spec"]["replicas"].as_i64().unwrap_or(0);
    let before = size(&change.old);
    let now = size(&change.new);
    let Some(owner) = controller(&change.new, "apps/v1", "Deployment").filter(|_| !change.deleted && before != now)
    else {
        return Vec::new();
    };
    let direction = if now > before { "up" } else { "down" };
    let message = format!("Scaled {direction} replica set {} from {before} to {now}", metadata::name(&change.new));
    vec![Event::new(owner, component_of("Deployment"), "ScalingReplicaSet", message)]
}

fn events_of_job(change: &ObjectUpdate) -> Vec<Event> {
    let holds = |job: &Value, kind: &str, status: &str| {
        let mut conditions = array_field(&job["status"], "conditions").iter();
        conditions.any(|condition| condition["type"] == *kind && condition["status"] == *status)
    };
    let became = |kind: &str, status: &str| holds(&change.new, kind, status) && !holds(&change.old, kind, status);
    let event = |reason: &str, message: &str| {
        let about = reference("batch/v1", "Job", &change.new);
        Event::new(about, component_of("Job"), reason, message.to_owned())
    };
    let mut events = Vec::new();
    if change.deleted || is_managed_elsewhere(&change.new) {
        return events;
    }
    if became("Complete", "True") {
        events.push(event("Completed", "Job completed"));
    }
    if became("Suspended", "True") {
        events.push(event("Suspended", "Job suspended"));
    } else if became("Suspended", "False") && !change.is_new() {
        events.push(event("Resumed", "Job resumed"));
    }
    if became("Failed", "True") {
        let conditions = array_field(&change.new["status"], "conditions");
        let failed = conditions.iter().find(|condition| condition["type"] == "Failed");
        let text = |field: &str| failed.and_then(|failed| failed[field].as_str()).unwrap_or_default();
        events.push(Event { warning: true, ..event(text("reason"), text("message")) });
    }
    events
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::ApiServerConfig;
    use crate::clock::{Clock, epoch, run_virtual, settle};
    use crate::kubelet::{self, KubeletOptions};
    use crate::workloads;

    async fn settled(server: &ApiServer) {
        settle().await;
        server.clock().sleep(Duration::from_secs(5)).await;
        settle().await;
    }

    /// Returns kind, reason and message of all events, with the generated parts of names as `*`.
    fn described(server: &ApiServer) -> Vec<String> {
        let all = server.list(&ResourceId::new("", "events"), None);
        let mut described: Vec<String> = all
            .iter()
            .map(|stored| {
                let event = stored.value();
                let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
                let message: Vec<String> = text(&event["message"])
                    .split(' ')
                    .map(|word| word.split_once("web-").map_or(word.to_owned(), |(before, _)| format!("{before}web-*")))
                    .collect();
                let from = text(&event["reportingComponent"]);
                let kind = text(&event["involvedObject"]["kind"]);
                format!("{from} {kind} {}: {}", text(&event["reason"]), message.join(" "))
            })
            .collect();
        described.sort();
        described
    }

    #[test]
    fn a_deployment_from_its_creation_to_its_end() {
        run_virtual(async {
            let server = ApiServer::builder().build();
            tokio::spawn(publish_events(server.clone()));
            tokio::spawn(workloads::run_workload_controllers(server.clone()));
            tokio::spawn(kubelet::run(server.clone(), KubeletOptions::default()));
            server.seed([json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}})]).expect("a node");
            let client = ControllerClient::new(&server, "user");
            let template =
                json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i:1"}]}});
            let web = json!({"metadata": {"name": "web"}, "spec": {"replicas": 1,
                "selector": {"matchLabels": {"a": "b"}}, "template": template}});
            let path = "/apis/apps/v1/namespaces/default/deployments";
            assert!(client.create(path, &web).await.is_ok());
            settled(&server).await;
            let mut begin = vec![
                "kubelet Node Starting: Starting kubelet.",
                "kubelet Node NodeHasNoDiskPressure: Node n status is now: NodeHasNoDiskPressure",
                "kubelet Node NodeHasSufficientMemory: Node n status is now: NodeHasSufficientMemory",
                "kubelet Node NodeHasSufficientPID: Node n status is now: NodeHasSufficientPID",
                "kubelet Node NodeReady: Node n status is now: NodeReady",
                "default-scheduler Pod Scheduled: Successfully assigned default/web-* to n",
                "deployment-controller Deployment ScalingReplicaSet: Scaled up replica set web-* from 0 to 1",
                "kubelet Pod Created: Container created",
                "kubelet Pod Pulled: Container image \"i:1\" already present on machine and can be accessed by the pod",
                "kubelet Pod Started: Container started",
                "replicaset-controller ReplicaSet SuccessfulCreate: Created pod: web-*",
            ];
            begin.sort_unstable();
            assert_eq!(described(&server), begin);
            let none = json!({"spec": {"replicas": 0}});
            client.patch(&format!("{path}/web"), "application/merge-patch+json", &none).await;
            settled(&server).await;
            let end: Vec<String> =
                described(&server).into_iter().filter(|line| !begin.contains(&line.as_str())).collect();
            assert_eq!(
                end,
                [
                    "deployment-controller Deployment ScalingReplicaSet: Scaled down replica set web-* from 1 to 0",
                    "kubelet Pod Killing: Stopping container c",
                    "replicaset-controller ReplicaSet SuccessfulDelete: Deleted pod: web-*",
                ]
            );
        })
        .expect("a runtime");
    }

    /// A public report: a service account is deleted, and a new template cannot have pods. The counters and conditions
    /// are those of `calculateStatus` and `getReplicaFailures`, the Event that of `createPods`.
    #[test]
    fn a_deployment_whose_pods_are_refused_says_so_and_recovers() {
        run_virtual(async {
            let mut config = ApiServerConfig::new(Clock::virtual_from(epoch()));
            config.disabled.clear();
            let server = ApiServer::new(config);
            tokio::spawn(publish_events(server.clone()));
            tokio::spawn(workloads::run_workload_controllers(server.clone()));
            tokio::spawn(kubelet::run(server.clone(), KubeletOptions::default()));
            let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "s1"}});
            let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}});
            server.seed([node, account.clone()]).expect("seeded");
            let client = ControllerClient::new(&server, "user");
            let spec = json!({"serviceAccountName": "s1", "containers": [{"name": "c", "image": "i:1"}]});
            let web = json!({"metadata": {"name": "web"}, "spec": {"replicas": 1, "selector": {"matchLabels": {"a": "b"}},
                "template": {"metadata": {"labels": {"a": "b"}}, "spec": spec}}});
            let path = "/apis/apps/v1/namespaces/default/deployments";
            assert!(client.create(path, &web).await.is_ok());
            settled(&server).await;
            let accounts = "/api/v1/namespaces/default/serviceaccounts";
            assert!(client.delete(&format!("{accounts}/s1"), None).await.is_ok());
            let image = json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "i:2"}]}}}});
            client.patch(&format!("{path}/web"), "application/strategic-merge-patch+json", &image).await;
            settled(&server).await;
            let status = || {
                let stored = server.get(&ResourceId::new("apps", "deployments"), "default", "web");
                stored.expect("a deployment").value()["status"].clone()
            };
            let condition = |kind: &str| {
                let status = status();
                array_field(&status, "conditions").iter().find(|one| one["type"] == *kind).cloned().unwrap_or_default()
            };
            assert_eq!((&status()["unavailableReplicas"], &status()["availableReplicas"]), (&json!(1), &json!(1)));
            let failure = condition("ReplicaFailure");
            assert_eq!((&failure["status"], &failure["reason"]), (&json!("True"), &json!("FailedCreate")));
            let message = failure["message"].as_str().unwrap_or_default();
            let refused = "is forbidden: error looking up service account default/s1: serviceaccount \"s1\" not found";
            assert!(message.starts_with("pods \"web-") && message.ends_with(&format!("-\" {refused}")), "{message}");
            let events = described(&server);
            let event = events.iter().filter(|event| event.contains("FailedCreate")).collect::<Vec<_>>();
            let [event] = event.as_slice() else { panic!("{events:?}") };
            assert!(event.starts_with("replicaset-controller ReplicaSet FailedCreate: Error creating: pods \"web-*"));

            server.clock().sleep(Duration::from_mins(11)).await;
            assert_eq!(condition("Progressing")["reason"], "ProgressDeadlineExceeded");
            assert!(client.create(accounts, &account).await.is_ok());
            server.clock().sleep(Duration::from_secs(1000)).await;
            assert_eq!(condition("ReplicaFailure"), Value::Null);
            assert_eq!(condition("Progressing")["reason"], "NewReplicaSetAvailable");
        })
        .expect("a runtime");
    }

    #[test]
    fn jobs_complete_fail_and_wait() {
        let job = |conditions: Value| json!({"metadata": {"name": "j", "namespace": "d"}, "status": {"conditions": conditions}});
        let change = |old: Value, new: Value| ObjectUpdate { old: job(old), new: job(new), deleted: false };
        let shown = |change: &ObjectUpdate| {
            let events = events_of_job(change).into_iter();
            events.map(|event| (event.warning, event.reason, event.message)).collect::<Vec<_>>()
        };
        let text = |warning: bool, reason: &str, message: &str| vec![(warning, reason.to_owned(), message.to_owned())];
        let complete = json!([{"type": "Complete", "status": "True"}]);
        assert_eq!(shown(&change(json!([]), complete.clone())), text(false, "Completed", "Job completed"));
        assert_eq!(shown(&change(complete.clone(), complete)), []);
        let failed = json!([{"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded", "message": "m"}]);
        assert_eq!(shown(&change(json!([]), failed)), text(true, "BackoffLimitExceeded", "m"));
        let [on, off] = ["True", "False"].map(|status| json!([{"type": "Suspended", "status": status}]));
        assert_eq!(shown(&change(json!([]), on.clone())), text(false, "Suspended", "Job suspended"));
        assert_eq!(shown(&change(on, off)), text(false, "Resumed", "Job resumed"));
    }
}
