//! The pods that have to go so that one of higher priority fits on a node. PURE. See
//! `pkg/scheduler/framework/preemption/preemption.go` and `plugins/defaultpreemption/default_preemption.go`; groups of
//! pods are not known here.

use std::cell::LazyCell;
use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::fit::{self, Cluster, IncomingPod, PlacedPod, Placements, PodKey, priority_of};
use super::rejection::Rejection;
use crate::json::Value;
use crate::metadata;

/// Most nodes for which victims are looked for: `MinCandidateNodesAbsolute`.
const CANDIDATES_MIN: usize = 100;
/// The same as a part of all nodes: `MinCandidateNodesPercentage`.
const CANDIDATES_PERCENT: usize = 10;

/// A node with the pods that have to go, the most important first.
#[derive(Debug)]
pub(super) struct Candidate {
    pub(super) node: String,
    pub(super) victims: Vec<(PodKey, PlacedPod)>,
    /// Number of victims whose budgets do not allow it.
    violations: usize,
}

/// The reason why no pod is preempted.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NoPreemption {
    pub(super) message: String,
    /// The pod keeps the node that it was promised.
    pub(super) keeps_nomination: bool,
}

/// The budgets of the cluster, which are only read if there is a choice.
pub(super) type Budgets = LazyCell<Vec<Value>, Box<dyn FnOnce() -> Vec<Value>>>;

/// The reasons why the nodes do not take a pod, by name.
pub(super) type Rejections<'n> = Vec<(&'n str, Rejection)>;

/// Looks for pods that can go: `Preempt`.
///
/// # Errors
///
/// The reason why there are none.
pub(super) fn preempt(
    placements: &mut Placements,
    incoming: &mut IncomingPod<'_>,
    cluster: &Cluster<'_>,
    rejections: &Rejections<'_>,
    budgets: &Budgets,
) -> Result<Candidate, NoPreemption> {
    if let Some(why) = ineligible(placements, incoming.pod, rejections) {
        return Err(NoPreemption { message: why.to_owned(), keeps_nomination: true });
    }
    let potential = rejections.iter().filter(|(_, rejection)| rejection.is_resolvable).map(|(name, _)| *name);
    let potential: Vec<&str> = potential.collect();
    let most = (potential.len() * CANDIDATES_PERCENT / 100).max(CANDIDATES_MIN);
    let mut candidates = Vec::new();
    let mut reasons: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for name in potential {
        let Some(node) = cluster.nodes.get(name) else { continue };
        match victims(placements, incoming, cluster, node, budgets) {
            Ok(candidate) => candidates.push(candidate),
            Err(why) => _ = reasons.insert(name, why),
        }
        if candidates.len() >= most && candidates.iter().any(|candidate| candidate.violations == 0) {
            break;
        }
    }
    if let Some(best) = candidates.into_iter().min_by(|one, other| one.rank().cmp(&other.rank())) {
        return Ok(best);
    }
    let hopeless = ["Preemption is not helpful for scheduling".to_owned()];
    let all = rejections.iter().flat_map(|(name, _)| reasons.get(name).map_or(&hopeless[..], Vec::as_slice));
    let message = fit::message(rejections.len(), all.map(String::as_str));
    Err(NoPreemption { message, keeps_nomination: false })
}

