//! Benchmarks of the API server: the load of a large cluster, over HTTPS, against `plumbline serve` in a separate
//! process or against any other API server.
//!
//! | stage | measures |
//! |---|---|
//! | ready | time from the start of the process to its first response; also for a server in this process |
//! | in process | writes of one task without sockets, and definitions |
//! | write | nodes, replica sets, budgets, then pods: one creation and one status update each |
//! | memory | memory of the server's process after the writes |
//! | list | all pods in one response, in protobuf and in pages, the pods of a node, of an application |
//! | watch | delay from a write to its event at many watchers |
//!
//! Clients and server share the machine, so [`http`] uses as little CPU as possible. The load is the same in every run.

pub(crate) mod bodies;
mod error;
mod figures;
pub(crate) mod http;
mod in_process;
mod lists;
pub(crate) mod load;
mod load_shape;
mod median;
pub mod page;
pub(crate) mod process;
pub mod report;
mod watchers;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use plumbline::time::Clock;

pub use self::error::BenchError;
use self::http::Endpoint;
use self::load::Timings;
pub use self::load_shape::LoadShape;
use self::median::middle;
use self::process::{ServeProcess, Usage};
use self::report::{BenchReport, Measurement, Unit};

/// The server to measure.
#[derive(Clone, Debug)]
pub enum ServerUnderTest {
    /// `serve` of this program, started with additional arguments.
    Serve {
        /// The program.
        program: PathBuf,
        /// Additional arguments.
        arguments: Vec<String>,
    },
    /// A running, empty server.
    Running {
        /// The kubeconfig to reach it.
        kubeconfig: PathBuf,
        /// Its processes, for memory and CPU time.
        pids: Vec<u32>,
    },
}
/// Number of servers started to measure the start.
const STARTS: usize = 9;
/// Objects per page of the paged list.
const PAGE: usize = 500;
/// Number of complete lists; the median counts.
const LISTS: usize = 3;

/// Measures `subject` and reports progress to `say`.
///
/// # Errors
///
/// Returns an error if the server does not start, refuses a request of the load, or loses data.
pub async fn run(
    subject: &ServerUnderTest,
    shape: LoadShape,
    say: &(dyn Fn(String) + Sync),
) -> Result<BenchReport, BenchError> {
    let clock = Clock::wall();
    let mut rows = Vec::new();
    let mut started = None;
    let mut pids = Vec::new();
    let kubeconfig = match subject {
        ServerUnderTest::Serve { program, arguments } => {
            let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
            say("ready: starting servers".to_owned());
            ready(&clock, program, &arguments, &mut rows).await?;
            in_process::start(&clock, &mut rows).await?;
            in_process::writes(&clock, shape.pods, &mut rows).await?;
            in_process::definitions(&clock, shape.pods, &mut rows).await?;
            let server = ServeProcess::start(program, &arguments, STARTS).await?;
            pids.extend(server.pid());
            started.insert(server).kubeconfig()
        }
        ServerUnderTest::Running { kubeconfig, pids: given } => {
            pids.clone_from(given);
            kubeconfig.clone()
        }
    };
    let bench = ServerBench { clock, kubeconfig, shape, pids, say };
    bench.write(&mut rows).await?;
    bench.memory("memory, everything held", &mut rows);
    bench.list(&mut rows).await?;
    if shape.watchers > 0 {
        bench.watch(&mut rows).await?;
    }
    if let Some(usage) = Usage::of(&bench.pids) {
        rows.push(Measurement::new("memory, highest of the whole run", Unit::Bytes, usage.peak as f64));
    }
    if let Some(server) = started {
        server.stop().await;
    }
    Ok(BenchReport {
        api_version: report::API_VERSION.to_owned(),
        kind: "ServerBenchmark".to_owned(),
        server: match subject {
            ServerUnderTest::Serve { .. } => "plumbline serve".to_owned(),
            ServerUnderTest::Running { kubeconfig, .. } => kubeconfig.display().to_string(),
        },
        processors: std::thread::available_parallelism().map_or(1, usize::from),
        shape,
        rows,
        sizes: Vec::new(),
    })
}

async fn ready(
    clock: &Clock,
    program: &Path,
    arguments: &[&str],
    rows: &mut Vec<Measurement>,
) -> Result<(), BenchError> {
    let mut said = Vec::new();
    let mut answered = Vec::new();
    for number in 0..STARTS {
        let (ready, answer) = process::time_to_ready(clock, program, arguments, number).await?;
        said.push(ready);
        answered.push(answer);
    }
    let name = |what: &str| format!("process {what} (median of {STARTS})");
    rows.push(
        Measurement::new(name("ready"), Unit::Seconds, middle(said))
            .wanted(figures::READY)
            .beside(figures::READY_REFERENCE),
    );
    rows.push(Measurement::new(name("has answered over HTTPS"), Unit::Seconds, middle(answered)));
    Ok(())
}

