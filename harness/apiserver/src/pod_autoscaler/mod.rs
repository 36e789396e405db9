//! The horizontal pod autoscaler, optional: it changes the number of pods by the figures of `metrics.k8s.io`. Metrics
//! of other APIs fail as in a cluster without an adapter. See `pkg/controller/podautoscaler/horizontal.go`.

mod behavior;
mod figures;

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use http::Method;
use jiff::Timestamp;
use thiserror::Error;

use crate::controllers::{ControllerClient, ControllerResponse, WatchMux, WatchSet, path_of};
use crate::event_sink::Event;
use crate::json::fields::{array_field, str_field};
use crate::json::{Value, json};
use crate::metadata;
use crate::object_lifecycle::rfc3339;
use crate::quantity::Quantity;
use crate::registry::conditions;
use crate::selectors::LabelSelector;
use crate::server::ApiServer;
use crate::store::ResourceId;
use behavior::{Memory, Wish};
use figures::{MetricError, MetricTarget, Proposal, ResourceMetric, Tolerances};

/// Time between two looks at an autoscaler (`HorizontalPodAutoscalerSyncPeriod`).
const SYNC_PERIOD: Duration = Duration::from_secs(15);
/// Tries of a write that meets conflicts, and the time between them (`DefaultRetry`).
const CONFLICTS: (u32, Duration) = (5, Duration::from_millis(10));
/// `HorizontalPodAutoscalerTolerance`.
const TOLERANCE: f64 = 0.1;

/// Namespace and name of an autoscaler.
type AutoscalerKey = (String, String);

/// The selectors of the targets of autoscalers, as of the last look at each.
type Selectors = BTreeMap<AutoscalerKey, LabelSelector>;

/// Scales what autoscalers target. Never returns.
pub async fn scale_horizontally(server: ApiServer) {
    let agent = ControllerClient::new(&server, "plumbline/horizontal-pod-autoscaler");
    let autoscalers = ResourceId::new("autoscaling", "horizontalpodautoscalers");
    let mut feed = WatchMux::new(&server, WatchSet::Resources(vec![autoscalers]));
    let mut known: BTreeMap<AutoscalerKey, (Timestamp, Memory)> = BTreeMap::new();
    let mut selectors = Selectors::new();
    loop {
        let next = known.values().map(|(at, _)| *at).min();
        for (_, change) in feed.next_until(next).await {
            let is_gone = change.is_deletion();
            for stored in change.objects() {
                let key = (stored.namespace().to_owned(), stored.name().to_owned());
                if is_gone {
                    known.remove(&key);
                    selectors.remove(&key);
                } else {
                    let first = || (later(server.clock().now()), Memory::default());
                    known.entry(key).or_insert_with(first);
                }
            }
        }
        let now = server.clock().now();
        for (key, (at, memory)) in known.iter_mut().filter(|(_, (at, _))| *at <= now) {
            *at = later(now);
            sync(&agent, key, memory, &mut selectors).await;
        }
        // What was refused is tried in the next period.
        agent.take_refusal();
    }
}

fn later(now: Timestamp) -> Timestamp {
    now.checked_add(SYNC_PERIOD).unwrap_or(Timestamp::MAX)
}

/// One look at an autoscaler.
struct Autoscaler<'a> {
    agent: &'a ControllerClient,
    object: Value,
    now: Timestamp,
}

/// Looks at an autoscaler, and writes its status if it has changed.
async fn sync(agent: &ControllerClient, key: &AutoscalerKey, memory: &mut Memory, selectors: &mut Selectors) {
    let (namespace, name) = key;
    let path = format!("/apis/autoscaling/v2/namespaces/{namespace}/horizontalpodautoscalers/{name}");
    let current = agent.send(Method::GET, &path, "", None).await;
    if !current.is_ok() {
        return;
    }
    let object = current.body();
    let before = object["status"].clone();
    let mut one = Autoscaler { agent, object, now: agent.server().clock().now() };
    one.reconcile(memory, selectors).await;
    if without_nulls(&one.object["status"]) != without_nulls(&before) {
        agent.replace(&format!("{path}/status"), &one.object).await;
    }
}

/// Returns a status without its empty fields.
fn without_nulls(status: &Value) -> Value {
    let mut status = status.clone();
    if let Some(fields) = status.as_object_mut() {
        fields.retain(|_, value| !value.is_null());
    }
    status
}

