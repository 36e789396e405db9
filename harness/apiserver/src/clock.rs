//! Time: the [`Clock`] of a server and its clients, and [`settle`], the exact moment at which every task waits.
//!
//! In virtual time everything runs on one OS thread in a runtime made by [`run_virtual`]: tokio's time is paused and
//! jumps to the next timer only when nothing can run. [`settle`] hooks into that moment: just before the runtime would
//! park, the hook wakes the tasks that wait in `settle`; tokio then checks its queue again and continues *without*
//! moving time. So the consequences of a request (any chain of tasks, channels and yields) are complete when `settle`
//! returns, and no virtual time has passed. Nothing here polls or guesses.

use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::task::{Poll, Waker};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

thread_local! {
    /// Number of times this thread's virtual runtime was about to park.
    static PARKS: Cell<u64> = const { Cell::new(0) };
    /// `true` if a runtime of [`run_virtual`] runs on this thread.
    static VIRTUAL: Cell<bool> = const { Cell::new(false) };
    /// Wakers of the tasks that wait in [`settle`].
    static WAITING: RefCell<Vec<Waker>> = const { RefCell::new(Vec::new()) };
}

/// The moment at which virtual time starts by default (`t=+0s`): 2030-01-01T00:00:00Z.
#[must_use]
pub fn epoch() -> Timestamp {
    Timestamp::constant(1_893_456_000, 0)
}

/// A time source, for reading the time and for waiting.
///
/// Cheap to clone; clones show the same time.
#[derive(Clone, Debug)]
pub struct Clock {
    epoch: Timestamp,
    start: tokio::time::Instant,
    kind: ClockKind,
    /// Nanoseconds by which [`Clock::rebase`] moved the epoch; shared by all clones.
    moved: Arc<AtomicU64>,
    /// Milliseconds that [`Clock::now`] runs ahead; shared by all clones.
    skew: Arc<AtomicI64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ClockKind {
    Virtual,
    Traced,
    Wall,
}

/// Returns the instant of virtual time of a reading of a traced process: readings of one instant differ by nanoseconds.
fn instant(reading: Timestamp) -> Timestamp {
    Timestamp::from_microsecond(reading.as_microsecond()).unwrap_or(reading)
}

impl Clock {
    /// Creates a clock that shows `epoch` now and follows tokio's (paused) time from here on.
    ///
    /// Call it inside the runtime whose time it is to follow.
    #[must_use]
    pub fn virtual_from(epoch: Timestamp) -> Self {
        Self::starting(epoch, ClockKind::Virtual)
    }

    /// Creates a clock that shows the system's time; its epoch (`t=+0s`) is the moment of this call.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "this is the Clock")]
    pub fn wall() -> Self {
        Self::starting(Timestamp::now(), ClockKind::Wall)
    }

    /// Creates a clock that shows the system's time where that moves only while this process and its clients wait: a
    /// tracer such as `plumbline-guest` runs them.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "this is the Clock")]
    pub fn traced() -> Self {
        Self::starting(instant(Timestamp::now()), ClockKind::Traced)
    }

    #[expect(clippy::disallowed_methods, reason = "this is the Clock")]
    fn starting(epoch: Timestamp, kind: ClockKind) -> Self {
        Self { epoch, start: tokio::time::Instant::now(), kind, moved: Arc::default(), skew: Arc::default() }
    }

    /// Returns true if the clock follows tokio's paused time: it moves only when every task of this thread waits.
    #[must_use]
    pub fn is_virtual(&self) -> bool {
        self.kind == ClockKind::Virtual
    }

    /// Returns true if time moves only when nothing is left to do: in virtual time, and for a traced process.
    #[must_use]
    pub fn is_exact(&self) -> bool {
        self.kind != ClockKind::Wall
    }

    /// The moment that transcripts call `t=+0s`.
    #[must_use]
    pub fn epoch(&self) -> Timestamp {
        self.epoch.checked_add(self.moved()).unwrap_or(Timestamp::MAX)
    }

    fn moved(&self) -> Duration {
        Duration::from_nanos(self.moved.load(Ordering::Relaxed))
    }

