//! Exit codes of the binary: a documented interface.

use std::process::ExitCode;

/// The result of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// 0: stopped in order on SIGTERM or SIGINT.
    Stopped = 0,
    /// 1: a bug: a task ended that never should.
    Bug = 1,
    /// 2: invalid flags (clap's own code too).
    Usage = 2,
    /// 3: the kubeconfig cannot be read or used.
    Kubeconfig = 3,
    /// 4: the lease was lost; another replica may be leading. After a restart this replica is a standby.
    LostLease = 4,
    /// 5: the health and metrics port cannot be opened.
    Port = 5,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}
