//! One fixture, from the seeded world to its end.

use std::cell::RefCell;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::faults::{self, Crashed};
use super::log::Log;
use super::{Evidence, calls, isolate};
use crate::apiserver::faults::WatchEnd;
use crate::cluster::{Answer, Embedded, resource_id};
use crate::expect::StepReply;
use crate::fixture::parse::step_checks;
use crate::fixture::{Action, Check, CheckKind, Control, Fault, Fixture, StepKind, WatchFault, time_text};
use crate::subject::gate::Cut;
use crate::subject::{Launch, Running, Subject};
use crate::time::{self, Clock, settle};
use crate::transcript::redact::{at as moment, seconds};

/// Runs `fixture` against `subject` in virtual time on this thread, and gathers `evidence` while it goes on.
///
/// # Errors
///
/// When the operating system refuses a runtime.
pub fn run(fixture: &Fixture, subject: &dyn Subject, evidence: &Evidence) -> std::io::Result<()> {
    let (result, panics) = isolate::watch_panics(|| {
        time::run_virtual(async {
            let clock = Clock::virtual_from(time::epoch());
            let log = Log::collect(&clock);
            let mut world = World::new(fixture, subject, evidence, clock);
            if let Err(trouble) = world.play().await {
                evidence.update(|gathered| gathered.troubles.push(trouble));
            }
            evidence.update(|gathered| {
                gathered.end = world.clock.elapsed();
                gathered.log = log.lines();
            });
        })
    });
    evidence.update(|gathered| {
        gathered.troubles.extend(panics.into_iter().map(|panic| format!("the subject panicked: {panic}")));
    });
    result
}

/// A fixture's world while it runs.
struct World<'a> {
    fixture: &'a Fixture,
    subject: &'a dyn Subject,
    evidence: &'a Evidence,
    clock: Clock,
    /// The controllers' clock: never skewed.
    subject_clock: Clock,
    cluster: Embedded,
    running: RefCell<Option<Box<dyn Running>>>,
    /// Cuts whatever subject runs at the moment; shared with crash faults.
    cut: Arc<Mutex<Option<Cut>>>,
    crashes: (UnboundedSender<Crashed>, UnboundedReceiver<Crashed>),
    /// When the controllers that crashed start again.
    restart_at: Option<Duration>,
    /// When the server that is out answers again.
    outage_until: Option<Duration>,
}

impl<'a> World<'a> {
    fn new(fixture: &'a Fixture, subject: &'a dyn Subject, evidence: &'a Evidence, clock: Clock) -> Self {
        let cluster = Embedded::new(&clock);
        evidence.update(|gathered| {
            gathered.start = clock.epoch();
            gathered.transcript = cluster.server().transcript().clone();
        });
        Self {
            fixture,
            subject,
            evidence,
            subject_clock: Clock::virtual_from(clock.epoch()),
            clock,
            cluster,
            running: RefCell::default(),
            cut: Arc::default(),
            crashes: unbounded_channel(),
            restart_at: None,
            outage_until: None,
        }
    }

    async fn play(&mut self) -> Result<(), String> {
        self.set_up().await?;
        let fixture = self.fixture;
        // In the order of the file, which is the order of time; a window counts where it ends.
        for (index, step) in fixture.steps.iter().enumerate() {
            self.wait_until(step.end()).await?;
            if let StepKind::Do { actions, .. } = &step.kind {
                self.act(index, actions).await?;
                self.rest().await?;
            }
            if asks_for_metrics(step_checks(step)) {
                self.scrape();
            }
            let length = self.cluster.server().transcript().len();
            self.evidence.update(|gathered| gathered.marks.push(length));
        }
        self.wait_until(fixture.end()).await?;
        if asks_for_metrics(&fixture.expect) {
            self.scrape();
        }
        Ok(())
    }

    async fn set_up(&mut self) -> Result<(), String> {
        let given = &self.fixture.given;
        let mut objects = given.objects.clone();
        let now = self.clock.now();
        for object in &mut objects {
            time_text::resolve(object, now, now);
        }
        let initial =
            self.cluster.seed(objects).map_err(|error| format!("unable to plant the given objects: {error}"))?;
        self.evidence.update(|gathered| gathered.initial = initial);
        given.faults.iter().for_each(|fault| self.arm(fault));
        given.watches.iter().for_each(|fault| self.watch_fault(fault));
        if !given.stopped {
            self.start()?;
        }
        self.rest().await
    }

    /// Lets time pass until `target`; crashes, restarts and ends of outages that are due until then happen in time.
    async fn wait_until(&mut self, target: Duration) -> Result<(), String> {
        loop {
            let now = self.clock.elapsed();
            if self.outage_until.is_some_and(|until| until <= now) {
                self.outage_until = None;
                self.cluster.server().faults().set_outage(false);
                self.note("the server answers again");
            }
            if self.restart_at.is_some_and(|at| at <= now) {
                self.restart_at = None;
                self.start()?;
                self.rest().await?;
            }
            if now >= target {
                return Ok(());
            }
            let next = [self.restart_at, self.outage_until].into_iter().flatten().fold(target, Duration::min);
            let clock = self.clock.clone();
            let crashed = tokio::select! {
                biased;
                crashed = self.crashes.1.recv() => crashed,
                () = clock.sleep_until_offset(next) => None,
            };
            if let Some(crashed) = crashed {
                self.crashed(&crashed)?;
            }
            self.rest().await?;
        }
    }

    /// Waits until nothing moves, and deals with what happened to the subject meanwhile.
    async fn rest(&mut self) -> Result<(), String> {
        loop {
            settle().await;
            match self.crashes.1.try_recv() {
                Ok(crashed) => self.crashed(&crashed)?,
                Err(_) => break,
            }
        }
        match self.running.borrow_mut().as_mut().and_then(|running| running.ended()) {
            Some(reason) => {
                Err(format!("the controllers ended by themselves at {}: {reason}", moment(self.clock.elapsed())))
            }
            None => Ok(()),
        }
    }

