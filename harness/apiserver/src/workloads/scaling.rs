//! The sizes of a Deployment's replica sets after its `replicas` changed: in the middle of a rollout each gets its
//! share. PURE. See `scale` in `pkg/controller/deployment/sync.go`, and
//! `pkg/controller/deployment/util/deployment_util.go`.

use super::workload_fields::{count, desired_replicas, scaled_value};
use crate::json::Value;
use crate::metadata;

/// The annotation of a replica set with the Deployment's `replicas`, as of its last scaling.
pub(super) const DESIRED: &str = "deployment.kubernetes.io/desired-replicas";
/// The annotation of a replica set with the most pods that the Deployment may have, as of its last scaling.
pub(super) const MAX_REPLICAS: &str = "deployment.kubernetes.io/max-replicas";

/// Returns `maxSurge` and `maxUnavailable` in pods; one of them is at least 1, except with the Recreate strategy.
pub(super) fn resolve_fenceposts(deployment: &Value) -> (i64, i64) {
    let rolling = &deployment["spec"]["strategy"]["rollingUpdate"];
    if !is_rolling(deployment) {
        return (0, 0);
    }
    let wanted = desired_replicas(deployment);
    let surge = scaled_value(&rolling["maxSurge"], wanted, true).unwrap_or(0);
    let unavailable = scaled_value(&rolling["maxUnavailable"], wanted, false).unwrap_or(0);
    if surge == 0 && unavailable == 0 { (0, 1) } else { (surge, unavailable) }
}

/// Returns true unless the strategy is Recreate.
pub(super) fn is_rolling(deployment: &Value) -> bool {
    deployment["spec"]["strategy"]["type"] != "Recreate"
}

fn size(set: &Value) -> i64 {
    count(set, "/spec/replicas")
}

fn number(set: &Value, annotation: &str) -> Option<i64> {
    metadata::annotation(set, annotation)?.parse().ok()
}

/// Returns true if a replica set with pods was last scaled for another number of replicas.
pub(super) fn is_scaling_event(deployment: &Value, sets: &[Value]) -> bool {
    let wanted = desired_replicas(deployment);
    sets.iter().filter(|set| size(set) > 0).any(|set| number(set, DESIRED).is_some_and(|desired| desired != wanted))
}

/// Returns the replica sets to scale, with their new sizes, after `replicas` changed or while the Deployment is paused.
/// `new` is the set of the current template, if there is one.
pub(super) fn scaled<'a>(deployment: &Value, new: Option<&'a Value>, sets: &'a [Value]) -> Vec<(&'a Value, i64)> {
    let wanted = desired_replicas(deployment);
    let is_new = |set: &Value| new.is_some_and(|new| metadata::uid(new) == metadata::uid(set));
    let active: Vec<&Value> = sets.iter().filter(|set| size(set) > 0).collect();
    let newest = || new.or_else(|| sets.iter().max_by(|a, b| age_order(b, a)));
    let alone = match active.as_slice() {
        [] => newest(),
        [only] => Some(*only),
        _ => None,
    };
    if let Some(set) = alone {
        let is_done = size(set) == wanted && (active.is_empty() || !needs_annotations(deployment, set));
        return if is_done { Vec::new() } else { vec![(set, wanted)] };
    }
    if new.is_some_and(|new| is_saturated(deployment, new)) {
        return active.into_iter().filter(|set| !is_new(set)).map(|set| (set, 0)).collect();
    }
    if !is_rolling(deployment) {
        return Vec::new();
    }
    let sizes = proportional(deployment, active);
    sizes.into_iter().filter(|(set, next)| *next != size(set) || needs_annotations(deployment, set)).collect()
}

/// Distributes the pods that are missing or too many over the replica sets, in proportion to their sizes.
fn proportional<'a>(deployment: &Value, mut sets: Vec<&'a Value>) -> Vec<(&'a Value, i64)> {
    let wanted = desired_replicas(deployment);
    let allowed = if wanted > 0 { wanted + resolve_fenceposts(deployment).0 } else { 0 };
    let missing = allowed - sets.iter().map(|set| size(set)).sum::<i64>();
    // The largest set takes the rest; of equal ones the newest grows, and the oldest shrinks.
    sets.sort_by(|a, b| {
        let age = if missing > 0 { age_order(a, b) } else { age_order(b, a) };
        size(b).cmp(&size(a)).then(age)
    });
    let mut left = missing;
    let mut sizes = Vec::new();
    for set in sets {
        let share = share(deployment, set);
        let share = if missing > 0 { share.min(left) } else { share.max(left) };
        let share = if left == 0 { 0 } else { share };
        left -= share;
        sizes.push((set, size(set) + share));
    }
    if let Some((_, first)) = sizes.first_mut() {
        *first = (*first + left).max(0);
    }
    sizes
}

