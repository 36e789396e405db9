//! Oracle `metrics`: no measured time is longer than the run, and `PodGC`'s deletions are counted by their reasons.
//! Pure.
//!
//! Source: `pkg/controller/podgc/metrics/metrics.go`.

use std::collections::BTreeMap;
use std::time::Duration;

use plumbline::expect::requests;
use plumbline::explore::breach::Breach;
use plumbline::fixture::{Effect, Fixture};
use plumbline::transcript::{Actor, Attributed as _};
use serde_json::json;

use crate::explore::histories::facts::{controls_subject, own_faults};
use crate::explore::run::explored::ExploredRun;

/// The ends of the names of a histogram's or summary's sum and count, if it measures seconds.
const SUM: &str = "_seconds_sum";
const COUNT: &str = "_seconds_count";
/// The counters of `PodGC`'s deletions that succeeded, and of those that failed.
const DELETED: &str = "pod_gc_collector_force_delete_pods_total{";
const FAILED: &str = "pod_gc_collector_force_delete_pod_errors_total{";
/// The values of their label `reason`.
const REASONS: [&str; 4] = ["orphaned", "out-of-service", "terminated", "unscheduled"];

/// Returns the first sum of measured times of `scrapes`, each with its time, that is impossible: each of the measured
/// times began and ended during the run.
pub(super) fn impossible(scrapes: &[(Duration, String)]) -> Option<Breach> {
    scrapes.iter().find_map(|(at, text)| {
        let series: BTreeMap<&str, f64> = text.lines().filter_map(sample).collect();
        series.iter().find_map(|(name, sum)| {
            let (base, labels) = name.split_once(SUM)?;
            let count = series.get(format!("{base}{COUNT}{labels}").as_str())?;
            // Sums of decimal fractions are not exact.
            let possible = *sum >= 0.0 && *sum <= count * at.as_secs_f64() + 0.001;
            (!possible).then(|| Breach {
                oracle: "metrics".to_owned(),
                resource: String::new(),
                kind: base.to_owned(),
                at: *at,
                text: format!("{name} is {sum} after {count} measurements in {at:?}"),
                expected: json!({ "quiet": true }),
            })
        })
    })
}

/// Returns the first counter of deletions with an unknown reason, or the sum of them if it is smaller than the number
/// of deletions that succeeded: `PodGC` counts its attempts. Counters of controllers that start again begin at zero.
pub(super) fn miscounted(fixture: &Fixture, explored: ExploredRun<'_>) -> Option<Breach> {
    let breach = |at: Duration, text: String| Breach {
        oracle: "metrics".to_owned(),
        resource: "pods".to_owned(),
        kind: "deletions".to_owned(),
        at,
        text,
        expected: json!({ "quiet": true }),
    };
    let crashes = || own_faults(fixture).any(|fault| matches!(fault.effect, Effect::Crash { .. }));
    let starts_again = controls_subject(fixture) || crashes();
    explored.record.scrapes.iter().find_map(|(at, text)| {
        let counted: Vec<(&str, f64)> = text.lines().filter_map(sample).collect();
        let of_deletions = |name: &str| name.starts_with(DELETED) || name.starts_with(FAILED);
        let has_reason = |name: &str| REASONS.iter().any(|reason| name.contains(&format!("reason=\"{reason}\"")));
        if let Some((name, _)) = counted.iter().find(|(name, _)| of_deletions(name) && !has_reason(name)) {
            return Some(breach(*at, format!("{name} has another reason than {}", REASONS.join(", "))));
        }
        let sum: f64 = counted.iter().filter(|(name, _)| name.starts_with(DELETED)).map(|(_, value)| value).sum();
        let succeeded = requests(explored.entries).filter(|(entry, exchange)| {
            let succeeds = exchange.reply.as_ref().is_some_and(|reply| (200..300).contains(&reply.status));
            entry.actor() == Actor::PodGc && entry.at < *at && exchange.request.verb == "delete" && succeeds
        });
        let succeeded = u32::try_from(succeeded.count()).unwrap_or(u32::MAX);
        let found = format!("{sum} deletions are counted at {at:?}, and {succeeded} succeeded");
        (!starts_again && !counted.is_empty() && sum < f64::from(succeeded)).then(|| breach(*at, found))
    })
}

/// Returns name and value of a sample of Prometheus' text format.
fn sample(line: &str) -> Option<(&str, f64)> {
    let (name, value) = line.rsplit_once(' ').filter(|_| !line.starts_with('#'))?;
    Some((name, value.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use plumbline::transcript::{RecordedReply, RecordedRequest, Transcript};
    use rstest::rstest;

    use super::*;
    use crate::explore::judge::testing::{exchange, judged_by};
    use crate::runner::RunRecord;

    #[rstest]
    #[case::possible("a_seconds_sum 119.5\na_seconds_count 2\n", None)]
    #[case::too_long("a_seconds_sum 121\na_seconds_count 2\n", Some("a"))]
    #[case::negative("a_seconds_sum -1\na_seconds_count 2\n", Some("a"))]
    #[case::by_label("a_seconds_sum{x=\"y\"} 70\na_seconds_count{x=\"y\"} 1\na_seconds_count 9\n", Some("a"))]
    #[case::no_time("a_bytes_sum 1000\na_bytes_count 1\n", None)]
    #[case::a_comment("# TYPE a_seconds_sum 1000\n", None)]
    fn measured_times_fit_into_the_run(#[case] text: &str, #[case] found: Option<&str>) {
        let scrapes = [(Duration::from_mins(1), text.to_owned())];
        assert_eq!(impossible(&scrapes).map(|breach| breach.kind).as_deref(), found);
    }
    #[rstest]
    #[case::attempts("reason=\"orphaned\"", 2, false)]
    #[case::too_few("reason=\"orphaned\"", 0, true)]
    #[case::without_a_reason("reason=\"\"", 2, true)]
    fn deletions_are_counted_by_reason(#[case] label: &str, #[case] count: u32, #[case] found: bool) {
        let transcript = Transcript::new();
        let request = RecordedRequest { verb: "delete".to_owned(), ..RecordedRequest::default() };
        let reply = RecordedReply::new(Duration::ZERO, 200);
        exchange(&transcript, Duration::ZERO, "pod-garbage-collector", request, reply);
        let text = format!("{DELETED}namespace=\"default\",{label}}} {count}\n");
        let is_found = judged_by("podgc", &transcript, Vec::new(), |fixture, _, explored| {
            let scrapes = vec![(Duration::from_mins(1), text)];
            let record = RunRecord { scrapes, ..RunRecord::default() };
            miscounted(fixture, ExploredRun { record: &record, ..explored }).is_some()
        });
        assert_eq!(is_found, found);
    }
}
