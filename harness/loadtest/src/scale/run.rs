//! A measurement from the empty cluster to the report.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use plumbline::time::Clock;
use plumbline_apiserver::metrics::RequestCounters;

use super::calls::{OwnRequests, RequestCounts};
use super::curve;
use super::error::ScaleError;
use super::follow::ServerFollower;
use super::model::Model;
use super::options::ScaleOptions;
use super::progress::{ProgressEvent, ProgressSink};
use super::report::{self, Detail, ScaleReport, Scenario, ScenarioResult};
use super::server_state::{Remaining, ServerState};
use super::subject::{MeasuredCommand, RunningSubject};
use super::target_cluster::TargetCluster;
use crate::bench::bodies::{self, LoadSpec};
use crate::bench::http::Endpoint;
use crate::bench::load;
use crate::bench::process::Usage;
use crate::bench::report::Unit;

/// Interval of process checks and progress messages.
pub(super) const LOOK: Duration = Duration::from_millis(500);

/// Runs the measurement and reports progress to `say`.
///
/// # Errors
///
/// Returns an error if the cluster or a subject does not start or ends early, or the server refuses the load. A
/// scenario that does not converge is not an error; see [`ScenarioResult::left`].
pub async fn run(options: &ScaleOptions, say: ProgressSink<'_>) -> Result<ScaleReport, ScaleError> {
    let mut subjects = Vec::new();
    let mut place = (String::new(), String::new());
    for (number, command) in options.subjects.iter().enumerate() {
        say(ProgressEvent::Phase(format!("{}: {}", command.name(), command.line())));
        let folder = options.logs.join(format!("subject-{}", number + 1));
        let mut scenarios = Vec::new();
        if !options.scenarios.is_empty() {
            let mut bench = ScaleBench::start(options, world(options), &folder, say).await?;
            place = bench.place();
            let measured = bench.scenarios(command).await;
            scenarios = bench.end(measured).await?;
        }
        let mut points = Vec::new();
        if options.curve {
            (points, place) = curve::measure(options, command, &folder, say).await?;
        }
        let name = command.name().to_owned();
        let command = command.line();
        subjects.push(report::SubjectReport { name, command, scenarios, curve: points });
    }
    Ok(ScaleReport {
        api_version: report::API_VERSION.to_owned(),
        kind: report::KIND.to_owned(),
        cluster: place.0,
        kubernetes_version: place.1,
        processors: std::thread::available_parallelism().map_or(1, usize::from),
        shape: options.shape,
        comparisons: report::compare(options.shape, &subjects),
        subjects,
        sizes: Vec::new(),
    })
}

/// The limit of all budgets.
pub(super) const BUDGET: &str = r#""maxUnavailable":"10%""#;

fn world(options: &ScaleOptions) -> LoadSpec {
    let report::ClusterShape { nodes, pods, budgets, namespaces, .. } = options.shape;
    LoadSpec { nodes, apps: budgets, pods, namespaces, budget: BUDGET, annotated: false }
}

/// A cluster with a world in it, and possibly a subject.
pub(super) struct ScaleBench<'a> {
    pub(super) options: &'a ScaleOptions,
    pub(super) clock: Clock,
    pub(super) endpoint: Endpoint,
    pub(super) follower: ServerFollower,
    pub(super) model: Model,
    /// uid of each application's replica set.
    pub(super) owners: Vec<Arc<str>>,
    pub(super) live: Option<RunningSubject>,
    pub(super) place: TargetCluster,
    say: ProgressSink<'a>,
    counters: Arc<RequestCounters>,
    folder: PathBuf,
}

/// State at the beginning of a scenario.
pub(super) struct ScenarioStart {
    at: Duration,
    subject: Option<Usage>,
    server: Option<Usage>,
    /// The server's request counts, or the reason why they are unknown.
    calls: Result<RequestCounts, String>,
    own: RequestCounts,
}

