//! `plumbline serve`: the fake API server as a process, for kubectl and other clients.
//!
//! Standard output gets one line when the server is ready; all other output goes to standard error.

use std::error::Error as _;
use std::fmt::Write as _;
use std::io::{IsTerminal as _, Write as _};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::Parser as _;
use plumbline::fixture::Controller;
use plumbline::time::Clock;
use plumbline_apiserver::listener::{ApiListener, Limits, ListenError, ListenOptions, listen, write_private_file};
use plumbline_apiserver::{
    AdmissionPlugin, ApiServer, ApiServerConfig, AuditLog, KubernetesVersion, RecordMode, ReportedVersion, bootstrap,
    kubelet, volumes,
};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::colour;
use super::manifests::{SeedObject, is_for_kustomize, objects, read};
use super::value::ValueError;
use crate::cluster::{Around, AroundError};
use crate::duration::parse_duration;
use crate::exit::Exit;
use crate::serve::{ClockMode, ControllerLoop, ServeHandler, ServedFault, WorldError, WorldSpec, kind, read_rules};
use crate::subject::in_process::QUIET_LOG;

/// Approximate limit of the stored transcript, in bytes.
const TRANSCRIPT: usize = 128 * 1024 * 1024;

/// Time between two reports of progress while objects are read.
const PROGRESS_PERIOD: Duration = Duration::from_secs(2);

