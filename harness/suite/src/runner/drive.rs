//! Runs one fixture, from seeding the objects to the end.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::future::LocalBoxFuture;
use parking_lot::Mutex;
use plumbline::expect::{self, LiveChecker, StepReply};
use plumbline::faults::{self, ArmedFault, CrashEvent, CrashHandler};
use plumbline::fixture::parse::step_checks;
use plumbline::fixture::{
    Action, Check, CheckKind, Control, Fault, Fixture, StepKind, UserRequest, WatchFault, time_text,
};
use plumbline::time::{self, Clock, settle};
use plumbline::transcript::by_object::{STARTS, STOPPED, STOPS};
use plumbline::transcript::redact::{at as moment, seconds};
use plumbline::transcript::{Agents, RecordedJson};
use plumbline_apiserver::faults::Faults;
use plumbline_guest::AsyncClock;
use serde_json::Value;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::isolate::JobTimer;
use super::log::LogCapture;
use super::monitor::LoadMonitor;
use super::next::NextStep;
use super::starts::StartLimit;
use super::timing::{self, TimeMode};
use super::{ProgramExit, RunError, RunRecorder, calls, isolate};
use crate::cluster::{Answer, Cluster, ClusterTime, Sandbox, SeedError};
use crate::guest;
use crate::process::signals;
use crate::subject::client_factory::KillSwitch;
use crate::subject::{Launch, Running, Subject};

/// Runs `fixture` on this thread, in the cluster's time, and records the run in `recorder` as it goes on.
///
/// # Errors
///
/// If the operating system refuses to create a runtime.
pub fn run(fixture: &Fixture, context: RunContext<'_>, recorder: &RunRecorder) -> std::io::Result<()> {
    let (result, panics) = isolate::watch_panics(|| {
        if context.cluster.time() == ClusterTime::Virtual {
            // The clock must be created inside the runtime whose time it follows.
            time::run_virtual(async { play(fixture, context, recorder, Clock::virtual_from(time::epoch())).await })
        } else {
            time::run_wall(async { play(fixture, context, recorder, guest::system_clock()).await })
        }
    });
    for panic in panics {
        recorder.fail(RunError::Panic(panic));
    }
    result
}

/// Time until a program that ended by itself starts again, and twice as long after each further end: as in a pod.
const FIRST_BACKOFF: Duration = Duration::from_secs(10);
/// Time after which to look again whether a program has ended.
const AGAIN: Duration = Duration::from_millis(1);
/// Number of ends of a program after which its run is over.
const MOST_EXITS: u32 = 6;

/// The cluster and the subject of a run.
#[derive(Clone, Copy)]
pub struct RunContext<'a> {
    /// The cluster.
    pub cluster: &'a dyn Cluster,
    /// The subject.
    pub subject: &'a dyn Subject,
    /// Limits the number of subjects that start at the same time on the wall clock.
    pub starts: &'a StartLimit,
    /// Limits the running time.
    pub timer: &'a JobTimer,
    /// Decides after each step, by its index, how the run goes on.
    pub until: Option<&'a dyn Fn(usize) -> NextStep>,
}

