//! Collects the subject's log while a fixture runs: warnings and errors, with virtual times.

use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use tracing::level_filters::LevelFilter;
use tracing::subscriber::DefaultGuard;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::FormatTime;

use crate::time::Clock;
use crate::transcript::redact;

/// Maximum size in bytes; a longer log usually repeats itself.
const LIMIT: usize = 64 * 1024;

/// Collects this thread's log until it is dropped.
pub struct LogCapture {
    text: Buffer,
    _guard: DefaultGuard,
}

impl LogCapture {
    /// Starts collecting on this thread.
    #[must_use]
    pub fn collect(clock: &Clock) -> Self {
        let text = Buffer::default();
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(LevelFilter::WARN)
            .with_ansi(false)
            .with_timer(VirtualTime(clock.clone()))
            .with_writer(text.clone())
            .finish();
        Self { text, _guard: tracing::subscriber::set_default(subscriber) }
    }

    /// Returns the lines so far.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let bytes = self.text.0.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&bytes).lines().map(str::to_owned).collect()
    }
}

struct VirtualTime(Clock);

impl FormatTime for VirtualTime {
    fn format_time(&self, writer: &mut Writer<'_>) -> fmt::Result {
        writer.write_str(&redact::at(self.0.elapsed()))
    }
}

#[derive(Clone, Default)]
struct Buffer(Arc<Mutex<Vec<u8>>>);

impl io::Write for Buffer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut text = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if text.len() < LIMIT {
            text.extend_from_slice(bytes);
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Buffer {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_carry_virtual_time() {
        let lines = crate::time::run_virtual(async {
            let clock = Clock::virtual_from(crate::time::epoch());
            let log = LogCapture::collect(&clock);
            clock.sleep(std::time::Duration::from_secs(40)).await;
            tracing::info!("not this");
            tracing::warn!(pod = "a", "this");
            log.lines()
        });
        let lines = lines.expect("a runtime");
        assert!(
            lines.len() == 1 && lines[0].starts_with("t=+40s  WARN") && lines[0].ends_with("this pod=\"a\""),
            "{lines:?}"
        );
    }
}
