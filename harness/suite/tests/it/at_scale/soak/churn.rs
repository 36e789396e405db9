//! A cluster under constant change: the actions of administrators, deployments, kubelets and failing machines, one step
//! a minute.
//!
//! It learns about pods from a watch, as real components do, and acts as the replica sets' controller and the kubelets
//! for them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use futures::{FutureExt as _, StreamExt as _};
use http::{Method, header};
use plumbline::apiserver::request::BodyStream;
use plumbline::apiserver::{ApiRequest, ApiServer, ReplyBody, ResourceId};
use serde_json::{Value, json};

use crate::fleet::{Dice, JSON, MERGE, TAINT, is_tainted, user};

/// Sizes of the cluster.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Size {
    pub(crate) nodes: usize,
    pub(crate) apps: usize,
    /// Pods of each application.
    pub(crate) replicas: usize,
    pub(crate) hours: usize,
    /// Number of events each minute.
    pub(crate) events: usize,
}

/// Namespaces of the applications.
const NAMESPACES: usize = 20;
/// Pods of an application that are replaced at once.
const SURGE: usize = 5;
/// Number of finished pods that may remain.
pub(crate) const FINISHED: usize = 50;
/// Status codes of changes: the object may be gone already. Creations must succeed.
const FOUND: [u16; 2] = [200, 404];
const CREATED: [u16; 1] = [201];

#[derive(Clone, Debug)]
struct Pod {
    app: usize,
    terminating: bool,
}

/// The cluster as the churn knows it.
pub(crate) struct Churn {
    pub(crate) server: ApiServer,
    size: Size,
    dice: Dice,
    nodes: Vec<String>,
    tainted: VecDeque<(usize, String)>,
    pods: BTreeMap<String, Pod>,
    ending: Vec<String>,
    replicas: Vec<usize>,
    alive: Vec<usize>,
    lacking: BTreeSet<usize>,
    rolling: VecDeque<(usize, Vec<String>)>,
    named: usize,
    step: usize,
    watch: BodyStream,
    begun: Vec<u8>,
    /// Number of events by kind.
    pub(crate) tally: BTreeMap<&'static str, usize>,
}

