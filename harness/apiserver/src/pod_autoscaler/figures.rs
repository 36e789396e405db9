//! The number of replicas that the figures of pods ask for. PURE. See
//! `pkg/controller/podautoscaler/replica_calculator.go` and `metrics/utilization.go`.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use thiserror::Error;

use crate::json::Value;
use crate::json::fields::{array_field, str_field};
use crate::metadata;
use crate::pod_fields::sidecars;
use crate::quantity::Quantity;
use crate::registry::resource_list::pod_resources;

/// Time after its start in which figures of a pod that is not ready do not count (`CPUInitializationPeriod`).
const INITIALIZATION: Duration = Duration::from_mins(5);
/// Time after its start in which a pod that becomes ready has never been ready (`InitialReadinessDelay`).
const READINESS_DELAY: Duration = Duration::from_secs(30);
/// Time over which a figure is taken, which metrics-server reports.
const WINDOW: Duration = Duration::from_secs(30);

/// The aim of a metric.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum MetricTarget {
    /// A part of what the pods request, in percent.
    Utilization(i64),
    /// An average, in thousandths.
    Average(i64),
}

/// A metric of a resource.
#[derive(Debug)]
pub(super) struct ResourceMetric<'m> {
    pub(super) resource: &'m str,
    /// The container; empty for all.
    pub(super) container: &'m str,
    pub(super) target: MetricTarget,
}

/// Reasons why the figures of a metric say nothing, in upstream's words.
#[derive(Debug, PartialEq, Eq, Error)]
pub(super) enum MetricError {
    #[error("unable to get metrics for resource {resource}: {why}")]
    Unavailable { resource: String, why: String },
    #[error("no pods returned by selector while calculating replica count")]
    NoPods,
    #[error("did not receive metrics for targeted pods (pods might be unready)")]
    NoFigures,
    #[error("no metrics returned matched known pods")]
    NoMatch,
    #[error("missing pod-level request for {resource} in Pod {pod}")]
    NoPodRequest { resource: String, pod: String },
    #[error("missing request for {resource} in container {container} of Pod {pod}")]
    NoRequest { resource: String, container: String, pod: String },
    #[error("container {container} not found in Pod {pod}")]
    NoContainer { container: String, pod: String },
}

/// The result of a metric.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Proposal {
    pub(super) replicas: i64,
    /// The utilization, if that is the target.
    pub(super) utilization: Option<i64>,
    /// The average, in thousandths.
    pub(super) average: i64,
}

/// Returns an amount in thousandths.
pub(super) fn milli(amount: Quantity) -> i64 {
    let thousand = (0..3).fold(amount, |sum, _| {
        let two = sum.plus(sum);
        let four = two.plus(two);
        four.plus(four).plus(two)
    });
    i64::try_from(thousand.ceil()).unwrap_or(i64::MAX)
}

/// Returns the figures of the pods that `PodMetrics` have, in thousandths: `getPodMetrics`, `getContainerMetrics`.
pub(super) fn figures(all: &[Value], metric: &ResourceMetric<'_>) -> BTreeMap<String, i64> {
    let of = |pod: &Value| {
        let containers = array_field(pod, "containers").iter();
        let wanted: Vec<&Value> = containers
            .filter(|one| metric.container.is_empty() || str_field(one, "name") == metric.container)
            .collect();
        let amounts = wanted.iter().map(|one| one["usage"].get(metric.resource).and_then(Quantity::of).map(milli));
        let sum = amounts.collect::<Option<Vec<i64>>>().filter(|amounts| !amounts.is_empty())?;
        Some((metadata::name(pod).to_owned(), sum.into_iter().fold(0, i64::saturating_add)))
    };
    all.iter().filter_map(of).collect()
}

/// Pods by what their figures say.
#[derive(Default)]
struct Groups {
    ready: usize,
    unready: BTreeSet<String>,
    missing: BTreeSet<String>,
}

