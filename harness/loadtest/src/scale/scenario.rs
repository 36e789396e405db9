//! The scenarios and their ends. The load plays administrators, the replica set controller and kubelets.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use plumbline::time::Clock;

use super::error::ScaleError;
use super::model::Model;
use super::report::{Detail, Scenario, ScenarioResult};
use super::run::{ScaleBench, ScenarioStart, seconds};
use super::server_state::ExpectedDeletion;
use crate::bench::bodies;
use crate::bench::http::{Connection, refused};
use crate::bench::load::{self, CreatePods, Work};
use crate::bench::report::Unit;

/// Pause after a refused eviction. kubectl waits 5 s; here the subject should be the bottleneck.
const RETRY: Duration = Duration::from_millis(100);
/// Concurrent evictions on one node.
const AT_ONCE: usize = 8;
/// Drain affects one node out of this many nodes of other scenarios.
const DRAINED: usize = 10;
/// A taint that no pod tolerates.
const TAINT: &str = r#"{"spec":{"taints":[{"key":"plumbline.dev/scale","effect":"NoExecute"}]}}"#;
/// Body of a kubelet's final deletion of a pod.
const AT_ONCE_GONE: &[u8] = br#"{"gracePeriodSeconds":0}"#;

impl ScaleBench<'_> {
    /// Runs `scenario`.
    pub(super) async fn scenario(&mut self, scenario: Scenario) -> Result<ScenarioResult, ScaleError> {
        self.say(scenario.as_str());
        match scenario {
            // Start always comes first; a second start would need another cluster.
            Scenario::Start => Err(ScaleError::Usage("start runs first and only once".to_owned())),
            Scenario::RollingRestart => self.rolling_restart().await,
            Scenario::Drain => self.drain().await,
            Scenario::TaintStorm => self.taint_storm().await,
            Scenario::NodeLoss => self.node_loss().await,
        }
    }

    fn pods(&self) -> CreatePods {
        CreatePods { world: self.model.world, owners: self.owners.clone() }
    }

    async fn load<W: Work>(&self, connections: usize, count: usize, work: &Arc<W>) -> Result<(), ScaleError> {
        load::run(&self.clock, &self.endpoint, connections, count, work.clone()).await?;
        Ok(())
    }

    /// Updates the expected status of these applications' budgets.
    fn expect(&self, apps: impl IntoIterator<Item = usize>, missing: i64) {
        let mut state = self.follower.state();
        for app in apps {
            let (expected, healthy) = self.model.counts(app);
            state.expect(app, expected, healthy - missing);
        }
    }

    /// Expects zero pods of budgets without pods: the controller finds no owner that states a number. Pods that are
    /// terminating still count.
    fn expect_nothing_of_the_empty(&self) {
        let mut state = self.follower.state();
        for app in (0..self.model.world.apps).filter(|app| self.model.counts(*app).1 == 0) {
            state.expect(app, 0, 0);
        }
    }

    /// Returns the nodes that a scenario affects; they differ between scenarios.
    fn nodes(&self, scenario: Scenario) -> Result<Vec<usize>, ScaleError> {
        let all = self.model.world.nodes;
        let share = self.options.shape.share;
        let many = Model::part(all, share);
        let few = many.div_ceil(DRAINED);
        let (from, count) = match scenario {
            Scenario::TaintStorm => (0, many),
            Scenario::NodeLoss => (many, many),
            _ => (2 * many, few),
        };
        if from + count >= all {
            return Err(ScaleError::Usage(format!("{all} nodes are too few for {share} % of them in each scenario")));
        }
        Ok((from..from + count).collect())
    }

    /// Replaces the pods of each application one by one. The last one's readiness waits until all budgets have been
    /// updated, so that an idle subject cannot be right both times.
    async fn rolling_restart(&mut self) -> Result<ScenarioResult, ScaleError> {
        let count = Model::part(self.model.world.apps, self.options.shape.share);
        let mut replaced = Vec::new();
        for app in 0..count {
            let old = self.model.pods_of(app);
            let new: Option<Vec<usize>> = old.iter().map(|_| self.model.add(app)).collect();
            let new =
                new.ok_or_else(|| ScaleError::Usage("too many pods: no numbers are left for new ones".to_owned()))?;
            self.model.remove(&old);
            replaced.push((app, old.into_iter().zip(new).collect::<Vec<_>>()));
        }
        let pods: usize = replaced.iter().map(|(_, pods)| pods.len()).sum();
        let rollout = Arc::new(Rollout { pods: self.pods(), replaced, last: Mutex::default() });
        let begun = self.begin().await?;
        self.expect(0..count, 1);
        self.load(self.options.connections, count, &rollout).await?;
        let loaded = self.clock.elapsed();
        let mut left = self.until("rolling-restart, all but the last pods", |left| left.budgets == 0).await?;
        if left.is_none() {
            self.expect(0..count, 0);
            let last = std::mem::take(&mut *rollout.last.lock());
            let ready = Arc::new(ReportReady { pods: self.pods(), last });
            self.load(self.options.connections, ready.last.len(), &ready).await?;
            left = self.until("rolling-restart, the last pods", |left| left.budgets == 0).await?;
        }
        let details = vec![
            number("pods replaced", pods),
            seconds("until all but the last pods were replaced", loaded.saturating_sub(begun.at())),
        ];
        let end = self.follower.state().progress();
        let measured = self.end_of(Scenario::RollingRestart, begun, left, end).await?;
        Ok(ScenarioResult { details, ..measured })
    }

    /// Cordons and drains nodes one after the other; evicted pods are recreated on other nodes.
    async fn drain(&mut self) -> Result<ScenarioResult, ScaleError> {
        let nodes = self.nodes(Scenario::Drain)?;
        self.model.close(&nodes);
        let begun = self.begin().await?;
        let mut evicted = 0;
        let mut refused = 0;
        let mut left = None;
        let deadline = begun.at() + self.options.limit;
        for (done, node) in nodes.iter().enumerate() {
            let closed = Arc::new(ChangeNodes { nodes: vec![*node], body: Some(r#"{"spec":{"unschedulable":true}}"#) });
            self.load(1, 1, &closed).await?;
            let old = self.model.pods_on(&[*node]);
            let app_of = |pod: usize| self.model.world.place(pod).0;
            let apps: Vec<usize> = old.iter().map(|pod| app_of(*pod)).collect();
            let new: Option<Vec<usize>> = apps.iter().map(|app| self.model.add(*app)).collect();
            let new =
                new.ok_or_else(|| ScaleError::Usage("too many pods: no numbers are left for new ones".to_owned()))?;
            self.model.remove(&old);
            let moves = old.into_iter().zip(new).collect();
            let pods = self.pods();
            let clock = self.clock.clone();
            let drain =
                Arc::new(Drain { pods, moves, clock, deadline, refused: AtomicU64::new(0), kept: AtomicU64::new(0) });
            self.load(AT_ONCE, drain.moves.len(), &drain).await?;
            let kept = drain.kept.load(Ordering::Relaxed);
            evicted += drain.moves.len() as u64 - kept;
            refused += drain.refused.load(Ordering::Relaxed);
            self.progress(&format!("drain: {} of {} nodes", done + 1, nodes.len())).await?;
            if kept > 0 {
                left = Some(format!("{kept} pods of node {} of {}", done + 1, nodes.len()));
                break;
            }
        }
        let end = self.clock.elapsed();
        let begun_at = begun.at();
        let mut measured = self.end_of(Scenario::Drain, begun, left, end).await?;
        if measured.left.is_none() {
            measured.left = self.until("drain, budgets", |left| left.budgets == 0).await?;
        }
        measured.details =
            vec![number("nodes", nodes.len()), count("evictions", evicted), count("evictions refused (429)", refused)];
        self.budgets_followed(begun_at, &mut measured);
        Ok(measured)
    }

    /// Taints nodes, all at once.
    async fn taint_storm(&mut self) -> Result<ScenarioResult, ScaleError> {
        let nodes = self.nodes(Scenario::TaintStorm)?;
        let pods = self.model.pods_on(&nodes);
        let begun = self.begin().await?;
        let begun_at = begun.at();
        let tainted = Arc::new(ChangeNodes { nodes: nodes.clone(), body: Some(TAINT) });
        let mut measured = self.pods_go(begun, Scenario::TaintStorm, &nodes, ExpectedDeletion::Begun, &tainted).await?;
        self.budgets_follow(begun_at, &mut measured).await?;
        // Play the kubelets, unmeasured, so that the pods are gone in the next scenario.
        let gone = Arc::new(EndPods { pods: self.pods(), gone: pods });
        self.load(self.options.connections, gone.gone.len(), &gone).await?;
        Ok(measured)
    }

    /// Deletes nodes, all at once, so that their pods are orphaned.
    async fn node_loss(&mut self) -> Result<ScenarioResult, ScaleError> {
        let nodes = self.nodes(Scenario::NodeLoss)?;
        let begun = self.begin().await?;
        let begun_at = begun.at();
        for node in &nodes {
            self.follower.state().forget_node(*node);
        }
        let deleted = Arc::new(ChangeNodes { nodes: nodes.clone(), body: None });
        let mut measured = self.pods_go(begun, Scenario::NodeLoss, &nodes, ExpectedDeletion::Gone, &deleted).await?;
        self.budgets_follow(begun_at, &mut measured).await?;
        Ok(measured)
    }

    /// Executes `work`, one piece per node, and waits until the nodes' pods go.
    async fn pods_go(
        &mut self,
        begun: ScenarioStart,
        scenario: Scenario,
        nodes: &[usize],
        how: ExpectedDeletion,
        work: &Arc<ChangeNodes>,
    ) -> Result<ScenarioResult, ScaleError> {
        let pods = self.model.pods_on(nodes);
        self.model.close(nodes);
        self.model.remove(&pods);
        self.follower.state().expect_to_go(pods.iter().copied(), how);
        self.expect(0..self.model.world.apps, 0);
        if how == ExpectedDeletion::Gone {
            self.expect_nothing_of_the_empty();
        }
        self.load(self.options.connections, nodes.len(), work).await?;
        let left = self.until(scenario.as_str(), |left| left.pods == 0).await?;
        let end = self.follower.state().pods_gone();
        let measured = self.end_of(scenario, begun, left, end).await?;
        Ok(ScenarioResult { details: vec![number("nodes", nodes.len()), number("pods", pods.len())], ..measured })
    }

    /// Waits until every budget is right again; not part of the measured time.
    async fn budgets_follow(&mut self, begun: Duration, measured: &mut ScenarioResult) -> Result<(), ScaleError> {
        if measured.left.is_none() {
            measured.left = self.until("budgets", |left| left.budgets == 0).await?;
        }
        self.budgets_followed(begun, measured);
        Ok(())
    }

    fn budgets_followed(&self, begun: Duration, measured: &mut ScenarioResult) {
        if measured.left.is_none() {
            let state = self.follower.state();
            let last = (0..self.model.world.apps).filter_map(|app| state.right_since(app)).max().unwrap_or_default();
            measured.details.push(seconds("until every budget was right again", last.saturating_sub(begun)));
        }
    }
}

fn number(name: &str, value: usize) -> Detail {
    count(name, value as u64)
}

fn count(name: &str, value: u64) -> Detail {
    Detail { name: name.to_owned(), unit: Unit::Count, value: value as f64 }
}

/// Patches or deletes nodes.
struct ChangeNodes {
    nodes: Vec<usize>,
    body: Option<&'static str>,
}

impl Work for ChangeNodes {
    async fn piece(&self, connection: &mut Connection, number: usize) -> Result<(), crate::bench::BenchError> {
        let path = format!("/api/v1/nodes/{}", bodies::node_name(self.nodes[number]));
        let done = match self.body {
            Some(body) => connection.exchange("PATCH", &path, &[body.as_bytes()], 200).await,
            None => connection.exchange("DELETE", &path, &[], 200).await,
        };
        done.map(|_| ())
    }
}

/// Replaces the pods of each application one by one.
struct Rollout {
    pods: CreatePods,
    /// Applications, with old and new pods.
    replaced: Vec<(usize, Vec<(usize, usize)>)>,
    /// The last new pod of each application, with the server's response.
    last: Mutex<Vec<(usize, Vec<u8>)>>,
}

impl Work for Rollout {
    async fn piece(&self, connection: &mut Connection, number: usize) -> Result<(), crate::bench::BenchError> {
        let (app, replaced) = &self.replaced[number];
        for (at, (old, new)) in replaced.iter().enumerate() {
            gone(connection, &self.pods.path(*app, *old)).await?;
            let created = self.pods.create(connection, *new).await?;
            if at + 1 < replaced.len() {
                self.pods.report_ready(connection, *new, &created).await?;
            } else {
                self.last.lock().push((*new, created));
            }
        }
        Ok(())
    }
}

/// Reports pods as ready.
struct ReportReady {
    pods: CreatePods,
    last: Vec<(usize, Vec<u8>)>,
}

impl Work for ReportReady {
    async fn piece(&self, connection: &mut Connection, number: usize) -> Result<(), crate::bench::BenchError> {
        let (pod, created) = &self.last[number];
        self.pods.report_ready(connection, *pod, created).await
    }
}

/// Deletes pods like their kubelets.
struct EndPods {
    pods: CreatePods,
    gone: Vec<usize>,
}

impl Work for EndPods {
    async fn piece(&self, connection: &mut Connection, number: usize) -> Result<(), crate::bench::BenchError> {
        let pod = self.gone[number];
        gone(connection, &self.pods.path(self.pods.world.place(pod).0, pod)).await
    }
}

async fn gone(connection: &mut Connection, path: &str) -> Result<(), crate::bench::BenchError> {
    match connection.ask("DELETE", path, &[AT_ONCE_GONE]).await? {
        (200 | 404, _) => Ok(()),
        (status, body) => Err(refused("DELETE", path, status, body)),
    }
}

/// Evicts the pods of a node and recreates them on other nodes.
struct Drain {
    pods: CreatePods,
    /// Each pod with its replacement.
    moves: Vec<(usize, usize)>,
    clock: Clock,
    /// Time at which to give up.
    deadline: Duration,
    refused: AtomicU64,
    /// Number of pods that could not be evicted in time.
    kept: AtomicU64,
}

impl Work for Drain {
    async fn piece(&self, connection: &mut Connection, number: usize) -> Result<(), crate::bench::BenchError> {
        let (old, new) = self.moves[number];
        let app = self.pods.world.place(old).0;
        let path = self.pods.path(app, old);
        let namespace = self.pods.world.namespace(app);
        let name = bodies::pod_name(&bodies::app(app), old);
        let eviction = format!(
            r#"{{"apiVersion":"policy/v1","kind":"Eviction","metadata":{{"name":"{name}","namespace":"{namespace}"}}}}"#
        );
        let ask = format!("{path}/eviction");
        loop {
            match connection.ask("POST", &ask, &[eviction.as_bytes()]).await? {
                (201, _) => break,
                (429, _) => {}
                (status, body) => return Err(refused("POST", &ask, status, body)),
            }
            self.refused.fetch_add(1, Ordering::Relaxed);
            if self.clock.elapsed() > self.deadline {
                self.kept.fetch_add(1, Ordering::Relaxed);
                return Ok(());
            }
            self.clock.sleep(RETRY).await;
        }
        gone(connection, &path).await?;
        let created = self.pods.create(connection, new).await?;
        self.pods.report_ready(connection, new, &created).await
    }
}