/// Serve the fake API server to kubectl and other clients.
#[derive(Clone, Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("kubelets").multiple(true).args(["kubelet", "like"]))]
#[expect(clippy::struct_excessive_bools, reason = "flags of a command line")]
pub struct ServeArgs {
    /// Address to listen on; port 0 chooses a free one
    #[arg(long, default_value = "127.0.0.1:0", value_name = "ADDRESS")]
    listen: SocketAddr,
    /// Allow an address other than loopback: anyone with the token has full access to this server
    #[arg(long)]
    allow_remote: bool,
    /// Serve plain HTTP; on loopback only
    #[arg(long)]
    http: bool,
    /// Bearer token that clients must send [default: a random one]
    #[arg(long, value_name = "TOKEN")]
    token: Option<String>,
    /// Write a kubeconfig for this server
    #[arg(long, value_name = "PATH")]
    pub(super) kubeconfig: Option<PathBuf>,
    /// Write kubeconfigs with a client certificate of the user kubernetes-admin, as kind does
    #[arg(long, conflicts_with = "http")]
    client_certificate: bool,
    /// Seed the objects in these YAML or JSON files, or in the files of these folders
    #[arg(long, value_name = "PATH", num_args = 1..)]
    seed_from: Vec<PathBuf>,
    /// Do not create the default objects: the service kubernetes with its endpoints, the system priority classes
    #[arg(long)]
    bare: bool,
    /// Delay every response by this time, such as 5ms
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    latency: Option<Duration>,
    /// Inject faults by the rules in this YAML file
    #[arg(long, value_name = "FILE")]
    faults: Option<PathBuf>,
    /// Simulate kubelets and the scheduler: pods are bound, become ready and end gracefully, nodes send heartbeats
    #[arg(long)]
    kubelet: bool,
    /// With --kubelet, create this many nodes: node-1, node-2, …
    #[arg(long, value_name = "COUNT", default_value_t = 0, requires = "kubelets")]
    nodes: u16,
    /// With --kubelet, time from a pod's binding until it is ready
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, default_value = "500ms", requires = "kubelets")]
    ready_after: Duration,
    /// With --kubelet, images that cannot be pulled, such as web:broken; `*` is any text
    #[arg(long, value_name = "PATTERNS", value_delimiter = ',', requires = "kubelets")]
    missing_images: Vec<String>,
    /// With --kubelet, time after which pods end that are not restarted and do not say when they end; without it, only
    /// those of jobs do
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, requires = "kubelets")]
    pods_run_for: Option<Duration>,
    /// Controller manager loops to run; or none [default: gc,namespaces]
    #[arg(long, value_name = "LOOPS", value_delimiter = ',')]
    loops: Option<Vec<ControllerLoop>>,
    /// Delay of garbage collection and namespace deletion, so that clients observe the state in between
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, default_value = "300ms")]
    loop_delay: Duration,
    /// Admission plugins to disable; or none [default: those that expect kubelets or the loop `accounts`:
    /// TaintNodesByCondition,DefaultTolerationSeconds,ServiceAccount]
    #[arg(long, value_name = "PLUGINS", value_delimiter = ',')]
    disable_admission_plugins: Option<Vec<PluginName>>,
    /// Allow privileged containers
    #[arg(long, value_name = "BOOL", default_value_t = true, action = clap::ArgAction::Set)]
    allow_privileged: bool,
    /// Kubernetes release to behave as: 1.36 or 1.37
    #[arg(long, value_name = "RELEASE", default_value_t)]
    kubernetes_version: KubernetesVersion,
    /// Version to report at /version and for nodes, such as v1.36.2; it implies its release. With a commit
    /// (v1.36.2/HASH), kubectl --match-server-version accepts it
    #[arg(long, value_name = "VERSION", conflicts_with = "kubernetes_version")]
    version: Option<ReportedVersion>,
    /// Serve removed versions, such as policy/v1beta1, as views of the present ones
    #[arg(long)]
    legacy_apis: bool,
    /// Serve requests without a token as the user system:anonymous, as kube-apiserver does; with false they get 401
    #[arg(long, value_name = "BOOL", default_value_t = true, action = clap::ArgAction::Set)]
    anonymous_auth: bool,
    /// Serve metrics.k8s.io for `kubectl top`, with the figures of annotations
    #[arg(long)]
    metrics: bool,
    /// Run these of our controllers inside: disruption, podgc, taint-eviction, ttl; or all
    #[arg(long, value_name = "CONTROLLERS", value_delimiter = ',', value_parser = controller)]
    controllers: Vec<ControllerName>,
    /// Clock of the server, its loops and the controllers inside: with `manual`, time moves only by
    /// `POST /plumbline/clock`
    #[arg(long, value_enum, default_value_t, value_name = "CLOCK")]
    clock: ClockMode,
    /// Options of a complete cluster: the same as --kubelet --nodes 1 --controllers all
    /// --disable-admission-plugins none and all loops
    #[arg(long, value_enum, value_name = "CLUSTER", conflicts_with_all = ["loops", "disable_admission_plugins"])]
    like: Option<Preset>,
    /// Append an event of audit.k8s.io/v1 for each request to this file, at the level Metadata; - is standard output
    #[arg(long, value_name = "FILE")]
    audit_log_path: Option<PathBuf>,
    /// Do not record requests, for load tests: /plumbline/transcript stays empty
    #[arg(long)]
    no_transcript: bool,
    /// End when standard input is closed, unless there was a line on it
    #[arg(long)]
    until_stdin_closes: bool,
}

/// A controller of `plumbline-controllers` that runs inside, or all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ControllerName {
    One(Controller),
    All,
}

fn controller(text: &str) -> Result<ControllerName, ValueError> {
    if text == "all" {
        return Ok(ControllerName::All);
    }
    let names = Controller::ALL.map(Controller::as_str).join(", ");
    Controller::parse(text)
        .map(ControllerName::One)
        .ok_or_else(|| ValueError::new(format!("use all, or some of {names}")))
}

/// A set of options that has a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Preset {
    /// A cluster of kind: one node whose kubelet takes pods, the scheduler, all loops and controllers, all admission
    /// plugins.
    Kind,
}

/// An admission plugin of kube-apiserver that can be disabled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum PluginName {
    /// Taints new nodes until they are ready.
    #[value(name = "TaintNodesByCondition")]
    TaintNodesByCondition,
    /// Adds tolerations to new pods: five minutes on nodes that are not ready or unreachable.
    #[value(name = "DefaultTolerationSeconds")]
    DefaultTolerationSeconds,
    /// Gives new pods a service account and a volume with its token; refuses them if the account does not exist.
    #[value(name = "ServiceAccount")]
    ServiceAccount,
    /// None.
    None,
}

