//! Whose something is: which process on which machine. What belongs to a dead one may be removed.

use std::fmt;

use ring::digest::{SHA256, digest};

/// A process, told apart from later ones with its number by when it started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Owner {
    /// The machine: eight hexadecimal digits.
    host: String,
    process: u32,
    /// When it started, in ticks since the machine did; 0 where nobody knows.
    start: u64,
}

impl Owner {
    /// This process.
    pub(super) fn me() -> Self {
        let process = std::process::id();
        Self { host: host(), process, start: start_of(process).unwrap_or_default() }
    }

    /// Reads what [`fmt::Display`] wrote.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('-');
        let owner = Self {
            host: parts.next()?.to_owned(),
            process: parts.next()?.parse().ok()?,
            start: parts.next()?.parse().ok()?,
        };
        parts.next().is_none().then_some(owner)
    }

    /// Whether it is a process of this machine that no longer runs. In doubt it is not.
    pub(super) fn is_dead(&self) -> bool {
        cfg!(target_os = "linux") && self.host == host() && start_of(self.process) != Some(self.start)
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}-{}", self.host, self.process, self.start)
    }
}

/// A short word for this machine, or for the container we are in: it has process numbers of its own.
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

/// When a process started: the 22nd field of its `stat`, see proc(5). `None` if there is no such process.
fn start_of(process: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The second field is a name in parentheses and may hold anything.
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_whitespace().nth(19)?.parse().ok()
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn owners_are_told_apart() {
        let me = Owner::me();
        assert!(!me.is_dead());
        assert_eq!(Owner::parse(&me.to_string()), Some(me.clone()));
        // Another process has my number, or nobody; a process of another machine is none of our business.
        assert!(Owner { start: me.start + 1, ..me.clone() }.is_dead());
        assert!(Owner { process: u32::MAX, ..me.clone() }.is_dead());
        assert!(!Owner { host: "elsewhere".to_owned(), start: 0, ..me }.is_dead());
        for junk in ["", "a-b", "a-1-2-3", "a-x-1"] {
            assert_eq!(Owner::parse(junk), None, "{junk}");
        }
    }
}