async fn play(fixture: &Fixture, context: RunContext<'_>, recorder: &RunRecorder, clock: Clock) {
    let log = LogCapture::collect(&clock);
    let agents = Agents::new(context.subject.agents(), &fixture.controllers);
    let sandbox = match context.cluster.sandbox(fixture, &clock, agents).await {
        Ok(sandbox) => sandbox,
        Err(why) => return recorder.fail(RunError::Sandbox(why.into())),
    };
    let mut run = FixtureRun::new(fixture, context, recorder, clock, sandbox);
    let clock_is_virtual = run.clock.is_virtual();
    // In the virtual time of this process a run is over before a signal matters.
    let signalled = async { if clock_is_virtual { std::future::pending().await } else { signals::signalled().await } };
    let monitor = run.monitor.clone();
    let measured =
        async { if context.cluster.is_virtual() { std::future::pending().await } else { monitor.run().await } };
    let storm = super::storm::watch(context.subject.is_program(), run.sandbox.transcript().clone(), run.clock.clone());
    let played = tokio::select! {
        biased;
        storm = storm => Err(RunError::Storm(storm)),
        played = run.play() => played,
        never = measured => match never {},
        signal = signalled => Err(RunError::Interrupted(signal)),
    };
    if let Err(error) = played {
        recorder.fail(error);
    }
    if let TimeMode::Virtual = run.mode {
        let armed = run.armed.borrow();
        let idle = armed.iter().filter(|armed| armed.is_idle()).map(|armed| armed.on.clone()).collect();
        recorder.update(|record| record.idle_faults = idle);
    }
    run.monitor.ended();
    let deliveries = run.mode.races().then(|| run.sandbox.transcript().deliveries().into());
    let subject_log = run.running.borrow().as_ref().map(|running| running.log()).unwrap_or_default();
    recorder.update(|record| {
        record.end = run.clock.elapsed();
        record.deliveries = deliveries;
        record.log = log.lines();
        record.log.extend(subject_log.into_iter().map(|line| run.sandbox.own_names(line)));
        record.misuse = run.sandbox.misuse();
    });
    if let Err(error) = run.close().await {
        recorder.fail(error);
    }
}

/// The state of a running fixture.
struct FixtureRun<'a> {
    fixture: &'a Fixture,
    subject: &'a dyn Subject,
    starts: &'a StartLimit,
    timer: &'a JobTimer,
    until: Option<&'a dyn Fn(usize) -> NextStep>,
    monitor: Rc<LoadMonitor<'a>>,
    recorder: &'a RunRecorder,
    clock: Clock,
    /// A connection to the clock of the virtual time in which this process lives.
    guest_clock: RefCell<Option<AsyncClock>>,
    /// The controllers' clock: never skewed.
    subject_clock: Clock,
    mode: TimeMode,
    sandbox: Box<dyn Sandbox>,
    running: RefCell<Option<Box<dyn Running>>>,
    /// Disconnects the current subject; shared with crash faults.
    cut: Arc<Mutex<Option<KillSwitch>>>,
    crashes: (UnboundedSender<CrashEvent>, UnboundedReceiver<CrashEvent>),
    /// Number of crashes that have begun and are not handled yet; shared with crash faults.
    crashing: Arc<AtomicUsize>,
    armed: RefCell<Vec<ArmedFault>>,
    versions: calls::ListVersions,
    /// Time at which crashed controllers start again.
    restart_at: Option<Duration>,
    /// Time at which the server's outage ends.
    outage_until: Option<Duration>,
    /// Resolves when the running program ends by itself; only for programs that are started again then.
    end: RefCell<Option<LocalBoxFuture<'static, ()>>>,
    /// Number of times that the program has ended by itself.
    exits: u32,
}

impl<'a> FixtureRun<'a> {
    fn new(
        fixture: &'a Fixture,
        context: RunContext<'a>,
        recorder: &'a RunRecorder,
        clock: Clock,
        sandbox: Box<dyn Sandbox>,
    ) -> Self {
        let mode = TimeMode::new(fixture, &context);
        recorder.update(|record| {
            record.start = clock.epoch();
            record.transcript = sandbox.transcript().clone();
            record.tolerance = mode.tolerance();
            record.late = mode.late();
            record.bystander_writes = context.subject.bystander_writes();
        });
        let subject_clock = if clock.is_virtual() { Clock::virtual_from(clock.epoch()) } else { Clock::wall() };
        Self {
            fixture,
            subject: context.subject,
            starts: context.starts,
            timer: context.timer,
            until: context.until,
            monitor: Rc::new(LoadMonitor::new(recorder, sandbox.transcript(), &clock)),
            recorder,
            guest_clock: RefCell::default(),
            subject_clock,
            clock,
            mode,
            sandbox,
            running: RefCell::default(),
            cut: Arc::default(),
            crashes: unbounded_channel(),
            crashing: Arc::default(),
            armed: RefCell::default(),
            versions: RefCell::default(),
            restart_at: None,
            outage_until: None,
            end: RefCell::default(),
            exits: 0,
        }
    }