impl Churn {
    pub(crate) async fn start(server: ApiServer, size: Size, dice: Dice) -> Self {
        let nodes: Vec<String> = (0..size.nodes).map(|number| format!("node-{number}")).collect();
        server.seed(nodes.iter().map(|name| node(name))).unwrap();
        server.seed((0..size.apps).flat_map(|app| [replica_set(app, size.replicas), budget(app)])).unwrap();
        server.seed([json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "jobs" } })]).unwrap();
        let mut churn = Self {
            server,
            size,
            dice,
            nodes,
            tainted: VecDeque::new(),
            pods: BTreeMap::new(),
            ending: Vec::new(),
            replicas: vec![size.replicas; size.apps],
            alive: vec![0; size.apps],
            lacking: (0..size.apps).collect(),
            rolling: VecDeque::new(),
            named: 0,
            step: 0,
            watch: Box::pin(futures::stream::pending()),
            begun: Vec::new(),
            tally: BTreeMap::new(),
        };
        // The pods created now are known already.
        churn.fill().await;
        churn.watch = watch(&churn.server, churn.server.revision()).await;
        churn
    }

    /// Runs the events of one minute.
    pub(crate) async fn happen(&mut self) {
        for _ in 0..self.size.events {
            self.one().await;
        }
        self.keep_up().await;
    }

    /// Removes all taints that the churn has set.
    pub(crate) async fn calm_down(&mut self) {
        while let Some((_, name)) = self.tainted.pop_front() {
            self.untaint(&name).await;
        }
    }

    /// Runs one minute of the kubelets and the replica sets' controller.
    pub(crate) async fn keep_up(&mut self) {
        self.step += 1;
        while self.tainted.front().is_some_and(|(until, _)| *until <= self.step) {
            if let Some((_, name)) = self.tainted.pop_front() {
                self.untaint(&name).await;
            }
        }
        if let Some((app, mut old)) = self.rolling.pop_front() {
            for name in old.split_off(old.len().saturating_sub(SURGE)) {
                self.send(Method::DELETE, &pod_path(app, &name), JSON, json!({})).await;
            }
            if !old.is_empty() {
                self.rolling.push_back((app, old));
            }
        }
        self.follow().await;
        for name in std::mem::take(&mut self.ending) {
            let Some(app) = self.pods.get(&name).map(|pod| pod.app) else { continue };
            self.send(Method::DELETE, &pod_path(app, &name), JSON, json!({ "gracePeriodSeconds": 0 })).await;
        }
        self.follow().await;
        self.fill().await;
    }

    async fn one(&mut self) {
        let app = self.dice.roll(self.size.apps as u64) as usize;
        let at = self.dice.roll(self.nodes.len() as u64) as usize;
        let what = match self.dice.roll(100) {
            0..25 => self.flap(at).await,
            25..30 => self.lose(at).await,
            30..45 => self.roll_out(app),
            45..60 => self.evict(app).await,
            60..75 => self.finish_job(at).await,
            75..85 => self.scale(app).await,
            85..95 => {
                let limit = [json!("10%"), json!(1), json!("25%")][self.dice.roll(3) as usize].clone();
                let path = format!("/apis/policy/v1/namespaces/{}/poddisruptionbudgets/{}", namespace(app), name(app));
                self.send(Method::PATCH, &path, MERGE, json!({ "spec": { "maxUnavailable": limit } })).await;
                "budgets changed"
            }
            _ => self.unready(app).await,
        };
        *self.tally.entry(what).or_default() += 1;
    }

    /// Taints a node for up to half an hour; the same one may be tainted and freed within a minute.
    async fn flap(&mut self, at: usize) -> &'static str {
        let node = self.nodes[at].clone();
        let taints = json!({ "spec": { "taints": [{ "key": TAINT, "effect": "NoExecute" }] } });
        self.send(Method::PATCH, &format!("/api/v1/nodes/{node}"), MERGE, taints).await;
        if self.dice.roll(5) == 0 {
            self.untaint(&node).await;
            return "taints flapped";
        }
        // The queue is ordered by time: taints set later are removed later.
        let last = self.tainted.back().map_or(0, |(until, _)| *until);
        self.tainted.push_back((last.max(self.step + self.dice.roll(30) as usize), node));
        "nodes tainted"
    }

    async fn untaint(&self, node: &str) {
        let body = json!({ "spec": { "taints": null } });
        self.send(Method::PATCH, &format!("/api/v1/nodes/{node}"), MERGE, body).await;
    }

    /// A machine is lost with its pods, and a new one is added.
    async fn lose(&mut self, at: usize) -> &'static str {
        self.named += 1;
        let new = format!("node-{}-{}", self.step, self.named);
        let lost = std::mem::replace(&mut self.nodes[at], new.clone());
        self.send(Method::DELETE, &format!("/api/v1/nodes/{lost}"), JSON, json!({})).await;
        self.send(Method::POST, "/api/v1/nodes", JSON, node(&new)).await;
        "nodes lost"
    }

    fn roll_out(&mut self, app: usize) -> &'static str {
        if self.rolling.len() < self.size.events && self.rolling.iter().all(|(rolling, _)| *rolling != app) {
            let old = self.of(app);
            self.rolling.push_back((app, old));
        }
        "rollouts"
    }

    async fn evict(&mut self, app: usize) -> &'static str {
        let Some(name) = self.of(app).pop() else { return "no evictions" };
        let body = json!({ "apiVersion": "policy/v1", "kind": "Eviction",
            "metadata": { "name": name, "namespace": namespace(app) } });
        let status = user(&self.server, Method::POST, &format!("{}/eviction", pod_path(app, &name)), JSON, body).await;
        match status {
            201 => "evictions",
            429 => "evictions refused",
            404 => "no evictions",
            _ => panic!("eviction of {name}: {status}"),
        }
    }

    /// Creates a finished pod of a job; only the garbage collector deletes it.
    async fn finish_job(&mut self, at: usize) -> &'static str {
        self.named += 1;
        let name = format!("job-{}", self.named);
        let path = format!("/api/v1/namespaces/jobs/pods/{name}");
        let body = pod(&name, "jobs", json!({}), None, &self.nodes[at], &json!([{ "operator": "Exists" }]));
        self.send(Method::POST, "/api/v1/namespaces/jobs/pods", JSON, body).await;
        self.send(Method::PATCH, &format!("{path}/status"), MERGE, json!({ "status": { "phase": "Succeeded" } })).await;
        "jobs ended"
    }

    async fn scale(&mut self, app: usize) -> &'static str {
        let replicas = self.size.replicas - 1 + self.dice.roll(3) as usize;
        self.replicas[app] = replicas;
        let path = format!("/apis/apps/v1/namespaces/{}/replicasets/{}", namespace(app), name(app));
        self.send(Method::PATCH, &path, MERGE, json!({ "spec": { "replicas": replicas } })).await;
        for surplus in self.of(app).into_iter().skip(replicas) {
            self.send(Method::DELETE, &pod_path(app, &surplus), JSON, json!({})).await;
        }
        self.lacking.insert(app);
        "replica sets scaled"
    }

    /// A pod becomes unready; it is replaced by the next rollout, or becomes ready again.
    async fn unready(&mut self, app: usize) -> &'static str {
        let Some(name) = self.of(app).pop() else { return "no probes" };
        for ready in ["False", "True"] {
            let status = json!({ "status": { "conditions": [{ "type": "Ready", "status": ready }] } });
            self.send(Method::PATCH, &format!("{}/status", pod_path(app, &name)), MERGE, status).await;
        }
        "probes failed"
    }

    /// Names of an application's pods that are not terminating.
    fn of(&self, app: usize) -> Vec<String> {
        let prefix = format!("{}-", name(app));
        let from = self.pods.range(prefix.clone()..).take_while(|(name, _)| name.starts_with(&prefix));
        from.filter(|(_, pod)| !pod.terminating).map(|(name, _)| name.clone()).collect()
    }

    async fn fill(&mut self) {
        for app in std::mem::take(&mut self.lacking) {
            while self.alive[app] < self.replicas[app] {
                self.alive[app] += 1;
                self.named += 1;
                let new = format!("{}-{}", name(app), self.named);
                let node = self.nodes[self.dice.roll(self.nodes.len() as u64) as usize].clone();
                let body = pod(&new, &namespace(app), labels(app), Some(app), &node, &tolerations(app));
                let path = format!("/api/v1/namespaces/{}/pods", namespace(app));
                self.send(Method::POST, &path, JSON, body).await;
                let ready =
                    json!({ "status": { "phase": "Running", "conditions": [{ "type": "Ready", "status": "True" }] } });
                self.send(Method::PATCH, &format!("{path}/{new}/status"), MERGE, ready).await;
                self.pods.insert(new, Pod { app, terminating: false });
            }
        }
    }

    async fn send(&self, method: Method, path: &str, kind: &'static str, body: Value) {
        let expected: &[u16] = if method == Method::POST { &CREATED } else { &FOUND };
        let status = user(&self.server, method.clone(), path, kind, body).await;
        assert!(expected.contains(&status), "{method} {path}: {status}");
    }

    /// Processes the watch events that have arrived.
    async fn follow(&mut self) {
        tokio::task::yield_now().await;
        loop {
            match self.watch.next().now_or_never() {
                None => return,
                Some(Some(piece)) => self.begun.extend_from_slice(&piece.unwrap()),
                // The watch timed out on the server.
                Some(None) => panic!("the watch of pods ended"),
            }
            while let Some(end) = self.begun.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.begun.drain(..=end).collect();
                self.take(&serde_json::from_slice(&line).unwrap());
            }
        }
    }

    fn take(&mut self, event: &Value) {
        let metadata = &event["object"]["metadata"];
        let name = metadata["name"].as_str().unwrap_or_default();
        let gone = event["type"] == "DELETED";
        if !gone && metadata["deletionTimestamp"].is_null() {
            return;
        }
        let Some(pod) = self.pods.get_mut(name) else { return };
        let app = pod.app;
        if !std::mem::replace(&mut pod.terminating, true) {
            self.alive[app] -= 1;
            self.lacking.insert(app);
            if !gone {
                self.ending.push(name.to_owned());
            }
        }
        if gone {
            self.pods.remove(name);
        }
    }

    /// Checks that no work is left to do.
    pub(crate) fn check(&self) {
        let list = |group: &str, resource: &str| -> Vec<Value> {
            let all = self.server.list(&ResourceId::new(group, resource), None);
            all.iter().map(|object| object.value().into()).collect()
        };
        let mut tainted = BTreeMap::new();
        for node in list("", "nodes") {
            let name = node["metadata"]["name"].as_str().unwrap().to_owned();
            assert!(!node["metadata"]["annotations"]["node.alpha.kubernetes.io/ttl"].is_null(), "{name} has no ttl");
            tainted.insert(name, is_tainted(&node));
        }
        assert!(tainted.values().all(|tainted| !tainted), "no taint stays");
        let mut healthy = vec![0_i64; self.size.apps];
        let mut finished = 0;
        for pod in list("", "pods") {
            let name = &pod["metadata"]["name"];
            let node = pod["spec"]["nodeName"].as_str().unwrap();
            assert!(tainted.contains_key(node), "orphan {name} is left");
            if pod["status"]["phase"] == "Succeeded" {
                finished += 1;
                continue;
            }
            let app: usize = pod["metadata"]["labels"]["app"].as_str().unwrap()[4..].parse().unwrap();
            let ready = pod["status"]["conditions"]
                .as_array()
                .unwrap()
                .iter()
                .any(|c| c["type"] == "Ready" && c["status"] == "True");
            healthy[app] += i64::from(ready && pod["metadata"]["deletionTimestamp"].is_null());
        }
        assert!(finished <= FINISHED, "{finished} finished pods are left");
        for budget in list("policy", "poddisruptionbudgets") {
            let app: usize = budget["metadata"]["name"].as_str().unwrap()[4..].parse().unwrap();
            let expected = i64::try_from(self.replicas[app]).unwrap();
            let limit = match &budget["spec"]["maxUnavailable"] {
                Value::String(percent) => {
                    let percent: i64 = percent.trim_end_matches('%').parse().unwrap();
                    (expected * percent + 99) / 100
                }
                number => number.as_i64().unwrap(),
            };
            let status = &budget["status"];
            let desired = expected - limit;
            assert_eq!(status["observedGeneration"], budget["metadata"]["generation"], "{app}: {status}");
            let numbers = ["expectedPods", "currentHealthy", "desiredHealthy", "disruptionsAllowed"]
                .map(|name| status[name].as_i64());
            let right = [expected, healthy[app], desired, (healthy[app] - desired).max(0)].map(Some);
            assert_eq!(numbers, right, "{app}: {status}");
        }
    }
}

