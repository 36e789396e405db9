//! Ctrl-C and SIGTERM: what runs comes to its end in order, so that nothing stays behind, in somebody's cluster neither.
//!
//! The first signal ends waiting: subjects are stopped, stages cleared, the report written with what is missing as `not-run`. The
//! second one, or the first when that takes too long, ends the harness at once; guards and helpers then clean up as after SIGKILL.

use std::io::Write as _;
use std::sync::{LazyLock, Once, OnceLock};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::exit::Exit;
use crate::time::Clock;

/// How long an orderly end may take.
const GRACE: Duration = Duration::from_mins(1);

static REQUESTED: LazyLock<CancellationToken> = LazyLock::new(CancellationToken::new);
static SIGNAL: OnceLock<&str> = OnceLock::new();

/// Takes the signals from now on. Only for verbs that look at [`requested`].
pub(crate) fn heed() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        // Without a runtime signals do what they always did.
        if let Ok(runtime) = runtime {
            std::thread::spawn(move || runtime.block_on(listen()));
        }
    });
}

#[expect(clippy::exit, reason = "whoever asks twice wants it to end, and guards clean up")]
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
    let _ = writeln!(std::io::stderr(), "plumbline: {name}: ending what was started; once more ends at once");
    let _ = Clock::wall().timeout(GRACE, next()).await;
    std::process::exit(Exit::Environment.code().into());
}

/// The signal that asked the run to end, if one did.
pub(crate) fn requested() -> Option<&'static str> {
    SIGNAL.get().copied()
}

/// Waits until a signal asks the run to end, and names it.
pub(crate) async fn signalled() -> &'static str {
    REQUESTED.cancelled().await;
    requested().unwrap_or("a signal")
}