    async fn play(&mut self) -> Result<(), RunError> {
        self.set_up().await?;
        let fixture = self.fixture;
        let mut live = LiveChecker::new(fixture);
        let ends = self.mode.ends(fixture);
        let mut sooner = Duration::ZERO;
        // Steps are listed in order of time; a window counts with its end.
        for (index, step) in fixture.steps.iter().enumerate() {
            match (&step.kind, self.mode.patience()) {
                (StepKind::Do { actions, .. }, _) => {
                    self.wait_until(step.at.saturating_sub(sooner)).await?;
                    self.act(index, actions).await?;
                    self.wait_until_idle().await?;
                }
                (StepKind::Expect { .. } | StepKind::Eventually { .. }, Some(patience)) => {
                    // Where waiting costs nothing, the next step begins after the whole window.
                    let begin = if self.mode.is_exact() { ends[index] } else { step.at };
                    self.wait_until(begin.saturating_sub(sooner)).await?;
                    self.wait_until_checks_hold(&mut live, index, (step.end(), patience)).await?;
                }
                _ => self.wait_until(ends[index].saturating_sub(sooner)).await?,
            }
            if asks_for_metrics(step_checks(step)) {
                self.scrape().await;
            }
            let length = self.sandbox.transcript().len();
            self.recorder.update(|record| record.marks.push(length));
            let next = self.until.map_or(NextStep::AT_ITS_TIME, |next| next(index));
            let NextStep::Sooner(by) = next else { return Ok(()) };
            sooner += by;
        }
        if let Some(patience) = self.mode.patience() {
            let end = self.clock.elapsed();
            self.wait_until_checks_hold(&mut live, fixture.steps.len(), (end, patience)).await?;
        }
        if asks_for_metrics(&fixture.expect) {
            self.scrape().await;
        }
        Ok(())
    }

    async fn set_up(&mut self) -> Result<(), RunError> {
        let given = &self.fixture.given;
        if let TimeMode::Virtual = self.mode {
            self.seed_given(given.objects.to_vec()).await?;
            if !given.stopped {
                self.start()?;
            }
            return self.wait_until_idle().await;
        }
        if self.subject.is_program() {
            return self.set_up_program().await;
        }
        // Held until the subject has started, so that subjects which are already running are not delayed by too many
        // starts.
        let _start = self.starts.acquire(self.timer, self.recorder).await;
        let starts = !given.stopped && !self.fixture.controllers.is_empty();
        let begun = if starts && self.sandbox.hold_readers() {
            let is_definition = |object: &Value| object["kind"] == "CustomResourceDefinition";
            let (definitions, others) = given.objects.iter().cloned().partition(is_definition);
            self.sandbox.define(definitions).await.map_err(|error| self.seed_error(error))?;
            self.wait_for_start().await;
            self.start()?;
            self.wait_for_blocked_reads().await?;
            self.clock.sleep(self.sandbox.start_delay()).await;
            self.wait_for_whole_second().await;
            self.seed_given(others).await?;
            self.sandbox.release_readers();
            self.clock.elapsed()
        } else {
            self.wait_for_whole_second().await;
            self.seed_given(given.objects.to_vec()).await?;
            if !given.stopped {
                self.start()?;
            }
            Duration::ZERO
        };
        self.set_start(begun).await?;
        self.wait_until_idle().await
    }

    /// Starts any program beside the given objects: `t=+0s` is its start.
    async fn set_up_program(&mut self) -> Result<(), RunError> {
        self.seed_given(self.fixture.given.objects.to_vec()).await?;
        self.rest().await?;
        self.wait_for_whole_second().await;
        self.clock.rebase(self.clock.elapsed());
        self.sandbox.transcript().move_to_epoch();
        let begin = self.sandbox.transcript().len();
        self.recorder.update(|record| (record.start, record.begin) = (self.clock.epoch(), begin));
        if !self.fixture.given.stopped {
            self.start()?;
        }
        self.wait_until_idle().await
    }

