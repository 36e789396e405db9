//! Measures the load of the machine while a fixture runs on the wall clock: late timers, processor time of the subject,
//! and the time that its restarts take.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::convert::Infallible;
use std::time::Duration;

use plumbline::time::{Clock, Stopwatch};
use plumbline::transcript::{Attributed as _, EntryKind, Transcript, TranscriptEntry};

use super::RunRecorder;
use super::starts::StartPermit;
use crate::load::{LaunchTime, RunLoad, StartCost, WINDOW};
use crate::process::tree::{self, ProcessTree, ThreadTime, TreeState};

/// Interval of the measurements.
const INTERVAL: Duration = Duration::from_millis(250);

/// Measures and writes into the record.
pub(super) struct LoadMonitor<'a> {
    recorder: RunRecorder,
    transcript: Transcript,
    clock: Clock,
    state: RefCell<MonitorState<'a>>,
}

/// The state between two measurements.
struct MonitorState<'a> {
    tree: Option<ProcessTree>,
    threads: BTreeMap<u32, ThreadTime>,
    /// Times of the fixture's thread: at the beginning, and at the latest measurement.
    first: ThreadTime,
    own: ThreadTime,
    /// Processor time of the whole machine and of this process at the latest measurement.
    machine: Option<(Duration, Duration)>,
    /// Waiting times of the latest measurements, with the processor time of other programs.
    window: VecDeque<(Duration, Option<Duration>)>,
    /// Time since the subject last used a processor, if it was ready to run all that time.
    stall: Duration,
    since: Stopwatch,
    launch: Option<PendingLaunch<'a>>,
    load: RunLoad,
}

/// A start whose first request is awaited.
struct PendingLaunch<'a> {
    at: Duration,
    /// Length of the transcript at the start.
    from: usize,
    _permit: Option<StartPermit<'a>>,
}

impl<'a> LoadMonitor<'a> {
    pub(super) fn new(recorder: &RunRecorder, transcript: &Transcript, clock: &Clock) -> Self {
        let own = ThreadTime::of_this_thread().unwrap_or_default();
        Self {
            recorder: recorder.clone(),
            transcript: transcript.clone(),
            clock: clock.clone(),
            state: RefCell::new(MonitorState::new(own)),
        }
    }

    /// Measures until it is dropped.
    pub(super) async fn run(&self) -> Infallible {
        loop {
            let stopwatch = Stopwatch::start();
            self.clock.sleep(INTERVAL).await;
            self.late(stopwatch.elapsed().saturating_sub(INTERVAL));
            self.measure();
        }
    }

    /// Notes that a timer of the harness fired `delay` late.
    pub(super) fn late(&self, delay: Duration) {
        self.state.borrow_mut().load.delays.push(delay);
    }

    /// Notes that the subject was started now, as `tree`, and that its requests follow in the transcript.
    pub(super) fn launched(&self, tree: Option<ProcessTree>, permit: Option<StartPermit<'a>>) {
        self.ended();
        let mut state = self.state.borrow_mut();
        (state.tree, state.stall) = (tree, Duration::ZERO);
        state.threads.clear();
        state.launch = Some(PendingLaunch { at: self.clock.elapsed(), from: self.transcript.len(), _permit: permit });
    }

    /// Notes that the subject ends now.
    pub(super) fn ended(&self) {
        if self.clock.is_virtual() {
            return;
        }
        self.measure();
        let mut state = self.state.borrow_mut();
        state.tree = None;
        let Some(launch) = state.launch.take() else { return };
        let silent = self.clock.elapsed().saturating_sub(launch.at);
        state.load.launches.push(LaunchTime { at: launch.at, silent, requested: false });
        self.recorder.update(|record| record.load = state.load.clone());
    }

    /// Returns the cost of the first start, whose last needed request came at `ready`. The measurements of the fixture
    /// begin now.
    pub(super) fn begin(&self, ready: Option<Duration>) {
        self.measure();
        let mut state = self.state.borrow_mut();
        let load = std::mem::take(&mut state.load);
        state.window.clear();
        let own = state.own.used.saturating_sub(state.first.used);
        let cost = load.launches.first().map(|first| StartCost {
            first_request: first.silent,
            ready: ready.unwrap_or_default().saturating_sub(first.at).max(first.silent),
            used: load.used + own,
            waited: load.waited,
            resident: state.tree.map_or(0, ProcessTree::resident),
        });
        self.recorder.update(|record| (record.load, record.start_cost) = (RunLoad::default(), cost));
    }

    /// Measures now.
    pub(super) fn measure(&self) {
        let mut state = self.state.borrow_mut();
        let request = state.launch.as_ref().and_then(|launch| self.first_request(launch));
        if let Some(launch) = request {
            state.launch = None;
            state.load.launches.push(launch);
        }
        let own = ThreadTime::of_this_thread().unwrap_or_default();
        let tree = state.tree.and_then(ProcessTree::state);
        let machine = tree::machine_time();
        let passed = state.since.elapsed();
        state.since = Stopwatch::start();
        state.add(own, tree, machine, passed);
        self.recorder.update(|record| record.load = state.load.clone());
    }

    fn first_request(&self, launch: &PendingLaunch<'_>) -> Option<LaunchTime> {
        let at = self.transcript.with(|entries| {
            let later = entries.get(launch.from..).unwrap_or_default();
            later.iter().find(|entry| is_request_of_subject(entry)).map(|entry| entry.at)
        })?;
        Some(LaunchTime { at: launch.at, silent: at.saturating_sub(launch.at), requested: true })
    }
}