/// Sorts pods, and drops the figures that do not count: `groupPods`. Figures of the simulation are always new.
fn group(pods: &[Value], figures: &mut BTreeMap<String, i64>, resource: &str, now: Timestamp) -> Groups {
    let mut groups = Groups::default();
    for pod in pods {
        let name = metadata::name(pod).to_owned();
        if metadata::is_deleted(pod) || pod["status"]["phase"] == "Failed" {
            figures.remove(&name);
        } else if pod["status"]["phase"] == "Pending" {
            figures.remove(&name);
            groups.unready.insert(name);
        } else if !figures.contains_key(&name) {
            groups.missing.insert(name);
        } else if resource == "cpu" && is_unready(pod, now) {
            figures.remove(&name);
            groups.unready.insert(name);
        } else {
            groups.ready += 1;
        }
    }
    groups
}

fn is_unready(pod: &Value, now: Timestamp) -> bool {
    let time = |text: &Value| text.as_str().and_then(|text| text.parse::<Timestamp>().ok());
    let ready = array_field(&pod["status"], "conditions").iter().find(|one| one["type"] == "Ready");
    let Some((ready, started)) = ready.zip(time(&pod["status"]["startTime"])) else { return true };
    let is_false = ready["status"] == "False";
    let since = time(&ready["lastTransitionTime"]).unwrap_or(Timestamp::MIN);
    if started.checked_add(INITIALIZATION).is_ok_and(|end| end > now) {
        return is_false || since.checked_add(WINDOW).is_ok_and(|end| now < end);
    }
    is_false && started.checked_add(READINESS_DELAY).is_ok_and(|end| end > since)
}

/// Returns what each pod requests, in thousandths: `calculateRequests`.
fn requests(pods: &[Value], metric: &ResourceMetric<'_>) -> Result<BTreeMap<String, i64>, MetricError> {
    let ResourceMetric { resource, container: wanted, .. } = metric;
    let mut all = BTreeMap::new();
    for pod in pods {
        let name = metadata::name(pod);
        if wanted.is_empty() && pod["spec"]["resources"]["requests"].is_object() {
            let own = pod_resources(pod, "requests").get(*resource).copied();
            let own = own
                .ok_or_else(|| MetricError::NoPodRequest { resource: (*resource).to_owned(), pod: name.to_owned() })?;
            all.insert(name.to_owned(), milli(own));
            continue;
        }
        let containers = array_field(&pod["spec"], "containers").iter().chain(sidecars(pod));
        let mut containers = containers.filter(|one| wanted.is_empty() || str_field(one, "name") == *wanted).peekable();
        if containers.peek().is_none() && !wanted.is_empty() {
            return Err(MetricError::NoContainer { container: (*wanted).to_owned(), pod: name.to_owned() });
        }
        let mut sum = 0_i64;
        for container in containers {
            let request = container["resources"]["requests"].get(*resource).and_then(Quantity::of);
            let request = request.ok_or_else(|| MetricError::NoRequest {
                resource: (*resource).to_owned(),
                container: str_field(container, "name").to_owned(),
                pod: name.to_owned(),
            })?;
            sum = sum.saturating_add(milli(request));
        }
        all.insert(name.to_owned(), sum);
    }
    Ok(all)
}

/// The ratio of what is used to what is aimed at.
struct Usage {
    ratio: f64,
    utilization: Option<i64>,
    average: i64,
}

fn usage(
    figures: &BTreeMap<String, i64>,
    requests: &BTreeMap<String, i64>,
    target: MetricTarget,
) -> Result<Usage, MetricError> {
    let sum = |values: Vec<i64>| values.into_iter().fold(0, i64::saturating_add);
    match target {
        MetricTarget::Average(aim) => {
            let average = sum(figures.values().copied().collect()) / count(figures.len()).max(1);
            Ok(Usage { ratio: ratio(average, aim), utilization: None, average })
        }
        MetricTarget::Utilization(aim) => {
            let known: Vec<(i64, i64)> =
                figures.iter().filter_map(|(name, value)| Some((*value, *requests.get(name)?))).collect();
            let requested = sum(known.iter().map(|(_, request)| *request).collect());
            if requested == 0 {
                return Err(MetricError::NoMatch);
            }
            let used = sum(known.iter().map(|(value, _)| *value).collect());
            let utilization = used.saturating_mul(100) / requested;
            let average = used / count(known.len()).max(1);
            Ok(Usage { ratio: ratio(utilization, aim), utilization: Some(utilization), average })
        }
    }
}