    /// Seeds `objects` and returns all objects that exist then. If the server refuses one, the fixture is skipped.
    async fn seed(&self, objects: Vec<Value>) -> Result<Arc<[RecordedJson]>, RunError> {
        let stored = self.sandbox.seed(objects).await.map_err(|error| self.seed_error(error))?;
        Ok(stored.into())
    }

    fn seed_error(&self, error: SeedError) -> RunError {
        let (SeedError::Failed(why) | SeedError::Refused(why)) = &error;
        if let SeedError::Refused(why) = &error {
            self.recorder.update(|record| record.skip = Some(why.clone()));
        }
        RunError::Seed(why.as_str().into())
    }

    /// Seeds `objects`, with times relative to now, and arms the given faults.
    async fn seed_given(&self, mut objects: Vec<Value>) -> Result<(), RunError> {
        let given = &self.fixture.given;
        let now = self.clock.now();
        for object in &mut objects {
            time_text::resolve(object, now, now);
        }
        let initial = self.seed(objects).await?;
        self.recorder.update(|record| record.initial = initial);
        given.faults.iter().try_for_each(|fault| self.arm(fault))?;
        given.watches.iter().try_for_each(|fault| self.watch_fault(fault))
    }

    /// On the wall clock: sets `t=+0s` to the time at which the controllers had begun to watch, but not before `begun`.
    async fn set_start(&mut self, begun: Duration) -> Result<(), RunError> {
        let runs = self.running.borrow().as_ref().is_some_and(|running| running.is_seen());
        let has_crashed = runs && self.wait_until_ready().await?;
        self.wait_until_idle().await?;
        let asked = self.sandbox.transcript().with(|entries| timing::last_first_request(self.fixture, entries));
        self.monitor.begin(asked);
        let start = match (runs, has_crashed) {
            // The time of the crash counts, so the start cannot be that of the last read.
            (true, true) => begun,
            (true, false) => asked.unwrap_or_default().max(begun),
            (false, _) => self.clock.elapsed(),
        };
        self.clock.rebase(start);
        // A fault may have stopped the subject or the server before `t=+0s`.
        for due in [&mut self.restart_at, &mut self.outage_until].into_iter().flatten() {
            *due = due.saturating_sub(start);
        }
        self.sandbox.transcript().move_to_epoch();
        self.recorder.update(|record| record.start = self.clock.epoch());
        Ok(())
    }

    /// Waits until the subject is blocked on its initial reads: it has requested everything its controllers watch, or
    /// [`timing::READERS_LIMIT`] has passed since its first read.
    async fn wait_for_blocked_reads(&mut self) -> Result<(), RunError> {
        let transcript = self.sandbox.transcript().clone();
        let limit = self.clock.elapsed() + self.subject.ready_limit();
        let mut first_read = None;
        loop {
            let changed = transcript.changed();
            let missing = transcript.with(|entries| timing::missing_requests(self.fixture, entries));
            let now = self.clock.elapsed();
            if missing.is_empty() {
                // Its other informers follow shortly.
                return self.rest().await;
            }
            if first_read.is_none() && transcript.with(timing::has_reads) {
                first_read = Some(now);
            }
            if first_read.is_some_and(|at| now >= at + timing::READERS_LIMIT) || now >= limit {
                return Ok(());
            }
            self.clock.timeout(timing::LOOK_AGAIN, changed).await;
            self.check_running()?;
        }
    }

    /// `t=+0s` of traced programs, which are judged to the millisecond, is a whole second, as Kubernetes' times are.
    async fn wait_for_whole_second(&self) {
        if let TimeMode::Traced { .. } = self.mode {
            let part = u64::try_from(self.clock.now().subsec_nanosecond()).unwrap_or_default();
            if part > 0 {
                self.clock.sleep(Duration::from_nanos(1_000_000_000 - part)).await;
            }
        }
    }