impl PluginName {
    /// The plugins that are disabled unless flags say otherwise.
    const DISABLED: [Self; 3] = [Self::TaintNodesByCondition, Self::DefaultTolerationSeconds, Self::ServiceAccount];

    fn plugin(self) -> Option<AdmissionPlugin> {
        match self {
            Self::TaintNodesByCondition => Some(AdmissionPlugin::TaintNodesByCondition),
            Self::DefaultTolerationSeconds => Some(AdmissionPlugin::DefaultTolerationSeconds),
            Self::ServiceAccount => Some(AdmissionPlugin::ServiceAccount),
            Self::None => None,
        }
    }
}

/// The reason why the server does not start.
#[derive(Debug, thiserror::Error)]
pub(super) enum ServeError {
    /// There is no runtime.
    #[error("unable to start the runtime: {0}")]
    Runtime(std::io::Error),
    /// The address or the kubeconfig is refused.
    #[error("{}", explained(.0))]
    Listen(#[from] ListenError),
    /// The world does not start.
    #[error(transparent)]
    World(#[from] WorldError),
    /// Standard output is closed.
    #[error("unable to write: {0}")]
    Output(std::io::Error),
    /// Signals cannot be received.
    #[error("unable to wait for signals: {0}")]
    Signals(std::io::Error),
    /// The audit log cannot be written.
    #[error("unable to open the audit log {}: {error}", path.display())]
    AuditLog {
        /// The file.
        path: PathBuf,
        /// The operating system's error.
        error: std::io::Error,
    },
    /// A file or folder cannot be read.
    #[error("unable to read {}: {error}", path.display())]
    Unreadable {
        /// The file or folder.
        path: PathBuf,
        /// The operating system's error.
        error: std::io::Error,
    },
    /// A file is no YAML, or has a fault rule that makes no sense.
    #[error("{}: {why}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The problem, with its place.
        why: String,
    },
    /// A file has an object that the server refuses.
    #[error("{from}: {why}")]
    Object {
        /// The object's place in the file.
        from: String,
        /// The reason.
        why: String,
    },
    /// The rule for `--latency` is refused.
    #[error("latency: {0}")]
    Latency(serde_json::Error),
}

/// Serves until SIGTERM or SIGINT.
///
/// # Errors
///
/// Returns an error if the server cannot start.
pub(super) fn main(args: &ServeArgs) -> Result<Exit, ServeError> {
    logging();
    let runtime = runtime()?;
    let outcome = runtime.block_on(serve(args));
    // A request that did not end in time does not keep the process.
    runtime.shutdown_background();
    outcome
}

/// Returns the runtime of a server.
pub(super) fn runtime() -> Result<tokio::runtime::Runtime, ServeError> {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        // Polls for new I/O more often than the default, because events for many watchers are many tasks.
        .event_interval(16)
        .build()
        .map_err(ServeError::Runtime)
}

/// Logs to standard error, filtered by `RUST_LOG`. Controllers inside, of which each world has its own, say little
/// without it: the transcript has their requests.
pub(super) fn logging() {
    let filter = tracing_subscriber::EnvFilter::try_from_default_env().unwrap_or_else(|_| QUIET_LOG.into());
    let is_colored = colour::is_on_by_default(std::io::stderr().is_terminal());
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_ansi(is_colored);
    let subscriber = log.with_writer(std::io::stderr).finish();
    // In tests another subscriber may be set already.
    let _ = tracing::subscriber::set_global_default(subscriber);
}

/// A server that is ready to serve.
pub(super) struct RunningServer {
    pub(super) handler: ServeHandler,
    pub(super) listening: ApiListener<ServeHandler>,
    pub(super) kubeconfig: String,
}

/// Starts the world and binds the address.
pub(super) async fn start(args: &ServeArgs) -> Result<RunningServer, ServeError> {
    let handler = ServeHandler::default();
    let options = ListenOptions {
        address: args.listen,
        allow_remote: args.allow_remote,
        plain: args.http,
        token: args.token.clone(),
        anonymous: args.anonymous_auth,
        limits: Limits::default(),
    };
    let mut spec = args.spec()?;
    let listening = listen(handler.clone(), options).await?;
    spec.address = (!args.bare).then(|| listening.address());
    spec.authority = listening.authority_pem().map(str::to_owned);
    let absent = absent(&spec);
    spec.signer = listening.authority();
    let kubeconfig =
        if args.client_certificate { listening.kubeconfig_with_certificate()? } else { listening.kubeconfig() };
    let started = handler.start(spec, kubeconfig.clone(), listening.url()).await;
    started.map_err(|error| match (error, &args.faults) {
        (WorldError::Rule(unfit), Some(path)) => ServeError::File { path: path.clone(), why: unfit.to_string() },
        (error, _) => error.into(),
    })?;
    super::streams::notify(&absent);
    Ok(RunningServer { handler, listening, kubeconfig })
}

async fn serve(args: &ServeArgs) -> Result<Exit, ServeError> {
    if let Some(path) = &args.kubeconfig {
        // Before the list of what the cluster lacks, which would hide the error.
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let tried = tempfile::tempfile_in(folder);
        tried.map_err(|error| ListenError::Kubeconfig { path: path.clone(), source: error.kind().into() })?;
    }
    let RunningServer { listening, kubeconfig, .. } = start(args).await?;
    if let Some(path) = &args.kubeconfig {
        let written = write_private_file(path, &kubeconfig);
        written.map_err(|source| ListenError::Kubeconfig { path: path.clone(), source })?;
    }
    ready(args, &listening.url(), listening.token()).map_err(ServeError::Output)?;

    let stop = CancellationToken::new();
    let mut signals = Signals::new().map_err(ServeError::Signals)?;
    let serving = listening.serve(stop.clone());
    let mut serving = std::pin::pin!(serving);
    tokio::select! {
        biased;
        () = signals.any() => {}
        () = stdin_closes(), if args.until_stdin_closes => {}
        () = serving.as_mut() => {}
    }
    stop.cancel();
    serving.await;
    Ok(Exit::Ok)
}

impl ServeArgs {
    /// Returns the flags of a cluster of kind, unless flags say which parts of a cluster there are.
    pub(super) fn or_like_kind(&self) -> Self {
        let names_parts = self.like.is_some()
            || self.kubelet
            || self.bare
            || !self.controllers.is_empty()
            || self.loops.is_some()
            || self.disable_admission_plugins.is_some();
        let like = if names_parts { self.like } else { Some(Preset::Kind) };
        Self { like, ..self.clone() }
    }

