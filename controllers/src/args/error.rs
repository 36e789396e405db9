//! Errors of flags that clap accepts but that are invalid.

use crate::app::ControllerName;
use crate::runtime::leader::TimingError;

/// Errors of flags that clap accepts but that are invalid.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum ArgsError {
    /// Unknown controller, in upstream's words.
    #[error("--controllers: {0:?} is not in the list of known controllers ({known})", known = known_controllers())]
    UnknownController(String),
    /// No controller is enabled.
    #[error("--controllers: {0:?} enables no controller; name at least one of {known}, or '*'",
        known = known_controllers())]
    NothingEnabled(String),
    /// The rate is not a finite number.
    #[error("--kube-api-qps: {0} is not a finite number")]
    Qps(String),
    /// The timings would allow two leaders.
    #[error("--leader-elect-lease-duration, --leader-elect-renew-deadline, --leader-elect-retry-period: {0}")]
    LeaderElect(TimingError),
    /// Certificate and key must be given together.
    #[error("{0} requires {1}")]
    TlsPair(&'static str, &'static str),
}

fn known_controllers() -> String {
    ControllerName::ALL.map(ControllerName::as_str).join(", ")
}