    /// client-go looks every 100 ms from a program's start for the objects: one look shall follow `t=+0s` soon.
    async fn wait_for_start(&self) {
        if let TimeMode::Traced { .. } = self.mode {
            self.wait_for_whole_second().await;
            self.clock.sleep(Duration::from_millis(1)).await;
        }
    }

    /// Waits until the subject is ready and reads all that its controllers watch. Returns true if a fault crashed it.
    async fn wait_until_ready(&mut self) -> Result<bool, RunError> {
        // Taken out while waiting: no borrow may be held across an await.
        let Some(mut running) = self.running.take() else { return Ok(false) };
        let ready = running.ready().await;
        *self.running.borrow_mut() = Some(running);
        ready.map_err(|why| RunError::NotReady(why.into()))?;
        let transcript = self.sandbox.transcript().clone();
        let limit = self.clock.elapsed() + self.subject.ready_limit();
        let mut has_crashed = false;
        loop {
            let changed = transcript.changed();
            let now = self.clock.elapsed();
            if self.restart_at.take_if(|at| *at <= now).is_some() {
                self.start()?;
            }
            let missing = transcript.with(|entries| timing::missing_requests(self.fixture, entries));
            if missing.is_empty() && self.restart_at.is_none() {
                return Ok(has_crashed);
            }
            if now >= limit {
                let log = self.running.borrow().as_ref().map(|running| running.log()).unwrap_or_default();
                let log = log[log.len().saturating_sub(10)..].to_vec();
                return Err(RunError::NotWatching { limit: self.subject.ready_limit().as_secs(), missing, log });
            }
            let clock = self.clock.clone();
            let next = self.restart_at.map_or(timing::LOOK_AGAIN, |at| at.saturating_sub(now).min(timing::LOOK_AGAIN));
            let crashed = tokio::select! {
                biased;
                crashed = self.crashes.1.recv() => crashed,
                () = changed => None,
                () = clock.sleep(next) => None,
            };
            if let Some(crashed) = crashed {
                self.crashed(&crashed)?;
                has_crashed = true;
            }
            self.check_running()?;
        }
    }

    /// Waits until the checks of a step hold, at most for the patience after `end` or until failed writes are retried.
    async fn wait_until_checks_hold(
        &mut self,
        live: &mut LiveChecker<'_>,
        index: usize,
        (end, patience): (Duration, Duration),
    ) -> Result<(), RunError> {
        let transcript = self.sandbox.transcript().clone();
        let checks = self.fixture.steps.get(index).map_or(&self.fixture.expect[..], step_checks);
        let metrics = asks_for_metrics(checks);
        loop {
            let changed = transcript.changed();
            if metrics {
                self.scrape().await;
            }
            let now = self.clock.elapsed();
            let (holds, retries) = self.recorder.update(|record| {
                transcript
                    .with(|entries| (live.holds(&record.run(entries, now), index), expect::retries_until(entries, end)))
            });
            let limit = retries.max(end.saturating_add(patience));
            if holds || now >= limit {
                return Ok(());
            }
            // Bursts of entries are evaluated once. Metrics change without an entry, so they are read at intervals.
            let left = limit.saturating_sub(now);
            let patience = if metrics { timing::LOOK_AGAIN.min(left) } else { left };
            self.wait_for(changed, now + patience).await?;
            let next = self.clock.elapsed() + timing::BURST;
            self.wait_until(next.min(limit)).await?;
        }
    }

    /// Stops the subject and removes the fixture's objects.
    async fn close(self) -> Result<(), RunError> {
        if let Some(mut running) = self.running.take() {
            running.crash();
        }
        self.sandbox.clear().await.map_err(|why| RunError::CleanUp(why.into()))
    }

    /// Lets time pass until `target`. Crashes, restarts and ends of outages that are due before happen on time.
    async fn wait_until(&mut self, target: Duration) -> Result<(), RunError> {
        self.wait_for(std::future::pending(), target).await
    }