    /// Returns true if time moves by orders only.
    pub(super) fn has_manual_clock(&self) -> bool {
        self.clock == ClockMode::Manual
    }

    /// Returns the parts of the worlds, without the address of the listener.
    fn spec(&self) -> Result<WorldSpec, ServeError> {
        let preset = self.like.is_some();
        let loops = match self.like {
            Some(Preset::Kind) => ControllerLoop::ALL.to_vec(),
            None => self.loops.clone().unwrap_or_else(|| vec![ControllerLoop::Gc, ControllerLoop::Namespaces]),
        };
        let disabled = match &self.disable_admission_plugins {
            Some(disabled) => disabled,
            None if preset => &[][..],
            None => &PluginName::DISABLED,
        };
        let all = preset && self.controllers.is_empty() || self.controllers.contains(&ControllerName::All);
        let is_wanted = |controller: &Controller| all || self.controllers.contains(&ControllerName::One(*controller));
        let options = kubelet::KubeletOptions {
            ready_after: self.ready_after,
            missing_images: self.missing_images.clone(),
            run_for: self.pods_run_for,
            ..kubelet::KubeletOptions::default()
        };
        let record = if self.no_transcript { RecordMode::Off } else { RecordMode::Recent { bytes: TRANSCRIPT } };
        let mut spec = WorldSpec {
            clock: self.clock,
            record,
            kubernetes_version: self.version.as_ref().map_or(self.kubernetes_version, |version| version.release),
            reported_version: self.version.as_ref().map(|version| version.text.clone()),
            legacy_apis: self.legacy_apis,
            disabled: disabled.iter().filter_map(|disabled| disabled.plugin()).collect(),
            allow_privileged: self.allow_privileged,
            audit: self.audit_log_path.as_deref().map(audit_log).transpose()?,
            seeds: Vec::new(),
            address: None,
            authority: None,
            signer: None,
            faults: self.fault_rules()?,
            loops,
            loop_delay: self.loop_delay,
            metrics: self.metrics,
            kubelet: (self.kubelet || preset).then_some(options),
            controllers: Controller::ALL.into_iter().filter(is_wanted).collect(),
        };
        spec.seeds = self.seeds(&spec)?;
        Ok(spec)
    }

