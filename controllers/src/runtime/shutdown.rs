//! Shutdown on signals.

use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// Cancels `stop` on SIGTERM or SIGINT and returns the signal's name.
///
/// # Errors
/// If the signal handlers cannot be installed.
pub async fn on_signal(stop: &CancellationToken) -> std::io::Result<&'static str> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let name = tokio::select! {
        biased;
        _ = terminate.recv() => "SIGTERM",
        _ = interrupt.recv() => "SIGINT",
    };
    stop.cancel();
    Ok(name)
}
