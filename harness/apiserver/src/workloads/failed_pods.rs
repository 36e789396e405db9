//! The time between deletions of failed daemon pods on a node. PURE. See `podsShouldBeOnNode` in
//! `pkg/controller/daemon/daemon_controller.go` and `staging/src/k8s.io/client-go/util/flowcontrol/backoff.go`.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;

use crate::backoff::Delays;
use crate::json::Value;
use crate::metadata;

/// The delays of `startDaemonSetController` in `cmd/kube-controller-manager/app/apps.go`.
const DELAYS: Delays = Delays(Duration::from_secs(1), Duration::from_mins(15));

/// The time after which a deletion has no effect on the next: twice the longest delay.
const FORGOTTEN_AFTER: Duration = Duration::from_mins(30);

/// Time between two looks for old deletions: `BackoffGCInterval`.
const FORGETTING_PERIOD: Duration = Duration::from_mins(1);

/// UID and observed generation of a set, and a node.
type FailureKey = (String, i64, String);

/// Namespace and name of a set.
type SetName = (String, String);

#[derive(Debug)]
struct Deletion {
    at: Timestamp,
    /// The time until the next one.
    delay: Duration,
}

/// The failed pods that were deleted, and the sets that have others.
#[derive(Debug, Default)]
pub(super) struct FailedPods {
    deletions: BTreeMap<FailureKey, Deletion>,
    waiting: BTreeMap<SetName, Timestamp>,
    /// The time at which old deletions were forgotten.
    cleaned: Option<Timestamp>,
}

impl FailedPods {
    /// Returns true if a failed pod of a set on a node can be deleted now, and counts the deletion. Otherwise the set
    /// is due later.
    pub(super) fn may_delete(&mut self, set: &Value, node: &str, now: Timestamp) -> bool {
        let generation = set["status"]["observedGeneration"].as_i64().unwrap_or(0);
        let key = (metadata::uid(set).to_owned(), generation, node.to_owned());
        let first = Deletion { at: now, delay: DELAYS.0 };
        let Some(last) = self.deletions.get_mut(&key) else {
            self.deletions.insert(key, first);
            return true;
        };
        if is_over(last.at, FORGOTTEN_AFTER, now) {
            *last = first;
            return true;
        }
        if is_over(last.at, last.delay, now) {
            *last = Deletion { at: now, delay: last.delay.saturating_mul(2).min(DELAYS.1) };
            return true;
        }
        // Upstream waits for the whole delay from here.
        let due = now.checked_add(last.delay).unwrap_or(Timestamp::MAX);
        let waiting = self.waiting.entry((metadata::namespace(set).to_owned(), metadata::name(set).to_owned()));
        let at = waiting.or_insert(due);
        *at = due.min(*at);
        false
    }

    /// Returns the time at which a set is due.
    pub(super) fn next(&self) -> Option<Timestamp> {
        self.waiting.values().min().copied()
    }

    /// Takes the sets that are due.
    pub(super) fn take_due(&mut self, now: Timestamp) -> BTreeSet<SetName> {
        if self.cleaned.is_none_or(|at| is_over(at, FORGETTING_PERIOD, now)) {
            self.cleaned = Some(now);
            self.deletions.retain(|_, deletion| !is_over(deletion.at, FORGOTTEN_AFTER, now));
        }
        self.waiting.extract_if(.., |_, at| *at <= now).map(|(set, _)| set).collect()
    }
}

fn is_over(since: Timestamp, delay: Duration, now: Timestamp) -> bool {
    since.checked_add(delay).is_ok_and(|end| end <= now)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::json;

    #[test]
    fn each_deletion_doubles_the_time_to_the_next() {
        let at = |seconds: i64| Timestamp::from_second(seconds).expect("a time");
        let set = json!({"metadata": {"namespace": "d", "name": "s", "uid": "u"}});
        let mut failed = FailedPods::default();
        let deleted: Vec<i64> = (0..40).filter(|second| failed.may_delete(&set, "n", at(*second))).collect();
        assert_eq!(deleted, [0, 1, 3, 7, 15, 31]);
        assert!(failed.may_delete(&set, "m", at(40)), "each node has its own");
        assert!(!failed.may_delete(&set, "n", at(40)));
        let generation = json!({"metadata": set["metadata"], "status": {"observedGeneration": 2}});
        assert!(failed.may_delete(&generation, "n", at(40)), "each generation has its own");
        assert!(failed.may_delete(&set, "n", at(31 + 1800)), "it is forgotten after twice the longest");
        assert!(!failed.may_delete(&set, "n", at(31 + 1800)));
        assert!(failed.may_delete(&set, "n", at(31 + 1801)));
    }

    #[test]
    fn a_set_that_waits_is_due_once() {
        let at = |millis: i64| Timestamp::from_millisecond(millis).expect("a time");
        let set = json!({"metadata": {"namespace": "d", "name": "s", "uid": "u"}});
        let mut failed = FailedPods::default();
        assert!(failed.may_delete(&set, "n", at(0)));
        assert_eq!(failed.next(), None);
        assert!(!failed.may_delete(&set, "n", at(400)) && !failed.may_delete(&set, "n", at(600)));
        assert_eq!(failed.next(), Some(at(1400)));
        assert_eq!(failed.take_due(at(1399)).len(), 0);
        assert_eq!(failed.take_due(at(1400)), BTreeSet::from([("d".to_owned(), "s".to_owned())]));
        assert_eq!(failed.next(), None);
    }
}
