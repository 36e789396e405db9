//! Topology spread constraints of a pod that must hold. PURE. See `podtopologyspread/common.go` and `filtering.go` in
//! `pkg/scheduler/framework/plugins`. Preferred constraints, those of the scheduler's defaults included, only matter to
//! scores, which the simulation does not have.

use std::collections::{BTreeMap, BTreeSet};

use super::filters;
use super::fit::{self, PlacedPod, Placements, PodKey};
use super::rejection::Rejection;
use crate::json::fields::array_field;
use crate::json::{Value, json};
use crate::metadata;

/// The required constraints of a pod, with the pods that match them.
#[derive(Debug, Default)]
pub(super) struct Spread {
    constraints: Vec<Constraint>,
    namespace: String,
}

/// One constraint.
#[derive(Debug)]
struct Constraint {
    key: String,
    most: i64,
    least_domains: usize,
    selector: Value,
    /// The constraint selects the pod itself.
    is_own: bool,
    /// The nodes whose pods and domains count.
    nodes: BTreeSet<String>,
    /// Number of matching pods by domain.
    counts: BTreeMap<String, i64>,
}

impl Spread {
    /// Counts the pods that match the required constraints of a pod: `calPreFilterState`.
    pub(super) fn of<'n>(pod: &Value, nodes: impl Iterator<Item = &'n Value> + Clone, placements: &Placements) -> Self {
        let all = array_field(&pod["spec"], "topologySpreadConstraints").iter();
        let constraints =
            all.filter(|one| one["whenUnsatisfiable"] == "DoNotSchedule").map(|one| Constraint::of(one, pod));
        let mut spread = Self { constraints: constraints.collect(), namespace: metadata::namespace(pod).to_owned() };
        if spread.constraints.is_empty() {
            return spread;
        }
        let keys: Vec<String> = spread.constraints.iter().map(|constraint| constraint.key.clone()).collect();
        let all = array_field(&pod["spec"], "topologySpreadConstraints").iter();
        let given: Vec<&Value> = all.filter(|one| one["whenUnsatisfiable"] == "DoNotSchedule").collect();
        for node in nodes.filter(|node| keys.iter().all(|key| metadata::label(node, key).is_some())) {
            for (constraint, given) in spread.constraints.iter_mut().zip(&given) {
                if counts_node(given, node, pod) {
                    let domain = metadata::label(node, &constraint.key).unwrap_or_default().to_owned();
                    constraint.counts.entry(domain).or_default();
                    constraint.nodes.insert(metadata::name(node).to_owned());
                }
            }
            for (key, placed) in placements.on_node(metadata::name(node)) {
                spread.count(node, key, placed, 1);
            }
        }
        spread
    }

    /// Adds `change` to the number of pods like this one on a node: `updateWithPod`.
    pub(super) fn count(&mut self, node: &Value, (namespace, _): &PodKey, placed: &PlacedPod, change: i64) {
        if placed.is_leaving || *namespace != self.namespace {
            return;
        }
        for constraint in &mut self.constraints {
            if !constraint.nodes.contains(metadata::name(node)) || !constraint.selects(&placed.labels) {
                continue;
            }
            let domain = metadata::label(node, &constraint.key).unwrap_or_default();
            if let Some(count) = constraint.counts.get_mut(domain) {
                *count += change;
            }
        }
    }

    /// Returns why a node does not take the pod.
    pub(super) fn reject(&self, node: &Value) -> Option<Rejection> {
        self.constraints.iter().find_map(|constraint| constraint.reject(node))
    }
}

impl Constraint {
    fn of(given: &Value, pod: &Value) -> Self {
        let mut selector = given["labelSelector"].clone();
        let labels = &pod["metadata"]["labels"];
        let keys = array_field(given, "matchLabelKeys").iter().filter_map(Value::as_str);
        let wanted: Vec<Value> = keys
            .filter_map(|key| Some(json!({"key": key, "operator": "In", "values": [metadata::label(pod, key)?]})))
            .collect();
        if selector.is_object() && !wanted.is_empty() {
            let all: Vec<Value> = array_field(&selector, "matchExpressions").iter().cloned().chain(wanted).collect();
            selector["matchExpressions"] = all.into();
        }
        Self {
            key: given["topologyKey"].as_str().unwrap_or_default().to_owned(),
            most: given["maxSkew"].as_i64().unwrap_or(1),
            least_domains: given["minDomains"].as_u64().and_then(|least| usize::try_from(least).ok()).unwrap_or(1),
            is_own: fit::matches(&selector, labels),
            selector,
            nodes: BTreeSet::new(),
            counts: BTreeMap::new(),
        }
    }

