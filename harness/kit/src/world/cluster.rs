//! The world itself: a cluster for one test, and its settings.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::panic::Location;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use futures::future::LocalBoxFuture;
use jiff::{SignedDuration, Timestamp};

use super::always_check::AlwaysCheck;
use super::error::{Error, Result};
use super::explore::advances::Advances;
use super::fault_list::FaultList;
use super::own_thread::{COMPARED, in_own_thread};
use super::resources::ResourceCache;
use super::rule::Rule;
use super::transcript::{TranscriptView, first_difference};
use super::watchdog::{TICK, Tick};
use super::world_state::WorldState;
use crate::apiserver::{ApiServer, KubernetesVersion};
use crate::expect::{is_subject_write, requests};
use crate::time::{self, Clock};
use crate::transcript::RecordedJson;

/// The longest time that [`World::advance`] takes: a year.
const LONGEST: Duration = Duration::from_hours(24 * 366);

/// A cluster for one test: an API server in this process, the controllers under test, and virtual time.
pub struct World {
    pub(super) shared: Arc<WorldState>,
    pub(super) settings: WorldBuilder,
    /// Objects that were there before the record began.
    pub(super) initial: RefCell<Vec<RecordedJson>>,
    pub(super) resources: RefCell<Option<ResourceCache>>,
    pub(super) always: RefCell<Vec<AlwaysCheck>>,
    pub(super) rules: RefCell<Vec<Rule>>,
    pub(super) faults: FaultList,
    /// True if objects whose owners are gone are deleted.
    pub(super) collects_garbage: Cell<bool>,
    /// Length of the transcript at the begin of the last [`World::advance`].
    pub(super) mark: Cell<usize>,
    pub(super) advances: Advances,
    /// True once the transcript was printed, or the test has succeeded.
    pub(super) finished: Cell<bool>,
}

/// Settings of a [`World`].
#[derive(Clone, Debug)]
#[must_use = "call `test` or `build`"]
pub struct WorldBuilder {
    seed: u64,
    start: Timestamp,
    kubernetes: KubernetesVersion,
    patience: Duration,
    io: bool,
}

impl Default for WorldBuilder {
    fn default() -> Self {
        Self {
            seed: 0,
            start: time::epoch(),
            kubernetes: KubernetesVersion::default(),
            patience: Duration::from_secs(20),
            io: false,
        }
    }
}

impl WorldBuilder {
    /// Sets the seed of uids, generated names and random faults. The default is 0.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Sets the time of day at `t=+0s`. The default is 2030-01-01T00:00:00Z.
    ///
    /// kube-runtime's `Recorder` writes the system's time into Events; the package `plumbline-entropy` makes it that of
    /// the world.
    pub fn start(mut self, start: Timestamp) -> Self {
        self.start = start;
        self
    }

    /// Sets the release of Kubernetes that the server behaves as.
    pub fn kubernetes_version(mut self, version: KubernetesVersion) -> Self {
        self.kubernetes = version;
        self
    }

    /// Sets the wall time after which a test ends if neither virtual time nor the transcript moves. The default is
    /// 20 s.
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Lets controllers wait for signals and open sockets, such as one with `Controller::shutdown_on_signal` or a
    /// metrics server. Without it they panic, and the test ends with their name.
    ///
    /// Virtual time does not wait for sockets: a reply from another process can come hours later. Once a controller
    /// has waited for a signal, such as Ctrl-C, the signal no longer ends the test program.
    pub fn io(mut self) -> Self {
        self.io = true;
        self
    }

    /// Runs `future` in a runtime with virtual time.
    pub(super) fn run_virtual<F: Future>(&self, future: F) -> std::io::Result<F::Output> {
        // kube-runtime draws the jitter of its back-off from here.
        fastrand::seed(self.seed);
        if self.io { time::run_virtual_with_io(future) } else { time::run_virtual(future) }
    }

    /// Creates the world. Call this in a runtime with virtual time, such as that of
    /// `#[tokio::test(start_paused = true)]`.
    ///
    /// # Errors
    ///
    /// Returns an error outside of such a runtime.
    #[track_caller]
    pub fn build(self) -> Result<World> {
        here!(self.make())
    }

