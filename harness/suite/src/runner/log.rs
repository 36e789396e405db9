//! Collects the subject's log while a fixture runs: warnings and errors, with virtual times.

use std::cell::RefCell;
use std::fmt;
use std::io;
use std::sync::LazyLock;

use plumbline::time::Clock;
use plumbline::transcript::redact;
use tracing::Dispatch;
use tracing::level_filters::LevelFilter;
use tracing::subscriber::DefaultGuard;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::FormatTime;

/// Maximum size in bytes; a longer log usually repeats itself.
const LIMIT: usize = 64 * 1024;

thread_local! {
    /// The clock and the text of this thread's log, while [`LogCapture`] collects it.
    static LOG: RefCell<Option<(Clock, Vec<u8>)>> = const { RefCell::new(None) };
}

/// Writes the events of each thread into its log. One for the process: a subscriber costs more than most runs log.
static WRITER: LazyLock<Dispatch> = LazyLock::new(|| {
    let subscriber = tracing_subscriber::fmt().with_max_level(LevelFilter::WARN).with_ansi(false);
    Dispatch::new(subscriber.with_timer(VirtualTime).with_writer(|| ThreadLog).finish())
});

/// Collects this thread's log until it is dropped.
pub struct LogCapture {
    outer: Option<(Clock, Vec<u8>)>,
    _guard: DefaultGuard,
}

impl LogCapture {
    /// Starts collecting on this thread.
    #[must_use]
    pub fn collect(clock: &Clock) -> Self {
        let outer = LOG.replace(Some((clock.clone(), Vec::new())));
        Self { outer, _guard: tracing::dispatcher::set_default(&WRITER) }
    }

    /// Returns the lines so far.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        LOG.with_borrow(|log| {
            let text = log.as_ref().map(|(_, text)| String::from_utf8_lossy(text)).unwrap_or_default();
            text.lines().map(str::to_owned).collect()
        })
    }
}

impl Drop for LogCapture {
    fn drop(&mut self) {
        LOG.set(self.outer.take());
    }
}

struct VirtualTime;

impl FormatTime for VirtualTime {
    fn format_time(&self, writer: &mut Writer<'_>) -> fmt::Result {
        LOG.with_borrow(|log| match log {
            Some((clock, _)) => writer.write_str(&redact::at(clock.elapsed())),
            None => Ok(()),
        })
    }
}

struct ThreadLog;

impl io::Write for ThreadLog {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        LOG.with_borrow_mut(|log| {
            if let Some((_, text)) = log.as_mut().filter(|(_, text)| text.len() < LIMIT) {
                text.extend_from_slice(bytes);
            }
        });
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_carry_virtual_time() {
        let lines = plumbline::time::run_virtual(async {
            let clock = Clock::virtual_from(plumbline::time::epoch());
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
