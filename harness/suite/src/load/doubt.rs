//! PURE. Decides whether the run of a fixture says anything about its subject.
//!
//! A reaction that is missing or late proves nothing if the subject could not run: it was stopped, got no processor, or
//! needed longer for a restart than the machine normally takes. The same holds if the harness itself was late.

use std::time::Duration;

use super::{RunLoad, WINDOW};

/// A restart may take this many times as long as the start in the rehearsal.
const RESTART_FACTOR: u32 = 3;
/// A restart may take at least this much longer than the start in the rehearsal.
const RESTART_MARGIN: Duration = Duration::from_secs(2);

/// Other programs may use this part of the time that the subject and its server wait: one of so many.
const OTHERS_PART: u32 = 4;

/// Everything but the measurements that the decision needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunConditions {
    /// True if the fixture failed.
    pub failed: bool,
    /// True if no other fixture ran at the same time.
    pub alone: bool,
    /// Allowed deviation of times.
    pub tolerance: Duration,
    /// Time from start to first request in the rehearsal, if there was one.
    pub first_request: Option<Duration>,
}

/// Returns the reason if the run is inconclusive.
///
/// A run that passed is inconclusive only if the subject could not act for as long as the fixture allows it to be late:
/// then the absence of a write shows nothing.
#[must_use]
pub fn doubt(load: &RunLoad, conditions: RunConditions) -> Option<String> {
    let RunConditions { failed, tolerance, .. } = conditions;
    if !load.stopped.is_zero() {
        return Some(format!("the subject was stopped by a signal for {}", seconds(load.stopped)));
    }
    if load.stalled >= tolerance {
        return Some(format!("the subject was ready to run, but got no processor for {}", seconds(load.stalled)));
    }
    if !failed {
        return None;
    }
    let late = load.delays.iter().max().copied().unwrap_or_default();
    let limit = tolerance / 2;
    if late >= limit {
        return Some(format!("a timer of the harness fired {} late", seconds(late)));
    }
    if load.worst_wait >= limit && !(conditions.alone && is_busy_itself(load)) {
        let waited = seconds(load.worst_wait);
        let window = seconds(WINDOW);
        return Some(format!("the subject and its server waited {waited} for a processor within {window}"));
    }
    slow_restart(load, conditions)
}

/// Returns a sentence about a restart that took longer than expected, unless nothing ran beside the fixture: then the
/// other measurements show that the machine was free, and the restart is the subject's own fault.
fn slow_restart(load: &RunLoad, conditions: RunConditions) -> Option<String> {
    let normal = conditions.first_request.filter(|_| !conditions.alone)?;
    let limit = (normal * RESTART_FACTOR).max(normal + RESTART_MARGIN);
    let slow = load.launches.iter().find(|launch| launch.silent > limit)?;
    let done = if slow.requested { "made its first request after" } else { "made no request for" };
    let at = seconds(slow.at);
    let silent = seconds(slow.silent);
    let normal = seconds(normal);
    Some(format!("the subject, started at t=+{at}, {done} {silent}; in the rehearsal its first took {normal}"))
}

/// Returns true if other programs hardly used the processors while the subject and its server waited for them: their
/// threads waited for each other.
fn is_busy_itself(load: &RunLoad) -> bool {
    load.others.is_some_and(|others| others * OTHERS_PART <= load.worst_wait)
}

fn seconds(duration: Duration) -> String {
    format!("{:.1} s", duration.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::load::LaunchTime;

    const CONDITIONS: RunConditions = RunConditions {
        failed: true,
        alone: false,
        tolerance: Duration::from_secs(1),
        first_request: Some(Duration::from_millis(300)),
    };
    const PASSED: RunConditions = RunConditions { failed: false, ..CONDITIONS };
    const ALONE: RunConditions = RunConditions { alone: true, ..CONDITIONS };

    fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn launched(silent: u64, requested: bool) -> RunLoad {
        let launch = LaunchTime { at: ms(2300), silent: ms(silent), requested };
        RunLoad { launches: vec![LaunchTime::default(), launch], ..RunLoad::default() }
    }

    fn waiting(worst_wait: u64, others: u64) -> RunLoad {
        RunLoad { worst_wait: ms(worst_wait), others: Some(ms(others)), ..RunLoad::default() }
    }

    #[rstest]
    #[case::free(RunLoad::default(), CONDITIONS, None)]
    #[case::stopped(RunLoad { stopped: ms(250), ..RunLoad::default() }, CONDITIONS, Some("stopped by a signal for 0.2 s"))]
    #[case::stopped_and_passed(RunLoad { stopped: ms(3000), ..RunLoad::default() }, PASSED, Some("for 3.0 s"))]
    #[case::stopped_when_alone(RunLoad { stopped: ms(3000), ..RunLoad::default() }, ALONE, Some("for 3.0 s"))]
    #[case::stalled(RunLoad { stalled: ms(1000), ..RunLoad::default() }, PASSED, Some("got no processor for 1.0 s"))]
    #[case::nearly_stalled(RunLoad { stalled: ms(999), ..RunLoad::default() }, CONDITIONS, None)]
    #[case::late(RunLoad { delays: vec![ms(1), ms(500), ms(2)], ..RunLoad::default() }, CONDITIONS, Some("fired 0.5 s late"))]
    #[case::nearly_late(RunLoad { delays: vec![ms(499)], ..RunLoad::default() }, CONDITIONS, None)]
    #[case::late_and_passed(RunLoad { delays: vec![ms(900)], ..RunLoad::default() }, PASSED, None)]
    #[case::waited(waiting(500, 0), CONDITIONS, Some("waited 0.5 s for a processor within 2.0 s"))]
    #[case::hardly_waited(waiting(499, 4000), CONDITIONS, None)]
    #[case::waited_and_passed(waiting(900, 4000), PASSED, None)]
    #[case::waited_for_others_when_alone(waiting(600, 151), ALONE, Some("waited 0.6 s"))]
    #[case::waited_for_itself(waiting(600, 150), ALONE, None)]
    #[case::waited_for_unknown(RunLoad { worst_wait: ms(600), ..RunLoad::default() }, ALONE, Some("waited 0.6 s"))]
    #[case::no_request(
        launched(20_000, false),
        CONDITIONS,
        Some("started at t=+2.3 s, made no request for 20.0 s; in the rehearsal its first took 0.3 s")
    )]
    #[case::late_request(launched(2_301, true), CONDITIONS, Some("made its first request after 2.3 s"))]
    #[case::as_expected(launched(2_300, true), CONDITIONS, None)]
    #[case::three_times(launched(3_001, true), RunConditions { first_request: Some(ms(1000)), ..CONDITIONS }, Some("took 1.0 s"))]
    #[case::slow_programs_get_more(launched(9_000, true), RunConditions { first_request: Some(ms(3000)), ..CONDITIONS }, None)]
    #[case::no_request_when_alone(launched(20_000, false), ALONE, None)]
    #[case::no_rehearsal(launched(20_000, false), RunConditions { first_request: None, ..CONDITIONS }, None)]
    #[case::passed_all_the_same(launched(20_000, false), PASSED, None)]
    fn a_run_counts_unless_the_machine_was_late(
        #[case] load: RunLoad,
        #[case] conditions: RunConditions,
        #[case] expected: Option<&str>,
    ) {
        match (doubt(&load, conditions), expected) {
            (Some(reason), Some(words)) => assert!(reason.contains(words), "{reason}"),
            (reason, words) => assert_eq!(reason.as_deref(), words),
        }
    }
}