async fn watch(server: &ApiServer, revision: u64) -> BodyStream {
    let path = format!("/api/v1/pods?watch=1&resourceVersion={revision}&timeoutSeconds=2000000");
    let mut request = ApiRequest::new(Method::GET, &path);
    request.headers.insert(header::ACCEPT, header::HeaderValue::from_static("application/json"));
    match server.handle(request).await.body {
        ReplyBody::Stream(stream) => stream,
        ReplyBody::Full(body) => panic!("{body:?}"),
    }
}

fn name(app: usize) -> String {
    format!("app-{app}")
}

fn namespace(app: usize) -> String {
    format!("team-{}", app % NAMESPACES)
}

fn pod_path(app: usize, name: &str) -> String {
    format!("/api/v1/namespaces/{}/pods/{name}", namespace(app))
}

fn labels(app: usize) -> Value {
    json!({ "app": name(app) })
}

/// Some pods are evicted at once, some later, some never.
fn tolerations(app: usize) -> Value {
    match app % 4 {
        0 => json!([]),
        1 => json!([{ "key": TAINT, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300 }]),
        2 => json!([{ "key": TAINT, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 1_800 }]),
        _ => json!([{ "key": TAINT, "operator": "Exists" }]),
    }
}

fn node(name: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": name },
        "status": { "conditions": [{ "type": "Ready", "status": "True" }] } })
}