struct ServerBench<'a> {
    clock: Clock,
    kubeconfig: PathBuf,
    shape: LoadShape,
    pids: Vec<u32>,
    say: &'a (dyn Fn(String) + Sync),
}

impl ServerBench<'_> {
    fn say(&self, text: impl Into<String>) {
        (self.say)(text.into());
    }

    async fn endpoint(&self, who: &str) -> Result<Endpoint, BenchError> {
        Endpoint::from_kubeconfig(&self.kubeconfig, &format!("plumbline-bench/1 {who}")).await
    }

    fn memory(&self, name: &str, rows: &mut Vec<Measurement>) {
        let Some(usage) = Usage::of(&self.pids) else { return };
        let row = Measurement::new(name, Unit::Bytes, usage.resident as f64);
        rows.push(row.wanted(figures::MEMORY).beside(figures::MEMORY_REFERENCE));
        rows.push(Measurement::new("memory, highest so far", Unit::Bytes, usage.peak as f64));
    }

    /// Adds the CPU time of server and clients since `before`, per piece of work.
    fn cpu(&self, what: &str, before: (Option<Usage>, Option<Usage>), pieces: usize, rows: &mut Vec<Measurement>) {
        let now = (Usage::of(&self.pids), Usage::of(&[std::process::id()]));
        let used = |now: Option<Usage>, before: Option<Usage>| {
            Some((now?.cpu.checked_sub(before?.cpu)?).as_secs_f64() / pieces.max(1) as f64)
        };
        if let Some(server) = used(now.0, before.0) {
            rows.push(Measurement::new(format!("server's processor time per {what}"), Unit::Seconds, server));
        }
        if let Some(clients) = used(now.1, before.1) {
            rows.push(Measurement::new(format!("clients' processor time per {what}"), Unit::Seconds, clients));
        }
    }

    fn usage(&self) -> (Option<Usage>, Option<Usage>) {
        (Usage::of(&self.pids), Usage::of(&[std::process::id()]))
    }

    async fn write(&self, rows: &mut Vec<Measurement>) -> Result<(), BenchError> {
        let LoadShape { pods, nodes, budgets, connections, shared, .. } = self.shape;
        let clock = &self.clock;
        let world = self.shape.world();
        let apps = world.apps;
        let endpoint = self.endpoint("controllers").await?.sharing(shared).await?;
        self.say(format!("write: {nodes} nodes, {apps} replica sets, {budgets} budgets"));
        let mut names: Vec<String> = (0..world.namespaces).map(bodies::namespace).collect();
        names.push(bodies::WATCHED.to_owned());
        load::run(clock, &endpoint, connections, world.namespaces + 1, Arc::new(load::CreateNamespaces(names))).await?;
        load::run(clock, &endpoint, connections, nodes, Arc::new(load::CreateNodes(world))).await?;
        let uids = Mutex::new(vec!["".into(); apps]);
        let sets = Arc::new(load::CreateReplicaSets { world, uids });
        load::run(clock, &endpoint, connections, apps, sets.clone()).await?;
        load::run(clock, &endpoint, connections, budgets, Arc::new(load::CreateBudgets(world))).await?;
        self.say(format!("write: {pods} pods, {}", self.shape.writers()));
        let owners = sets.uids.lock().clone();
        let before = self.usage();
        let took = load::run(clock, &endpoint, connections, pods, Arc::new(load::CreatePods { world, owners })).await?;
        let rate = Measurement::new("pods created and their status updated", Unit::PerSecond, took.rate());
        rows.push(rate.wanted(figures::PODS).beside(figures::PODS_REFERENCE));
        self.cpu("pod", before, pods, rows);
        if let Some(row) = rows.iter_mut().find(|row| row.name == "server's processor time per pod") {
            *row = row.clone().wanted(figures::PROCESSOR_TIME);
        }
        percentiles("pod, both requests", &took, rows);
        Ok(())
    }

    async fn list(&self, rows: &mut Vec<Measurement>) -> Result<(), BenchError> {
        const PODS: &str = "/api/v1/pods";
        let pods = self.shape.pods;
        self.say(format!("list: {pods} pods"));
        let mut connection = self.endpoint("reader").await?.connect().await?;
        let connection = &mut connection;
        let mut times = Vec::new();
        let mut bytes = 0;
        for _ in 0..LISTS {
            let listed = lists::list(&self.clock, connection, PODS, "", 0, false).await?;
            times.push(listed.took);
            bytes = listed.bytes;
        }
        let row = Measurement::new(
            format!("list of all pods in one piece (median of {LISTS})"),
            Unit::Seconds,
            middle(times),
        );
        rows.push(row.wanted(figures::LIST_JSON));
        let paged = lists::list(&self.clock, connection, PODS, "", PAGE, false).await?;
        let name = format!("list of all pods in {} pages of {PAGE}", paged.pages);
        rows.push(Measurement::new(name, Unit::Seconds, paged.took.as_secs_f64()).wanted(figures::LIST_JSON));
        rows.push(Measurement::new("size of one pod in the list", Unit::Bytes, bytes as f64 / pods.max(1) as f64));
        self.list_protobuf(pods, rows).await?;
        self.say("list: counting what is there, selections");
        for (query, limit) in [("", 0), ("", PAGE)] {
            let listed = lists::list(&self.clock, connection, PODS, query, limit, true).await?;
            complete(&format!("{PODS}?{query}&limit={limit}"), listed.items, pods)?;
        }
        let world = self.shape.world();
        let on_node = (0..pods).filter(|pod| world.place(*pod).1 == 0).count();
        let of_app = (0..pods).filter(|pod| world.place(*pod).0 == 0).count();
        let app = bodies::app(0);
        for (name, query, expected) in [
            ("list of the pods of a node", format!("fieldSelector=spec.nodeName%3D{}", bodies::node_name(0)), on_node),
            ("list of an application's pods by label", format!("labelSelector=app.kubernetes.io/name%3D{app}"), of_app),
        ] {
            let listed = lists::list(&self.clock, connection, PODS, &query, 0, true).await?;
            complete(&format!("{PODS}?{query}"), listed.items, expected)?;
            rows.push(Measurement::new(name, Unit::Seconds, listed.took.as_secs_f64()));
        }
        Ok(())
    }

    /// Reads the list of all pods as client-go does by default. Its items are not counted.
    async fn list_protobuf(&self, pods: usize, rows: &mut Vec<Measurement>) -> Result<(), BenchError> {
        let endpoint = self.endpoint("reader").await?.accepting("application/vnd.kubernetes.protobuf");
        let mut connection = endpoint.connect().await?;
        let mut times = Vec::new();
        let mut bytes = 0;
        for _ in 0..LISTS {
            let listed = lists::list(&self.clock, &mut connection, "/api/v1/pods", "", 0, false).await?;
            times.push(listed.took);
            bytes = listed.bytes;
        }
        let name = format!("list of all pods in protobuf (median of {LISTS})");
        rows.push(Measurement::new(name, Unit::Seconds, middle(times)).wanted(figures::LIST_PROTOBUF));
        let size = bytes as f64 / pods.max(1) as f64;
        rows.push(Measurement::new("size of one pod in protobuf", Unit::Bytes, size));
        Ok(())
    }

    async fn watch(&self, rows: &mut Vec<Measurement>) -> Result<(), BenchError> {
        let LoadShape { watchers, rate, seconds, .. } = self.shape;
        self.say(format!("watch: {watchers} watchers, {rate} writes/s for {seconds} s"));
        let endpoint = self.endpoint("watchers").await?;
        let before = self.usage();
        let watched = watchers::run(&self.clock, &endpoint, &self.shape).await?;
        rows.push(Measurement::new("writes while watched", Unit::PerSecond, watched.rate));
        let p99 = watched.delays.percentile(99).as_secs_f64();
        rows.push(Measurement::new("event from write to watcher, p99", Unit::Seconds, p99).wanted(figures::EVENT));
        rows.push(Measurement::new(
            "event from write to watcher, p50",
            Unit::Seconds,
            watched.delays.percentile(50).as_secs_f64(),
        ));
        percentiles("write while watched", &watched.writes, rows);
        self.cpu("event of a watcher", before, watchers * rate * seconds, rows);
        Ok(())
    }
}

fn complete(what: &str, found: u64, expected: usize) -> Result<(), BenchError> {
    let expected = expected as u64;
    if found == expected { Ok(()) } else { Err(BenchError::Incomplete { what: what.to_owned(), found, expected }) }
}

fn percentiles(what: &str, took: &Timings, rows: &mut Vec<Measurement>) {
    for percent in [50, 99] {
        rows.push(Measurement::new(
            format!("{what}, p{percent}"),
            Unit::Seconds,
            took.percentile(percent).as_secs_f64(),
        ));
    }
}
