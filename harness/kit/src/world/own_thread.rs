//! Threads of runs that are compared.

use parking_lot::Mutex;

/// Stack of the threads of runs that are compared: so large that the C library keeps it for the next one, and gives it
/// to no other thread.
pub(super) const STACK: usize = 16 << 20;

/// Held by the test whose runs are compared.
pub(super) static COMPARED: Mutex<()> = Mutex::new(());

/// Calls `run` in a thread of its own. The random numbers of one thread would go on from run to run.
pub(super) fn in_own_thread<T: Send>(run: impl FnOnce() -> T + Send) -> std::io::Result<T> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(STACK).spawn_scoped(scope, run)?;
        Ok(thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    })
}