    /// Makes the moment `offset` after the present epoch the new one, for all clones.
    ///
    /// On the wall clock a program needs an unknown time until it is ready; only then is `0s` known.
    pub fn rebase(&self, offset: Duration) {
        let moved = self.moved() + offset;
        self.moved.store(u64::try_from(moved.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// The present moment.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "this is the Clock")]
    pub fn now(&self) -> Timestamp {
        let now = match self.kind {
            ClockKind::Virtual => self.epoch().checked_add(self.elapsed()).unwrap_or(Timestamp::MAX),
            ClockKind::Traced => instant(Timestamp::now()),
            ClockKind::Wall => Timestamp::now(),
        };
        let skew = SignedDuration::from_millis(self.skew.load(Ordering::Relaxed));
        now.checked_add(skew).unwrap_or(now)
    }

    /// From now on [`Clock::now`] differs from the true time by this offset, in whole milliseconds, in all clones.
    ///
    /// [`Clock::elapsed`] and waiting are not affected: this is a wrong wall clock, not a fast one.
    pub fn set_skew(&self, skew: SignedDuration) {
        self.skew.store(i64::try_from(skew.as_millis()).unwrap_or_default(), Ordering::Relaxed);
    }

    /// Returns the offset that [`Clock::set_skew`] sets, in milliseconds, for clocks of other kinds that are to share
    /// it.
    #[must_use]
    pub fn skew(&self) -> Arc<AtomicI64> {
        Arc::clone(&self.skew)
    }

    /// Time since the epoch, never running backwards; zero before it.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.start.elapsed().saturating_sub(self.moved())
    }

    /// Waits for `duration` (rounded up to a millisecond, tokio's tick).
    #[expect(clippy::disallowed_methods, reason = "this is the Clock")]
    pub async fn sleep(&self, duration: Duration) {
        tokio::time::sleep(duration).await;
    }

    /// Waits until `moment`; returns at once when it is past.
    pub async fn sleep_until(&self, moment: Timestamp) {
        let left = Duration::try_from(moment.duration_since(self.now())).unwrap_or_default();
        if !left.is_zero() {
            self.sleep(left).await;
        }
    }

    /// Waits until `moment`; without one, forever.
    pub(crate) async fn wait_until(&self, moment: Option<Timestamp>) {
        match moment {
            Some(moment) => self.sleep_until(moment).await,
            None => std::future::pending().await,
        }
    }

    /// Waits until `offset` after the epoch; returns at once when it is past.
    #[expect(clippy::disallowed_methods, reason = "this is the Clock")]
    pub async fn sleep_until_offset(&self, offset: Duration) {
        tokio::time::sleep_until(self.start + self.moved() + offset).await;
    }

    /// Runs `future` for at most `limit`; returns `None` if the limit was reached first.
    #[expect(clippy::disallowed_methods, reason = "this is the Clock")]
    pub async fn timeout<F: Future>(&self, limit: Duration, future: F) -> Option<F::Output> {
        tokio::time::timeout(limit, future).await.ok()
    }
}

/// Runs `future` to its end on this thread, in a runtime of its own whose time is virtual and starts now.
///
/// Everything that `future` spawned is dropped before this returns.
///
/// ```
/// use std::time::Duration;
///
/// use plumbline_apiserver::clock::{Clock, epoch, run_virtual};
///
/// # fn main() -> std::io::Result<()> {
/// let passed = run_virtual(async {
///     let clock = Clock::virtual_from(epoch());
///     clock.sleep(Duration::from_secs(3600)).await; // returns at once
///     clock.now().duration_since(epoch())
/// })?;
/// assert_eq!(passed.as_secs(), 3600);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
///
/// If the operating system cannot create the runtime.
pub fn run_virtual<F: Future>(future: F) -> std::io::Result<F::Output> {
    run_paused(tokio::runtime::Builder::new_current_thread().enable_time(), Box::pin(future))
}

/// As [`run_virtual`], with sockets and signals.
///
/// Time does not wait for sockets: it jumps to the next timer when no task can run, so a reply from another process can
/// come hours of virtual time later. This is for code that opens a port or waits for a signal, and does not need them.
///
/// # Errors
///
/// If the operating system cannot create the runtime.
pub fn run_virtual_with_io<F: Future>(future: F) -> std::io::Result<F::Output> {
    run_paused(tokio::runtime::Builder::new_current_thread().enable_all(), Box::pin(future))
}

/// A future of any type: the runtime's loop, thousands of instructions, is compiled once for all of them.
type AnyFuture<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

fn run_paused<T>(builder: &mut tokio::runtime::Builder, future: AnyFuture<'_, T>) -> std::io::Result<T> {
    // Otherwise each runtime of a process draws other first branches of `tokio::select!`. tokio has this function only
    // with `--cfg tokio_unstable`.
    #[cfg(tokio_unstable)]
    builder.rng_seed(tokio::runtime::RngSeed::from_bytes(b"plumbline"));
    let runtime = builder
        .start_paused(true)
        .on_thread_park(|| {
            PARKS.set(PARKS.get().wrapping_add(1));
            for waker in WAITING.take() {
                waker.wake();
            }
        })
        .build()?;
    let _mark = VirtualMark::set();
    Ok(runtime.block_on(future))
}

/// Runs `future` to its end on this thread, in a runtime of its own on the system's clock, with sockets, processes and
/// signals.
///
/// Everything that `future` spawned is dropped before this returns.
///
/// # Errors
///
/// If the operating system cannot create the runtime.
pub fn run_wall<F: Future>(future: F) -> std::io::Result<F::Output> {
    let future: AnyFuture<'_, F::Output> = Box::pin(future);
    Ok(tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(future))
}

/// Marks this thread as running a virtual runtime until it is dropped, also on a panic.
struct VirtualMark;

impl VirtualMark {
    fn set() -> Self {
        VIRTUAL.set(true);
        Self
    }
}

impl Drop for VirtualMark {
    fn drop(&mut self) {
        VIRTUAL.set(false);
        WAITING.take();
    }
}

/// Waits until every other task of this runtime waits for time or indefinitely. Virtual time does not move.
///
/// Tasks whose timer is due at the present moment run first. One caller at a time: a second one would count as work.
///
/// ```
/// use std::cell::Cell;
/// use std::rc::Rc;
///
/// use plumbline_apiserver::clock::{run_virtual, settle};
///
/// # fn main() -> std::io::Result<()> {
/// run_virtual(async {
///     let done = Rc::new(Cell::new(false));
///     let (sender, receiver) = tokio::sync::oneshot::channel::<()>();
///     let consequence = async {
///         receiver.await.ok();
///         tokio::task::yield_now().await;
///         done.set(true);
///     };
///     let cause = async {
///         sender.send(()).ok();
///         settle().await;
///         assert!(done.get());
///     };
///     tokio::join!(consequence, cause);
/// })
/// # }
/// ```
///
/// In a runtime that is not made by [`run_virtual`], such as that of `#[tokio::test(start_paused = true)]`, a thread
/// observes when the runtime parks, and tokio does not move time while that thread runs. Each call costs some 50 µs.
///
/// # Panics
///
/// Outside of a runtime with virtual time, where nothing ever comes to rest.
pub async fn settle() {
    if !VIRTUAL.get() {
        assert!(
            is_paused(),
            "settle() needs virtual time, clock::run_virtual or #[tokio::test(start_paused = true)]: on the wall clock \
             nothing ever comes to rest"
        );
        return settle_by_thread().await;
    }
    let before = PARKS.get();
    poll_fn(|context| {
        if PARKS.get() != before {
            return Poll::Ready(());
        }
        WAITING.with_borrow_mut(|waiting| waiting.push(context.waker().clone()));
        Poll::Pending
    })
    .await;
}

/// Waits until a runtime without the hook of [`run_virtual`] has parked: until then nothing else can run, and while a
/// blocking task runs, tokio does not move paused time.
async fn settle_by_thread() {
    let runtime = tokio::runtime::Handle::current();
    // The scheduler publishes the number when it parks; an odd number means that it is parked.
    let parks = move || runtime.metrics().worker_park_unpark_count(0);
    let before = parks();
    let observer = tokio::task::spawn_blocking(move || {
        let mut pause = Duration::from_micros(10);
        loop {
            let now = parks();
            if now > before && now % 2 == 1 {
                return;
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(1));
        }
    });
    // The observer neither panics nor is it cancelled while this waits.
    let _ = observer.await;
}

/// Returns true in a runtime whose time is virtual: that of [`run_virtual`], or any that tokio has paused.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "compares tokio's clock with the system's")]
pub fn is_paused() -> bool {
    if VIRTUAL.get() {
        return true;
    }
    if tokio::runtime::Handle::try_current().is_err() {
        return false;
    }
    let system = std::time::Instant::now();
    let tokio = tokio::time::Instant::now();
    while system.elapsed() < Duration::from_micros(5) {
        std::hint::spin_loop();
    }
    tokio.elapsed().is_zero()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use tokio::sync::mpsc;

    use super::*;

    fn virtually<F: Future>(future: F) -> F::Output {
        run_virtual(future).expect("a runtime")
    }

    #[test]
    fn chains_of_yields_and_channels_end_before_settle_returns() {
        virtually(async {
            let clock = Clock::virtual_from(epoch());
            let done = Arc::new(AtomicU64::new(0));
            for _ in 0..50 {
                let (mut sender, mut receiver) = mpsc::channel::<u32>(1);
                let first = sender.clone();
                for _ in 0..20 {
                    let (next_sender, next_receiver) = mpsc::channel(1);
                    let mut input = std::mem::replace(&mut receiver, next_receiver);
                    sender = next_sender;
                    let output = sender.clone();
                    tokio::spawn(async move {
                        while let Some(value) = input.recv().await {
                            for _ in 0..7 {
                                tokio::task::yield_now().await;
                            }
                            tokio::spawn({
                                let output = output.clone();
                                async move { output.send(value + 1).await }
                            });
                        }
                    });
                }
                let done = done.clone();
                tokio::spawn(async move {
                    while let Some(value) = receiver.recv().await {
                        done.fetch_add(u64::from(value), Ordering::SeqCst);
                    }
                });
                first.send(0).await.expect("the chain lives");
                drop(sender);
            }
            settle().await;
            assert_eq!(done.load(Ordering::SeqCst), 50 * 20);
            assert_eq!(clock.elapsed(), Duration::ZERO);
        });
    }

    #[test]
    fn ports_and_signals_do_not_hold_up_time() {
        let elapsed = run_virtual_with_io(async {
            let clock = Clock::virtual_from(epoch());
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
            tokio::spawn(async move { listener.accept().await.map(|_| ()) });
            tokio::spawn(tokio::signal::ctrl_c());
            settle().await;
            assert_eq!(clock.elapsed(), Duration::ZERO);
            clock.sleep(Duration::from_hours(3)).await;
            settle().await;
            clock.elapsed()
        });
        assert_eq!(elapsed.expect("a runtime"), Duration::from_hours(3));
    }

    #[test]
    fn time_does_not_move_while_timers_are_pending() {
        virtually(async {
            let clock = Clock::virtual_from(epoch());
            let fired = Arc::new(AtomicU64::new(0));
            tokio::spawn({
                let clock = clock.clone();
                let fired = fired.clone();
                async move {
                    loop {
                        clock.sleep(Duration::from_millis(1)).await;
                        fired.fetch_add(1, Ordering::SeqCst);
                    }
                }
            });
            for _ in 0..1000 {
                settle().await;
            }
            assert_eq!((fired.load(Ordering::SeqCst), clock.elapsed()), (0, Duration::ZERO));
            clock.sleep_until_offset(Duration::from_millis(10)).await;
            assert_eq!(clock.elapsed(), Duration::from_millis(10));
        });
    }

    #[test]
    fn timers_due_now_fire_before_settle_returns() {
        virtually(async {
            let clock = Clock::virtual_from(epoch());
            let fired = Arc::new(AtomicU64::new(0));
            for _ in 0..100 {
                let clock = clock.clone();
                let fired = fired.clone();
                tokio::spawn(async move {
                    clock.sleep_until_offset(Duration::from_secs(40)).await;
                    tokio::task::yield_now().await;
                    fired.fetch_add(1, Ordering::SeqCst);
                });
            }
            clock.sleep_until_offset(Duration::from_millis(39_999)).await;
            settle().await;
            assert_eq!(fired.load(Ordering::SeqCst), 0);
            clock.sleep_until_offset(Duration::from_secs(40)).await;
            settle().await;
            assert_eq!(fired.load(Ordering::SeqCst), 100);
            assert_eq!(clock.now(), epoch() + SignedDuration::from_secs(40));
        });
    }

    #[test]
    fn settle_in_a_spawned_task_works_too() {
        virtually(async {
            let (sender, mut receiver) = mpsc::channel(8);
            let settled = tokio::spawn(async move {
                settle().await;
                receiver.len() + usize::from(receiver.try_recv().is_ok())
            });
            tokio::spawn(async move {
                for value in 0..3 {
                    tokio::task::yield_now().await;
                    sender.send(value).await.expect("open");
                }
                std::future::pending::<()>().await;
            });
            assert_eq!(settled.await.expect("no panic"), 4);
        });
    }

    #[test]
    fn a_panic_leaves_the_thread_usable() {
        let caught = std::panic::catch_unwind(|| virtually(async { panic!("expected by the test") }));
        assert!(caught.is_err());
        virtually(settle());
    }

    /// The runtime of `#[tokio::test(start_paused = true)]`.
    fn paused() -> tokio::runtime::Runtime {
        tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().expect("a runtime")
    }

    #[test]
    fn settle_works_in_other_runtimes_with_paused_time() {
        paused().block_on(async {
            assert!(is_paused());
            let clock = Clock::virtual_from(epoch());
            let done = Arc::new(AtomicU64::new(0));
            for _ in 0..20 {
                let clock = clock.clone();
                let done = done.clone();
                tokio::spawn(async move {
                    clock.sleep_until_offset(Duration::from_secs(40)).await;
                    for _ in 0..50 {
                        tokio::task::yield_now().await;
                    }
                    done.fetch_add(1, Ordering::SeqCst);
                    clock.sleep(Duration::from_secs(1)).await;
                    done.fetch_add(100, Ordering::SeqCst);
                });
            }
            settle().await;
            assert_eq!((done.load(Ordering::SeqCst), clock.elapsed()), (0, Duration::ZERO));
            clock.sleep_until_offset(Duration::from_secs(40)).await;
            settle().await;
            settle().await;
            assert_eq!((done.load(Ordering::SeqCst), clock.elapsed()), (20, Duration::from_secs(40)));
        });
    }

    #[test]
    fn time_is_virtual_or_not() {
        assert!(!is_paused(), "no runtime");
        assert!(virtually(async { is_paused() }));
        assert!(!run_wall(async { is_paused() }).expect("a runtime"));
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "a runtime without the hook")]
    fn settle_refuses_the_wall_clock() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
        let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            runtime.block_on(async { tokio::time::timeout(Duration::from_secs(1), settle()).await })
        }));
        assert!(caught.is_err());
    }

    #[test]
    fn a_skewed_clock_is_wrong_in_all_clones() {
        virtually(async {
            let clock = Clock::virtual_from(epoch());
            let clone = clock.clone();
            clock.set_skew(SignedDuration::from_secs(-90));
            clock.sleep(Duration::from_secs(5)).await;
            assert_eq!(clone.now(), epoch() - SignedDuration::from_secs(85));
            assert_eq!(clone.elapsed(), Duration::from_secs(5));
        });
    }

    #[test]
    fn a_rebased_clock_counts_from_the_new_epoch_in_all_clones() {
        virtually(async {
            let clock = Clock::virtual_from(epoch());
            let clone = clock.clone();
            clock.sleep(Duration::from_secs(5)).await;
            clock.rebase(Duration::from_secs(3));
            assert_eq!(
                (clone.elapsed(), clone.epoch()),
                (Duration::from_secs(2), epoch() + SignedDuration::from_secs(3))
            );
            assert_eq!(clone.now(), epoch() + SignedDuration::from_secs(5), "the time of day is what it was");
            clone.sleep_until_offset(Duration::from_secs(10)).await;
            assert_eq!(clock.elapsed(), Duration::from_secs(10));
            clock.rebase(Duration::from_secs(20));
            assert_eq!(clone.elapsed(), Duration::ZERO, "before the epoch");
        });
    }

    #[test]
    fn a_day_passes_in_no_time() {
        virtually(async {
            let clock = Clock::virtual_from(epoch());
            clock.sleep_until(epoch() + SignedDuration::from_hours(24)).await;
            assert_eq!(clock.elapsed(), Duration::from_hours(24));
            assert_eq!(clock.timeout(Duration::from_secs(5), std::future::pending::<()>()).await, None);
            assert_eq!(clock.elapsed(), Duration::from_hours(24) + Duration::from_secs(5));
        });
    }
}
