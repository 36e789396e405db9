//! Times that oracles allow in addition to what Kubernetes asks for. Pure.

use std::time::Duration;

/// Time by which each fault delays a write that is not decided yet, in addition to its own duration. A node that cannot
/// be read waits another 40 s in quarantine, until the cycle after that.
pub(super) const LATE: Duration = Duration::from_secs(90);
/// Time after which controllers list or watch again at the latest: client-go's longest back-off of a reflector, 30 s,
/// doubled by its jitter, and the time of an attempt.
pub(super) const RECONNECT: Duration = Duration::from_secs(90);