/// Returns why a pod may not preempt others: `PodEligibleToPreemptOthers`.
fn ineligible(placements: &Placements, pod: &Value, rejections: &Rejections<'_>) -> Option<&'static str> {
    if pod["spec"]["preemptionPolicy"] == "Never" {
        return Some("not eligible due to preemptionPolicy=Never.");
    }
    let nominated = pod["status"]["nominatedNodeName"].as_str().filter(|name| !name.is_empty())?;
    let rejection = rejections.iter().find(|(name, _)| *name == nominated);
    if rejection.is_some_and(|(_, rejection)| !rejection.is_resolvable) {
        return None;
    }
    let mut pods = placements.on_node(nominated);
    let waits = pods.any(|(_, placed)| placed.is_preempted && placed.priority < priority_of(pod));
    waits.then_some("not eligible due to a terminating pod on the nominated node.")
}

/// Returns the fewest and least important pods of a node without which the pod fits: `SelectVictimsOnNode`.
fn victims(
    placements: &mut Placements,
    incoming: &mut IncomingPod<'_>,
    cluster: &Cluster<'_>,
    node: &Value,
    budgets: &Budgets,
) -> Result<Candidate, Vec<String>> {
    let priority = priority_of(incoming.pod);
    let lower = placements.on_node(metadata::name(node)).filter(|(_, placed)| placed.priority < priority);
    let keys: Vec<PodKey> = lower.map(|(key, _)| key.clone()).collect();
    if keys.is_empty() {
        return Err(vec!["No preemption victims found for incoming pod".to_owned()]);
    }
    let mut taken: Vec<(PodKey, PlacedPod)> = Vec::new();
    for key in keys {
        if let Some(placed) = placements.take(&key) {
            incoming.spread.count(node, &key, &placed, -1);
            taken.push((key, placed));
        }
    }
    if let Some(rejection) = placements.reject(node, incoming, cluster) {
        put_back(placements, incoming, node, &taken);
        return Err(rejection.reasons);
    }
    taken.sort_by(|(_, one), (_, other)| importance(one).cmp(&importance(other)));
    let (violating, others) = by_budgets(taken, budgets);
    let mut gone = Vec::new();
    let mut violations = 0;
    let cases = violating.into_iter().map(|pod| (pod, 1)).chain(others.into_iter().map(|pod| (pod, 0)));
    for ((key, placed), violation) in cases {
        // Those that still fit may stay.
        incoming.spread.count(node, &key, &placed, 1);
        placements.add(key.clone(), placed.clone());
        if placements.reject(node, incoming, cluster).is_some() {
            placements.take(&key);
            incoming.spread.count(node, &key, &placed, -1);
            violations += violation;
            gone.push((key, placed));
        }
    }
    put_back(placements, incoming, node, &gone);
    gone.sort_by(|(_, one), (_, other)| importance(one).cmp(&importance(other)));
    if gone.is_empty() {
        return Err(Vec::new());
    }
    Ok(Candidate { node: metadata::name(node).to_owned(), victims: gone, violations })
}

fn put_back(placements: &mut Placements, incoming: &mut IncomingPod<'_>, node: &Value, pods: &[(PodKey, PlacedPod)]) {
    for (key, placed) in pods {
        incoming.spread.count(node, key, placed, 1);
        placements.add(key.clone(), placed.clone());
    }
}

/// The order of pods, the most important first: `MoreImportantPod` in `pkg/scheduler/util/utils.go`.
fn importance(placed: &PlacedPod) -> (Reverse<i64>, (bool, &str)) {
    (Reverse(placed.priority), start_of(placed))
}

/// The time of a pod's start, which for a pod that has not started is now.
fn start_of(placed: &PlacedPod) -> (bool, &str) {
    (placed.started.is_empty(), &placed.started)
}

impl Candidate {
    /// The order of candidates, the best first: `pickOneNodeForPreemption`.
    fn rank(&self) -> (usize, i64, i64, usize, Reverse<(bool, &str)>) {
        let highest = self.victims.first().map_or(i64::MIN, |(_, placed)| placed.priority);
        // Priorities of less than zero count, too.
        let sum = self.victims.iter().map(|(_, placed)| placed.priority.saturating_add(1 << 31));
        let most_important = self.victims.iter().filter(|(_, placed)| placed.priority == highest);
        let earliest = most_important.map(|(_, placed)| start_of(placed)).min().unwrap_or_default();
        (self.violations, highest, sum.fold(0, i64::saturating_add), self.victims.len(), Reverse(earliest))
    }
}

/// A list of pods with their keys.
type PodList = Vec<(PodKey, PlacedPod)>;

/// Parts pods into those whose deletion a budget does not allow, and the others: `filterPodsWithPDBViolation`.
fn by_budgets(pods: PodList, budgets: &[Value]) -> (PodList, PodList) {
    let mut allowed: Vec<i64> =
        budgets.iter().map(|budget| budget["status"]["disruptionsAllowed"].as_i64().unwrap_or(0)).collect();
    pods.into_iter().partition(|((namespace, name), placed)| {
        let is_labelled = placed.labels.as_object().is_some_and(|labels| !labels.is_empty());
        let mut all = budgets.iter().zip(&mut allowed);
        is_labelled
            && all.any(|(budget, allowed)| {
                let is_counted = budget["status"]["disruptedPods"].get(name.as_str()).is_some();
                if metadata::namespace(budget) != namespace
                    || !fit::matches_by_requirement(&budget["spec"]["selector"], &placed.labels)
                    || is_counted
                {
                    return false;
                }
                *allowed -= 1;
                *allowed < 0
            })
    })
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::json::json;
    use crate::kubelet::pod_volumes::PodVolumes;
    use crate::kubelet::spread::Spread;

    fn node(name: &str) -> Value {
        json!({"metadata": {"name": name}, "status": {"allocatable": {"cpu": "2", "pods": "10"}}})
    }

    /// A pod of this priority on a node, with a processor or more.
    fn pod(name: &str, node: &str, priority: i64, cpu: &str) -> Value {
        json!({"metadata": {"namespace": "d", "name": name, "labels": {"app": name}},
            "spec": {"nodeName": node, "priority": priority, "containers": [{"resources": {"requests": {"cpu": cpu}}}]},
            "status": {"startTime": format!("2026-01-01T00:00:0{}Z", name.len())}})
    }

    /// Tries to schedule a pod of priority 10 that wants `cpu`; returns the node and the victims, or the message.
    fn tried(
        placed: &[Value],
        cpu: &str,
        more: &Value,
        budgets: Vec<Value>,
    ) -> Result<(String, Vec<String>), NoPreemption> {
        let mut placements = Placements::default();
        for pod in placed {
            placements.note(pod);
        }
        let nodes = ["n", "m"].map(node);
        let by_name = nodes.iter().map(|node| (metadata::name(node), node)).collect();
        let cluster = Cluster { nodes: &by_name, namespace_labels: &|_| Value::Null };
        let mut incoming = pod("p", "", 10, cpu);
        for (field, value) in more.as_object().into_iter().flatten() {
            let fields = incoming[field.as_str()].as_object_mut().expect("an object");
            fields.extend(value.as_object().expect("an object").clone());
        }
        let mut incoming = IncomingPod {
            pod: &incoming,
            spread: Spread::of(&incoming, nodes.iter(), &placements),
            volumes: PodVolumes::default(),
        };
        let rejections: Rejections<'_> = nodes
            .iter()
            .filter_map(|node| Some((metadata::name(node), placements.reject(node, &mut incoming, &cluster)?)))
            .collect();
        let before = placements.on_node("n").count() + placements.on_node("m").count();
        let found = preempt(&mut placements, &mut incoming, &cluster, &rejections, &Budgets::new(Box::new(|| budgets)));
        assert_eq!(placements.on_node("n").count() + placements.on_node("m").count(), before, "all are back");
        found.map(|found| (found.node, found.victims.into_iter().map(|((_, name), _)| name).collect()))
    }

    fn budget(app: &str, allowed: i64) -> Value {
        json!({"metadata": {"namespace": "d"}, "spec": {"selector": {"matchLabels": {"app": app}}},
            "status": {"disruptionsAllowed": allowed}})
    }

    /// As in the tables of `TestSelectBestCandidate` and `TestDryRunPreemption`.
    #[rstest]
    #[case::lowest_priority(vec![pod("a", "n", 5, "2"), pod("b", "m", 3, "2")], "1", vec![], "m", &["b"])]
    #[case::fewest_victims(vec![pod("a", "n", 3, "1"), pod("b", "n", 3, "1"), pod("c", "m", 3, "2")], "2", vec![], "m", &["c"])]
    #[case::least_important(vec![pod("a", "n", 5, "1"), pod("b", "n", 3, "1"), pod("c", "m", 20, "2")], "1", vec![], "n", &["b"])]
    #[case::latest_start(vec![pod("a", "n", 3, "2"), pod("bb", "m", 3, "2")], "1", vec![], "m", &["bb"])]
    #[case::latest_of_a_node(vec![pod("a", "n", 3, "1"), pod("bb", "n", 3, "1"), pod("c", "m", 20, "2")], "1", vec![], "n", &["bb"])]
    #[case::budget(vec![pod("a", "n", 5, "2"), pod("b", "m", 3, "2")], "1", vec![budget("b", 0)], "n", &["a"])]
    #[case::budget_with_room(vec![pod("a", "n", 5, "2"), pod("b", "m", 3, "2")], "1", vec![budget("b", 1)], "m", &["b"])]
    #[case::budgets_are_no_limit(vec![pod("a", "n", 5, "2"), pod("b", "m", 20, "2")], "1", vec![budget("a", 0)], "n", &["a"])]
    #[case::spared_by_budget(vec![pod("a", "n", 3, "1"), pod("bb", "n", 3, "1"), pod("c", "m", 20, "2")], "1", vec![budget("bb", 0)], "n", &["a"])]
    fn the_best_candidate_is_chosen(
        #[case] placed: Vec<Value>,
        #[case] cpu: &str,
        #[case] budgets: Vec<Value>,
        #[case] node: &str,
        #[case] victims: &[&str],
    ) {
        let (found, gone) = tried(&placed, cpu, &json!({}), budgets).expect("a candidate");
        assert_eq!((found.as_str(), gone.iter().map(String::as_str).collect::<Vec<_>>().as_slice()), (node, victims));
    }

    #[rstest]
    #[case::equal_priority(vec![pod("a", "n", 10, "2"), pod("b", "m", 20, "2")], "1", json!({}), false,
        "0/2 nodes are available: 2 No preemption victims found for incoming pod.")]
    #[case::too_large(vec![pod("a", "n", 1, "2")], "3", json!({}), false,
        "0/2 nodes are available: 2 Preemption is not helpful for scheduling.")]
    #[case::not_enough(vec![pod("a", "n", 1, "1"), pod("b", "n", 20, "1"), pod("c", "m", 20, "2")], "2", json!({}), false,
        "0/2 nodes are available: 1 Insufficient cpu, 1 No preemption victims found for incoming pod.")]
    #[case::never(vec![pod("a", "n", 1, "2"), pod("b", "m", 1, "2")], "1", json!({"spec": {"preemptionPolicy": "Never"}}), true,
        "not eligible due to preemptionPolicy=Never.")]
    fn some_pods_preempt_none(
        #[case] placed: Vec<Value>,
        #[case] cpu: &str,
        #[case] more: Value,
        #[case] keeps_nomination: bool,
        #[case] expected: &str,
    ) {
        let found = tried(&placed, cpu, &more, Vec::new()).expect_err("no candidate");
        assert_eq!(found, NoPreemption { message: expected.to_owned(), keeps_nomination });
    }

    #[test]
    fn a_pod_waits_for_its_victims() {
        let mut leaving = pod("a", "n", 1, "2");
        leaving["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        let condition = json!({"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"});
        leaving["status"]["conditions"] = json!([condition]);
        let nominated = json!({"status": {"nominatedNodeName": "n"}});
        let placed = [leaving, pod("b", "m", 1, "2")];
        let found = tried(&placed, "1", &nominated, Vec::new()).expect_err("it waits");
        assert_eq!(found.message, "not eligible due to a terminating pod on the nominated node.");
        assert!(found.keeps_nomination);
    }
}
