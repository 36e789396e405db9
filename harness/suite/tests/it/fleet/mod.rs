//! Replicas of our controllers in one process and in virtual time, a simulated network between them and the server, and
//! objects to work on.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http::{HeaderValue, Method, Request, Response, header};
use kube::client::Body;
use parking_lot::Mutex;
use plumbline::apiserver::service::HttpBody;
use plumbline::apiserver::{ApiRequest, ApiServer, ResourceId};
use plumbline_controllers::app::{App, AppError, Config};
use plumbline_controllers::runtime::client::{ClientFactory, Limits, user_agent};
use plumbline_controllers::runtime::clock::Clock as SubjectClock;
use plumbline_controllers::runtime::leader::{Election, Timing};
use plumbline_controllers::runtime::metrics::Metrics;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tower::{BoxError, Service as _};

/// Longest delay of a request to the server, and of a reply. Both together are less than the time between the renew
/// deadline and the lease's duration.
pub(crate) const SLOWEST: u64 = 2_000;
pub(crate) const TAINT: &str = "maintenance";

/// `SplitMix64`, with a seed of its own and no shared state.
#[derive(Clone)]
pub(crate) struct Dice(Arc<Mutex<u64>>);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(Arc::new(Mutex::new(seed)))
    }

    pub(crate) fn roll(&self, sides: u64) -> u64 {
        let mut state = self.0.lock();
        *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = *state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % sides
    }

    pub(crate) fn millis(&self, up_to: u64) -> Duration {
        Duration::from_millis(self.roll(up_to + 1))
    }
}

/// The network between one replica and the server.
#[derive(Clone)]
pub(crate) struct Link {
    pub(crate) server: ApiServer,
    pub(crate) replica: String,
    pub(crate) dice: Dice,
    pub(crate) down: Arc<AtomicBool>,
}

impl Link {
    pub(crate) fn client(&self, agent: &str) -> kube::Client {
        let link = self.clone();
        let agent = format!("{}/{agent}", self.replica);
        let service = tower::service_fn(move |mut request: Request<Body>| {
            let link = link.clone();
            // Keeps the program's user agent and prefixes it with the replica's name.
            let said = request.headers().get(header::USER_AGENT).and_then(|value| value.to_str().ok());
            let agent = said.map_or(agent.clone(), |said| format!("{}/{said}", link.replica));
            request.headers_mut().insert(header::USER_AGENT, HeaderValue::from_str(&agent).unwrap());
            async move { link.send(request).await }
        });
        kube::Client::new(service, "default")
    }

    /// A request that was sent arrives even if its sender is killed.
    pub(crate) async fn send(self, request: Request<Body>) -> Result<Response<HttpBody>, BoxError> {
        let there = self.way();
        let back = self.way();
        let (answer, answered) = tokio::sync::oneshot::channel();
        tokio::spawn(async move {
            let clock = self.server.clock().clone();
            if self.is_down() {
                answer_never(answer).await;
                return;
            }
            clock.sleep(there).await;
            let reply = self.server.service().call(request).await;
            clock.sleep(back).await;
            if self.is_down() {
                answer_never(answer).await;
                return;
            }
            let _ = answer.send(reply);
        });
        answered.await?
    }

    pub(crate) fn way(&self) -> Duration {
        let usual = self.dice.millis(20);
        if self.dice.roll(10) == 0 { self.dice.millis(SLOWEST) } else { usual }
    }

    pub(crate) fn is_down(&self) -> bool {
        self.down.load(Ordering::SeqCst)
    }
}

/// Never replies; ends when the sender gives up.
pub(crate) async fn answer_never<T>(answer: tokio::sync::oneshot::Sender<T>) {
    let mut answer = answer;
    answer.closed().await;
}

pub(crate) struct Replica {
    pub(crate) name: String,
    pub(crate) task: JoinHandle<Result<(), AppError>>,
    pub(crate) stop: CancellationToken,
    pub(crate) down: Arc<AtomicBool>,
}

impl Replica {
    /// Returns true if it has not given up.
    pub(crate) fn is_running(&self) -> bool {
        !self.task.is_finished()
    }

    /// Kills it at once.
    pub(crate) fn kill(self) {
        self.task.abort();
    }
}

/// Starts and ends replicas.
pub(crate) struct Fleet {
    pub(crate) server: ApiServer,
    pub(crate) clock: SubjectClock,
    pub(crate) dice: Dice,
    pub(crate) started: usize,
    /// `true` if the replicas elect a leader.
    pub(crate) elects: bool,
}

