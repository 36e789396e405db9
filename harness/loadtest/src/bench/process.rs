//! The measured server as a separate process: its start, memory and CPU time.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use plumbline::time::Clock;
use plumbline_suite::process::tree::{cpu, kilobytes};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};

use super::error::BenchError;
use super::http::Endpoint;

/// A server started here; dropping it ends it.
pub(crate) struct ServeProcess {
    child: Child,
    folder: PathBuf,
}

impl ServeProcess {
    /// Creates a server with `plumbline serve` and `arguments`, and waits until it is ready.
    pub(crate) async fn start(program: &Path, arguments: &[&str], number: usize) -> Result<Self, BenchError> {
        let failed = |source| BenchError::Io { doing: format!("starting {} serve", program.display()), source };
        let folder = std::env::temp_dir().join(format!("plumbline-bench-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&folder).map_err(failed)?;
        let log = folder.join("log");
        let errors = std::fs::File::create(&log).map_err(failed)?;
        let mut command = Command::new(program);
        command.arg("serve").args(["--listen", "127.0.0.1:0"]).arg("--kubeconfig").arg(folder.join("kubeconfig"));
        command.args(arguments).env("RUST_LOG", "warn").kill_on_drop(true);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(errors);
        let mut child = command.spawn().map_err(failed)?;
        let out = child.stdout.take().ok_or_else(|| failed(std::io::ErrorKind::BrokenPipe.into()))?;
        let server = Self { child, folder };
        let line = BufReader::new(out).lines().next_line().await.map_err(failed)?.unwrap_or_default();
        if !line.starts_with("ready ") {
            let log = std::fs::read_to_string(&log).unwrap_or_default();
            let message = format!("it printed {line:?} instead of `ready …`; its log: {}", log.trim_end());
            return Err(failed(std::io::Error::other(message)));
        }
        Ok(server)
    }

    /// The kubeconfig to reach it.
    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.folder.join("kubeconfig")
    }

    /// Its process id.
    pub(crate) fn pid(&self) -> Option<u32> {
        self.child.id()
    }

    /// Ends it.
    pub(crate) async fn stop(mut self) {
        // It has no state worth a graceful shutdown; an error means that it has already ended.
        let _ = self.child.kill().await;
    }
}

impl Drop for ServeProcess {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Measures the time from starting the program to its ready line, and to its first response over HTTPS.
pub(crate) async fn time_to_ready(
    clock: &Clock,
    program: &Path,
    arguments: &[&str],
    number: usize,
) -> Result<(Duration, Duration), BenchError> {
    let start = clock.elapsed();
    let server = ServeProcess::start(program, arguments, number).await?;
    let said = clock.elapsed().saturating_sub(start);
    let endpoint = Endpoint::from_kubeconfig(&server.kubeconfig(), "plumbline-bench/1 ready").await?;
    endpoint.connect().await?.exchange("GET", "/readyz", &[], 200).await?;
    let answered = clock.elapsed().saturating_sub(start);
    server.stop().await;
    Ok((said, answered))
}

/// Resources used by processes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Usage {
    /// CPU time in user and kernel mode.
    pub(crate) cpu: Duration,
    /// Resident memory in bytes.
    pub(crate) resident: u64,
    /// Peak resident memory in bytes.
    pub(crate) peak: u64,
}

impl Usage {
    /// Returns the sum over `pids`; `None` without `/proc`, if a process is gone, or if `pids` is empty.
    pub(crate) fn of(pids: &[u32]) -> Option<Self> {
        let mut sum = Self::default();
        for pid in pids {
            let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
            sum.resident += kilobytes(&status, "VmRSS:")?;
            sum.peak += kilobytes(&status, "VmHWM:")?;
            sum.cpu += cpu(&stat)?;
        }
        (!pids.is_empty()).then_some(sum)
    }
}
