//! Pseudo-terminals. The kernel hands on what is written to one end by a thread of its own: until then, the reader at
//! the other end sleeps while data is on its way.

use std::collections::BTreeSet;
use std::os::fd::AsRawFd as _;

use super::clocks::SECOND;
use super::state::Tracer;
use super::sys;
use super::watch;

/// The names of the ends that programs see as terminals begin so; the other ends have one of the names.
const TERMINAL: &str = "/dev/pts/";
/// The unit of `VTIME`, in nanoseconds.
const TENTH: u64 = SECOND / 10;
const MASTERS: [&str; 2] = ["/dev/ptmx", "/dev/pts/ptmx"];

impl Tracer {
    /// Handles a call that sets a timeout of a terminal.
    pub(crate) fn set_terminal_timeout(&mut self, thread: i32, file: i32) {
        self.has_timeouts = true;
        let process = self.table.threads.get(&thread).map_or(0, |thread| thread.process);
        if sys::cannot_share(process, file) {
            self.note("VTIME of a terminal (a sandbox forbids pidfd_getfd)", false, thread);
        }
        self.resume(thread, 0);
    }

    /// Lets data that is on its way through a pseudo-terminal arrive. Returns true if there may have been any.
    pub(crate) fn deliver_terminal_data(&self) -> bool {
        if !self.has_terminals {
            return false;
        }
        let mut known = BTreeSet::new();
        let mut masters = Vec::new();
        for process in self.table.processes.keys() {
            for (number, name) in watch::files(*process) {
                let Some(name) = name.to_str() else { continue };
                if MASTERS.contains(&name) {
                    masters.push((*process, number));
                } else if name.starts_with(TERMINAL) && known.insert(name.to_owned()) {
                    deliver(*process, number);
                }
            }
        }
        // A terminal may have echoed what it has got.
        for (process, number) in masters {
            deliver(process, number);
        }
        true
    }
}

/// Returns the timeout of a terminal that a program reads (`VTIME`), in nanoseconds, and the result of a read that has
/// got nothing until then; such a one goes on if it is to have at least a byte (`VMIN`). The kernel's timeout is in
/// real time, and comes first if other threads are busy for as long.
pub(crate) fn timeout(process: i32, number: i32) -> Option<(u64, Option<i64>)> {
    let name = watch::file_name(process, number)?;
    let is_terminal = name.starts_with("/dev") && !MASTERS.iter().any(|master| *name == **master);
    let (least, time) =
        is_terminal.then(|| sys::file_of(process, number).ok()).flatten().and_then(sys::raw_terminal)?;
    (time > 0).then_some((u64::from(time) * TENTH, (least == 0).then_some(0)))
}

/// Hands on what was written to the other end of a terminal: the kernel does that before it says that there is nothing.
fn deliver(process: i32, number: i32) {
    if let Ok(copy) = sys::file_of(process, number) {
        sys::is_readable(&[copy.as_raw_fd()]);
    }
}
