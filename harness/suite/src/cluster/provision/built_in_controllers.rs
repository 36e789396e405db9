//! The controllers of a cluster that stay on or are switched off.

use plumbline::fixture::Controller;

/// Controllers that act on the objects of fixtures: workloads, garbage collection, node health.
pub(super) const MEDDLERS: [&str; 9] = [
    "cronjob-controller",
    "daemonset-controller",
    "deployment-controller",
    "garbage-collector-controller",
    "job-controller",
    "node-lifecycle-controller",
    "replicaset-controller",
    "replicationcontroller-controller",
    "statefulset-controller",
];

/// Returns the tested controllers whose built-in versions stay on.
pub(super) fn built_in(left_on: bool) -> Vec<Controller> {
    if left_on { Controller::ALL.into() } else { Vec::new() }
}

/// Returns the value for kube-controller-manager's `--controllers` that extends `base` by disabling the tested
/// controllers and those that act on the objects of fixtures.
pub(super) fn controllers_without(base: &str) -> String {
    let tested = Controller::ALL.iter().map(|controller| controller.flag_name());
    let off = tested.chain(MEDDLERS).map(|name| format!(",-{name}"));
    format!("{base}{}", off.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The names are kube-controller-manager's own, from `cmd/kube-controller-manager/names/controller_names.go`.
    #[test]
    fn the_controllers_under_test_are_left_out_by_upstreams_names() {
        assert_eq!(
            controllers_without("*"),
            "*,-disruption-controller,-pod-garbage-collector-controller,-taint-eviction-controller,-ttl-controller,\
             -cronjob-controller,-daemonset-controller,-deployment-controller,-garbage-collector-controller,-job-controller,\
             -node-lifecycle-controller,-replicaset-controller,-replicationcontroller-controller,-statefulset-controller"
        );
    }
}