    /// Like [`Self::wait_until`], but returns early when `changed` resolves.
    async fn wait_for(&mut self, changed: impl Future<Output = ()>, target: Duration) -> Result<(), RunError> {
        let mut changed = std::pin::pin!(changed);
        loop {
            let now = self.clock.elapsed();
            if self.outage_until.is_some_and(|until| until <= now) {
                self.outage_until = None;
                self.faults()?.set_outage(false);
                self.note("the server answers again");
            }
            if let Some(due) = self.restart_at.take_if(|at| *at <= now) {
                self.monitor.late(now.saturating_sub(due));
                self.start()?;
                self.wait_until_idle().await?;
            }
            if now >= target {
                return Ok(());
            }
            let next = [self.restart_at, self.outage_until].into_iter().flatten().fold(target, Duration::min);
            let clock = self.clock.clone();
            // Taken out while waiting: no borrow may be held across an await.
            let end = self.end.take();
            let mut ended = end.unwrap_or_else(|| Box::pin(std::future::pending()));
            let crashed = tokio::select! {
                biased;
                crashed = self.crashes.1.recv() => crashed,
                () = &mut changed => return Ok(()),
                () = &mut ended => {
                    if !self.exited()? {
                        // Its tracer learns of the end first.
                        clock.sleep(AGAIN).await;
                        *self.end.borrow_mut() = self.running.borrow().as_ref().map(|running| running.end_signal());
                    }
                    continue;
                }
                () = clock.sleep_until_offset(next) => None,
            };
            *self.end.borrow_mut() = Some(ended);
            if let Some(crashed) = crashed {
                self.crashed(&crashed)?;
            }
            if self.mode.is_exact() {
                self.wait_until_idle().await?;
            } else {
                self.check_running()?;
            }
        }
    }

    /// Waits until everything is idle, and handles crashes of the subject.
    async fn wait_until_idle(&mut self) -> Result<(), RunError> {
        loop {
            self.rest().await?;
            match self.crashes.1.try_recv() {
                Ok(crashed) => self.crashed(&crashed)?,
                Err(_) => break,
            }
        }
        self.check_running()
    }

    /// Waits until nothing is left to do; on a real clock, until nothing has happened for a short time.
    async fn rest(&self) -> Result<(), RunError> {
        match self.mode {
            TimeMode::Virtual => settle().await,
            TimeMode::Traced { .. } => self.rest_of_all_programs().await?,
            TimeMode::Wall { .. } => timing::wait_until_quiet(self.sandbox.transcript(), &self.clock).await,
        }
        Ok(())
    }

    /// Waits until all programs in this virtual time rest and nothing is due.
    async fn rest_of_all_programs(&self) -> Result<(), RunError> {
        // Taken out while waiting: no borrow may be held across an await.
        let mut clock = match self.guest_clock.take() {
            Some(clock) => clock,
            None => AsyncClock::from_env().await?,
        };
        clock.settle().await?;
        self.guest_clock.replace(Some(clock));
        Ok(())
    }

    /// Records that the program ended by itself; it starts again after a back-off. Returns false if it has not ended.
    fn exited(&mut self) -> Result<bool, RunError> {
        let reason = self.running.borrow_mut().as_mut().and_then(|running| running.ended());
        let Some(reason) = reason.filter(|_| self.crashing.load(Ordering::Relaxed) == 0) else { return Ok(false) };
        let at = self.clock.elapsed();
        let log = self.running.borrow().as_ref().map(|running| running.log()).unwrap_or_default();
        self.note(&format!("the program ended: {}", reason.lines().next().unwrap_or_default()));
        self.recorder.update(|record| record.exits.push(ProgramExit { at, reason: reason.clone(), log }));
        self.monitor.ended();
        drop(self.running.take());
        self.exits += 1;
        if self.exits >= MOST_EXITS {
            return Err(RunError::Ended { at: moment(at), reason });
        }
        self.restart_at = Some(at + FIRST_BACKOFF * 2_u32.pow(self.exits - 1));
        Ok(true)
    }

