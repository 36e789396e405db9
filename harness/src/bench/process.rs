//! The server under measurement as a process of its own: its start, its memory, its processor time.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};

use super::Error;
use super::http::Endpoint;
use crate::time::Clock;

/// Processor time is told in ticks of this length.
const TICK: Duration = Duration::from_millis(10);

/// A server that we started; dropping it ends it.
pub(crate) struct Server {
    child: Child,
    folder: PathBuf,
}

impl Server {
    /// Starts `plumbline serve` with `arguments` and waits until it says that it is ready.
    pub(crate) async fn start(program: &Path, arguments: &[&str], number: usize) -> Result<Self, Error> {
        let failed = |source| Error::Io { doing: format!("starting {} serve", program.display()), source };
        let folder = std::env::temp_dir().join(format!("plumbline-bench-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&folder).map_err(failed)?;
        let mut command = Command::new(program);
        command.arg("serve").args(["--listen", "127.0.0.1:0"]).arg("--kubeconfig").arg(folder.join("kubeconfig"));
        command.args(arguments).env("RUST_LOG", "warn").stdin(Stdio::null()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().map_err(failed)?;
        let out = child.stdout.take().ok_or_else(|| failed(std::io::ErrorKind::BrokenPipe.into()))?;
        let server = Self { child, folder };
        let line = BufReader::new(out).lines().next_line().await.map_err(failed)?.unwrap_or_default();
        if !line.starts_with("ready ") {
            return Err(failed(std::io::Error::other(format!("it said {line:?} instead of `ready …`"))));
        }
        Ok(server)
    }

    /// How a client reaches it.
    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.folder.join("kubeconfig")
    }

    /// Its process.
    pub(crate) fn pid(&self) -> Option<u32> {
        self.child.id()
    }

    /// Ends it.
    pub(crate) async fn stop(mut self) {
        // It holds nothing worth a graceful end; an error says that it has ended already.
        let _ = self.child.kill().await;
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Time from starting the program until its ready line, and until it has answered a first request over HTTPS.
pub(crate) async fn time_to_ready(
    clock: &Clock,
    program: &Path,
    arguments: &[&str],
    number: usize,
) -> Result<(Duration, Duration), Error> {
    let start = clock.elapsed();
    let server = Server::start(program, arguments, number).await?;
    let said = clock.elapsed().saturating_sub(start);
    let endpoint = Endpoint::from_kubeconfig(&server.kubeconfig(), "plumbline-bench/1 ready").await?;
    endpoint.connect().await?.exchange("GET", "/readyz", &[], 200).await?;
    let answered = clock.elapsed().saturating_sub(start);
    server.stop().await;
    Ok((said, answered))
}

/// What processes have used.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Usage {
    /// Processor time, of the programs and of the kernel for them.
    pub(crate) cpu: Duration,
    /// Resident memory in bytes.
    pub(crate) resident: u64,
    /// Most resident memory so far in bytes.
    pub(crate) peak: u64,
}

impl Usage {
    /// The sum over `pids`; `None` where the system has no `/proc`, or a process is gone, or none is asked for.
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

fn kilobytes(status: &str, name: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim().strip_suffix(" kB")?.parse::<u64>().ok().map(|number| number * 1024)
}

fn cpu(stat: &str) -> Option<Duration> {
    // The command's name, in parentheses, may hold anything; utime and stime are the 12th and 13th field after it.
    let mut fields = stat.rsplit_once(") ")?.1.split(' ').skip(11);
    let ticks = fields.next()?.parse::<u32>().ok()? + fields.next()?.parse::<u32>().ok()?;
    Some(TICK * ticks)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proc_files_are_understood() {
        let stat = "17 (a) b) S 1 17 17 0 -1 4194304 100 0 0 0 250 50 0 0 20 0 3 0 100 1000 10";
        assert_eq!(cpu(stat), Some(Duration::from_secs(3)));
        assert_eq!(kilobytes("Name:\tx\nVmHWM:\t   2048 kB\nVmRSS:\t 1024 kB\n", "VmRSS:"), Some(1 << 20));
    }
}
