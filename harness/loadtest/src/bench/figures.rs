//! Target values, and reference values of kube-apiserver with etcd (fsync off) on two cores.

pub(super) const READY: f64 = 0.050;
pub(super) const READY_REFERENCE: f64 = 2.3;
pub(super) const READY_IN_PROCESS: f64 = 0.002;
pub(super) const PODS: f64 = 14_000.0;
pub(super) const PODS_REFERENCE: f64 = 850.0;
pub(super) const MEMORY: f64 = 1e9;
pub(super) const MEMORY_REFERENCE: f64 = 7.1e9;
pub(super) const LIST_JSON: f64 = 1.5;
pub(super) const LIST_PROTOBUF: f64 = 0.75;
pub(super) const EVENT: f64 = 0.005;
pub(super) const RENEWALS: f64 = 40_000.0;
pub(super) const PROCESSOR_TIME: f64 = 90e-6;
pub(super) const DEFINITIONS: f64 = 10.0;
pub(super) const DEFINITIONS_PERCENT: f64 = 200.0;