impl<'a> ScaleBench<'a> {
    /// Starts the cluster and fills it with `world`.
    pub(super) async fn start(
        options: &'a ScaleOptions,
        world: LoadSpec,
        folder: &Path,
        say: ProgressSink<'a>,
    ) -> Result<ScaleBench<'a>, ScaleError> {
        say(ProgressEvent::Phase("starting the cluster".to_owned()));
        let clock = Clock::wall();
        let place = TargetCluster::start(&options.cluster, folder).await?;
        let counters = Arc::new(RequestCounters::default());
        let endpoint = Endpoint::from_kubeconfig(&place.kubeconfig, "plumbline-scale/1 load").await?;
        let endpoint = endpoint.counted(counters.clone());
        let owners = seed(&clock, &endpoint, world, options.connections, (say, &counters)).await?;
        let mut state = ServerState::new(world.apps, world.nodes);
        let model = Model::new(world);
        for app in 0..world.apps {
            let (expected, healthy) = model.counts(app);
            state.expect(app, expected, healthy);
        }
        let follower = ServerFollower::start(&clock, &endpoint, state).await?;
        let folder = folder.to_owned();
        Ok(Self { options, clock, endpoint, follower, model, owners, live: None, place, say, counters, folder })
    }

    /// Returns the cluster's name and version.
    pub(super) fn place(&self) -> (String, String) {
        (self.place.name.to_owned(), self.place.version.clone())
    }

    pub(super) fn say(&self, text: impl Into<String>) {
        (self.say)(ProgressEvent::Phase(text.into()));
    }

    /// Starts the subject and runs the scenarios one after the other.
    async fn scenarios(&mut self, command: &MeasuredCommand) -> Result<Vec<ScenarioResult>, ScaleError> {
        let mut measured = vec![self.first(command).await?];
        for scenario in &self.options.scenarios {
            if *scenario == Scenario::Start {
                continue;
            }
            if measured.last().is_some_and(|last| last.left.is_some()) {
                self.say(format!("{}: skipped, because the previous scenario did not finish", scenario.as_str()));
                continue;
            }
            measured.push(self.scenario(*scenario).await?);
        }
        Ok(measured)
    }

    /// Starts the subject and waits until every budget has its status and every node its annotation.
    pub(super) async fn first(&mut self, command: &MeasuredCommand) -> Result<ScenarioResult, ScaleError> {
        self.say("start");
        let begun = self.begin().await?;
        let logs = &self.folder;
        let live = RunningSubject::start(command, &self.options.controllers, &self.place.kubeconfig, logs, &self.clock)
            .await?;
        self.live = Some(live);
        let left = self.until("start", |left| left.budgets == 0 && left.nodes == 0).await?;
        let end = self.follower.state().progress();
        self.end_of(Scenario::Start, begun, left, end).await
    }

    /// Stops the subject and the cluster. Returns the first error.
    pub(super) async fn end<T>(mut self, result: Result<T, ScaleError>) -> Result<T, ScaleError> {
        let stopped = match self.live.take() {
            Some(live) => live.stop().await,
            None => Ok(()),
        };
        let tidied = if self.place.stays() { self.tidy().await } else { Ok(()) };
        drop(self.follower);
        let ended = self.place.stop().await;
        let result = result?;
        stopped?;
        tidied?;
        ended?;
        Ok(result)
    }

    /// Deletes what was created; the cluster's own controllers empty the namespaces.
    async fn tidy(&self) -> Result<(), ScaleError> {
        self.say("deleting nodes and namespaces");
        let namespaces =
            (0..self.model.world.namespaces).map(|number| format!("/api/v1/namespaces/{}", bodies::namespace(number)));
        let nodes = (0..self.model.world.nodes).map(|number| format!("/api/v1/nodes/{}", bodies::node_name(number)));
        let all = Arc::new(load::DeleteObjects(namespaces.chain(nodes).collect()));
        load::run(&self.clock, &self.endpoint, self.options.connections, all.0.len(), all.clone()).await?;
        Ok(())
    }

    /// Records the state at the beginning of a scenario.
    pub(super) async fn begin(&self) -> Result<ScenarioStart, ScaleError> {
        let calls = self.calls().await?;
        if let Some(live) = &self.live {
            live.forget_peak();
        }
        Ok(ScenarioStart {
            calls,
            own: RequestCounts::read(&self.counters.text()),
            subject: self.live.as_ref().and_then(RunningSubject::usage),
            server: self.server(),
            at: self.clock.elapsed(),
        })
    }

    /// Returns the results of a scenario that ended at `end`; `left` is the reason if it did not finish.
    pub(super) async fn end_of(
        &self,
        scenario: Scenario,
        begun: ScenarioStart,
        left: Option<String>,
        end: Duration,
    ) -> Result<ScenarioResult, ScaleError> {
        let usage = self.live.as_ref().and_then(RunningSubject::usage);
        let server = self.server();
        let spent = |now: Option<Usage>, before: Option<Usage>| {
            now.map(|now| now.cpu.saturating_sub(before.unwrap_or_default().cpu).as_secs_f64())
        };
        let end = if left.is_some() { self.clock.elapsed() } else { end };
        let calls = self.calls().await?;
        let own = OwnRequests::between(&begun.own, &RequestCounts::read(&self.counters.text()));
        let (calls, unknown) = match (begun.calls, calls) {
            (Ok(before), Ok(after)) => (after.since(&before, &own), None),
            (Err(why), _) | (_, Err(why)) => (Vec::new(), Some(why)),
        };
        Ok(ScenarioResult {
            scenario,
            left,
            seconds: end.saturating_sub(begun.at).as_secs_f64(),
            cpu_seconds: spent(usage, begun.subject),
            peak_bytes: usage.map(|usage| usage.peak),
            resident_bytes: usage.map(|usage| usage.resident),
            server_cpu_seconds: server.and_then(|server| spent(Some(server), begun.server)),
            calls,
            calls_unknown: unknown,
            details: Vec::new(),
        })
    }

    fn server(&self) -> Option<Usage> {
        Usage::of(&[self.place.pid()?])
    }

    /// Returns the server's request counts, or the reason why they are unknown: a real cluster may deny access to
    /// metrics.
    async fn calls(&self) -> Result<Result<RequestCounts, String>, ScaleError> {
        let mut connection = self.endpoint.connect().await?;
        let (status, body) = connection.ask("GET", "/metrics", &[]).await?;
        let known = || RequestCounts::read(&String::from_utf8_lossy(body));
        Ok(if status == 200 { Ok(known()) } else { Err(format!("unknown: GET /metrics returned {status}")) })
    }

    /// Waits until `done` returns true; at the time limit returns a description of what is left.
    pub(super) async fn until(
        &mut self,
        what: &str,
        done: impl Fn(Remaining) -> bool,
    ) -> Result<Option<String>, ScaleError> {
        let begin = self.clock.elapsed();
        let mut looked = begin;
        loop {
            let left = self.follower.state().left();
            if done(left) {
                return Ok(None);
            }
            let now = self.clock.elapsed();
            if now.saturating_sub(looked) >= LOOK {
                looked = now;
                self.look().await?;
                let seconds = now.saturating_sub(begin).as_secs();
                let resumed = match self.follower.resumed() {
                    0 => String::new(),
                    times => format!("; watches were cut off and resumed {times} times"),
                };
                (self.say)(ProgressEvent::Progress(format!("{what}: {seconds} s, {}{resumed}", describe(left))));
            }
            if now.saturating_sub(begin) > self.options.limit {
                return Ok(Some(format!("{} after {} s", describe(left), self.options.limit.as_secs())));
            }
            if let Some(changed) = self.clock.timeout(LOOK, self.follower.changed()).await {
                changed?;
            }
        }
    }

    /// Reports progress and checks that subject and server still run.
    pub(super) async fn progress(&mut self, text: &str) -> Result<(), ScaleError> {
        (self.say)(ProgressEvent::Progress(text.to_owned()));
        self.look().await
    }

    /// Returns an error if subject or server ended.
    async fn look(&mut self) -> Result<(), ScaleError> {
        let ended = self.live.as_mut().and_then(RunningSubject::ended);
        if let Some(why) = ended.or(self.place.ended().await.map(|end| format!("the server: {end}"))) {
            return Err(ScaleError::Environment(why));
        }
        Ok(())
    }
}

