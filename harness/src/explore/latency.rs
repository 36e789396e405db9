//! Oracle `metrics`: no measured time is longer than the run. Pure.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::json;

use super::oracle::Breach;

/// The ends of the names of a histogram's or summary's sum and count, if it measures seconds.
const SUM: &str = "_seconds_sum";
const COUNT: &str = "_seconds_count";

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

/// Returns name and value of a sample of Prometheus' text format.
fn sample(line: &str) -> Option<(&str, f64)> {
    let (name, value) = line.rsplit_once(' ').filter(|_| !line.starts_with('#'))?;
    Some((name, value.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

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
}