    fn check_running(&mut self) -> Result<(), RunError> {
        if let Some(why) = self.sandbox.failure() {
            return Err(RunError::Cluster(why.into()));
        }
        if self.subject.is_program() {
            return Ok(());
        }
        if self.fixture.elects_leader() {
            // A replica that has lost the lease ends.
            return self.exited().map(|_| ());
        }
        // A subject may end because a crash has cut its connections; the crash is handled soon.
        if self.crashing.load(Ordering::Relaxed) > 0 {
            return Ok(());
        }
        let mut running = self.running.borrow_mut();
        let Some(reason) = running.as_mut().and_then(|running| running.ended()) else { return Ok(()) };
        Err(RunError::Ended { at: moment(self.clock.elapsed()), reason })
    }

    async fn act(&mut self, step: usize, actions: &'a [Action]) -> Result<(), RunError> {
        let together = |action: &Action| matches!(action, Action::Request(UserRequest { together: Some(_), .. }));
        for group in actions.chunk_by(|one, next| together(one) && together(next)) {
            match &group[0] {
                Action::Request(_) => self.ask(step, group).await,
                Action::Control(control) => self.control(*control).await?,
                Action::Fault(fault) => self.arm(fault)?,
                Action::Heal(name) => {
                    let healed = self.faults()?.clear(name.as_deref());
                    let which = name.as_deref().map_or_else(|| "all faults".to_owned(), |name| format!("fault {name}"));
                    self.note(&format!("{which} healed ({healed})"));
                }
                Action::Watch(fault) => self.watch_fault(fault)?,
                Action::Compact => {
                    self.sandbox.compact();
                    self.note("the server forgets its past");
                }
                Action::Skew(by) => {
                    self.clock.set_skew(*by);
                    let which = if by.is_negative() { "behind" } else { "ahead" };
                    self.note(&format!("the server's clock is {:#} {which}", by.abs()));
                }
                Action::Outage(duration) => {
                    self.faults()?.set_outage(true);
                    self.outage_until = Some(self.clock.elapsed() + *duration);
                    self.note(&format!("the server is out for {}", seconds(*duration)));
                }
                Action::StepClock(by) => {
                    self.subject_clock.set_skew(*by);
                    let which = if by.is_negative() { "behind" } else { "ahead" };
                    self.note(&format!("the controllers' clock is {:#} {which}", by.abs()));
                }
                Action::Interfere(how) => {
                    let sandbox = (&*self.sandbox, &self.versions);
                    calls::interfere(sandbox, how, (self.clock.now(), self.clock.epoch())).await;
                }
            }
        }
        Ok(())
    }

