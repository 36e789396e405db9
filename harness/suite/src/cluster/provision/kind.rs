//! A cluster created with the `kind` CLI. A generated configuration switches its own versions of the tested controllers
//! off; the cluster is deleted at the end.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use plumbline::time::Clock;
use serde_json::json;

use super::built_in_controllers::{built_in, controllers_without};
use super::environment_error::{EVIDENCE_LINES, EnvironmentError, FailureKind};
use super::owner::ProcessOwner;
use super::private_files::{log_folder, temporary_folder, write_private};
use super::probe;
use super::probe::PAUSE;
use super::server::{Bystanders, Server, ServerBackend};
use crate::process::crash_cleanup::{CleanupGuard, CrashCleanup};
use crate::process::{ProcessSpec, tail};

/// Prefix of the clusters that the harness creates; the owner follows.
const PREFIX: &str = "plumbline-";
/// Controllers that kubeadm enables, `cmd/kubeadm/app/phases/controlplane/manifests.go`.
const CONTROLLERS: &str = "*,bootstrapsigner,tokencleaner";
/// Time limit for quick commands of kind.
const QUICK: Duration = Duration::from_mins(2);

/// Options for a cluster created with kind.
#[derive(Clone, Debug, clap::Args)]
#[group(id = "kind_options")]
pub struct KindOptions {
    /// With --cluster kind: the kind program
    #[arg(long, env = "PLUMBLINE_KIND", value_name = "PROGRAM", default_value = "kind")]
    pub kind_program: PathBuf,

    /// With --cluster kind: node image [default: chosen by the program]
    #[arg(long, env = "PLUMBLINE_KIND_IMAGE", value_name = "IMAGE")]
    pub kind_image: Option<String>,

    /// With --cluster kind: keep the built-in versions of the controllers, to test them with --subject external
    #[arg(long)]
    pub kind_built_in_controllers: bool,

    /// With --cluster kind: time limit to become ready, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 300)]
    pub kind_ready_limit: u64,
}

/// Creates a cluster; the output of kind and the logs of its nodes go to `logs`. First deletes clusters of killed runs.
///
/// # Errors
///
/// Returns an error if `kind` is missing, the cluster cannot be created (with the end of kind's output), or it is not
/// ready in time.
pub async fn start(options: &KindOptions, logs: &Path) -> Result<Server, EnvironmentError> {
    let program = find(&options.kind_program, std::env::var_os("PATH").unwrap_or_default())?;
    let logs = log_folder(logs)?;
    let kind = KindCli { program, log_folder: logs.clone() };
    kind.delete_leftovers().await?;

    let folder = temporary_folder()?;
    let name = format!("{PREFIX}{}", ProcessOwner::me());
    let kubeconfig = folder.path().join("kubeconfig");
    let config = folder.path().join("kind.json");
    write_private(&config, &config_text(options.kind_built_in_controllers))?;
    let delete = delete_words(&name, &kubeconfig);
    let run = std::iter::once(kind.program.clone().into()).chain(delete).collect();
    let crash_cleanup =
        CrashCleanup { run, folder: Some(folder.path().to_owned()), ..CrashCleanup::default() }.start()?;
    let started = KindCluster {
        kind,
        name,
        kubeconfig: kubeconfig.clone(),
        folder: Some(folder),
        crash_cleanup: Some(crash_cleanup),
    };

    match started.create(options, &config).await {
        Ok(version) => Ok(Server {
            name: "kind",
            image: options.kind_image.clone(),
            version,
            kubeconfig,
            log_folder: logs,
            allows_disruption: true,
            built_in: built_in(options.kind_built_in_controllers),
            bystanders: Bystanders { scheduler: true, meddlers: options.kind_built_in_controllers },
            started: Box::new(started),
        }),
        Err(error) => {
            // Report the first failure, not those of stopping.
            let _ = Box::new(started).stop().await;
            Err(error)
        }
    }
}

/// Finds the program, as a path or in `path`.
fn find(program: &Path, path: OsString) -> Result<PathBuf, EnvironmentError> {
    let places: Vec<PathBuf> = if program.components().count() > 1 {
        vec![program.to_owned()]
    } else {
        std::env::split_paths(&path).map(|folder| folder.join(program)).collect()
    };
    if let Some(place) = places.iter().find(|place| place.is_file()) {
        return Ok(std::path::absolute(place).unwrap_or_else(|_| place.clone()));
    }
    let what = format!("the program {} was not found", program.display());
    let next = "install it (https://kind.sigs.k8s.io), or set --kind-program; --cluster fake needs no programs";
    Err(EnvironmentError::new(FailureKind::Missing, what, next)
        .with(places.iter().map(|place| place.display().to_string())))
}

