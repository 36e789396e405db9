//! Makes the random numbers of a test program repeatable, for controllers whose behaviour depends on the order of hash
//! maps, as that of kube-runtime's `Controller` does when several objects are due at the same instant.
//!
//! After [`seed`], the random numbers of each thread that starts later are one sequence, the same for each thread and
//! in each run of the program: those of the standard library's hash maps, of the crate `getrandom` and with it `rand`,
//! and of `ahash`. It replaces the C library's functions in the program, as madsim and mad-turmoil do, on Linux.
//!
//! ```
//! plumbline_entropy::seed(7);
//! let order = || {
//!     let map: std::collections::HashMap<u8, ()> = (0..50).map(|key| (key, ())).collect();
//!     map.into_keys().collect::<Vec<u8>>()
//! };
//! let first = std::thread::spawn(order).join().unwrap();
//! assert_eq!(first, std::thread::spawn(order).join().unwrap());
//! ```
//!
//! [`follow`] does the same for the system's clock: a controller that reads it, as kube-runtime's `Recorder` does, sees
//! the time of its world.
//!
//! **For tests only**: keys that the program makes are not secret any more.

use std::cell::Cell;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The seed; 0 while there is none.
static SEED: AtomicU64 = AtomicU64::new(0);

/// Returns the time of day since 1970 on the present thread; `None` on threads that have the system's time.
pub type TimeOfDay = fn() -> Option<Duration>;

/// The source of the time of day.
static TIME: OnceLock<TimeOfDay> = OnceLock::new();

thread_local! {
    /// The state of the thread's sequence; `None` before its first number.
    static STATE: Cell<Option<u64>> = const { Cell::new(None) };
}

/// Seeds the random numbers of all threads that start from now on. The seeds 0 and 1 are the same.
///
/// Call it before anything else in the process uses `ahash`, whose source cannot be changed later.
pub fn seed(seed: u64) {
    SEED.store(seed.max(1), Ordering::SeqCst);
    // Fails after the first call.
    let _ = ahash::random_state::set_random_source(Constant);
    // It draws its keys once in a process: here, so that no test's sequence is shorter than that of the next one.
    let _ = ahash::RandomState::new();
}

/// Shows the time of day that `source` returns as the system's time: in `SystemTime::now` and all that is built on it.
/// Monotonic clocks, such as `Instant`, are not affected. The first call counts.
///
/// ```
/// plumbline_entropy::follow(|| Some(std::time::Duration::from_secs(1_893_456_000)));
/// let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
/// assert_eq!(now.as_secs(), 1_893_456_000); // 2030-01-01
/// ```
pub fn follow(source: TimeOfDay) {
    TIME.get_or_init(|| source);
}

/// Gives equal hashers to equal maps.
struct Constant;

impl ahash::random_state::RandomSource for Constant {
    fn gen_hasher_seed(&self) -> usize {
        0
    }
}

/// Returns the next eight bytes of the thread's sequence; `None` without a seed.
fn next() -> Option<[u8; 8]> {
    let seed = SEED.load(Ordering::SeqCst);
    if seed == 0 {
        return None;
    }
    // SplitMix64. A thread that ends has no state any more, and starts again.
    let step = |state: &Cell<Option<u64>>| {
        let moved = state.get().unwrap_or(seed).wrapping_add(0x9e37_79b9_7f4a_7c15);
        state.set(Some(moved));
        moved
    };
    let mut z = STATE.try_with(step).unwrap_or(seed);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    Some((z ^ (z >> 31)).to_le_bytes())
}

/// Replaces the function of the C library.
///
/// # Safety
///
/// As `getrandom(2)`: `buffer` points to `length` writable bytes.
#[cfg(target_os = "linux")]
#[unsafe(no_mangle)]
#[expect(unsafe_code, reason = "this symbol takes the place of the C library's")]
unsafe extern "C" fn getrandom(buffer: *mut u8, length: usize, flags: u32) -> isize {
    if SEED.load(Ordering::SeqCst) == 0 {
        // SAFETY: the caller's buffer, passed on.
        let written = unsafe { libc::syscall(libc::SYS_getrandom, buffer, length, flags) };
        return isize::try_from(written).unwrap_or(-1);
    }
    // SAFETY: the caller's buffer of `length` bytes, which nothing else uses during the call.
    let bytes = unsafe { std::slice::from_raw_parts_mut(buffer, length) };
    for part in bytes.chunks_mut(8) {
        let random = next().unwrap_or_default();
        part.copy_from_slice(&random[..part.len()]);
    }
    isize::try_from(length).unwrap_or(-1)
}

/// Replaces the function of the C library.
///
/// # Safety
///
/// As `clock_gettime(2)`: `time` points to a writable `timespec`.
#[cfg(target_os = "linux")]
#[unsafe(no_mangle)]
#[expect(unsafe_code, reason = "this symbol takes the place of the C library's")]
unsafe extern "C" fn clock_gettime(clock: libc::clockid_t, time: *mut libc::timespec) -> libc::c_int {
    let is_time_of_day = matches!(clock, libc::CLOCK_REALTIME | libc::CLOCK_REALTIME_COARSE);
    let followed = TIME.get().filter(|_| is_time_of_day).and_then(|source| source());
    let Some(now) = followed.and_then(|now| Some((now.as_secs().try_into().ok()?, now.subsec_nanos().into()))) else {
        // SAFETY: the caller's arguments, passed on.
        let failed = unsafe { libc::syscall(libc::SYS_clock_gettime, clock, time) };
        return if failed == 0 { 0 } else { -1 };
    };
    // SAFETY: the caller's `timespec`, which nothing else uses during the call.
    unsafe { time.write(libc::timespec { tv_sec: now.0, tv_nsec: now.1 }) };
    0
}

#[cfg(all(test, target_os = "linux"))]
#[expect(clippy::disallowed_types, reason = "their order is what is tested")]
mod tests {
    use std::collections::HashSet;
    use std::thread::spawn;

    use super::*;

    thread_local! {
        static NOW: Cell<Option<Duration>> = const { Cell::new(None) };
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "the system's clock is what is tested")]
    fn the_time_of_day_is_that_of_the_thread() {
        let seen = || std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("a time after 1970");
        let real = seen();
        follow(|| NOW.get());
        assert!(seen() >= real);
        let wanted = Duration::new(1_893_456_000, 5);
        NOW.set(Some(wanted));
        let begin = std::time::Instant::now();
        assert_eq!((seen(), seen()), (wanted, wanted));
        assert!(begin.elapsed() < Duration::from_mins(5), "monotonic time goes on");
        assert!(spawn(seen).join().expect("a time") < wanted, "other threads have the system's time");
    }

    /// One test: a seed is for the whole process.
    #[test]
    fn threads_have_one_sequence_after_a_seed() {
        let draw = || {
            let mut bytes = [0; 12];
            getrandom::fill(&mut bytes).expect("random bytes");
            let order: Vec<u8> = (0..50).collect::<HashSet<u8>>().into_iter().collect();
            (bytes, order)
        };
        let apart = || (spawn(draw).join().expect("a draw"), spawn(draw).join().expect("a draw"));
        let (one, other) = apart();
        assert!(one.0 != other.0 && one.1 != other.1, "without a seed, they are random");
        seed(7);
        let (one, other) = apart();
        assert_eq!(one, other);
        let order = || (0..50).collect::<ahash::HashSet<u8>>().into_iter().collect::<Vec<u8>>();
        assert_eq!(spawn(order).join().expect("an order"), spawn(order).join().expect("an order"));
        seed(8);
        assert_ne!(one.0, apart().0.0);
    }
}
