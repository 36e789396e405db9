//! The reason why a node does not take a pod: `Status` in
//! `staging/src/k8s.io/kube-scheduler/framework/interface.go`. PURE.

/// The reason why a node does not take a pod.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Rejection {
    pub(super) reasons: Vec<String>,
    /// The node could take the pod if others were gone.
    pub(super) is_resolvable: bool,
}

impl Rejection {
    pub(super) fn of(reason: &str, is_resolvable: bool) -> Self {
        Self { reasons: vec![reason.to_owned()], is_resolvable }
    }
}
