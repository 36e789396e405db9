//! Programs that wait for a person at a terminal: time does not wait for people, which surprises who sits there.

use super::clocks::SECOND;
use super::state::Tracer;
use super::sys;
use super::watch::{self, CallState};

/// The least move of time before which threads are looked at.
const LONG: u64 = SECOND;

impl Tracer {
    /// Warns, once, if time is about to move while a program waits for the terminal that the command has as its
    /// standard input.
    pub(crate) fn look_for_prompt(&mut self, by: u64) {
        if by < LONG || !self.outside.looks_for_prompt() {
            return;
        }
        let Some(terminal) = self.outside.terminal() else { return };
        let is_terminal = |process: i32, file: i32| watch::file_name(process, file).as_deref() == Some(terminal);
        let mut threads = self.table.threads.iter();
        let waiting =
            threads.find(|(thread, entry)| awaited_file(**thread).is_some_and(|file| is_terminal(entry.process, file)));
        let Some(thread) = waiting.map(|(thread, _)| *thread) else { return };
        self.outside.end_search();
        let program = self.table.program(thread);
        self.warn(format!(
            "{program} waited for input from the terminal while virtual time passed, which does not wait for people: give \
             it its input in a file, or let time pass by orders only (`manual`, and `advance`)"
        ));
    }
}

/// Returns the file for whose data a blocked thread waits; of calls that wait for several, if it is one.
fn awaited_file(thread: i32) -> Option<i32> {
    let Some(CallState::Blocked(number, arguments)) = watch::current_call(thread) else { return None };
    let first = *arguments.first()?;
    match number {
        libc::SYS_read | libc::SYS_readv => Some(first as i32),
        // The number of the highest file and one.
        libc::SYS_select | libc::SYS_pselect6 => (first == 1).then_some(0),
        libc::SYS_poll | libc::SYS_ppoll => {
            let mut file = [0; 4];
            let is_one = *arguments.get(1)? == 1;
            (is_one && sys::read_memory(thread, first, &mut file)).then(|| i32::from_ne_bytes(file))
        }
        _ => None,
    }
}