    async fn act(&mut self, step: usize, actions: &[Action]) -> Result<(), String> {
        for action in actions {
            match action {
                Action::Request(request) => {
                    let answer = calls::send(&self.cluster, request, self.clock.now(), self.clock.epoch()).await;
                    let Answer { code, retry_after, body } = answer;
                    self.evidence.update(|gathered| gathered.replies.push(StepReply { step, code, retry_after, body }));
                }
                Action::Control(control) => self.control(*control).await?,
                Action::Fault(fault) => self.arm(fault),
                Action::Heal(name) => {
                    let healed = self.cluster.server().faults().heal(name.as_deref());
                    let which = name.as_deref().map_or_else(|| "all faults".to_owned(), |name| format!("fault {name}"));
                    self.note(&format!("{which} healed ({healed})"));
                }
                Action::Watch(fault) => self.watch_fault(fault),
                Action::Compact => {
                    let server = self.cluster.server();
                    server.compact(server.store().revision());
                    self.note("the server forgets its past");
                }
                Action::Skew(by) => {
                    self.clock.set_skew(*by);
                    self.note(&format!("the server's clock is off by {by:#}"));
                }
                Action::Outage(duration) => {
                    self.cluster.server().faults().set_outage(true);
                    self.outage_until = Some(self.clock.elapsed() + *duration);
                    self.note(&format!("the server is out for {}", seconds(*duration)));
                }
            }
        }
        Ok(())
    }

    async fn control(&mut self, control: Control) -> Result<(), String> {
        match control {
            Control::Start => self.start(),
            Control::Stop => {
                self.note("the controllers are asked to stop");
                let running = self.running.take();
                let stopped = match running {
                    Some(mut running) => running.stop().await,
                    None => Ok(()),
                };
                self.note("the controllers have stopped");
                stopped.map_err(|error| format!("the controllers did not stop well: {error}"))
            }
            Control::Crash => {
                self.crash("the controllers crash");
                Ok(())
            }
            Control::Restart => {
                self.crash("the controllers crash and start anew");
                self.start()
            }
        }
    }

    fn start(&self) -> Result<(), String> {
        if self.fixture.controllers.is_empty() {
            return Ok(());
        }
        if self.running.borrow().is_some() {
            return Err(format!("at {} the controllers are to start, but they run", moment(self.clock.elapsed())));
        }
        if !self.clock.elapsed().is_zero() {
            self.note("the controllers start");
        }
        let launch = Launch {
            controllers: &self.fixture.controllers,
            flags: &self.fixture.flags,
            cluster: &self.cluster,
            clock: &self.subject_clock,
        };
        let running = self.subject.launch(&launch)?;
        *self.cut.lock().unwrap_or_else(PoisonError::into_inner) = Some(running.cut());
        *self.running.borrow_mut() = Some(running);
        Ok(())
    }

    fn crash(&self, note: &str) {
        self.note(note);
        if let Some(mut running) = self.running.take() {
            running.crash();
        }
    }

    fn crashed(&mut self, crashed: &Crashed) -> Result<(), String> {
        self.crash(&format!("the controllers crash {}", crashed.at));
        if crashed.restart_after.is_zero() {
            return self.start();
        }
        self.restart_at = Some(self.clock.elapsed() + crashed.restart_after);
        Ok(())
    }

    fn arm(&self, fault: &Fault) {
        let cut = self.cut.clone();
        let cut = move || {
            if let Some(cut) = cut.lock().unwrap_or_else(PoisonError::into_inner).as_ref() {
                cut.now();
            }
        };
        self.cluster.server().faults().arm(faults::rule(fault, &self.clock, Arc::new(cut), &self.crashes.0));
    }

    fn watch_fault(&self, fault: &WatchFault) {
        let server = self.cluster.server();
        let (faults, revision) = (server.faults(), server.store().revision());
        match fault {
            WatchFault::Drop(resource) => {
                faults.end_watches(resource.as_ref().map(resource_id).as_ref(), WatchEnd::Broken);
                let which = resource.as_ref().map_or("everything", |resource| &resource.plural);
                self.note(&format!("watches of {which} break"));
            }
            WatchFault::Hold(resource) => {
                faults.hold(&resource_id(resource));
                self.note(&format!("watch events of {} are held", resource.plural));
            }
            WatchFault::Release { resource, coalesce } => {
                faults.release(&resource_id(resource), coalesce.then_some(revision));
                let how = if *coalesce { ", coalesced" } else { "" };
                self.note(&format!("watch events of {} are let go{how}", resource.plural));
            }
            WatchFault::StaleList(resource) => {
                faults.set_stale(&resource_id(resource), Some(revision));
                self.note(&format!("lists of {} stay as they are now", resource.plural));
            }
            WatchFault::FreshList(resource) => {
                faults.set_stale(&resource_id(resource), None);
                self.note(&format!("lists of {} are current again", resource.plural));
            }
        }
    }

    fn note(&self, text: &str) {
        self.cluster.server().transcript().note(self.clock.elapsed(), text);
    }

    fn scrape(&self) {
        let text = match self.running.borrow().as_ref() {
            Some(running) => running.metrics().unwrap_or_else(|error| format!("# {error}\n")),
            None => "# the controllers do not run\n".to_owned(),
        };
        let now = self.clock.elapsed();
        self.evidence.update(|gathered| gathered.scrapes.push((now, text)));
    }
}

fn asks_for_metrics(checks: &[Check]) -> bool {
    checks.iter().any(|check| matches!(check.kind, CheckKind::Metric { .. }))
}
