//! Times and reasons of pod garbage collection.
//!
//! Source: `pkg/controller/podgc/gc_controller.go`: `quarantineTime`, `gcCheckPeriod`, `Run`.

use std::time::Duration;

/// Time for which a node must be missing before its pods count as orphaned.
pub const QUARANTINE: Duration = Duration::from_secs(40);
/// Time between the end of a cycle and the next one.
pub const CYCLE: Duration = Duration::from_secs(20);
/// The reason of the condition of a pod that is collected.
pub const DELETION_BY_POD_GC: &str = "DeletionByPodGC";
/// The flag of the number of finished pods that are kept; the others are deleted, the oldest first.
pub const THRESHOLD: &str = "terminated-pod-gc-threshold";
