//! Reasons why the run of a fixture ended early or cannot be trusted.

use std::fmt;
use std::io;
use std::sync::Arc;

use plumbline::fixture::Problems;

/// An error of a cluster or a subject, which explains itself.
pub type Source = Box<dyn std::error::Error + Send + Sync>;

/// A reason why the run of a fixture ended early or cannot be trusted.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The cluster has no sandbox for the fixture.
    #[error("unable to set up the sandbox: {0}")]
    Sandbox(Source),
    /// The cluster does not store the given objects.
    #[error("unable to seed the given objects: {0}")]
    Seed(Source),
    /// The cluster no longer works.
    #[error("{0}")]
    Cluster(Source),
    /// The tracer, which moves the time, does not answer.
    #[error("the tracer does not answer: {0}")]
    Tracer(#[from] plumbline_guest::ClockError),
    /// The cluster cannot inject the fixture's faults.
    #[error("the fixture injects faults, which the cluster does not support")]
    NoFaults,
    /// The subject does not start.
    #[error("{0}")]
    Launch(Source),
    /// The subject does not report ready.
    #[error("{0}")]
    NotReady(Source),
    /// The subject has not read what its controllers need within its time limit.
    #[error(
        "the subject never became ready: after {limit} s it has not listed or watched {} (if it does not implement all \
         controllers under test, name those that it does: --subject-controllers ttl); {}",
        missing.join(", "),
        if log.is_empty() { "its log is empty".to_owned() } else { format!("the end of its log:\n    {}", log.join("\n    ")) }
    )]
    NotWatching {
        /// The subject's time limit in seconds.
        limit: u64,
        /// The resources that it has not requested.
        missing: Vec<&'static str>,
        /// The last lines of its log.
        log: Vec<String>,
    },
    /// A step starts controllers that already run.
    #[error("unable to start the controllers at {0}: they already run")]
    AlreadyRunning(String),
    /// The subject ended although no step stops it.
    #[error("the controllers ended by themselves at {at}: {reason}")]
    Ended {
        /// The time, as in transcripts.
        at: String,
        /// The reason that the subject gives.
        reason: String,
    },
    /// The subject requests without an end.
    #[error("{0}")]
    Storm(String),
    /// The subject did not stop cleanly.
    #[error("the controllers did not stop cleanly: {0}")]
    Stop(Source),
    /// A thread of the subject panicked.
    #[error("the subject panicked: {0}")]
    Panic(String),
    /// A signal interrupted the run.
    #[error("interrupted by {0}")]
    Interrupted(&'static str),
    /// The fixture's objects could not be removed.
    #[error("unable to clean up: {0}")]
    CleanUp(Source),
    /// The operating system refuses to create a runtime.
    #[error("unable to create a runtime: {0}")]
    Runtime(#[source] io::Error),
}

/// The reasons why a subject failed its start-up check.
#[derive(Debug, thiserror::Error)]
pub enum StartUpError {
    /// The check itself is not a valid fixture.
    #[error("the start-up check is not a valid fixture: {0}")]
    Check(Problems),
    /// The run of the check failed.
    #[error("{}", Joined(.0))]
    Run(Vec<Arc<RunError>>),
}

/// Displays errors in one line.
struct Joined<'a>(&'a [Arc<RunError>]);

impl fmt::Display for Joined<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, error) in self.0.iter().enumerate() {
            let separator = if index == 0 { "" } else { "; " };
            write!(f, "{separator}{error}")?;
        }
        Ok(())
    }
}
