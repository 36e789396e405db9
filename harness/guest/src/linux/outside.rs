//! Waits that programs outside of virtual time end soon: a thread in one of them does not rest, so time does not move
//! until it goes on.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::watch::{self, CallState};

/// The function of the kernel that waits for the program which serves a file system (FUSE): container layers without
/// root, folders that a virtual machine shares, `sshfs`.
const FILE_SYSTEM: &[u8] = b"request_wait_answer";

/// The functions of the kernel that wait until a pipe, a terminal or a socket takes more data.
const FULL_OUTPUT: [&[u8]; 7] = [
    b"anon_pipe_write",
    b"pipe_write",
    b"pipe_wait_writable",
    b"wait_woken",
    b"sock_alloc_send_pskb",
    b"sock_wait_for_wmem",
    b"sk_stream_wait_memory",
];

/// Calls that lock a file for as long as its holder wants.
const LOCKS: [i64; 2] = [libc::SYS_fcntl, libc::SYS_flock];

/// Calls that write to a file, and which of their arguments is that file.
const WRITES: [(i64, usize); 8] = [
    (libc::SYS_write, 0),
    (libc::SYS_writev, 0),
    (libc::SYS_sendto, 0),
    (libc::SYS_sendmsg, 0),
    (libc::SYS_sendfile, 0),
    (libc::SYS_splice, 2),
    (libc::SYS_tee, 1),
    (libc::SYS_vmsplice, 0),
];

/// The files that the command shares with programs outside.
#[derive(Debug, Default)]
pub(crate) struct Outside {
    files: BTreeSet<PathBuf>,
    /// The standard input, if it is a terminal.
    terminal: Option<PathBuf>,
    /// The number of times that threads will still be looked at for one that waits for the terminal.
    looks: u32,
}

/// Most looks of a run: each reads a file for each thread.
const MOST_LOOKS: u32 = 1000;

/// The names of terminals begin so.
const TERMINALS: [&str; 3] = ["/dev/pts/", "/dev/tty", "/dev/console"];

impl Outside {
    /// Reads which files the first process has as its standard ones.
    pub(crate) fn of(process: i32) -> Self {
        let is_terminal = |name: &PathBuf| {
            let name = name.to_str().unwrap_or_default();
            TERMINALS.iter().any(|start| name.starts_with(start))
        };
        Self {
            looks: MOST_LOOKS,
            files: (0..=2).filter_map(|file| watch::file_name(process, file)).collect(),
            terminal: watch::file_name(process, 0).filter(is_terminal),
        }
    }

    /// Returns true if a program that waits for the terminal is looked for, and counts the look.
    pub(crate) fn looks_for_prompt(&mut self) -> bool {
        let looks = self.terminal.is_some() && self.looks > 0;
        self.looks = self.looks.saturating_sub(1);
        looks
    }

    /// Ends the search: a program was found.
    pub(crate) fn end_search(&mut self) {
        self.looks = 0;
    }

    /// Returns the terminal that is the standard input, if it is one.
    pub(crate) fn terminal(&self) -> Option<&Path> {
        self.terminal.as_deref()
    }

    /// Returns true if a blocked thread waits for a program outside. `channel` is the function of the kernel in which
    /// it is blocked.
    pub(crate) fn is_awaited(&self, process: i32, thread: i32, channel: &[u8]) -> bool {
        if channel != FILE_SYSTEM && !FULL_OUTPUT.contains(&channel) {
            return false;
        }
        let (number, arguments) = match watch::current_call(thread) {
            Some(CallState::Blocked(number, arguments)) => (number, arguments),
            // A program outside has woken it, which its account shows only once it runs.
            Some(CallState::Running) => return true,
            None => return channel == FILE_SYSTEM,
        };
        if channel == FILE_SYSTEM {
            return !LOCKS.contains(&number);
        }
        let written = WRITES.iter().find(|(write, _)| *write == number);
        written
            .and_then(|(_, index)| watch::file_name(process, *arguments.get(*index)? as i32))
            .is_some_and(|name| self.files.contains(&name))
    }
}
