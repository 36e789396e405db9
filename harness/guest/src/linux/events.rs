//! Stops and ends of threads, one at a time.

use std::collections::BTreeMap;

use super::arch::Architecture as _;
use super::calls;
use super::places;
use super::state::{Phase, Tracer};
use super::sys::{self, CALL_STOP, EVENT_STOP, Event};
use super::table::{Activity, GroupStop, Process, Thread};
use super::waits::next_random;
use super::watch;

impl Tracer {
    /// Handles all events that are there. Returns false if there were none, and `None` if nothing is traced any more.
    pub(crate) fn handle_events(&mut self) -> Option<bool> {
        let mut is_any = false;
        loop {
            match sys::next_event(false) {
                Ok(Some(event)) => {
                    is_any = true;
                    self.handle(event);
                }
                Ok(None) => {
                    for thread in std::mem::take(&mut self.looking) {
                        self.resume(thread, 0);
                    }
                    return Some(is_any);
                }
                Err(_) => return None,
            }
        }
    }

    /// Handles one event.
    pub(crate) fn handle(&mut self, event: Event) {
        let Event { thread, status, processor_time } = event;
        self.report.stops += 1;
        // Most often, it runs when the next proof begins.
        self.busy = Some(thread);
        if !libc::WIFSTOPPED(status) {
            self.on_end(thread, status, processor_time);
            return;
        }
        if !self.table.threads.contains_key(&thread) {
            self.unannounced.insert(thread);
            let (process, parent) = watch::process_and_parent(thread).unwrap_or((thread, 0));
            let parent = if process == thread { parent } else { process };
            self.add(thread, process, parent, Activity::Running);
        }
        let Some(entry) = self.table.threads.get_mut(&thread) else { return };
        if matches!(entry.activity, Activity::Starting) {
            entry.activity = Activity::Running;
        }
        if entry.is_stopped() {
            entry.group_stop = GroupStop::Continued;
        }
        entry.is_dead = false;
        let signal = libc::WSTOPSIG(status);
        let event = status >> 16;
        if entry.probe.is_some_and(|probe| !probe.has_begun) {
            entry.probe = Some(Self::begun_probe(thread, !matches!(event, 0 | EVENT_STOP)));
        }
        if event == EVENT_STOP {
            entry.is_ordered = false;
        } else if entry.is_ordered && !matches!(entry.activity, Activity::Waiting(_)) {
            // Any stop takes an order away, but to the kernel something is still pending: a call that begins now fails
            // with `EINTR`, and goes on only if the thread stops once more after it.
            let _ = sys::interrupt(thread);
        }
        match event {
            0 if signal == CALL_STOP => self.on_call_stop(thread),
            0 => self.on_signal(thread, signal),
            libc::PTRACE_EVENT_SECCOMP => self.on_call(thread),
            EVENT_STOP => self.on_event_stop(thread, signal),
            libc::PTRACE_EVENT_CLONE | libc::PTRACE_EVENT_FORK | libc::PTRACE_EVENT_VFORK => {
                self.on_child(thread, event);
            }
            libc::PTRACE_EVENT_VFORK_DONE => {
                entry.is_vforking = false;
                self.resume(thread, 0);
            }
            libc::PTRACE_EVENT_EXEC => self.on_exec(thread),
            _ => self.resume(thread, 0),
        }
    }

    fn on_end(&mut self, thread: i32, status: i32, processor_time: u64) {
        if thread == self.main.process {
            self.status = Some(status);
        }
        if libc::WIFSIGNALED(status) && libc::WTERMSIG(status) == libc::SIGSYS {
            self.note("a system call of another machine (the kernel has killed the process)", true, thread);
        }
        if let Some(process) = self.table.remove(thread) {
            self.timers.end(process);
            // Not more than it can have used since the last rest.
            let most = sys::real_monotonic().saturating_sub(self.last_rest);
            self.ended_time += processor_time.min(most);
        }
    }

    /// Handles a stop at the exit of a call, or at the entry of the one that maps the image.
    fn on_call_stop(&mut self, thread: i32) {
        let Some(entry) = self.table.threads.get_mut(&thread) else { return };
        match std::mem::replace(&mut entry.activity, Activity::Running) {
            Activity::Waiting(active) => self.end_wait(thread, &active),
            Activity::Calling(pending) => self.on_result(thread, pending),
            Activity::Mapping(step) => self.map_image(thread, step),
            Activity::Running | Activity::Starting => {
                self.on_probed_call(thread);
                self.resume(thread, 0);
            }
        }
    }

    /// Hands a signal on.
    fn on_signal(&mut self, thread: i32, signal: i32) {
        let process = self.table.threads.get(&thread).map_or(0, |thread| thread.process);
        if self.timers.has_posix(process)
            && let Some(number) = sys::stopped_by_timer(thread)
            && let Some(overrun) = self.timers.deliver(process, number).filter(|overrun| *overrun > 0)
        {
            sys::set_overrun(thread, overrun);
        }
        if signal == libc::SIGALRM {
            sys::show_alarm(thread);
        }
        self.continue_if_ignored(thread, Some(signal));
        if let Some(entry) = self.table.threads.get_mut(&thread)
            && entry.restart.is_some()
            && watch::is_caught(thread, signal)
        {
            // Its handler runs, and the wait fails with EINTR.
            entry.restart = None;
        }
        self.resume(thread, signal);
    }