    /// Returns true if a pod with these labels counts. An empty selector counts none.
    fn selects(&self, labels: &Value) -> bool {
        fit::matches_by_requirement(&self.selector, labels)
    }

    fn reject(&self, node: &Value) -> Option<Rejection> {
        let Some(domain) = metadata::label(node, &self.key) else {
            return Some(Rejection::of(
                "node(s) didn't match pod topology spread constraints (missing required label)",
                false,
            ));
        };
        let least = if self.counts.len() < self.least_domains { 0 } else { self.counts.values().min().copied()? };
        let skew = self.counts.get(domain).copied().unwrap_or(0) + i64::from(self.is_own) - least;
        (skew > self.most).then(|| Rejection::of("node(s) didn't match pod topology spread constraints", true))
    }
}

/// Returns true if the pods of a node count for a constraint: `matchNodeInclusionPolicies`.
fn counts_node(given: &Value, node: &Value, pod: &Value) -> bool {
    (given["nodeAffinityPolicy"] == "Ignore" || filters::is_selected(node, pod))
        && (given["nodeTaintsPolicy"] != "Honor" || filters::is_tolerated(node, pod))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn node(name: &str, zone: &str) -> Value {
        let mut node = json!({"metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}}});
        if !zone.is_empty() {
            node["metadata"]["labels"]["zone"] = zone.into();
        }
        node
    }

    fn pod(name: &str, node: &str) -> Value {
        json!({"metadata": {"namespace": "d", "name": name, "labels": {"app": "a", "hash": "1"}}, "spec": {"nodeName": node}})
    }

    const UNEVEN: &str = "node(s) didn't match pod topology spread constraints";
    const UNLABELLED: &str = "node(s) didn't match pod topology spread constraints (missing required label)";

    /// One pod is in the zone `y`, none in `z`; a node has no zone. As in the tables of `filtering_test.go`.
    #[rstest]
    #[case::even(json!({}), UNEVEN, "", UNLABELLED)]
    #[case::more_skew(json!({"maxSkew": 2}), "", "", UNLABELLED)]
    #[case::of_others(json!({"labelSelector": {"matchLabels": {"app": "b"}}}), "", "", UNLABELLED)]
    #[case::everything(json!({"labelSelector": {}}), "", "", UNLABELLED)]
    #[case::few_domains(json!({"minDomains": 3}), UNEVEN, "", UNLABELLED)]
    #[case::other_revision(json!({"minDomains": 3, "matchLabelKeys": ["hash"]}), UNEVEN, "", UNLABELLED)]
    #[case::preferred(json!({"whenUnsatisfiable": "ScheduleAnyway", "minDomains": 3}), "", "", "")]
    fn pods_are_spread(#[case] more: Value, #[case] y: &str, #[case] z: &str, #[case] none: &str) {
        let nodes = [node("a", "y"), node("b", "z"), node("c", "")];
        let mut placements = Placements::default();
        placements.note(&pod("x", "a"));
        let mut given = json!({"topologyKey": "zone", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": "a"}}});
        given.as_object_mut().expect("a constraint").extend(more.as_object().expect("fields").clone());
        let mut incoming = pod("p", "");
        incoming["spec"]["topologySpreadConstraints"] = json!([given]);
        let spread = Spread::of(&incoming, nodes.iter(), &placements);
        let shown = |node: &Value| spread.reject(node).map(|found| found.reasons.concat()).unwrap_or_default();
        assert_eq!((shown(&nodes[0]).as_str(), shown(&nodes[1]).as_str(), shown(&nodes[2]).as_str()), (y, z, none));
    }

    #[test]
    fn what_is_added_and_taken_counts() {
        let nodes = [node("a", "y"), node("b", "z")];
        let mut placements = Placements::default();
        placements.note(&pod("x", "a"));
        let mut incoming = pod("p", "");
        incoming["spec"]["topologySpreadConstraints"] = json!([{"topologyKey": "zone", "maxSkew": 1,
            "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"app": "a"}}}]);
        let mut spread = Spread::of(&incoming, nodes.iter(), &placements);
        assert!(spread.reject(&nodes[0]).is_some_and(|found| found.is_resolvable));
        let key = ("d".to_owned(), "x".to_owned());
        let placed = placements.take(&key).expect("it was there");
        spread.count(&nodes[0], &key, &placed, -1);
        assert_eq!(spread.reject(&nodes[0]), None);
        spread.count(&nodes[0], &key, &placed, 1);
        assert!(spread.reject(&nodes[0]).is_some());
    }
}