    /// Returns the objects of the files, and the nodes.
    fn seeds(&self, spec: &WorldSpec) -> Result<Vec<Value>, ServeError> {
        let mut seeds = if self.seed_from.is_empty() { Vec::new() } else { self.seeds_from_files(spec)? };
        let count = if self.like.is_some() { self.nodes.max(1) } else { self.nodes };
        let like_kind = self.like.is_some();
        if like_kind || self.client_certificate {
            seeds.push(kind::administrators());
        }
        seeds.extend((1..=count).map(|number| kind::node(number, like_kind && number == 1)));
        if like_kind {
            seeds.push(kind::standard_class());
            seeds.extend(kind::system_accounts());
            let version = spec.reported_version.as_deref().unwrap_or_else(|| spec.kubernetes_version.git_version());
            seeds.extend(kind::system_workloads(version.split('/').next().unwrap_or_default()));
        }
        Ok(seeds)
    }

    /// Returns the objects of the files. They are checked on a server that is not served.
    fn seeds_from_files(&self, spec: &WorldSpec) -> Result<Vec<Value>, ServeError> {
        let mut config = ApiServerConfig::new(Clock::wall());
        config.kubernetes_version = spec.kubernetes_version;
        config.legacy_apis = spec.legacy_apis;
        let server = ApiServer::new(config);
        let mut seeds = Vec::new();
        for path in &self.seed_from {
            let objects = objects(path)?;
            let all = objects.len();
            let mut reported = server.clock().elapsed();
            for (number, SeedObject { from, object }) in objects.into_iter().enumerate() {
                if is_for_kustomize(&from, &object) {
                    tracing::warn!(%from, "passed over: a file for kustomize is no object; seed what it builds");
                    continue;
                }
                if server.clock().elapsed().saturating_sub(reported) >= PROGRESS_PERIOD {
                    reported = server.clock().elapsed();
                    super::streams::notify(&format!(
                        "--seed-from {}: {number} of {all} objects checked",
                        path.display()
                    ));
                }
                let refused =
                    |why: &dyn std::fmt::Display| ServeError::Object { from: from.clone(), why: why.to_string() };
                if !object.is_object() {
                    return Err(refused(&"not an object"));
                }
                server.seed_as_created([object.clone()]).map_err(|error| refused(&error))?;
                seeds.push(object);
            }
        }
        Ok(seeds)
    }