/// The target of an autoscaler.
struct ScaleTarget {
    path: String,
    scale: Value,
}

impl ScaleTarget {
    fn replicas(&self) -> i64 {
        self.scale["spec"]["replicas"].as_i64().unwrap_or(0)
    }
}

/// Reasons why an autoscaler has no target, in upstream's words.
#[derive(Debug, Error)]
enum TargetError {
    #[error("no matches for kind {kind:?} in group {group:?}")]
    UnknownKind { kind: String, group: String },
    #[error("{0}")]
    Refused(String),
}

/// Reasons why an autoscaler has no number, in upstream's words.
#[derive(Debug, Error)]
enum ComputationError {
    #[error("selector is required")]
    NoSelector,
    #[error("pods by selector {selector} are controlled by multiple HPAs: [{autoscalers}]")]
    AmbiguousSelector { selector: String, autoscalers: String },
    #[error("invalid metrics ({invalid} invalid out of {all}), first error is: {first}")]
    Invalid { invalid: usize, all: usize, first: String },
    #[error("no metrics")]
    NoMetrics,
}

/// The numbers that the metrics ask for, with the state of each metric.
struct Computation {
    /// The highest number, and the metric that asks for it; or the reason why there is none.
    wanted: Result<(i64, String), ComputationError>,
    statuses: Vec<Value>,
}

