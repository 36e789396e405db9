//! Makes the random numbers of a test program repeatable, for controllers whose behaviour depends on the order of hash
//! maps, as that of kube-runtime's `Controller` does when several objects are due at the same instant.
//!
//! After [`seed`], the random numbers of each thread that starts later are one sequence, the same for each thread and
//! in each run of the program: those of the standard library's hash maps, of the crate `getrandom` and with it `rand`,
//! and of `ahash`. It replaces the C library's function `getrandom` in the program, as madsim and mad-turmoil do, on
//! Linux.
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
//! **For tests only**: keys that the program makes are not secret any more.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

/// The seed; 0 while there is none.
static SEED: AtomicU64 = AtomicU64::new(0);

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

#[cfg(all(test, target_os = "linux"))]
#[expect(clippy::disallowed_types, reason = "their order is what is tested")]
mod tests {
    use std::collections::HashSet;
    use std::thread::spawn;

    use super::*;

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
