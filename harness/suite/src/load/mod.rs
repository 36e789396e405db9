//! Load of the machine during runs on the wall clock, and the conclusions from it.
//!
//! A busy machine delays the subject, the server and the steps. Such a run says nothing about the subject.
//!
//! - [`RunLoad`]: measurements during one run · [`MachineLoad`], [`FixtureLoad`]: their summaries in reports
//! - [`doubt`]: decides whether a run counts · [`capacity`]: chooses the number of fixtures that run in parallel

pub mod capacity;
pub mod doubt;

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Measurements during one run of a fixture, from `t=+0s` on if the run got that far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunLoad {
    /// Lateness of each timer of the harness.
    pub delays: Vec<Duration>,
    /// Length of the observation.
    pub observed: Duration,
    /// Processor time that the subject's processes used.
    pub used: Duration,
    /// Time that threads of the subject and the fixture's own thread were ready to run and waited for a processor.
    pub waited: Duration,
    /// The largest part of `waited` within [`WINDOW`].
    pub worst_wait: Duration,
    /// Processor time that other programs used in that window; `None` if it is not measured.
    pub others: Option<Duration>,
    /// The longest time that the subject was ready to run and got no processor time at all.
    pub stalled: Duration,
    /// Time that a process of the subject was stopped by a signal.
    pub stopped: Duration,
    /// Starts of the subject after `t=+0s`.
    pub launches: Vec<LaunchTime>,
}

/// Length of the window of [`RunLoad::worst_wait`].
pub const WINDOW: Duration = Duration::from_secs(2);

/// A start of the subject and the time until its first request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LaunchTime {
    /// The time of the start, since `t=+0s`.
    pub at: Duration,
    /// Time from the start to the first request, or to the end of the observation if there was none.
    pub silent: Duration,
    /// True if it made a request.
    pub requested: bool,
}

/// Cost of one start of the subject, measured while nothing else of this run was going on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StartCost {
    /// Time until its first request.
    pub first_request: Duration,
    /// Time until it had requested everything that its controllers need.
    pub ready: Duration,
    /// Processor time of the subject and of the fixture's thread.
    pub used: Duration,
    /// Time that the two waited for a processor.
    pub waited: Duration,
    /// Resident memory of the subject, in bytes; 0 if unknown.
    pub resident: u64,
}

/// Lateness of timers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Lateness {
    /// The largest lateness, in milliseconds.
    pub max_millis: u64,
    /// The lateness that 95 of 100 timers did not exceed, in milliseconds.
    pub p95_millis: u64,
}

impl Lateness {
    /// Computes the figures of `delays`, in any order.
    #[must_use]
    pub fn of(delays: &[Duration]) -> Self {
        let mut sorted = delays.to_vec();
        sorted.sort_unstable();
        let rank = (sorted.len() * 95).div_ceil(100);
        let at = |index: usize| sorted.get(index).copied().map_or(0, millis);
        Self { max_millis: at(sorted.len().wrapping_sub(1)), p95_millis: at(rank.wrapping_sub(1)) }
    }
}

/// Load of the machine during a whole run on the wall clock.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MachineLoad {
    /// Number of processors available to the program.
    pub cores: usize,
    /// Number of fixtures that ran in parallel.
    pub jobs: usize,
    /// The highest load average over one minute that was seen at the end of a fixture; absent if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load_average: Option<f64>,
    /// Lateness of the harness's timers.
    pub lateness: Lateness,
    /// Number of fixtures that were repeated alone because their first run was inconclusive.
    pub repeated: usize,
}

/// Load during one fixture.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FixtureLoad {
    /// Lateness of the harness's timers.
    pub lateness: Lateness,
    /// Processor time that the subject used, in milliseconds; 0 if it is no process of the harness.
    pub subject_used_millis: u64,
    /// Time that the subject and the fixture's thread waited for a processor, in milliseconds.
    pub waited_millis: u64,
    /// Time that the subject was stopped by a signal, in milliseconds.
    pub stopped_millis: u64,
    /// Load average over one minute at the end; absent if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load_average: Option<f64>,
    /// The reason why an earlier run was inconclusive, if the fixture was then repeated alone.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub repeated: String,
}

impl FixtureLoad {
    /// Summarizes the measurements of a run that ended now.
    #[must_use]
    pub fn of(load: &RunLoad) -> Self {
        Self {
            lateness: Lateness::of(&load.delays),
            subject_used_millis: millis(load.used),
            waited_millis: millis(load.waited),
            stopped_millis: millis(load.stopped),
            load_average: load_average(),
            repeated: String::new(),
        }
    }
}

/// Returns the number of processors available to the program.
#[must_use]
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// Returns the load average over one minute; `None` without `/proc`.
#[must_use]
pub fn load_average() -> Option<f64> {
    parse_load_average(&std::fs::read_to_string("/proc/loadavg").ok()?)
}

fn parse_load_average(text: &str) -> Option<f64> {
    text.split(' ').next()?.parse().ok()
}

/// Returns the memory that new programs can use, in bytes; `None` without `/proc`.
#[must_use]
pub fn available_memory() -> Option<u64> {
    crate::process::tree::kilobytes(&std::fs::read_to_string("/proc/meminfo").ok()?, "MemAvailable:")
}

/// Returns whole milliseconds.
pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::none(&[], (0, 0))]
    #[case::one(&[7], (7, 7))]
    #[case::one_in_twenty_is_above(&[1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 5, 900], (900, 5))]
    #[case::two_in_twenty(&[900, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 900], (900, 900))]
    fn lateness_is_the_maximum_and_a_percentile(#[case] delays: &[u64], #[case] (max_millis, p95_millis): (u64, u64)) {
        let delays: Vec<Duration> = delays.iter().copied().map(Duration::from_millis).collect();
        assert_eq!(Lateness::of(&delays), Lateness { max_millis, p95_millis });
    }

    #[test]
    fn the_load_average_is_the_first_number() {
        assert_eq!(parse_load_average("4.69 2.85 1.38 8/168 21841\n"), Some(4.69));
        assert_eq!(parse_load_average(""), None);
    }
}