fn describe(left: Remaining) -> String {
    let Remaining { budgets, nodes, pods } = left;
    let parts = [
        (budgets, "budgets without their status"),
        (nodes, "nodes without their annotation"),
        (pods, "pods not deleted yet"),
    ];
    let left: Vec<String> =
        parts.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}")).collect();
    if left.is_empty() { "nothing left".to_owned() } else { left.join(", ") }
}

/// Creates a detail with a number of seconds.
pub(super) fn seconds(name: &str, value: Duration) -> Detail {
    Detail { name: name.to_owned(), unit: Unit::Seconds, value: value.as_secs_f64() }
}

impl ScenarioStart {
    /// The time.
    pub(super) fn at(&self) -> Duration {
        self.at
    }
}

/// Fills the cluster; returns the uid of each application's replica set.
async fn seed(
    clock: &Clock,
    endpoint: &Endpoint,
    world: LoadSpec,
    connections: usize,
    (say, counters): (ProgressSink<'_>, &RequestCounters),
) -> Result<Vec<Arc<str>>, ScaleError> {
    let LoadSpec { nodes, apps, pods, namespaces, .. } = world;
    let all = (namespaces + nodes + 2 * apps + 2 * pods) as u64;
    say(ProgressEvent::Phase(format!("seeding {nodes} nodes, {apps} replica sets and budgets, {pods} pods")));
    let work = async {
        let names: Vec<String> = (0..namespaces).map(bodies::namespace).collect();
        load::run(clock, endpoint, connections, namespaces, Arc::new(load::CreateNamespaces(names))).await?;
        load::run(clock, endpoint, connections, nodes, Arc::new(load::CreateNodes(world))).await?;
        let uids = Mutex::new(vec!["".into(); apps]);
        let sets = Arc::new(load::CreateReplicaSets { world, uids });
        load::run(clock, endpoint, connections, apps, sets.clone()).await?;
        load::run(clock, endpoint, connections, apps, Arc::new(load::CreateBudgets(world))).await?;
        let owners = sets.uids.lock().clone();
        let work = Arc::new(load::CreatePods { world, owners: owners.clone() });
        load::run(clock, endpoint, connections, pods, work).await?;
        Ok(owners)
    };
    tokio::pin!(work);
    loop {
        tokio::select! {
            biased;
            done = &mut work => return done,
            () = clock.sleep(LOOK) => {}
        }
        say(ProgressEvent::Progress(format!("seeding: {} % of {all} requests", counters.total() * 100 / all.max(1))));
    }
}