fn count(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn ratio(used: i64, aim: i64) -> f64 {
    used as f64 / aim as f64
}

fn times(ratio: f64, number: usize) -> i64 {
    (ratio * number as f64).ceil() as i64
}

/// The part by which the ratio may differ from 1 without a change: down and up.
pub(super) type Tolerances = (f64, f64);

/// Returns the number of replicas that a metric asks for: `GetResourceReplicas` and `GetRawResourceReplicas`.
///
/// # Errors
///
/// The reason why the figures say nothing.
pub(super) fn propose(
    metric: &ResourceMetric<'_>,
    mut figures: BTreeMap<String, i64>,
    pods: &[Value],
    current: i64,
    (down, up): Tolerances,
    now: Timestamp,
) -> Result<Proposal, MetricError> {
    if pods.is_empty() {
        return Err(MetricError::NoPods);
    }
    let groups = group(pods, &mut figures, metric.resource, now);
    if figures.is_empty() {
        return Err(MetricError::NoFigures);
    }
    let requests = match metric.target {
        MetricTarget::Utilization(_) => requests(pods, metric)?,
        MetricTarget::Average(_) => BTreeMap::new(),
    };
    let Usage { ratio, utilization, average } = usage(&figures, &requests, metric.target)?;
    let is_within = |ratio: f64| 1.0 - down <= ratio && ratio <= 1.0 + up;
    let proposal = |replicas: i64| Ok(Proposal { replicas, utilization, average });
    let counts_unready = !groups.unready.is_empty() && ratio > 1.0;
    if !counts_unready && groups.missing.is_empty() {
        return proposal(if is_within(ratio) { current } else { times(ratio, groups.ready) });
    }
    if ratio < 1.0 {
        // Those without figures are taken to need all that they may have.
        for name in &groups.missing {
            let full = match metric.target {
                MetricTarget::Average(aim) => aim,
                MetricTarget::Utilization(aim) => {
                    requests.get(name).copied().unwrap_or(0).saturating_mul(aim.max(100)) / 100
                }
            };
            figures.insert(name.clone(), full);
        }
    } else if ratio > 1.0 {
        figures.extend(groups.missing.iter().map(|name| (name.clone(), 0)));
    }
    if counts_unready {
        figures.extend(groups.unready.iter().map(|name| (name.clone(), 0)));
    }
    let again = usage(&figures, &requests, metric.target)?.ratio;
    let turns = (ratio < 1.0 && again > 1.0) || (ratio > 1.0 && again < 1.0);
    let replicas = times(again, figures.len());
    let is_wrong = (again < 1.0 && replicas > current) || (again > 1.0 && replicas < current);
    proposal(if is_within(again) || turns || is_wrong { current } else { replicas })
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::json::json;

    fn pod(name: &str, ready: &str, cpu: Option<&str>) -> Value {
        let requests = cpu.map_or_else(|| json!({}), |cpu| json!({"cpu": cpu}));
        json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "resources": {"requests": requests}}]},
            "status": {"phase": if ready.is_empty() { "Pending" } else { "Running" }, "startTime": "2026-01-01T00:00:00Z",
                "conditions": [{"type": "Ready", "status": ready, "lastTransitionTime": "2026-01-01T00:00:10Z"}]}})
    }

    fn metrics(name: &str, cpu: &str) -> Value {
        json!({"metadata": {"name": name}, "containers": [{"name": "c", "usage": {"cpu": cpu}}]})
    }

    fn tried(
        pods: &[Value],
        used: &[(&str, &str)],
        target: MetricTarget,
    ) -> Result<(i64, Option<i64>, i64), MetricError> {
        let metric = ResourceMetric { resource: "cpu", container: "", target };
        let all: Vec<Value> = used.iter().map(|(name, cpu)| metrics(name, cpu)).collect();
        let now = "2026-01-01T01:00:00Z".parse().expect("a time");
        let current = i64::try_from(pods.len()).expect("few");
        let found = propose(&metric, figures(&all, &metric), pods, current, (0.1, 0.1), now)?;
        Ok((found.replicas, found.utilization, found.average))
    }

    fn three(last: &str) -> Vec<Value> {
        vec![pod("a", "True", Some("1")), pod("b", "True", Some("1")), pod("c", last, Some("1"))]
    }

    /// The tables of `replica_calculator_test.go`: `TestReplicaCalcScaleUp`, `…ScaleUpUnreadyLessScale`,
    /// `…ScaleUpUnreadyNoScale`, `…ScaleDown`, `…Tolerance`, `…MissingMetricsNoChangeGt` and relatives.
    #[rstest]
    #[case::up(three("True"), &[("a", "300m"), ("b", "500m"), ("c", "700m")], MetricTarget::Utilization(30), (5, Some(50), 500))]
    #[case::unready_less(three("False"), &[("a", "300m"), ("b", "500m"), ("c", "700m")], MetricTarget::Utilization(30), (3, Some(40), 400))]
    #[case::unready(three("False"), &[("a", "400m"), ("b", "500m"), ("c", "700m")], MetricTarget::Utilization(20), (5, Some(45), 450))]
    #[case::down(three("True"), &[("a", "100m"), ("b", "200m"), ("c", "150m")], MetricTarget::Utilization(50), (1, Some(15), 150))]
    #[case::tolerated(three("True"), &[("a", "1010m"), ("b", "1030m"), ("c", "1020m")], MetricTarget::Utilization(100), (3, Some(102), 1020))]
    #[case::missing_up(three("True"), &[("a", "1"), ("b", "1")], MetricTarget::Utilization(50), (4, Some(100), 1000))]
    #[case::missing_down(three("True"), &[("a", "100m"), ("b", "100m")], MetricTarget::Utilization(80), (2, Some(10), 100))]
    #[case::average(three("True"), &[("a", "300m"), ("b", "500m"), ("c", "700m")], MetricTarget::Average(250), (6, None, 500))]
    #[case::pending(three(""), &[("a", "1"), ("b", "1")], MetricTarget::Utilization(50), (4, Some(100), 1000))]
    fn figures_ask_for_replicas(
        #[case] pods: Vec<Value>,
        #[case] used: &[(&str, &str)],
        #[case] target: MetricTarget,
        #[case] expected: (i64, Option<i64>, i64),
    ) {
        assert_eq!(tried(&pods, used, target), Ok(expected));
    }

    #[rstest]
    #[case::no_pods(vec![], &[("a", "1")], "no pods returned by selector while calculating replica count")]
    #[case::unready(vec![pod("a", "", Some("1"))], &[], "did not receive metrics for targeted pods (pods might be unready)")]
    #[case::no_request(vec![pod("a", "True", None)], &[("a", "1")], "missing request for cpu in container c of Pod a")]
    fn figures_say_nothing(#[case] pods: Vec<Value>, #[case] used: &[(&str, &str)], #[case] expected: &str) {
        let why = tried(&pods, used, MetricTarget::Utilization(50)).expect_err("no number");
        assert_eq!(why.to_string(), expected);
    }

    #[test]
    fn a_pod_that_has_just_become_ready_does_not_count() {
        let now: Timestamp = "2026-01-01T00:00:39Z".parse().expect("a time");
        let pod = pod("a", "True", Some("1"));
        assert!(is_unready(&pod, now));
        assert!(!is_unready(&pod, now + Duration::from_secs(1)));
    }
}