impl Fleet {
    pub(crate) fn start(&mut self) -> Replica {
        self.started += 1;
        let name = format!("replica-{}", self.started);
        let down = Arc::new(AtomicBool::new(false));
        let link = Link {
            server: self.server.clone(),
            replica: name.clone(),
            dice: self.dice.clone(),
            down: Arc::clone(&down),
        };
        let clients: ClientFactory = Arc::new(move |client: &str| link.client(&user_agent(client)));
        let election = Election {
            name: "plumbline-controllers".into(),
            namespace: "kube-system".into(),
            identity: name.clone(),
            timing: Timing::default(),
        };
        let config = Config {
            election: self.elects.then_some(election),
            terminated_pod_gc_threshold: 3,
            limits: Limits { qps: 0.0, ..Limits::default() },
            ..Config::default()
        };
        let stop = CancellationToken::new();
        let app = App::new(&config, clients, self.clock.clone(), Metrics::new(), stop.clone());
        Replica { name, task: tokio::spawn(app.run()), stop, down }
    }
}

pub(crate) async fn user(server: &ApiServer, method: Method, path: &str, kind: &'static str, body: Value) -> u16 {
    let mut request = ApiRequest::new(method, path);
    request.headers.insert(header::USER_AGENT, HeaderValue::from_static("test/user"));
    request.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    request.body = body.to_string().into();
    server.handle(request).await.status
}

pub(crate) const MERGE: &str = "application/merge-patch+json";
pub(crate) const JSON: &str = "application/json";

pub(crate) fn node(name: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": name } })
}

pub(crate) fn world() -> Vec<Value> {
    let mut objects: Vec<Value> = (0..6).map(|n| node(&format!("node-{n}"))).collect();
    for (app, replicas) in [("web", 6), ("api", 4), ("db", 3)] {
        let labels = json!({ "app": app });
        objects.push(json!({
            "apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": { "name": app, "namespace": "default" },
            "spec": { "replicas": replicas, "selector": { "matchLabels": labels }, "template": {
                "metadata": { "labels": labels },
                "spec": { "terminationGracePeriodSeconds": 1, "containers": [{ "name": "c", "image": "i" }] },
            } },
        }));
        objects.push(json!({
            "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": { "name": app, "namespace": "default" },
            "spec": { "maxUnavailable": 1, "selector": { "matchLabels": labels } },
        }));
    }
    objects
}

pub(crate) fn text<'a>(object: &'a Value, path: &str) -> &'a str {
    object.pointer(path).and_then(Value::as_str).unwrap_or_default()
}

pub(crate) fn is_tainted(node: &Value) -> bool {
    let taints = node.pointer("/spec/taints").and_then(Value::as_array);
    taints.is_some_and(|taints| taints.iter().any(|taint| taint["key"] == TAINT && taint["effect"] == "NoExecute"))
}

/// Checks that no work is left to do.
pub(crate) fn check_world(server: &ApiServer) {
    let list = |group: &str, resource: &str| -> Vec<Value> {
        server.list(&ResourceId::new(group, resource), None).iter().map(|object| object.value().into()).collect()
    };
    let nodes: BTreeMap<String, Value> =
        list("", "nodes").into_iter().map(|node| (text(&node, "/metadata/name").to_owned(), node)).collect();
    for (name, node) in &nodes {
        assert_eq!(node["metadata"]["annotations"]["node.alpha.kubernetes.io/ttl"], "0", "{name} has no ttl");
    }
    let pods = list("", "pods");
    let tolerates =
        |pod: &Value| pod["spec"]["tolerations"].as_array().is_some_and(|all| all.iter().any(|t| t["key"].is_null()));
    for pod in &pods {
        let name = text(pod, "/metadata/name");
        let node = text(pod, "/spec/nodeName");
        let Some(node) = nodes.get(node) else {
            assert!(node.is_empty(), "orphan {name} is left");
            continue;
        };
        assert!(!is_tainted(node) || tolerates(pod), "{name} is left on a tainted node");
    }
    let finished = pods.iter().filter(|pod| matches!(text(pod, "/status/phase"), "Succeeded" | "Failed")).count();
    assert!(finished <= 3, "{finished} finished pods are left");
    for budget in list("policy", "poddisruptionbudgets") {
        let app = text(&budget, "/metadata/name");
        let ready = |pod: &&Value| {
            let conditions = pod.pointer("/status/conditions").and_then(Value::as_array);
            let ready = conditions.is_some_and(|all| all.iter().any(|c| c["type"] == "Ready" && c["status"] == "True"));
            text(pod, "/metadata/labels/app") == app && ready && pod["metadata"]["deletionTimestamp"].is_null()
        };
        let healthy = pods.iter().filter(ready).count();
        let expected = server.get(&ResourceId::new("apps", "replicasets"), "default", app).unwrap().value();
        let expected = expected["spec"]["replicas"].as_u64().unwrap();
        let desired = expected.saturating_sub(budget["spec"]["maxUnavailable"].as_u64().unwrap());
        let status = &budget["status"];
        assert_eq!(status["observedGeneration"], budget["metadata"]["generation"], "{app}: {status}");
        assert_eq!(status["currentHealthy"], healthy, "{app}: {status}");
        assert_eq!((&status["expectedPods"], &status["desiredHealthy"]), (&json!(expected), &json!(desired)), "{app}");
        assert_eq!(status["disruptionsAllowed"], (healthy as u64).saturating_sub(desired), "{app}: {status}");
    }
}