    fn fault_rules(&self) -> Result<Vec<ServedFault>, ServeError> {
        let mut rules: Vec<ServedFault> = Vec::new();
        if let Some(path) = &self.faults {
            rules = read_rules(&read(path)?)
                .map_err(|error| ServeError::File { path: path.clone(), why: error.to_string() })?;
        }
        // As the last rule, it delays only requests that no other rule matches.
        if let Some(by) = self.latency {
            let late = json!({"name": "latency", "verdict": {"delay": {"milliseconds": by.as_millis()}}});
            rules.push(serde_json::from_value(late).map_err(ServeError::Latency)?);
        }
        Ok(rules)
    }
}

/// Describes what a cluster does and this server does not, with the flag that adds it.
fn absent(spec: &WorldSpec) -> String {
    let has = |wanted| spec.loops.contains(&wanted);
    let mut lines = String::new();
    let accounts = if spec.disabled.contains(&AdmissionPlugin::ServiceAccount) {
        "namespaces have no service account and CA certificate: --loops …,accounts"
    } else {
        "pods are refused until you create the service account `default` of their namespace: --loops …,accounts"
    };
    for (is_there, line) in [
        (spec.kubelet.is_some(), "pods stay Pending and nodes send no heartbeats: --kubelet --nodes 1"),
        (has(ControllerLoop::Workloads), "deployments and the like make no pods: --loops gc,namespaces,workloads"),
        (has(ControllerLoop::Jobs), "jobs and cron jobs make no pods: --loops …,jobs"),
        (has(ControllerLoop::Quotas), "resource quotas have no status and limit nothing: --loops …,quotas"),
        (has(ControllerLoop::Endpoints), "services have no endpoints: --loops …,endpoints"),
        (has(ControllerLoop::Accounts), accounts),
        (has(ControllerLoop::Volumes), "claims stay Pending, and deleted ones stay: --loops …,volumes"),
        (has(ControllerLoop::Policies), "policies have no status with type errors: --loops …,policies"),
        (has(ControllerLoop::NodeLifecycle), "a cordon and silent nodes get no taints: --loops …,node-lifecycle"),
        (has(ControllerLoop::Certificates), "approved signing requests get no certificate: --loops …,certificates"),
        (has(ControllerLoop::Events), "workloads and pods have no events: --loops …,events"),
        (!spec.controllers.is_empty(), "budgets are not counted, taints evict nothing: --controllers all"),
    ] {
        if !is_there {
            let _ = write!(lines, "\n  {line}");
        }
    }
    let never = "no container runs here: annotations of pods (plumbline.dev/logs, exec, port-forward.PORT) say what \
                 logs, exec, attach and port-forward answer";
    if lines.is_empty() {
        return format!("a cluster with nodes, loops and controllers; {never}");
    }
    format!("an API server without these parts (--like kind adds them all):{lines}\n{never}")
}

/// Opens the file of the audit log.
fn audit_log(path: &Path) -> Result<AuditLog, ServeError> {
    if path == Path::new("-") {
        return Ok(AuditLog::new(std::io::stdout()));
    }
    let file = std::fs::OpenOptions::new().create(true).append(true).open(path);
    let file = file.map_err(|error| ServeError::AuditLog { path: path.to_owned(), error })?;
    Ok(AuditLog::new(file))
}

/// Prints one line with the server's address and the data that a client needs.
fn ready(args: &ServeArgs, url: &str, token: &str) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    match &args.kubeconfig {
        Some(path) => writeln!(out, "ready {url} kubeconfig={}", path.display())?,
        None => writeln!(out, "ready {url} token={token}")?,
    }
    out.flush()
}

/// Returns the error, its cause, and what to do.
fn explained(error: &ListenError) -> String {
    let advice = match error {
        ListenError::Bind { source, .. } => match source.kind() {
            std::io::ErrorKind::AddrInUse => "; --listen 127.0.0.1:0 takes a free port",
            std::io::ErrorKind::PermissionDenied => {
                "; ports below 1024 need a right, --listen 127.0.0.1:0 takes a free one"
            }
            std::io::ErrorKind::AddrNotAvailable => "; use an address of this machine, such as 127.0.0.1",
            _ => "",
        },
        ListenError::Kubeconfig { .. } => "; name a file in a folder that you can write with --kubeconfig",
        ListenError::Remote(_) => "; --allow-remote allows it, --listen 127.0.0.1:6443 serves this machine alone",
        ListenError::PlainRemote(_) => "; remove --http",
        ListenError::Token => "; remove --token for a random one",
        ListenError::Certificate(_) => "",
    };
    match error.source() {
        Some(source) => format!("{error}: {source}{advice}"),
        None => format!("{error}{advice}"),
    }
}