impl Autoscaler<'_> {
    fn spec(&self, field: &str) -> &Value {
        &self.object["spec"][field]
    }

    fn namespace(&self) -> &str {
        metadata::namespace(&self.object)
    }

    /// Records an event about the autoscaler.
    fn record(&self, warning: bool, reason: &str, message: String) {
        let about = metadata::reference("autoscaling/v2", "HorizontalPodAutoscaler", &self.object);
        let event = Event { warning, ..Event::new(about, "horizontal-pod-autoscaler", reason, message) };
        self.agent.server().events().record(event);
    }

    fn set_condition(&mut self, kind: &str, holds: bool, reason: &str, message: &str) {
        let now = rfc3339(self.now);
        let mut all = array_field(&self.object["status"], "conditions").to_vec();
        conditions::set(&mut all, kind, if holds { "True" } else { "False" }, reason, message, &now);
        self.object["status"]["conditions"] = all.into();
    }

    /// Sets the numbers and metrics of the status: `setStatus`.
    fn set_status(&mut self, current: i64, wanted: i64, metrics: Vec<Value>) {
        let status = &mut self.object["status"];
        status["currentReplicas"] = current.into();
        status["desiredReplicas"] = wanted.into();
        status["currentMetrics"] = if metrics.is_empty() { Value::Null } else { metrics.into() };
    }

    async fn reconcile(&mut self, memory: &mut Memory, selectors: &mut Selectors) {
        let target = match self.target().await {
            Ok(target) => target,
            Err(why) => {
                let message = format!("the HPA controller was unable to get the target's current scale: {why}");
                self.set_condition("AbleToScale", false, "FailedGetScale", &message);
                return self.record(true, "FailedGetScale", why.to_string());
            }
        };
        let message = "the HPA controller was able to get the target's current scale";
        self.set_condition("AbleToScale", true, "SucceededGetScale", message);
        let current = target.replicas();
        memory.begin(current, self.now);
        let least = self.spec("minReplicas").as_i64().unwrap_or(1);
        let most = self.spec("maxReplicas").as_i64().unwrap_or(i64::MAX);
        if current == 0 {
            let message = "scaling is disabled since the replica count of the target is zero";
            self.set_condition("ScalingActive", false, "ScalingDisabled", message);
            return self.set_status(0, 0, Vec::new());
        }
        if current > most {
            let reason = "Current number of replicas above Spec.MaxReplicas";
            return self.rescale(&target, most, reason, Vec::new(), memory).await;
        }
        if current < least {
            let reason = "Current number of replicas below Spec.MinReplicas";
            return self.rescale(&target, least, reason, Vec::new(), memory).await;
        }
        let computation = match self.check_selector(&target, selectors) {
            Ok(()) => self.compute(&target).await,
            Err(why) => Computation { wanted: Err(why), statuses: Vec::new() },
        };
        let Computation { wanted, statuses } = computation;
        let (wanted, metric) = match wanted {
            Ok(wanted) => wanted,
            Err(why) => {
                let before = self.object["status"]["desiredReplicas"].as_i64().unwrap_or(0);
                self.set_status(current, before, statuses);
                return self.record(true, "FailedComputeMetricsReplicas", why.to_string());
            }
        };
        let decision = memory.decide(Wish { current, wanted, least, most }, self.spec("behavior"), self.now);
        for (kind, (holds, reason, message)) in [("AbleToScale", decision.able), ("ScalingLimited", decision.limited)] {
            self.set_condition(kind, holds, reason, message);
        }
        if decision.replicas == current {
            return self.set_status(current, current, statuses);
        }
        let reason = match wanted.cmp(&current) {
            Ordering::Greater => format!("{metric} above target"),
            Ordering::Less => "All metrics below target".to_owned(),
            // Only the behavior, or an earlier recommendation, asks for another number.
            Ordering::Equal => String::new(),
        };
        self.rescale(&target, decision.replicas, &reason, statuses, memory).await;
    }

    /// Returns the scale of the target.
    async fn target(&self) -> Result<ScaleTarget, TargetError> {
        let reference = self.spec("scaleTargetRef");
        let kind = str_field(reference, "kind");
        let api_version = str_field(reference, "apiVersion");
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let registry = self.agent.server().registry();
        let Some(resource) = registry.resource_for_kind(group, version, kind) else {
            return Err(TargetError::UnknownKind { kind: kind.to_owned(), group: group.to_owned() });
        };
        let path = format!("{}/scale", path_of(resource, self.namespace(), str_field(reference, "name")));
        let reply = self.agent.send(Method::GET, &path, "", None).await;
        if !reply.is_ok() {
            return Err(TargetError::Refused(reply.message()));
        }
        Ok(ScaleTarget { path, scale: reply.body() })
    }

    /// Writes a scale, at a conflict several times and the latest one: `RetryOnConflict` with `DefaultRetry`.
    async fn write_scale(&self, target: &ScaleTarget, wanted: i64) -> ControllerResponse {
        let mut scale = target.scale.clone();
        let mut tries = 1;
        loop {
            scale["spec"]["replicas"] = wanted.into();
            let reply = self.agent.replace(&target.path, &scale).await;
            if reply.code != 409 || tries == CONFLICTS.0 {
                return reply;
            }
            tries += 1;
            let latest = self.agent.send(Method::GET, &target.path, "", None).await;
            if latest.is_ok() {
                scale = latest.body();
            }
            self.agent.server().clock().sleep(CONFLICTS.1).await;
        }
    }

    /// Writes the number of replicas of the target.
    async fn rescale(
        &mut self,
        target: &ScaleTarget,
        wanted: i64,
        reason: &str,
        metrics: Vec<Value>,
        memory: &mut Memory,
    ) {
        let current = target.replicas();
        let reply = self.write_scale(target, wanted).await;
        if !reply.is_ok() {
            let why = reply.message();
            self.record(true, "FailedRescale", format!("New size: {wanted}; reason: {reason}; error: {why}"));
            let message = format!("the HPA controller was unable to update the target scale: {why}");
            self.set_condition("AbleToScale", false, "FailedUpdateScale", &message);
            let before = self.object["status"]["desiredReplicas"].as_i64().unwrap_or(0);
            return self.set_status(current, before, metrics);
        }
        let message = format!("the HPA controller was able to update the target scale to {wanted}");
        self.set_condition("AbleToScale", true, "SucceededRescale", &message);
        self.record(false, "SuccessfulRescale", format!("New size: {wanted}; reason: {reason}"));
        memory.scaled(current, wanted, self.now);
        self.set_status(current, wanted, metrics);
        self.object["status"]["lastScaleTime"] = rfc3339(self.now).into();
    }

    /// Checks that the target selects pods, and that no other autoscaler has one of them: `validateAndParseSelector`.
    fn check_selector(&mut self, target: &ScaleTarget, selectors: &mut Selectors) -> Result<(), ComputationError> {
        let text = str_field(&target.scale["status"], "selector");
        if text.is_empty() {
            let why = ComputationError::NoSelector;
            self.record(true, "SelectorRequired", why.to_string());
            let message = "the HPA target's scale is missing a selector";
            self.set_condition("ScalingActive", false, "InvalidSelector", message);
            return Err(why);
        }
        // That of a target is the server's own.
        let Ok(selector) = LabelSelector::parse(text) else { return Ok(()) };
        let own: AutoscalerKey = (self.namespace().to_owned(), metadata::name(&self.object).to_owned());
        let server = self.agent.server();
        let all = server.list(&ResourceId::new("", "pods"), Some(&own.0));
        let pods: Vec<_> = all.iter().filter(|pod| selector.matches(|name| pod.label(name))).collect();
        selectors.insert(own.clone(), selector);
        let selects = |(key, selector): &(&AutoscalerKey, &LabelSelector)| {
            key.0 == own.0 && pods.iter().any(|pod| selector.matches(|name| pod.label(name)))
        };
        let selecting: Vec<String> =
            selectors.iter().filter(selects).map(|((namespace, name), _)| format!("{{{name} {namespace}}}")).collect();
        if selecting.len() < 2 {
            return Ok(());
        }
        let autoscalers = selecting.join(" ");
        let why = ComputationError::AmbiguousSelector { selector: text.to_owned(), autoscalers };
        self.record(true, "AmbiguousSelector", why.to_string());
        self.set_condition("ScalingActive", false, "AmbiguousSelector", &why.to_string());
        Err(why)
    }

    /// Computes what the metrics ask for: `computeReplicasForMetrics`.
    async fn compute(&mut self, target: &ScaleTarget) -> Computation {
        let selector = str_field(&target.scale["status"], "selector").to_owned();
        let metrics = array_field(&self.object["spec"], "metrics").to_vec();
        let mut best: Option<(i64, String)> = None;
        let mut failures: Vec<(&'static str, String, String)> = Vec::new();
        let mut statuses = Vec::new();
        for metric in &metrics {
            match self.proposal(metric, &selector, target.replicas()).await {
                Ok((proposal, name, status)) => {
                    statuses.push(status);
                    if best.as_ref().is_none_or(|(most, _)| *most == 0 || proposal.replicas > *most) {
                        best = Some((proposal.replicas, name));
                    }
                }
                Err((reason, why, prefix)) => {
                    // A metric without a figure has an empty status.
                    statuses.push(json!({"type": ""}));
                    self.record(true, reason, why.clone());
                    failures.push((reason, why.clone(), format!("{prefix}: {why}")));
                }
            }
        }
        let all = metrics.len();
        let fewer = best.as_ref().is_none_or(|(wanted, _)| *wanted < target.replicas());
        if let Some((reason, why, first)) = failures.first().filter(|_| fewer) {
            let message = format!("the HPA was unable to compute the replica count: {why}");
            self.set_condition("ScalingActive", false, reason, &message);
            let why = ComputationError::Invalid { invalid: failures.len(), all, first: first.clone() };
            return Computation { wanted: Err(why), statuses };
        }
        let Some((wanted, name)) = best else {
            return Computation { wanted: Err(ComputationError::NoMetrics), statuses };
        };
        let message = format!("the HPA was able to successfully calculate a replica count from {name}");
        self.set_condition("ScalingActive", true, "ValidMetricFound", &message);
        Computation { wanted: Ok((wanted, name)), statuses }
    }

    /// Computes what one metric asks for. The error is the reason of a condition, its message, and the begin of the
    /// message of the event about all metrics.
    async fn proposal(
        &self,
        metric: &Value,
        selector: &str,
        current: i64,
    ) -> Result<(Proposal, String, Value), (&'static str, String, String)> {
        let (source, reason) = match str_field(metric, "type") {
            "Resource" => ("resource", "FailedGetResourceMetric"),
            "ContainerResource" => ("containerResource", "FailedGetContainerResourceMetric"),
            "Pods" => return Err(self.without_adapter("FailedGetPodsMetric", "pods", "custom", &metric["pods"])),
            "Object" => {
                return Err(self.without_adapter("FailedGetObjectMetric", "object", "custom", &metric["object"]));
            }
            _ => {
                return Err(self.without_adapter(
                    "FailedGetExternalMetric",
                    "external",
                    "external",
                    &metric["external"],
                ));
            }
        };
        let given = &metric[source];
        let resource = str_field(given, "name");
        let container = str_field(given, "container");
        let prefix = if container.is_empty() {
            format!("failed to get {resource} resource metric value")
        } else {
            format!("failed to get {container} container metric value")
        };
        let average = Quantity::of(&given["target"]["averageValue"]);
        let (target, what) = match average {
            Some(average) => (MetricTarget::Average(figures::milli(average)), "usage"),
            None => {
                (MetricTarget::Utilization(given["target"]["averageUtilization"].as_i64().unwrap_or(0)), "utilization")
            }
        };
        let asked = ResourceMetric { resource, container, target };
        let found = self.propose(&asked, selector, current).await;
        let found = found.map_err(|why| (reason, format!("failed to get {resource} {what}: {why}"), prefix))?;
        let kind = if container.is_empty() { "" } else { "container " };
        let name = match target {
            MetricTarget::Average(_) => format!("{resource} resource"),
            MetricTarget::Utilization(_) => format!("{resource} {kind}resource utilization (percentage of request)"),
        };
        let mut status = json!({"name": resource, "current": {"averageValue": shown(resource, found.average)}});
        if let Some(utilization) = found.utilization {
            status["current"]["averageUtilization"] = utilization.into();
        }
        if !container.is_empty() {
            status["container"] = container.into();
        }
        let status = json!({"type": metric["type"], source: status});
        Ok((found, name, status))
    }

    /// Returns the failure of a metric whose API needs an adapter, which is not there.
    fn without_adapter(
        &self,
        reason: &'static str,
        kind: &str,
        api: &str,
        given: &Value,
    ) -> (&'static str, String, String) {
        let name = str_field(&given["metric"], "name");
        let namespace = self.namespace();
        let cause = format!(
            "unable to fetch metrics from {api} metrics API: no {api} metrics API ({api}.metrics.k8s.io) registered"
        );
        let why = match kind {
            "pods" => format!("unable to get metric {name}: {cause}"),
            "object" => {
                let on = str_field(&given["describedObject"], "kind");
                let of = str_field(&given["describedObject"], "name");
                format!("unable to get metric {name}: {on} on {namespace} {of}/{cause}")
            }
            _ => format!("unable to get external metric {namespace}/{name}/nil: {cause}"),
        };
        let prefix = if kind == "external" {
            format!("failed to get {name} external metric value")
        } else {
            format!("failed to get {kind} metric value")
        };
        (reason, why, prefix)
    }

    async fn propose(
        &self,
        metric: &ResourceMetric<'_>,
        selector: &str,
        current: i64,
    ) -> Result<Proposal, MetricError> {
        let namespace = self.namespace();
        let query = form_urlencoded(selector);
        let resource = metric.resource;
        let path = format!("/apis/metrics.k8s.io/v1beta1/namespaces/{namespace}/pods?labelSelector={query}");
        let reply = self.agent.send(Method::GET, &path, "", None).await;
        let items = |reply: &ControllerResponse| array_field(&reply.body(), "items").to_vec();
        let failure = if !reply.is_ok() {
            let why = if reply.code == 404 {
                "the server could not find the requested resource (get pods.metrics.k8s.io)".to_owned()
            } else {
                reply.message()
            };
            Some(format!("unable to fetch metrics from resource metrics API: {why}"))
        } else if items(&reply).is_empty() {
            Some("no metrics returned from resource metrics API".to_owned())
        } else {
            None
        };
        if let Some(why) = failure {
            return Err(MetricError::Unavailable { resource: resource.to_owned(), why });
        }
        let figures = figures::figures(&items(&reply), metric);
        let path = format!("/api/v1/namespaces/{namespace}/pods?labelSelector={query}");
        let pods = items(&self.agent.send(Method::GET, &path, "", None).await);
        figures::propose(metric, figures, &pods, current, self.tolerances(), self.now)
    }

    fn tolerances(&self) -> Tolerances {
        let of = |direction: &str| {
            let given = Quantity::of(&self.spec("behavior")[direction]["tolerance"]);
            given.map_or(TOLERANCE, Quantity::to_f64)
        };
        (of("scaleDown"), of("scaleUp"))
    }
}