impl MonitorState<'_> {
    /// Begins with the times of the fixture's thread.
    fn new(own: ThreadTime) -> Self {
        Self {
            tree: None,
            threads: BTreeMap::new(),
            first: own,
            own,
            machine: None,
            window: VecDeque::new(),
            stall: Duration::ZERO,
            since: Stopwatch::start(),
            launch: None,
            load: RunLoad::default(),
        }
    }

    /// Adds a measurement that was made `passed` after the one before.
    fn add(
        &mut self,
        own: ThreadTime,
        tree: Option<TreeState>,
        machine: Option<(Duration, Duration)>,
        passed: Duration,
    ) {
        let mut step = own.since(self.own);
        self.own = own;
        // The harness's own processor time is no time of the subject.
        step.used = Duration::ZERO;
        let tree = tree.unwrap_or_default();
        let mut longest = Duration::ZERO;
        for (thread, time) in &tree.threads {
            let new = time.since(self.threads.get(thread).copied().unwrap_or_default());
            step.used += new.used;
            step.waited += new.waited;
            longest = longest.max(new.waited);
        }
        let is_idle = step.used.is_zero();
        let others = self.machine.zip(machine).map(|((all, process), (all_now, process_now))| {
            let ours = process_now.saturating_sub(process) + step.used;
            all_now.saturating_sub(all).saturating_sub(ours)
        });
        self.machine = machine;
        self.threads = tree.threads;
        let load = &mut self.load;
        load.observed += passed;
        load.used += step.used;
        load.waited += step.waited;
        if tree.stopped {
            load.stopped += passed;
        }
        self.stall = if is_idle && tree.ready { self.stall + passed } else { Duration::ZERO };
        // The system adds a wait when it ends, so a long one appears at once.
        load.stalled = load.stalled.max(self.stall).max(longest);
        self.window.push_back((step.waited, others));
        if self.window.len() > (WINDOW.as_millis() / INTERVAL.as_millis()) as usize {
            self.window.pop_front();
        }
        let waited: Duration = self.window.iter().map(|(waited, _)| waited).sum();
        if waited > load.worst_wait {
            load.worst_wait = waited;
            load.others = self.window.iter().map(|(_, others)| *others).sum();
        }
    }
}

fn is_request_of_subject(entry: &TranscriptEntry) -> bool {
    matches!(entry.what, EntryKind::Request(_)) && entry.actor().is_subject()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Measures a subject with one thread at regular intervals: time used and waited since the start, in milliseconds,
    /// and whether it is ready or stopped.
    fn measured(steps: &[(u64, u64, &str)]) -> RunLoad {
        measured_beside(steps, &[])
    }

    /// The same, with the processor time of the whole machine at each measurement; that of this process is 100 ms.
    fn measured_beside(steps: &[(u64, u64, &str)], machine: &[u64]) -> RunLoad {
        let own = ThreadTime::default();
        let mut state = MonitorState::new(own);
        let mut machine = machine.iter().map(|all| (Duration::from_millis(*all), Duration::from_millis(100)));
        for (used, waited, letter) in steps {
            let time = ThreadTime { used: Duration::from_millis(*used), waited: Duration::from_millis(*waited) };
            let threads = BTreeMap::from([(7, time)]);
            let tree = TreeState { threads, stopped: *letter == "T", ready: *letter == "R" };
            state.add(own, Some(tree), machine.next(), INTERVAL);
        }
        state.load
    }

    #[test]
    fn waits_add_up_within_the_window() {
        let steps: Vec<(u64, u64, &str)> = (1..=20).map(|step| (step, step * 100, "S")).collect();
        let load = measured(&steps);
        assert_eq!((load.used, load.waited), (Duration::from_millis(20), Duration::from_secs(2)));
        assert_eq!(load.worst_wait, Duration::from_millis(800), "eight intervals are two seconds");
        assert_eq!((load.observed, load.stalled), (INTERVAL * 20, Duration::from_millis(100)));
    }

    #[test]
    fn other_programs_count_in_the_window_of_the_longest_wait() {
        let steps: Vec<(u64, u64, &str)> = (1..=12).map(|step| (step * 10, step.min(10) * 100, "S")).collect();
        // Each step the machine works for 50 ms, 10 of them for the subject, and at the end for others alone.
        let machine: Vec<u64> = (1..=10).map(|step| step * 50).chain([5_000, 9_000]).collect();
        let load = measured_beside(&steps, &machine);
        assert_eq!(
            (load.worst_wait, load.others),
            (Duration::from_millis(800), None),
            "the first step has no earlier one"
        );
        let late: Vec<(u64, u64, &str)> = (0..=12).map(|step| (step * 10, step.max(2) * 100, "S")).collect();
        let load = measured_beside(&late, &(1..=13).map(|step| step * 50).collect::<Vec<_>>());
        assert_eq!((load.worst_wait, load.others), (Duration::from_millis(800), Some(Duration::from_millis(8 * 40))));
    }

    #[test]
    fn a_subject_without_a_processor_stalls() {
        let waits = measured(&[(10, 0, "S"), (10, 0, "R"), (10, 0, "R"), (10, 0, "R"), (20, 0, "R")]);
        assert_eq!(waits.stalled, INTERVAL * 3, "it is ready all the time, and its time does not move");
        let ended = measured(&[(10, 0, "S"), (11, 900, "S")]);
        assert_eq!(ended.stalled, Duration::from_millis(900), "the wait is known when it ends");
        let sleeps = measured(&[(10, 0, "S"), (10, 0, "S"), (10, 0, "S")]);
        assert_eq!((sleeps.stalled, sleeps.stopped), (Duration::ZERO, Duration::ZERO));
        let stopped = measured(&[(10, 0, "S"), (10, 0, "T"), (10, 0, "T"), (12, 0, "S")]);
        assert_eq!((stopped.stalled, stopped.stopped), (Duration::ZERO, INTERVAL * 2));
    }
}