    /// Lets a call go on that was interrupted by a signal which the process ignores, or by the tracer's order to stop.
    /// The kernel does not wake a thread that is not traced for such a signal; most calls are started again after it,
    /// and some fail with `EINTR`.
    fn continue_if_ignored(&mut self, thread: i32, signal: Option<i32>) {
        let Some(entry) = self.table.threads.get_mut(&thread) else { return };
        let interrupted = entry.interrupted.take();
        if entry.group_stop == GroupStop::Continued {
            // The stop has interrupted the call.
            return;
        }
        let Ok(mut registers) = sys::registers(thread) else { return };
        let may_go_on = registers.result() == -i64::from(libc::EINTR)
            && (interrupted.is_some() || calls::fails_at_signals(registers.call().number));
        if !(may_go_on || self.has_timeouts) {
            return;
        }
        if signal.is_some_and(|signal| !watch::is_ignored(thread, signal)) {
            return;
        }
        if may_go_on {
            entry.restart = interrupted;
            registers.set_result(calls::RESTARTED);
            let _ = sys::set_registers(thread, &registers);
        } else {
            self.restart_socket_wait(thread);
        }
    }

    /// Handles a group stop, the end of one, a thread's first stop, and the stop of a thread that was ordered to.
    fn on_event_stop(&mut self, thread: i32, signal: i32) {
        let Some(entry) = self.table.threads.get_mut(&thread) else { return };
        if matches!(signal, libc::SIGSTOP | libc::SIGTSTP | libc::SIGTTIN | libc::SIGTTOU) {
            entry.group_stop = GroupStop::Stopped;
            let _ = sys::listen(thread);
            return;
        }
        if self.inspected.take_if(|inspected| *inspected == thread).is_some()
            && let (Ok(registers), Some(spin)) = (sys::registers(thread), self.report.spins.last_mut())
        {
            spin.stack = places::stack(thread, &registers);
        }
        if self.end_socket_wait(thread) {
            return;
        }
        self.continue_if_ignored(thread, None);
        self.resume(thread, 0);
    }

    /// Handles the announcement of a new thread or process.
    fn on_child(&mut self, thread: i32, event: i32) {
        if event == libc::PTRACE_EVENT_VFORK
            && let Some(entry) = self.table.threads.get_mut(&thread)
        {
            entry.is_vforking = true;
        }
        if let Ok(child) = sys::event_message(thread) {
            let child = child as i32;
            let parent = self.table.threads.get(&thread).map_or(0, |thread| thread.process);
            if self.unannounced.remove(&child) {
                self.inherit(child, parent);
            } else {
                let same = if event == libc::PTRACE_EVENT_CLONE { parent } else { child };
                let process = watch::process_and_parent(child).map_or(same, |(process, _)| process);
                self.add(child, process, parent, Activity::Starting);
            }
        }
        self.resume(thread, 0);
    }

    /// Adds a thread, and its process if that is new.
    pub(crate) fn add(&mut self, thread: i32, process: i32, parent: i32, activity: Activity) {
        // The sequence of a child depends on its parent's and on its place among the children only.
        let seed = self.settings.seed.unwrap_or_default();
        let mut random = match self.table.threads.get_mut(&parent) {
            Some(parent) => {
                parent.children += 1;
                parent.random ^ parent.children.rotate_left(32)
            }
            None => seed,
        };
        let random = next_random(&mut random);
        if !self.table.processes.contains_key(&process) {
            self.report.processes += 1;
            self.table.processes.insert(process, Process::default());
            self.inherit(process, parent);
        }
        self.table.threads.insert(thread, Thread::new(process, thread, activity, random));
        self.report.threads = self.report.threads.max(self.table.threads.len() as u64);
        if self.phase == Phase::Killing {
            let _ = sys::kill(process, libc::SIGKILL);
        } else if self.table.processes.len() > self.settings.process_limit {
            self.warn(self.most_started());
            self.kill(crate::outcome::End::TooManyProcesses);
        }
    }

    /// Says which program has the most processes: at the limit it is the one that forks without an end.
    fn most_started(&self) -> String {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for process in self.table.processes.values() {
            *counts.entry(&process.program).or_default() += 1;
        }
        let all = self.table.processes.len();
        let (program, count) = counts.into_iter().max_by_key(|(_, count)| *count).unwrap_or_default();
        format!("{count} of the {all} processes at the limit were of {program}, which starts them without an end")
    }

    /// Copies what a forked process has from its parent.
    fn inherit(&mut self, process: i32, parent: i32) {
        let Some(parent) = self.table.processes.get(&parent).cloned() else { return };
        if let Some(process) = self.table.processes.get_mut(&process)
            && process.program.is_empty()
        {
            *process = parent;
        }
    }
}
