//! `plumbline serve` for a run, and kube-controller-manager beside it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use plumbline::time::Clock;
use plumbline_suite::process::{self, GuardedProcess, ProcessSpec};
use serde_json::Value;

use super::error::UpstreamError;
use super::options::RunOptions;

/// Time limit for the start of the server.
const START_LIMIT: Duration = Duration::from_secs(30);
/// Time limit for its end.
const STOP_LIMIT: Duration = Duration::from_secs(10);
/// Pause between two checks.
const POLL: Duration = Duration::from_millis(20);

/// The server under test and its controllers. Dropping it ends them.
pub(super) struct ServedCluster {
    processes: Vec<(&'static str, GuardedProcess)>,
    kubeconfig: PathBuf,
}

impl ServedCluster {
    /// Starts the server, waits until it is ready, and starts kube-controller-manager if there is one.
    pub(super) async fn start(options: &RunOptions, folder: &Path, logs: &Path) -> Result<Self, UpstreamError> {
        let kubeconfig = folder.join("kubeconfig");
        let program = process::program().map_err(UpstreamError::file(Path::new("plumbline")))?;
        let mut argv = vec![program.into_os_string(), "serve".into(), "--kubeconfig".into(), kubeconfig.clone().into()];
        argv.extend(options.serve.iter().map(Into::into));
        let env = vec![("RUST_LOG".into(), "warn".into())];
        let spec = ProcessSpec { argv, env, log: logs.join("serve.log"), folder: None };
        let mut server = spec.spawn().map_err(|error| UpstreamError::Process(error.to_string()))?;
        let ready = Clock::wall().timeout(START_LIMIT, end_or_ready(&mut server)).await;
        let late = || Some(format!("it is not ready after {} s", START_LIMIT.as_secs()));
        if let Some(why) = ready.unwrap_or_else(late) {
            let said = server.log_tail(5).join("\n  ");
            return Err(UpstreamError::Process(format!("plumbline serve: {why}\n  {said}")));
        }
        let mut processes = vec![("plumbline serve", server)];
        if let Some(program) = &options.controller_manager {
            let manager = controller_manager(program, &kubeconfig, folder, logs)?;
            processes.push(("kube-controller-manager", manager));
        }
        Ok(Self { processes, kubeconfig })
    }

    /// The kubeconfig of the server.
    pub(super) fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// Returns an error if the server or kube-controller-manager has ended.
    pub(super) fn check_alive(&mut self) -> Result<(), UpstreamError> {
        self.processes.iter_mut().try_for_each(|(name, process)| match process.ended() {
            None => Ok(()),
            Some(why) => {
                let said = process.log_tail(10).join("\n  ");
                Err(UpstreamError::Process(format!("{name} ended during the run: {why}\n  {said}")))
            }
        })
    }

    /// Ends the controllers, then the server.
    pub(super) async fn stop(&mut self) {
        while let Some((name, mut process)) = self.processes.pop() {
            if let Err(why) = process.terminate(STOP_LIMIT).await {
                tracing::warn!(%why, "{name} did not end in order");
            }
        }
    }
}

/// Waits for the line that `serve` prints when it is ready. Returns the server's end if it comes first.
async fn end_or_ready(server: &mut GuardedProcess) -> Option<String> {
    loop {
        if server.log_tail(usize::MAX).iter().any(|line| line.starts_with("ready ")) {
            return None;
        }
        if let Some(end) = server.ended() {
            return Some(end);
        }
        Clock::wall().sleep(POLL).await;
    }
}

fn controller_manager(
    program: &Path,
    kubeconfig: &Path,
    folder: &Path,
    logs: &Path,
) -> Result<GuardedProcess, UpstreamError> {
    let kubeconfig_flag = format!("--kubeconfig={}", kubeconfig.display());
    let mut argv = vec![program.as_os_str().to_owned(), kubeconfig_flag.into()];
    argv.extend(["--leader-elect=false", "--secure-port=0", "--use-service-account-credentials=false"].map(Into::into));
    if let Some(authority) = authority(kubeconfig)? {
        let path = folder.join("ca.crt");
        std::fs::write(&path, authority).map_err(UpstreamError::file(&path))?;
        argv.push(format!("--root-ca-file={}", path.display()).into());
    }
    let log = logs.join("kube-controller-manager.log");
    ProcessSpec { argv, log, ..ProcessSpec::default() }
        .spawn()
        .map_err(|error| UpstreamError::Process(error.to_string()))
}

/// Returns the certificate authority of a kubeconfig, in PEM.
fn authority(kubeconfig: &Path) -> Result<Option<Vec<u8>>, UpstreamError> {
    let text = std::fs::read_to_string(kubeconfig).map_err(UpstreamError::file(kubeconfig))?;
    let unusable = |why: String| UpstreamError::Process(format!("{}: {why}", kubeconfig.display()));
    let config: Value = serde_saphyr::from_str(&text).map_err(|error| unusable(error.to_string()))?;
    let data = config["clusters"][0]["cluster"]["certificate-authority-data"].as_str();
    data.map(|data| BASE64_STANDARD.decode(data).map_err(|error| unusable(error.to_string()))).transpose()
}