/// Returns the configuration of the cluster as JSON, which is valid YAML.
///
/// kubeadm's arguments are a map in its API `v1beta3` and a list in `v1beta4`; kind applies the patch for the version
/// it uses (the latter from Kubernetes 1.36 on) and ignores the other.
fn config_text(built_in_controllers: bool) -> String {
    let mut config = json!({
        "kind": "Cluster",
        "apiVersion": "kind.x-k8s.io/v1alpha4",
        "nodes": [{"role": "control-plane"}],
    });
    if !built_in_controllers {
        let controllers = controllers_without(CONTROLLERS);
        let patch = |version: &str, arguments: serde_json::Value| {
            json!({
                "kind": "ClusterConfiguration",
                "apiVersion": format!("kubeadm.k8s.io/{version}"),
                "controllerManager": {"extraArgs": arguments},
            })
            .to_string()
        };
        config["kubeadmConfigPatches"] = json!([
            patch("v1beta3", json!({"controllers": controllers})),
            patch("v1beta4", json!([{"name": "controllers", "value": controllers}])),
        ]);
    }
    format!("{config:#}\n")
}

/// Returns the arguments that delete a cluster.
fn delete_words(name: &str, kubeconfig: &Path) -> Vec<OsString> {
    let mut words = ["delete", "cluster", "--name", name, "--kubeconfig"].map(OsString::from).to_vec();
    words.push(kubeconfig.into());
    words
}

/// The `kind` CLI.
#[derive(Clone, Debug)]
struct KindCli {
    program: PathBuf,
    log_folder: PathBuf,
}

impl KindCli {
    /// Runs it under a guard and returns its output, which also goes to `kind-WHAT.log`.
    async fn run(&self, what: &str, words: Vec<OsString>, limit: Duration) -> Result<Vec<String>, EnvironmentError> {
        let log = self.log_folder.join(format!("kind-{what}.log"));
        let argv = std::iter::once(self.program.clone().into()).chain(words).collect();
        let next = "try it manually; check Docker with `docker info`";
        let mut process = ProcessSpec { argv, env: Vec::new(), folder: None, log: log.clone() }
            .spawn()
            .map_err(|error| EnvironmentError::new(FailureKind::Failed, error.to_string(), next))?;
        let clock = Clock::wall();
        let end = loop {
            if let Some(end) = process.ended() {
                break end;
            }
            if clock.elapsed() > limit {
                process.kill();
                let what = format!("`kind {what}` did not finish within {} s; log {}:", limit.as_secs(), log.display());
                let next = "check the log; a slow machine may need a longer --kind-ready-limit";
                return Err(EnvironmentError::new(FailureKind::NotReady, what, next).with(tail(&log, EVIDENCE_LINES)));
            }
            clock.sleep(PAUSE).await;
        };
        if end.ends_with("exited with code 0") {
            return Ok(tail(&log, usize::MAX));
        }
        let what = format!("`kind {what}`: {end}; log {}:", log.display());
        Err(EnvironmentError::new(FailureKind::Failed, what, next).with(tail(&log, EVIDENCE_LINES)))
    }

    /// Deletes the clusters of dead runs whose crash cleanup did not happen either.
    async fn delete_leftovers(&self) -> Result<(), EnvironmentError> {
        let names = self.run("get-clusters", ["get", "clusters"].map(OsString::from).to_vec(), QUICK).await?;
        for name in names {
            let owner = name.strip_prefix(PREFIX).and_then(ProcessOwner::parse);
            if owner.is_some_and(|owner| owner.is_dead()) {
                tracing::warn!(cluster = name, "deleting a cluster left by a killed run");
                let words = ["delete", "cluster", "--name", &name].map(OsString::from).to_vec();
                self.run("delete-leftover", words, QUICK).await?;
            }
        }
        Ok(())
    }
}