/// Returns the pods that a replica set gains or loses so that it keeps its share of the Deployment's pods.
fn share(deployment: &Value, set: &Value) -> i64 {
    let wanted = desired_replicas(deployment);
    if wanted == 0 {
        return -size(set);
    }
    let most = wanted + resolve_fenceposts(deployment).0;
    let before = number(set, MAX_REPLICAS).filter(|most| *most > 0);
    match before.unwrap_or_else(|| count(deployment, "/status/replicas")) {
        0 => 0,
        // Rounded half up.
        before => (2 * size(set) * most + before).div_euclid(2 * before) - size(set),
    }
}

/// Returns true if all pods of the Deployment belong to the new replica set and are available.
fn is_saturated(deployment: &Value, new: &Value) -> bool {
    let wanted = desired_replicas(deployment);
    [Some(size(new)), number(new, DESIRED), Some(count(new, "/status/availableReplicas"))] == [Some(wanted); 3]
}

fn needs_annotations(deployment: &Value, set: &Value) -> bool {
    let wanted = desired_replicas(deployment);
    let most = wanted + resolve_fenceposts(deployment).0;
    number(set, DESIRED) != Some(wanted) || number(set, MAX_REPLICAS) != Some(most)
}

/// Orders replica sets, the newest first.
fn age_order(a: &Value, b: &Value) -> std::cmp::Ordering {
    let age = |set: &Value| (metadata::text(set, "creationTimestamp").to_owned(), metadata::name(set).to_owned());
    age(b).cmp(&age(a))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::json;
    use rstest::rstest;

    fn set(name: &str, size: i64, desired: i64, surge: i64) -> Value {
        let created = if name == "old" { "2026-01-01T00:00:00Z" } else { "2026-01-01T00:01:00Z" };
        json!({"metadata": {"name": name, "uid": name, "creationTimestamp": created, "annotations": {
            DESIRED: desired.to_string(), MAX_REPLICAS: (desired + surge).to_string()}},
            "spec": {"replicas": size}, "status": {"availableReplicas": size}})
    }

    fn deployment(replicas: i64) -> Value {
        json!({"spec": {"replicas": replicas, "strategy": {"type": "RollingUpdate",
            "rollingUpdate": {"maxSurge": 3, "maxUnavailable": 2}}}, "status": {"replicas": 13}})
    }

    /// The sizes of `test/e2e/apps/deployment.go`: ten replicas with a surge of three, in the middle of a rollout.
    #[rstest]
    #[case::grows(30, &[("old", 8), ("new", 5)], &[("old", 20), ("new", 13)])]
    #[case::shrinks(5, &[("old", 8), ("new", 5)], &[("old", 5), ("new", 3)])]
    #[case::to_none(0, &[("old", 8), ("new", 5)], &[("old", 0), ("new", 0)])]
    #[case::the_newest_of_equals_takes_the_rest(11, &[("old", 5), ("new", 5)], &[("new", 9), ("old", 5)])]
    #[case::one_set_alone(12, &[("old", 10), ("new", 0)], &[("old", 12)])]
    #[case::nothing_changed(10, &[("old", 8), ("new", 5)], &[])]
    fn sets_keep_their_shares(#[case] wanted: i64, #[case] sizes: &[(&str, i64)], #[case] expected: &[(&str, i64)]) {
        let sets: Vec<Value> = sizes.iter().map(|(name, size)| set(name, *size, 10, 3)).collect();
        let changes = scaled(&deployment(wanted), sets.last(), &sets);
        let shown: Vec<(&str, i64)> = changes.iter().map(|(set, size)| (metadata::name(set), *size)).collect();
        assert_eq!(shown, expected);
        assert_eq!(is_scaling_event(&deployment(wanted), &sets), wanted != 10);
    }

    #[test]
    fn a_saturated_set_is_the_only_one() {
        let sets = [set("old", 3, 10, 3), set("new", 10, 10, 3)];
        let changes = scaled(&deployment(10), sets.last(), &sets);
        assert_eq!(changes, [(&sets[0], 0)]);
    }
}
