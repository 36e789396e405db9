//! The cluster of a measurement: a process of its own, or one that is there already.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::Error;
use crate::apiserver::discovery::KUBERNETES_VERSION;
use crate::cluster::provision::{Real, Server};
use crate::process::{self, Guarded, Start};
use crate::time::Clock;

/// How long the fake server may take until it listens.
const READY_LIMIT: Duration = Duration::from_secs(30);
/// How often its log is looked at meanwhile.
const PAUSE: Duration = Duration::from_millis(10);
/// How long it may take to end.
const STOP_LIMIT: Duration = Duration::from_secs(10);

/// Which cluster.
#[derive(Clone, Debug)]
pub enum Cluster {
    /// `plumbline serve` over HTTPS, as a process of its own.
    Fake,
    /// A real one; if it is there already, one that nobody needs.
    Real(Real),
}

/// A cluster that answers. Dropping it ends what was started for it.
pub(super) struct Place {
    /// `fake`, `envtest`, …
    pub(super) name: &'static str,
    /// What it calls its version.
    pub(super) version: String,
    /// The way to it.
    pub(super) kubeconfig: PathBuf,
    started: Started,
}

enum Started {
    Fake(Box<Guarded>),
    Real(Box<Server>),
}

impl Place {
    /// Starts or finds `cluster`; logs and secrets go to `folder`, which must be another one for each start.
    pub(super) async fn start(cluster: &Cluster, folder: &Path) -> Result<Self, Error> {
        let failed = |error: &dyn std::fmt::Display| Error::Environment(error.to_string());
        std::fs::create_dir_all(folder).map_err(|error| failed(&format!("{}: {error}", folder.display())))?;
        let server = match cluster {
            Cluster::Fake => return fake(folder).await,
            Cluster::Real(real) => real.start(folder).await.map_err(|error| failed(&error))?,
        };
        if !server.allows_disruption {
            let why = "this makes and deletes nodes: say --allow-disruptive if nobody needs the cluster";
            return Err(Error::Usage(why.to_owned()));
        }
        let (name, version) = (server.name, server.version.clone());
        Ok(Self { name, version, kubeconfig: server.kubeconfig.clone(), started: Started::Real(Box::new(server)) })
    }

    /// The server's process, where it is one of ours alone.
    pub(super) fn pid(&self) -> Option<u32> {
        match &self.started {
            Started::Fake(server) => server.pid(),
            Started::Real(_) => None,
        }
    }

    /// Whether it is there afterwards, with everything that was made in it.
    pub(super) fn stays(&self) -> bool {
        self.name == "kubeconfig"
    }

    /// Why it no longer runs, if it does not.
    pub(super) async fn ended(&mut self) -> Option<String> {
        match &mut self.started {
            Started::Fake(server) => server.ended(),
            Started::Real(server) => server.ended().await,
        }
    }

    /// Ends what was started.
    pub(super) async fn stop(self) -> Result<(), Error> {
        match self.started {
            Started::Fake(mut server) => server.terminate(STOP_LIMIT).await.map_err(Error::Environment),
            Started::Real(server) => server.stop().await.map_err(|error| Error::Environment(error.to_string())),
        }
    }
}

async fn fake(folder: &Path) -> Result<Place, Error> {
    let program = process::program();
    let program = program.map_err(|error| Error::Environment(format!("unable to find this program: {error}")))?;
    let kubeconfig = folder.join("kubeconfig");
    // Only what holds objects: the load plays everybody else, and nothing else may use the processor.
    let mut argv = vec![program.into_os_string()];
    argv.extend(["serve", "--listen=127.0.0.1:0", "--no-transcript", "--loops=none"].map(Into::into));
    argv.extend(["--kubeconfig".into(), kubeconfig.clone().into_os_string()]);
    let start =
        Start { argv, env: vec![("RUST_LOG".into(), "warn".into())], folder: None, log: folder.join("serve.log") };
    let mut server = start.spawn().map_err(Error::Environment)?;
    let clock = Clock::wall();
    while !server.log_tail(usize::MAX).iter().any(|line| line.starts_with("ready ")) {
        let ended = server.ended();
        if ended.is_some() || clock.elapsed() > READY_LIMIT {
            let why = ended.unwrap_or_else(|| format!("it does not listen after {} s", READY_LIMIT.as_secs()));
            let log = server.log_tail(10).join("\n    ");
            return Err(Error::Environment(format!("plumbline serve: {why}\n    {log}")));
        }
        clock.sleep(PAUSE).await;
    }
    Ok(Place {
        name: "fake",
        version: KUBERNETES_VERSION.to_owned(),
        kubeconfig,
        started: Started::Fake(Box::new(server)),
    })
}