    pub(super) fn make(self) -> Result<World> {
        if tokio::runtime::Handle::try_current().is_err() {
            return Err(Error::new(
                "a world needs a runtime: use World::test, or #[tokio::test(start_paused = true)] on the test",
            ));
        }
        if !time::is_paused() {
            return Err(Error::new(
                "a world needs virtual time: use World::test, or #[tokio::test(start_paused = true)] on the test",
            ));
        }
        let server = ApiServer::builder()
            .clock(Clock::virtual_from(self.start))
            .seed(self.seed)
            .ids_by_object()
            .kubernetes_version(self.kubernetes)
            .build();
        time::set_time_of_day(Some(self.start));
        let initial = server.stored_resources().into_iter().flat_map(|resource| server.list(&resource, None));
        let initial = initial.map(RecordedJson::from).collect();
        Ok(World {
            shared: WorldState::new(server),
            settings: self,
            initial: RefCell::new(initial),
            resources: RefCell::default(),
            always: RefCell::default(),
            rules: RefCell::default(),
            faults: FaultList::default(),
            collects_garbage: Cell::new(false),
            mark: Cell::new(0),
            advances: Advances::default(),
            finished: Cell::new(false),
        })
    }

    /// Runs `test` in a runtime of its own, with virtual time; see [`World::test`].
    ///
    /// # Errors
    ///
    /// Returns the error of `test`, or the first check that does not hold: a controller that failed, [`World::always`],
    /// [`World::uphold`], or a fault that no request met.
    #[track_caller]
    pub fn test(self, test: impl AsyncFnOnce(&World) -> Result) -> Result {
        self.run_once(Location::caller(), test, None)
    }

    /// Runs `test` and writes the transcript of its world to `text`.
    ///
    /// Only this is compiled for each test, in its crate. The futures are boxed, so that the runtime is compiled here.
    fn run_once(
        self,
        place: &'static Location<'static>,
        test: impl AsyncFnOnce(&World) -> Result,
        text: Option<&mut String>,
    ) -> Result {
        let settings = self.clone();
        settings.drive(
            place,
            Box::pin(async move {
                let world = self.make().map_err(|error| error.at(place))?;
                world.play(place, Box::pin(test(&world)), text).await
            }),
        )
    }

    /// Runs `future` in a runtime of its own, with virtual time.
    fn drive(&self, place: &'static Location<'static>, future: LocalBoxFuture<'_, Result>) -> Result {
        if tokio::runtime::Handle::try_current().is_ok() {
            let text = "World::test makes a runtime of its own: call it from a plain #[test], or use World::new in an \
                        async one";
            return Err(Error::new(text).at(place));
        }
        self.run_virtual(future)?
    }

    /// Runs `test` several times, each time in a thread of its own, and compares the transcripts. Another run before
    /// them is not compared: it fills the caches of the process.
    ///
    /// ```
    /// # use plumbline::world::{World, seconds};
    /// # fn main() -> plumbline::Result {
    /// World::builder().is_deterministic(3, async |t| t.advance(seconds(1)).await)
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the first difference between two transcripts, or the error of a run.
    #[track_caller]
    pub fn is_deterministic(self, runs: usize, test: impl AsyncFn(&World) -> Result + Sync) -> Result {
        let place = Location::caller();
        // Some hash maps have seeds from the addresses of the stack: equal ones need equal stacks, one after the other.
        let _alone = COMPARED.lock();
        let run = || {
            in_own_thread(|| {
                let mut text = String::new();
                self.clone().run_once(place, &test, Some(&mut text)).map(|()| text)
            })?
        };
        // Makes what is made once in a process, and draws random numbers for it.
        run()?;
        let first = run()?;
        for number in 2..=runs {
            let next = run()?;
            if let Some(difference) = first_difference(&first, &next) {
                return Err(Error::new(format!("run {number} differs from the first one {difference}")).at(place));
            }
        }
        Ok(())
    }
}

impl World {
    /// Runs `test` with a world of its own, in a runtime of its own and in virtual time. When the test fails, the
    /// transcript is printed.
    ///
    /// # Errors
    ///
    /// Returns the error of `test`; or the failure of a controller, of [`World::always`] or of [`World::uphold`] that
    /// the test has not noticed; or a fault that no request has met.
    #[track_caller]
    pub fn test(test: impl AsyncFnOnce(&Self) -> Result) -> Result {
        Self::builder().test(test)
    }