/// A cluster and its resources.
#[derive(Debug)]
struct KindCluster {
    kind: KindCli,
    name: String,
    kubeconfig: PathBuf,
    folder: Option<tempfile::TempDir>,
    crash_cleanup: Option<CleanupGuard>,
}

impl KindCluster {
    /// Creates the cluster, waits until it is ready and returns its version.
    async fn create(&self, options: &KindOptions, config: &Path) -> Result<String, EnvironmentError> {
        let clock = Clock::wall();
        let limit = Duration::from_secs(options.kind_ready_limit);
        let mut words = ["create", "cluster", "--name", &self.name, "--config"].map(OsString::from).to_vec();
        words.extend([config.into(), "--kubeconfig".into(), self.kubeconfig.clone().into()]);
        if let Some(image) = &options.kind_image {
            words.extend(["--image".into(), image.into()]);
        }
        self.kind.run("create", words, limit).await?;
        let client = probe::client(&self.kubeconfig).await?;
        probe::ready("the kind cluster", &client, limit.saturating_sub(clock.elapsed())).await
    }
}

impl ServerBackend for KindCluster {
    fn ended(&mut self) -> BoxFuture<'_, Option<String>> {
        async {
            let client = probe::client(&self.kubeconfig).await.map_err(|error| error.to_string());
            let why = match client {
                Ok(client) => probe::not_ready(&client).await.map(|error| error.to_string()),
                Err(why) => Some(why),
            };
            why.map(|why| format!("the kind cluster {} is no longer ready: {why}", self.name))
        }
        .boxed()
    }

    fn stop(mut self: Box<Self>) -> BoxFuture<'static, Result<(), EnvironmentError>> {
        async move {
            let nodes = self.kind.log_folder.join("kind-nodes");
            let words =
                [OsString::from("export"), "logs".into(), nodes.into(), "--name".into(), self.name.clone().into()];
            // A cluster that was never created has no logs.
            let _ = self.kind.run("export-logs", words.into(), QUICK).await;
            let words = delete_words(&self.name, &self.kubeconfig);
            self.kind.run("delete", words, QUICK).await?;
            if let Some(crash_cleanup) = self.crash_cleanup.take() {
                crash_cleanup.cancel();
            }
            drop(self.folder.take());
            Ok(())
        }
        .boxed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    /// The shape is that of <https://kind.sigs.k8s.io/docs/user/configuration/#kubeadm-config-patches>.
    #[test]
    fn the_configuration_switches_the_controllers_off_in_both_apis_of_kubeadm() {
        let config: Value = serde_json::from_str(&config_text(false)).unwrap();
        assert_eq!((&config["kind"], &config["apiVersion"]), (&json!("Cluster"), &json!("kind.x-k8s.io/v1alpha4")));
        let controllers = "*,bootstrapsigner,tokencleaner,-disruption-controller,-pod-garbage-collector-controller,\
                           -taint-eviction-controller,-ttl-controller,-cronjob-controller,-daemonset-controller,\
                           -deployment-controller,-garbage-collector-controller,-job-controller,-node-lifecycle-controller,\
                           -replicaset-controller,-replicationcontroller-controller,-statefulset-controller";
        let patches: Vec<Value> = config["kubeadmConfigPatches"]
            .as_array()
            .unwrap()
            .iter()
            .map(|patch| serde_json::from_str(patch.as_str().unwrap()).unwrap())
            .collect();
        assert_eq!(
            patches,
            [
                json!({"kind": "ClusterConfiguration", "apiVersion": "kubeadm.k8s.io/v1beta3",
                    "controllerManager": {"extraArgs": {"controllers": controllers}}}),
                json!({"kind": "ClusterConfiguration", "apiVersion": "kubeadm.k8s.io/v1beta4",
                    "controllerManager": {"extraArgs": [{"name": "controllers", "value": controllers}]}}),
            ]
        );
        assert!(!config_text(true).contains("controllerManager"));
    }

    #[test]
    fn the_program_is_looked_for_on_the_path() {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("kind");
        std::fs::write(&program, "").unwrap();
        assert_eq!(find(Path::new("kind"), folder.path().into()).unwrap(), program);
        assert_eq!(find(&program, OsString::new()).unwrap(), program);
        let error = find(Path::new("kind"), "/nowhere".into()).unwrap_err();
        assert_eq!((error.kind, error.evidence), (FailureKind::Missing, vec!["/nowhere/kind".to_owned()]));
    }
}