/// Time between the heartbeats of kubelets beside an explored program: seldom, for short transcripts, but less than the
/// 50 s after which a node is unreachable.
const HEARTBEAT: Duration = Duration::from_secs(30);

/// Returns what runs beside the server of another verb: garbage collection and the deletion of namespaces, or the parts
/// of a cluster as `serve` with these flags has them.
pub(super) fn around(flags: &[String]) -> Result<Around, AroundError> {
    #[derive(clap::Parser)]
    #[command(no_binary_name = true)]
    struct Flags {
        #[command(flatten)]
        serve: ServeArgs,
    }
    let flags = Flags::try_parse_from(flags).map_err(|error| AroundError::Flags(error.to_string()))?;
    let mut spec = flags.serve.spec().map_err(|error| AroundError::Flags(error.to_string()))?;
    if let Some(options) = &mut spec.kubelet {
        options.heartbeat = HEARTBEAT;
    }
    let spec = Arc::new(spec);
    let settings = spec.clone();
    let address = SocketAddr::from(([127, 0, 0, 1], 6443));
    let start = move |server: &ApiServer| {
        server.seed_as_created(spec.seeds.iter().cloned())?;
        server.seed(bootstrap::objects(address, server.clock().now()))?;
        let mut running = spec.start_loops(server);
        if !spec.loops.contains(&ControllerLoop::Volumes) {
            // Else deleted claims would stay, which is no mistake of the program.
            running.spawn(volumes::release_volumes(server.clone()));
        }
        Ok(running)
    };
    Ok(Around { configure: Arc::new(move |config| settings.configure(config)), start: Arc::new(start) })
}

/// Waits for the end of standard input. Never returns after a line on it.
async fn stdin_closes() {
    let (sender, receiver) = tokio::sync::oneshot::channel();
    // A thread of its own: a read that never ends would keep a thread of the runtime.
    std::thread::spawn(move || {
        let mut line = String::new();
        // An input that cannot be read has ended, too.
        if std::io::stdin().read_line(&mut line).unwrap_or(0) == 0 {
            // The server may have ended by itself.
            let _ = sender.send(());
        }
    });
    if receiver.await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// The signals that end the server.
pub(super) struct Signals {
    #[cfg(unix)]
    terminate: tokio::signal::unix::Signal,
}

impl Signals {
    pub(super) fn new() -> std::io::Result<Self> {
        Ok(Self {
            #[cfg(unix)]
            terminate: tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?,
        })
    }

    pub(super) async fn any(&mut self) {
        #[cfg(unix)]
        let terminated = self.terminate.recv();
        #[cfg(not(unix))]
        let terminated = std::future::pending::<Option<()>>();
        tokio::select! {
            biased;
            _ = terminated => {}
            _ = tokio::signal::ctrl_c() => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case("250ms", Duration::from_millis(250))]
    #[case("1m30s", Duration::from_secs(90))]
    fn durations(#[case] text: &str, #[case] expected: Duration) {
        assert_eq!(parse_duration(text).ok(), Some(expected));
    }

    #[rstest]
    #[case("5")]
    #[case("-5s")]
    #[case("soon")]
    fn bad_durations(#[case] text: &str) {
        assert!(parse_duration(text).is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn default_objects_and_nodes_can_be_seeded() {
        let server = ApiServer::new(ApiServerConfig::new(Clock::virtual_from(plumbline::time::epoch())));
        server.seed(bootstrap::objects(([127, 0, 0, 1], 6443).into(), server.clock().now())).unwrap();
        server.seed([kind::node(1, true), kind::standard_class()]).unwrap();
        server.seed(kind::system_accounts()).unwrap();
        server.seed(kind::system_workloads("v1.36.2")).unwrap();
    }
}
