//! The cluster of a measurement: a separate process, or an existing cluster.

use std::path::{Path, PathBuf};
use std::time::Duration;

use plumbline::time::Clock;
use plumbline_apiserver::KubernetesVersion;
use plumbline_suite::cluster::provision::{RealCluster, Server};
use plumbline_suite::process::{self, GuardedProcess, ProcessSpec};

use super::error::ScaleError;

/// Time limit for the fake server to listen.
const READY_LIMIT: Duration = Duration::from_secs(30);
/// Pause between two checks of its log.
const READY_PAUSE: Duration = Duration::from_millis(10);
/// Time limit for it to stop.
const STOP_LIMIT: Duration = Duration::from_secs(10);

/// The cluster to use.
#[derive(Clone, Debug)]
pub enum ClusterChoice {
    /// `plumbline serve` over HTTPS, as a separate process.
    Fake,
    /// A real cluster; an existing one must be disposable.
    Real(RealCluster),
}

/// A running cluster. Dropping it ends everything that was started for it.
pub(super) struct TargetCluster {
    /// `fake`, `envtest`, …
    pub(super) name: &'static str,
    /// The version that it reports.
    pub(super) version: String,
    /// The kubeconfig to reach it.
    pub(super) kubeconfig: PathBuf,
    started: BackingServer,
}

enum BackingServer {
    Fake(Box<GuardedProcess>),
    Real(Box<Server>),
}

impl TargetCluster {
    /// Starts or finds `cluster`; logs and secrets go to `folder`, which must differ for each start.
    pub(super) async fn start(cluster: &ClusterChoice, folder: &Path) -> Result<Self, ScaleError> {
        let failed = |error: &dyn std::fmt::Display| ScaleError::Environment(error.to_string());
        std::fs::create_dir_all(folder).map_err(|error| failed(&format!("{}: {error}", folder.display())))?;
        let server = match cluster {
            ClusterChoice::Fake => return fake(folder).await,
            ClusterChoice::Real(real) => real.start(folder).await.map_err(|error| failed(&error))?,
        };
        if !server.allows_disruption {
            let why = "the measurement creates and deletes nodes: use a disposable cluster and set --allow-disruptive";
            return Err(ScaleError::Usage(why.to_owned()));
        }
        let name = server.name;
        let version = server.version.clone();
        Ok(Self {
            name,
            version,
            kubeconfig: server.kubeconfig.clone(),
            started: BackingServer::Real(Box::new(server)),
        })
    }

    /// The server's process id, if it is our own process.
    pub(super) fn pid(&self) -> Option<u32> {
        match &self.started {
            BackingServer::Fake(server) => server.pid(),
            BackingServer::Real(_) => None,
        }
    }

    /// Returns true if the cluster stays after the measurement, with everything created in it.
    pub(super) fn stays(&self) -> bool {
        self.name == "kubeconfig"
    }

    /// Returns the reason if it no longer runs.
    pub(super) async fn ended(&mut self) -> Option<String> {
        match &mut self.started {
            BackingServer::Fake(server) => server.ended(),
            BackingServer::Real(server) => server.ended().await,
        }
    }

    /// Stops everything that was started.
    pub(super) async fn stop(self) -> Result<(), ScaleError> {
        match self.started {
            BackingServer::Fake(mut server) => {
                server.terminate(STOP_LIMIT).await.map_err(|error| ScaleError::Environment(error.to_string()))
            }
            BackingServer::Real(server) => {
                server.stop().await.map_err(|error| ScaleError::Environment(error.to_string()))
            }
        }
    }
}

async fn fake(folder: &Path) -> Result<TargetCluster, ScaleError> {
    let program = process::program();
    let program = program.map_err(|error| ScaleError::Environment(format!("unable to find this program: {error}")))?;
    let kubeconfig = folder.join("kubeconfig");
    // Without controller loops: the load plays all other components, and nothing else should use the CPU.
    let mut argv = vec![program.into_os_string()];
    argv.extend(["serve", "--listen=127.0.0.1:0", "--no-transcript", "--loops=none"].map(Into::into));
    argv.extend(["--kubeconfig".into(), kubeconfig.clone().into_os_string()]);
    let start = ProcessSpec {
        argv,
        env: vec![("RUST_LOG".into(), "warn".into())],
        folder: None,
        log: folder.join("serve.log"),
    };
    let mut server = start.spawn().map_err(|error| ScaleError::Environment(error.to_string()))?;
    let clock = Clock::wall();
    while !server.log_tail(usize::MAX).iter().any(|line| line.starts_with("ready ")) {
        let ended = server.ended();
        if ended.is_some() || clock.elapsed() > READY_LIMIT {
            let why = ended.unwrap_or_else(|| format!("not listening after {} s", READY_LIMIT.as_secs()));
            let log = server.log_tail(10).join("\n    ");
            return Err(ScaleError::Environment(format!("plumbline serve: {why}\n    {log}")));
        }
        clock.sleep(READY_PAUSE).await;
    }
    Ok(TargetCluster {
        name: "fake",
        version: KubernetesVersion::default().git_version().to_owned(),
        kubeconfig,
        started: BackingServer::Fake(Box::new(server)),
    })
}