    /// Creates a world in the runtime of the caller, for `#[tokio::test(start_paused = true)]`.
    ///
    /// The transcript is printed when the test panics. Call [`World::finish`] at the end.
    ///
    /// # Errors
    ///
    /// Returns an error if the runtime's time is not virtual.
    #[track_caller]
    pub fn new() -> Result<Self> {
        Self::builder().build()
    }

    /// Returns settings to change before the world is made.
    pub fn builder() -> WorldBuilder {
        WorldBuilder::default()
    }

    /// Returns the API server, for what this type does not offer.
    #[must_use]
    pub fn server(&self) -> &ApiServer {
        &self.shared.server
    }

    /// Returns a client with all rights, whose requests are the user's in the transcript.
    #[must_use]
    pub fn client(&self) -> kube::Client {
        self.server().client(crate::transcript::USER_AGENT_OF_STEPS)
    }

    /// Returns the virtual time since the world was made.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.server().clock().elapsed()
    }

    /// Returns the record of all requests and changes so far.
    #[must_use]
    pub fn transcript(&self) -> TranscriptView {
        let entries = self.server().transcript().entries();
        TranscriptView::new(self.server().clock().epoch(), self.initial.borrow().clone(), entries)
    }

    /// Lets `by` pass, and waits until every task waits again.
    ///
    /// # Errors
    ///
    /// Returns an error if `by` is zero or more than a year; if a controller has failed or loops; if a check of
    /// [`World::always`] does not hold; or if virtual time does not move.
    #[track_caller]
    pub fn advance(&self, by: Duration) -> impl Future<Output = Result> + '_ {
        let place = Location::caller();
        async move { self.advance_by(by).await.map_err(|error| error.at(place)) }
    }

    pub(super) async fn advance_by(&self, by: Duration) -> Result {
        if by.is_zero() {
            return Err(Error::new("advance: no time would pass; to wait until every task waits, call settle"));
        }
        if by > LONGEST {
            let days = LONGEST.as_secs() / 86_400;
            return Err(Error::new(format!("advance: {by:?} is too long; advance by at most {days} days at a time")));
        }
        self.mark.set(self.server().transcript().len());
        self.guard(async {
            time::settle().await;
            self.server().clock().sleep(by).await;
            time::settle().await;
            Ok(())
        })
        .await?;
        self.check()?;
        self.advances.ended(self.server().transcript().len(), self.elapsed()).await;
        Ok(())
    }

    /// Waits until every task waits. No virtual time passes.
    ///
    /// # Errors
    ///
    /// As [`World::advance`].
    #[track_caller]
    pub fn settle(&self) -> impl Future<Output = Result> + '_ {
        let place = Location::caller();
        async move {
            self.mark.set(self.server().transcript().len());
            let settled = self.guard(async {
                time::settle().await;
                Ok(())
            });
            settled.await.and_then(|()| self.check()).map_err(|error| error.at(place))
        }
    }

    /// Lets `by` pass and checks that no controller under test writes in this time, apart from leases.
    ///
    /// # Errors
    ///
    /// Returns the writes, or an error of [`World::advance`].
    #[track_caller]
    pub fn quiet_for(&self, by: Duration) -> impl Future<Output = Result> + '_ {
        let place = Location::caller();
        async move {
            self.settle().await.map_err(|error| error.at(place))?;
            self.advance_by(by).await.map_err(|error| error.at(place))?;
            self.expect("quiet: true").map_err(|error| error.at(place))
        }
    }

    /// Sets the clock of the server ahead of the controllers' clock by `by`, or behind it.
    pub fn skew(&self, by: SignedDuration) {
        self.server().clock().set_skew(by);
        let which = if by.is_negative() { "behind" } else { "ahead" };
        self.note(&format!("the server's clock is {:#} {which}", by.abs()));
    }

    /// Adds a line to the transcript.
    pub fn note(&self, text: &str) {
        self.shared.note(text);
    }

    /// Ends the test: checks what [`World::always`] and [`World::uphold`] promise, that no controller has failed, and
    /// that every fault has been met. [`World::test`] calls it after the test.
    ///
    /// # Errors
    ///
    /// Returns the first that does not hold.
    #[track_caller]
    pub fn finish(&self) -> Result {
        here!(self.judge_end())
    }

    /// Plays a test to its end, and prints the transcript if it fails.
    async fn play(
        &self,
        place: &'static Location<'static>,
        test: LocalBoxFuture<'_, Result>,
        text: Option<&mut String>,
    ) -> Result {
        let outcome = self.guard(test).await;
        let outcome = outcome.and_then(|()| self.judge_end().map_err(|error| error.at(place)));
        self.finished.set(true);
        if outcome.is_err() {
            self.print();
        }
        if let Some(text) = text {
            *text = self.transcript().to_string();
        }
        outcome
    }

    fn judge_end(&self) -> Result {
        self.check()?;
        self.judge_rules()?;
        self.faults.check_met()?;
        self.finished.set(true);
        Ok(())
    }

    /// Checks everything that has to hold at any time.
    fn check(&self) -> Result {
        self.shared.check()?;
        self.judge_always()
    }

    /// Polls `future` until it is done, or until neither virtual time nor the transcript has moved for the wall time of
    /// [`WorldBuilder::patience`].
    pub(super) async fn guard<T>(&self, future: impl Future<Output = Result<T>>) -> Result<T> {
        let mut future = pin!(future);
        let tick = Tick::register();
        let patience = u64::try_from(self.settings.patience.as_millis() / TICK.as_millis()).unwrap_or(u64::MAX);
        let mut last = (Duration::MAX, 0);
        let mut since = 0;
        poll_fn(|context| {
            let ready = future.as_mut().poll(context);
            if ready.is_ready() {
                return ready;
            }
            let count = tick.next(context.waker());
            let now = (self.elapsed(), self.server().transcript().len());
            if now != last {
                (last, since) = (now, count);
            }
            if count - since > patience {
                return Poll::Ready(Err(Error::new(self.shared.stall(self.settings.patience))));
            }
            Poll::Pending
        })
        .await
    }

    /// Returns a time that a controller wrote and that is far from the world's, with that of the world.
    fn far_time(&self) -> Option<(String, Timestamp)> {
        let now = self.server().clock().now();
        let is_far = |text: &str| {
            let time: Option<Timestamp> = text.parse().ok().filter(|_| text.len() >= DATE && text.ends_with('Z'));
            time.is_some_and(|time| time.duration_since(now).unsigned_abs() > LONGEST)
        };
        self.server().transcript().with(|entries| {
            let written = requests(entries).filter(|(entry, exchange)| is_subject_write(entry, exchange));
            let bodies = written.filter_map(|(_, exchange)| exchange.request.body.as_deref());
            bodies.filter_map(|body| find_text(body, &is_far)).map(|far| (far, now)).next()
        })
    }

    #[expect(clippy::print_stderr, reason = "test programs show it with the failure of the test")]
    fn print(&self) {
        eprintln!("transcript of the world:\n{}", self.transcript());
        if let Some((far, at)) = self.far_time() {
            eprintln!(
                "hint: a controller wrote the time {far}, and it is {at} in this world: it reads the system's clock. The \
                 package plumbline-entropy shows it the world's time"
            );
        }
    }
}

/// Length of a time such as `2030-01-01T00:00:00Z`.
const DATE: usize = 20;

/// Returns the first text in a value that is meant.
fn find_text(value: &serde_json::Value, is_meant: &impl Fn(&str) -> bool) -> Option<String> {
    match value {
        serde_json::Value::String(text) => is_meant(text).then(|| text.clone()),
        serde_json::Value::Array(items) => items.iter().find_map(|item| find_text(item, is_meant)),
        serde_json::Value::Object(fields) => fields.values().find_map(|field| find_text(field, is_meant)),
        _ => None,
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.shared.close();
        time::set_time_of_day(None);
        if std::thread::panicking() && !self.finished.replace(true) {
            self.print();
        }
    }
}

impl std::fmt::Debug for World {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("World").field("elapsed", &self.elapsed()).finish_non_exhaustive()
    }
}