/// The churn chooses uids, so that pods can refer to their owners.
fn owner_uid(app: usize) -> String {
    format!("00000000-0000-4000-8000-{app:012x}")
}

fn replica_set(app: usize, replicas: usize) -> Value {
    json!({ "apiVersion": "apps/v1", "kind": "ReplicaSet",
        "metadata": { "name": name(app), "namespace": namespace(app), "uid": owner_uid(app) },
        "spec": { "replicas": replicas, "selector": { "matchLabels": labels(app) }, "template": {
            "metadata": { "labels": labels(app) }, "spec": { "containers": [{ "name": "c", "image": "i" }] } } } })
}

fn budget(app: usize) -> Value {
    json!({ "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": { "name": name(app), "namespace": namespace(app) },
        "spec": { "maxUnavailable": "10%", "selector": { "matchLabels": labels(app) } } })
}

fn pod(name: &str, namespace: &str, labels: Value, app: Option<usize>, node: &str, tolerations: &Value) -> Value {
    let mut pod = json!({ "apiVersion": "v1", "kind": "Pod",
        "metadata": { "name": name, "namespace": namespace, "labels": labels },
        "spec": { "nodeName": node, "terminationGracePeriodSeconds": 30, "tolerations": tolerations,
            "containers": [{ "name": "c", "image": "i" }] } });
    if let Some(app) = app {
        pod["metadata"]["ownerReferences"] = json!([{ "apiVersion": "apps/v1", "kind": "ReplicaSet",
            "name": self::name(app), "uid": owner_uid(app), "controller": true }]);
    }
    pod
}
