//! Pseudo-terminals. The kernel hands on what is written to one end by a thread of its own: until then, the reader at
//! the other end sleeps while data is on its way.

use std::collections::BTreeSet;
use std::os::fd::AsRawFd as _;

use super::state::Tracer;
use super::sys;
use super::watch;

/// The names of the ends that programs see as terminals begin so; the other ends have one of the names.
const TERMINAL: &str = "/dev/pts/";
const MASTERS: [&str; 2] = ["/dev/ptmx", "/dev/pts/ptmx"];

impl Tracer {
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

/// Hands on what was written to the other end of a terminal: the kernel does that before it says that there is nothing.
fn deliver(process: i32, number: i32) {
    if let Ok(copy) = sys::file_of(process, number) {
        sys::is_readable(&[copy.as_raw_fd()]);
    }
}
