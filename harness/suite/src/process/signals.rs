//! Ctrl-C and SIGTERM: the run ends in order, so that nothing is left behind, in a shared cluster either.
//!
//! The first signal cancels waiting: subjects are stopped, sandboxes are cleared, and the report is written with the
//! missing fixtures as `not-run`. A second signal, or a shutdown that takes too long, ends the harness at once; guards
//! and crash cleanup helpers then clean up as after SIGKILL.

use std::io::Write as _;
use std::sync::{LazyLock, Once, OnceLock};
use std::time::Duration;

use plumbline::time::Clock;
use tokio_util::sync::CancellationToken;

use crate::exit::Exit;

/// Time limit for an orderly shutdown.
const GRACE: Duration = Duration::from_mins(1);

static REQUESTED: LazyLock<CancellationToken> = LazyLock::new(CancellationToken::new);
static SIGNAL: OnceLock<&str> = OnceLock::new();

/// Installs the signal handlers. Only for verbs that check [`requested`].
pub fn install() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        // Without a runtime the signals keep their default action.
        if let Ok(runtime) = runtime {
            std::thread::spawn(move || runtime.block_on(listen()));
        }
    });
}

#[expect(clippy::exit, reason = "a second signal ends the process at once; guards clean up")]
async fn listen() {
    use tokio::signal::unix::{SignalKind, signal};
    let (Ok(mut interrupt), Ok(mut terminate)) = (signal(SignalKind::interrupt()), signal(SignalKind::terminate()))
    else {
        return;
    };
    let mut next = async || {
        tokio::select! { _ = interrupt.recv() => "SIGINT", _ = terminate.recv() => "SIGTERM" }
    };
    let name = next().await;
    let _ = SIGNAL.set(name);
    REQUESTED.cancel();
    let text = format!("plumbline: {name}: shutting down; send it again to exit immediately\n");
    let _ = std::io::stderr().write_all(text.as_bytes());
    let _ = Clock::wall().timeout(GRACE, next()).await;
    std::process::exit(Exit::Environment.code().into());
}

/// The signal that requested the end of the run, if any.
pub fn requested() -> Option<&'static str> {
    SIGNAL.get().copied()
}

/// Waits until a signal requests the end of the run, and returns its name.
pub async fn signalled() -> &'static str {
    REQUESTED.cancelled().await;
    requested().unwrap_or("a signal")
}
