//! Identity of the process that owns something. Things of dead processes may be removed.

use std::fmt;

use ring::digest::{SHA256, digest};

/// A process, distinguished from later processes with the same pid by its start time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ProcessOwner {
    /// Hash of the host name: eight hexadecimal digits.
    host: String,
    process: u32,
    /// Start time in clock ticks since boot; 0 if unknown.
    start: u64,
}

impl ProcessOwner {
    /// Returns this process.
    pub(super) fn me() -> Self {
        let process = std::process::id();
        Self { host: host(), process, start: start_of(process).unwrap_or_default() }
    }

    /// Parses the output of [`fmt::Display`].
    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('-');
        let owner = Self {
            host: parts.next()?.to_owned(),
            process: parts.next()?.parse().ok()?,
            start: parts.next()?.parse().ok()?,
        };
        parts.next().is_none().then_some(owner)
    }

    /// Returns true if it is a process of this machine that no longer runs. In doubt returns false.
    pub(super) fn is_dead(&self) -> bool {
        cfg!(target_os = "linux") && self.host == host() && start_of(self.process) != Some(self.start)
    }
}

impl fmt::Display for ProcessOwner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}-{}", self.host, self.process, self.start)
    }
}

/// Returns a short hash for this machine or container, which has its own pids.
fn host() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    digest(&SHA256, name.trim().as_bytes())
        .as_ref()
        .iter()
        .take(4)
        .map(|byte| format!("{byte:02x}"))
        .collect::<Vec<_>>()
        .concat()
}

/// Returns the start time of a process: field 22 of its `stat`, see proc(5). `None` if there is no such process.
fn start_of(process: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The second field is the program's name in parentheses and may contain anything.
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_whitespace().nth(19)?.parse().ok()
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn owners_are_distinguished() {
        let me = ProcessOwner::me();
        assert!(!me.is_dead());
        assert_eq!(ProcessOwner::parse(&me.to_string()), Some(me.clone()));
        // A later process reused the pid, or the pid is free; a process of another machine is never considered dead.
        assert!(ProcessOwner { start: me.start + 1, ..me.clone() }.is_dead());
        assert!(ProcessOwner { process: u32::MAX, ..me.clone() }.is_dead());
        assert!(!ProcessOwner { host: "elsewhere".to_owned(), start: 0, ..me }.is_dead());
        for junk in ["", "a-b", "a-1-2-3", "a-x-1"] {
            assert_eq!(ProcessOwner::parse(junk), None, "{junk}");
        }
    }
}
