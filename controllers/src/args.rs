//! Command-line flags, named as kube-controller-manager's.
