//! Exit codes of the binary, a documented interface.

use std::process::ExitCode;

/// How the process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// 0: stopped in order, on SIGTERM or SIGINT.
    Stopped = 0,
    /// 1: a bug: a part of the program ended that never should.
    Bug = 1,
    /// 2: wrong flags (clap's own code too).
    Usage = 2,
    /// 3: the kubeconfig cannot be read or used.
    Kubeconfig = 3,
    /// 4: the lease was lost, another replica may be leading. Start again: it will stand by.
    LostLease = 4,
    /// 5: the port for health and metrics cannot be opened.
    Port = 5,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}
