//! Ends a test in which nothing happens: wakes a future from another thread every [`TICK`] of wall time, so that it can
//! look whether virtual time or the transcript has moved.

use std::io::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::task::Waker;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

/// Wall time between two wake-ups.
pub(super) const TICK: Duration = Duration::from_millis(100);

/// Ticks without a poll after which a task is taken to block the thread: 60 s.
const BLOCKED: u64 = 600;

/// A future that the watchdog wakes, for as long as this exists.
#[derive(Debug, Default)]
pub(super) struct Tick {
    count: AtomicU64,
    /// Value of `count` at the last poll.
    polled: AtomicU64,
    waker: Mutex<Option<Waker>>,
}

#[derive(Debug, Default)]
struct Watchdog {
    ticks: Mutex<Vec<Weak<Tick>>>,
    added: Condvar,
}

static WATCHDOG: OnceLock<&'static Watchdog> = OnceLock::new();

impl Tick {
    /// Registers a future.
    pub(super) fn register() -> Arc<Self> {
        let watchdog = WATCHDOG.get_or_init(|| {
            let watchdog: &'static Watchdog = Box::leak(Box::default());
            // Without the thread a stuck test hangs, which is no reason to fail all others.
            let _ = std::thread::Builder::new().name("plumbline-watchdog".to_owned()).spawn(|| watchdog.run());
            watchdog
        });
        let tick = Arc::new(Self::default());
        watchdog.ticks.lock().push(Arc::downgrade(&tick));
        watchdog.added.notify_one();
        tick
    }

    /// Returns the number of ticks so far, and has `waker` woken at the next one.
    pub(super) fn next(&self, waker: &Waker) -> u64 {
        *self.waker.lock() = Some(waker.clone());
        let count = self.count.load(Ordering::Relaxed);
        self.polled.store(count, Ordering::Relaxed);
        count
    }

    fn strike(&self) {
        let count = self.count.fetch_add(1, Ordering::Relaxed) + 1;
        if count - self.polled.load(Ordering::Relaxed) == BLOCKED {
            // Printed past the test program, which shows the output of a test only after its end.
            let text = format!(
                "plumbline: the thread of a world has been blocked for {} s; a controller must not sleep, wait for a \
                 lock or block on a future in it\n",
                (TICK * u32::try_from(BLOCKED).unwrap_or_default()).as_secs()
            );
            let _ = std::io::stderr().write_all(text.as_bytes());
        }
        if let Some(waker) = self.waker.lock().take() {
            waker.wake();
        }
    }
}

impl Watchdog {
    fn run(&self) {
        loop {
            std::thread::sleep(TICK);
            let mut ticks = self.ticks.lock();
            ticks.retain(|tick| tick.strong_count() > 0);
            while ticks.is_empty() {
                self.added.wait(&mut ticks);
            }
            let live: Vec<Arc<Tick>> = ticks.iter().filter_map(Weak::upgrade).collect();
            drop(ticks);
            for tick in live {
                tick.strike();
            }
        }
    }
}