/// Returns an average as the status shows it: `buildQuantity`.
fn shown(resource: &str, milli: i64) -> String {
    let exact = Quantity::parse(&format!("{milli}m")).map(|amount| amount.to_string()).unwrap_or_default();
    if resource != "memory" || milli % 1000 != 0 {
        return exact;
    }
    let bytes = milli / 1000;
    let units = [("Gi", 1 << 30), ("Mi", 1 << 20), ("Ki", 1 << 10)];
    let unit = units.into_iter().find(|(_, size)| bytes != 0 && bytes % size == 0);
    unit.map_or_else(|| bytes.to_string(), |(unit, size)| format!("{}{unit}", bytes / size))
}

/// Encodes a selector for a query.
fn form_urlencoded(text: &str) -> String {
    let mut encoded = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ApiServerConfig;
    use crate::clock::{Clock, epoch, run_virtual};
    use crate::controllers::MERGE_PATCH;
    use crate::kubelet::{KubeletOptions, run};
    use crate::loop_tests::refuse;
    use crate::{events, usage_metrics, workloads};

    const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
    const AUTOSCALERS: &str = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers";

    fn status(server: &ApiServer, client_reply: &Value) -> (Value, Vec<String>) {
        let replicas = server.get(&ResourceId::new("apps", "deployments"), "default", "web").expect("web").value();
        let conditions = array_field(&client_reply["status"], "conditions").iter();
        let shown = conditions
            .map(|one| format!("{}={} {}", str_field(one, "type"), str_field(one, "status"), str_field(one, "reason")));
        (replicas["spec"]["replicas"].clone(), shown.collect())
    }

    /// Runs a test with a deployment of one pod whose usage is this annotation.
    fn with_web(usage: &str, test: impl AsyncFnOnce(&ApiServer, &ControllerClient)) {
        run_virtual(async {
            let server = ApiServer::new(ApiServerConfig::new(Clock::virtual_from(epoch())));
            server.seed([json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}})]).expect("a node");
            tokio::spawn(events::publish_events(server.clone()));
            tokio::spawn(workloads::run_workload_controllers(server.clone()));
            tokio::spawn(run(server.clone(), KubeletOptions::default()));
            tokio::spawn(scale_horizontally(server.clone()));
            let client = ControllerClient::new(&server, "user");
            let container = json!({"name": "c", "image": "i", "resources": {"requests": {"cpu": "100m"}}});
            let mut template = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [container]}});
            if !usage.is_empty() {
                template["metadata"]["annotations"] = json!({"plumbline.dev/usage": usage});
                tokio::spawn(usage_metrics::publish_usage(server.clone()));
            }
            let web = json!({"metadata": {"name": "web"}, "spec": {"replicas": 1,
                "selector": {"matchLabels": {"a": "b"}}, "template": template}});
            assert!(client.create(DEPLOYMENTS, &web).await.is_ok());
            let target = json!({"type": "Utilization", "averageUtilization": 50});
            let scaler = json!({"metadata": {"name": "web"}, "spec": {"maxReplicas": 5,
                "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
                "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": target}}]}});
            let made = client.create(AUTOSCALERS, &scaler).await;
            assert!(made.is_ok(), "{}", made.body());
            server.clock().sleep(Duration::from_secs(70)).await;
            test(&server, &client).await;
        })
        .expect("a runtime");
    }

    async fn read(client: &ControllerClient) -> Value {
        client.send(Method::GET, &format!("{AUTOSCALERS}/web"), "", None).await.body()
    }

    #[test]
    fn pods_that_use_much_become_more() {
        with_web("cpu=100m", async |server, client| {
            let scaler = read(client).await;
            let (replicas, _) = status(server, &scaler);
            assert_eq!(replicas, json!(4), "twice as many are wanted, twice");
            let current = &scaler["status"]["currentMetrics"][0]["resource"]["current"];
            assert_eq!(*current, json!({"averageUtilization": 100, "averageValue": "100m"}));
            let events = server.list(&ResourceId::new("", "events"), None);
            let messages: Vec<String> =
                events.iter().map(|event| str_field(&event.value(), "message").to_owned()).collect();
            let expected = "New size: 2; reason: cpu resource utilization (percentage of request) above target";
            assert!(messages.contains(&expected.to_owned()), "{messages:?}");
            server.clock().sleep(Duration::from_mins(2)).await;
            let (replicas, conditions) = status(server, &read(client).await);
            assert_eq!(replicas, json!(5));
            let expected = [
                "AbleToScale=True ReadyForNewScale",
                "ScalingActive=True ValidMetricFound",
                "ScalingLimited=True TooManyReplicas",
            ];
            assert_eq!(conditions, expected);
        });
    }

    /// `reconcileAutoscaler` in `horizontal.go`: a conflict is no failure.
    #[test]
    fn a_conflict_is_tried_again_with_the_latest_scale() {
        with_web("", async |server, client| {
            let on = serde_json::json!({"verbs": ["update"], "subresource": "scale"});
            refuse(server, &on, Some(4), 409);
            let more = json!({"spec": {"minReplicas": 3}});
            assert!(client.patch(&format!("{AUTOSCALERS}/web"), MERGE_PATCH, &more).await.is_ok());
            server.clock().sleep(Duration::from_secs(16)).await;
            assert_eq!(status(server, &read(client).await).0, json!(3));
            let events = server.list(&ResourceId::new("", "events"), None);
            assert!(!events.iter().any(|event| event.value()["reason"] == "FailedRescale"));
        });
    }

    #[test]
    fn an_autoscaler_without_figures_says_so() {
        with_web("", async |server, client| {
            let scaler = read(client).await;
            let (replicas, conditions) = status(server, &scaler);
            assert_eq!(replicas, json!(1));
            assert_eq!(
                conditions,
                ["AbleToScale=True SucceededGetScale", "ScalingActive=False FailedGetResourceMetric"]
            );
            let active = array_field(&scaler["status"], "conditions")[1]["message"].clone();
            let expected = "the HPA was unable to compute the replica count: failed to get cpu utilization: unable to get \
                            metrics for resource cpu: unable to fetch metrics from resource metrics API: the server could \
                            not find the requested resource (get pods.metrics.k8s.io)";
            assert_eq!(active, expected);
            assert!(client.delete(&format!("{DEPLOYMENTS}/web"), None).await.is_ok());
            server.clock().sleep(Duration::from_secs(20)).await;
            let scaler = read(client).await;
            let able = &array_field(&scaler["status"], "conditions")[0];
            let expected =
                "the HPA controller was unable to get the target's current scale: deployments.apps \"web\" not found";
            assert_eq!((&able["reason"], &able["message"]), (&json!("FailedGetScale"), &json!(expected)));
        });
    }

    #[test]
    fn numbers_outside_of_the_limits_are_corrected() {
        with_web("", async |server, client| {
            let more = json!({"spec": {"minReplicas": 3}});
            assert!(client.patch(&format!("{AUTOSCALERS}/web"), MERGE_PATCH, &more).await.is_ok());
            server.clock().sleep(Duration::from_secs(15)).await;
            let scaler = read(client).await;
            assert_eq!(status(server, &scaler).0, json!(3));
            assert_eq!(scaler["status"]["desiredReplicas"], 3);
            let none = json!({"spec": {"replicas": 0}});
            assert!(client.patch(&format!("{DEPLOYMENTS}/web"), MERGE_PATCH, &none).await.is_ok());
            server.clock().sleep(Duration::from_secs(20)).await;
            let (replicas, conditions) = status(server, &read(client).await);
            assert_eq!(replicas, json!(0));
            assert!(conditions.contains(&"ScalingActive=False ScalingDisabled".to_owned()), "{conditions:?}");
        });
    }

    /// `TestConditionAmbiguousSelectorWhenFullSelectorOverlapBetweenHPAs` of `horizontal_test.go`: pods that two
    /// autoscalers have are not scaled.
    #[test]
    fn two_autoscalers_of_the_same_pods_do_nothing() {
        with_web("cpu=10m", async |server, client| {
            let mut second = read(client).await;
            second["metadata"] = json!({"name": "again"});
            assert!(client.create(AUTOSCALERS, &second).await.is_ok());
            server.clock().sleep(Duration::from_secs(30)).await;
            let more = json!({"spec": {"replicas": 3}});
            assert!(client.patch(&format!("{DEPLOYMENTS}/web"), MERGE_PATCH, &more).await.is_ok());
            server.clock().sleep(Duration::from_mins(10)).await;
            let scaler = read(client).await;
            let (replicas, conditions) = status(server, &scaler);
            assert_eq!(replicas, json!(3));
            assert!(conditions.contains(&"ScalingActive=False AmbiguousSelector".to_owned()), "{conditions:?}");
            let active = array_field(&scaler["status"], "conditions").iter().find(|one| one["type"] == "ScalingActive");
            let expected = "pods by selector a=b are controlled by multiple HPAs: [{again default} {web default}]";
            assert_eq!(active.expect("a condition")["message"], expected);
        });
    }

    #[test]
    fn averages_of_memory_have_binary_units() {
        assert_eq!(shown("memory", 64 * 1024 * 1024 * 1000), "64Mi");
        assert_eq!(shown("cpu", 1500), "1500m");
        assert_eq!(shown("memory", 1500), "1500m");
    }
}
