//! The progress of a run as lines, for logs and files: a bar is for terminals.

use std::fs;
use std::time::Duration;

/// Time between two lines.
const INTERVAL: Duration = Duration::from_secs(15);

/// Counts the fixtures that have ended, and says from time to time how far the run is.
#[derive(Debug, Default)]
pub(super) struct ProgressLines {
    total: usize,
    done: usize,
    begun: Option<Duration>,
    shown: Option<Duration>,
}

impl ProgressLines {
    /// Begins with so many fixtures.
    pub(super) fn begin(&mut self, total: usize) {
        self.total = total;
        self.begun = uptime();
        self.shown = self.begun;
    }

    /// Counts a fixture. Returns a line if it is time for one.
    pub(super) fn next(&mut self, failed: usize) -> Option<String> {
        self.next_at(uptime()?, failed)
    }

    fn next_at(&mut self, now: Duration, failed: usize) -> Option<String> {
        self.done += 1;
        let (begun, shown) = (self.begun?, self.shown?);
        if now.saturating_sub(shown) < INTERVAL || self.done >= self.total {
            return None;
        }
        self.shown = Some(now);
        let each = now.saturating_sub(begun) / u32::try_from(self.done).unwrap_or(u32::MAX);
        let left = each * u32::try_from(self.total - self.done).unwrap_or(u32::MAX);
        let failed = if failed == 0 { String::new() } else { format!(", {failed} failed") };
        Some(format!("{} of {} fixtures{failed}, about {} left", self.done, self.total, minutes(left)))
    }
}

fn minutes(left: Duration) -> String {
    match left.as_secs() {
        seconds @ 0..100 => format!("{seconds} s"),
        seconds => format!("{} min", (seconds + 30) / 60),
    }
}

/// Returns how long the machine has been running, if it says so: the time in which people wait. The clock of a run in
/// virtual time is another.
fn uptime() -> Option<Duration> {
    let text = fs::read_to_string("/proc/uptime").ok()?;
    Duration::try_from_secs_f64(text.split(' ').next()?.parse().ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_at_intervals() {
        let seconds = Duration::from_secs;
        let mut lines = ProgressLines { total: 100, done: 0, begun: Some(seconds(10)), shown: Some(seconds(10)) };
        assert_eq!(lines.next_at(seconds(20), 0), None);
        assert_eq!(lines.next_at(seconds(26), 1).as_deref(), Some("2 of 100 fixtures, 1 failed, about 13 min left"));
        assert_eq!(lines.next_at(seconds(30), 1), None);
        lines.done = 98;
        assert_eq!(lines.next_at(seconds(60), 0).as_deref(), Some("99 of 100 fixtures, about 0 s left"));
        assert_eq!(lines.next_at(seconds(90), 0), None, "the report follows");
    }
}
