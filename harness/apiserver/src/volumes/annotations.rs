//! Annotations of claims and volumes, and names of provisioners; upstream has most of them in
//! `staging/src/k8s.io/component-helpers/storage/volume`.

/// The annotation of a claim that waits for its pod: the node that the scheduler has chosen (`AnnSelectedNode`).
pub(crate) const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";

/// The annotation of a claim or volume whose other half the controller or the scheduler chose.
pub(crate) const BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";

/// The annotation of a claim that is bound.
pub(crate) const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";

/// The annotation of a volume that a provisioner made.
pub(super) const PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";

/// The provisioner of kind's class `standard`.
pub(super) const LOCAL_PATH: &str = "rancher.io/local-path";

/// The provisioner of classes whose volumes are made by hand.
pub(crate) const NO_PROVISIONER: &str = "kubernetes.io/no-provisioner";
