//! The measured program.

use std::path::Path;
use std::time::Duration;

use plumbline::fixture::Controller;
use plumbline::time::Clock;
use plumbline_suite::cluster::Access;
use plumbline_suite::subject::{Launch, Running, Subject as _, command};

use super::error::ScaleError;
use crate::bench::process::Usage;

/// Time limit for its process to appear.
const PROCESS_LIMIT: Duration = Duration::from_secs(5);
/// Pause between two checks for it.
const READING_PAUSE: Duration = Duration::from_millis(2);

/// A program, identified by its command line.
#[derive(Clone, Debug)]
pub struct MeasuredCommand(pub command::Command);

impl MeasuredCommand {
    /// The name in the report.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// The command line, quoted.
    #[must_use]
    pub fn line(&self) -> String {
        shell_words::join(&self.0.argv)
    }
}

/// A running subject. Dropping it ends it.
pub(super) struct RunningSubject {
    running: Box<dyn Running>,
    pid: u32,
    name: String,
}

impl RunningSubject {
    /// Starts it; its log goes to `logs`.
    pub(super) async fn start(
        command: &MeasuredCommand,
        controllers: &[Controller],
        kubeconfig: &Path,
        logs: &Path,
        clock: &Clock,
    ) -> Result<Self, ScaleError> {
        let command = command::Command { log_folder: logs.to_owned(), ..command.0.clone() };
        let flags = std::collections::BTreeMap::new();
        let launch = Launch { controllers, flags: &flags, replicas: 1, access: Access::Kubeconfig(kubeconfig), clock };
        let mut running = command.launch(&launch).map_err(|error| ScaleError::Environment(error.to_string()))?;
        let begin = clock.elapsed();
        loop {
            if let Some(pid) = running.pid() {
                return Ok(Self { running, pid, name: command.name.clone() });
            }
            if let Some(end) = running.ended() {
                return Err(ScaleError::Environment(format!("{} does not start: {end}", command.name)));
            }
            if clock.elapsed().saturating_sub(begin) > PROCESS_LIMIT {
                let why = "its process is not in /proc, so CPU time and memory cannot be measured";
                return Err(ScaleError::Environment(format!("{}: {why}", command.name)));
            }
            clock.sleep(READING_PAUSE).await;
        }
    }

    /// Returns the reason if it has ended.
    pub(super) fn ended(&mut self) -> Option<String> {
        self.running.ended().map(|end| format!("{} ended during the run: {end}", self.name))
    }

    /// Returns the resources it has used.
    pub(super) fn usage(&self) -> Option<Usage> {
        Usage::of(&[self.pid])
    }

    /// Resets the peak of its memory. If the system does not allow this, the peak since the start counts.
    pub(super) fn forget_peak(&self) {
        // 5: proc(5), clear_refs.
        let _ = std::fs::write(format!("/proc/{}/clear_refs", self.pid), "5");
    }

    /// Stops it.
    pub(super) async fn stop(mut self) -> Result<(), ScaleError> {
        self.running.stop().await.map_err(|error| ScaleError::Environment(error.to_string()))
    }
}