    /// Sends requests concurrently, with their delays, and records the replies in the order of the requests.
    async fn ask(&self, step: usize, actions: &'a [Action]) {
        let requests = actions.iter().filter_map(|action| match action {
            Action::Request(request) => Some(request),
            _ => None,
        });
        let ask = |request: &'a UserRequest| async move {
            if let Some(after) = request.together.filter(|after| !after.is_zero()) {
                self.clock.sleep(after).await;
            }
            let target = (&*self.sandbox, &self.versions);
            calls::send(target, request, self.clock.now(), self.clock.epoch()).await
        };
        let answers = futures::future::join_all(requests.map(ask)).await;
        self.recorder.update(|record| {
            record.replies.extend(answers.into_iter().map(|answer| {
                let Answer { code, retry_after, body } = answer;
                StepReply { step, code, retry_after, body }
            }));
        });
    }

    async fn control(&mut self, control: Control) -> Result<(), RunError> {
        if self.subject.is_program() || self.fixture.elects_leader() {
            // It may have ended by itself and wait for its next start.
            self.restart_at = None;
        }
        match control {
            Control::Start => self.start(),
            Control::Stop => {
                self.note(STOPS);
                *self.end.borrow_mut() = None;
                self.monitor.ended();
                let running = self.running.take();
                let stopped = match running {
                    Some(mut running) => running.stop().await,
                    None => Ok(()),
                };
                self.note(STOPPED);
                stopped.map_err(|why| RunError::Stop(why.into()))
            }
            Control::Crash => {
                self.crash("the controllers crash");
                Ok(())
            }
            Control::Restart => {
                self.crash("the controllers crash and start again");
                self.start()
            }
        }
    }

    fn start(&self) -> Result<(), RunError> {
        if self.fixture.controllers.is_empty() && !self.subject.is_program() {
            return Ok(());
        }
        if self.running.borrow().is_some() {
            return Err(RunError::AlreadyRunning(moment(self.clock.elapsed())));
        }
        if !self.clock.elapsed().is_zero() {
            self.note(STARTS);
        }
        let launch = Launch {
            controllers: &self.fixture.controllers,
            flags: &self.fixture.flags,
            replicas: self.fixture.replicas,
            access: self.sandbox.access(),
            clock: &self.subject_clock,
        };
        self.sandbox.gate().shut(false);
        let running = self.subject.launch(&launch).map_err(|why| RunError::Launch(why.into()))?;
        if let TimeMode::Wall { .. } = self.mode
            && running.is_seen()
        {
            let permit =
                self.recorder.update(|record| record.permits == 0).then(|| self.starts.try_acquire(self.recorder));
            self.monitor.launched(running.processes(), permit.flatten());
        }
        *self.cut.lock() = Some(running.kill_switch());
        if self.subject.is_program() {
            *self.end.borrow_mut() = Some(running.end_signal());
        }
        *self.running.borrow_mut() = Some(running);
        Ok(())
    }

    fn crash(&self, note: &str) {
        self.note(note);
        *self.end.borrow_mut() = None;
        self.sandbox.gate().shut(true);
        self.monitor.ended();
        if let Some(mut running) = self.running.take() {
            running.crash();
        }
    }

    fn crashed(&mut self, crashed: &CrashEvent) -> Result<(), RunError> {
        self.crashing.fetch_sub(1, Ordering::Relaxed);
        self.crash(&format!("the controllers crash {}", crashed.at));
        if crashed.restart_after.is_zero() {
            return self.start();
        }
        self.restart_at = Some(self.clock.elapsed() + crashed.restart_after);
        Ok(())
    }

    fn faults(&self) -> Result<&Faults, RunError> {
        self.sandbox.faults().ok_or(RunError::NoFaults)
    }

    fn arm(&self, fault: &Fault) -> Result<(), RunError> {
        let cut = self.cut.clone();
        let gate = self.sandbox.gate();
        let crashes = self.crashes.0.clone();
        let crashing = self.crashing.clone();
        let crash: CrashHandler = Arc::new(move |crashed| {
            crashing.fetch_add(1, Ordering::Relaxed);
            gate.shut(true);
            if let Some(cut) = cut.lock().as_ref() {
                cut.trip();
            }
            // If the receiver is gone, the fixture is over.
            let _ = crashes.send(crashed);
        });
        let leeway = (self.mode.tolerance(), self.mode.late());
        let (rule, armed) = faults::rule(fault, &self.clock, leeway, &crash);
        self.faults()?.arm(rule);
        self.armed.borrow_mut().push(armed);
        Ok(())
    }

    fn watch_fault(&self, fault: &WatchFault) -> Result<(), RunError> {
        if let Some(note) = faults::set_watch_fault(self.faults()?, self.sandbox.revision(), fault) {
            self.note(&note);
        }
        Ok(())
    }

    fn note(&self, text: &str) {
        self.sandbox.transcript().note(self.clock.elapsed(), text);
    }

    async fn scrape(&self) {
        let running = self.running.take();
        let text = match &running {
            Some(running) => {
                let text = running.metrics().await.unwrap_or_else(|error| format!("# {error}\n"));
                self.sandbox.own_names(text)
            }
            None => "# the controllers do not run\n".to_owned(),
        };
        *self.running.borrow_mut() = running;
        let now = self.clock.elapsed();
        self.recorder.update(|record| record.scrapes.push((now, text)));
    }
}

fn asks_for_metrics(checks: &[Check]) -> bool {
    checks.iter().any(|check| matches!(check.kind, CheckKind::Metric { .. }))
}
