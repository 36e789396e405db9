//! The locks with which replicas of a program elect their leader, from the record of a run. Pure.
//!
//! A lock is a Lease that the program renews again and again, or any object with the annotation in which client-go up
//! to 0.23 keeps the holder (`tools/leaderelection/resourcelock`): a ConfigMap or Endpoints. A Lease that the program
//! writes once in a while is part of its work.

use std::collections::{BTreeMap, BTreeSet};

use plumbline::explore::entries::is_of_subject;
use plumbline::transcript::{Change, EntryKind, RecordedRequest, TranscriptEntry};
use serde_json::Value;

use super::state::key;

/// The annotation with the holder of a lock.
const LEADER: &str = "control-plane.alpha.kubernetes.io/leader";
/// Renewals in a row that make a Lease a lock.
const RENEWALS: usize = 3;

/// Locks, written as [`key`] writes objects.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Locks(BTreeSet<String>);

impl Locks {
    /// Returns the locks in these entries, and those that are `known` from another run.
    pub(super) fn new(entries: &[TranscriptEntry], known: Option<&BTreeSet<String>>) -> Self {
        let mut locks = known.cloned().unwrap_or_default();
        let mut renewals: BTreeMap<String, usize> = BTreeMap::new();
        for entry in entries {
            let EntryKind::Change(change) = &entry.what else { continue };
            let key = || key(&change.resource, change.namespace.as_deref(), &change.name);
            if change.new.as_deref().is_some_and(has_holder) {
                locks.insert(key());
            } else if is_renewal(change) && is_of_subject(change, entries) {
                let count = renewals.entry(key()).or_default();
                *count += 1;
                if *count == RENEWALS {
                    locks.insert(key());
                }
            }
        }
        Self(locks)
    }

    /// Returns the names of the locks.
    pub(super) fn names(&self) -> &BTreeSet<String> {
        &self.0
    }

    /// Returns true for the name of a lock.
    pub(super) fn has(&self, resource: &str, namespace: Option<&str>, name: &str) -> bool {
        !self.0.is_empty() && self.0.contains(&key(resource, namespace, name))
    }

    /// Returns true for a change of a lock.
    pub(super) fn has_change(&self, change: &Change) -> bool {
        self.has(&change.resource, change.namespace.as_deref(), &change.name)
    }

    /// Returns true for a request about a lock.
    pub(super) fn has_request(&self, request: &RecordedRequest) -> bool {
        let created = || request.body.as_deref().and_then(|body| body["metadata"]["name"].as_str());
        let name = request.name.as_deref().or_else(created);
        name.is_some_and(|name| self.has(&request.resource, request.namespace.as_deref(), name))
    }
}

fn has_holder(object: &Value) -> bool {
    object["metadata"]["annotations"].get(LEADER).is_some()
}

/// Returns true if nothing but the time of a Lease's renewal changes.
fn is_renewal(change: &Change) -> bool {
    const RENEWED: &str = "renewTime";
    let (Some(old), Some(new)) = (change.old.as_deref(), change.new.as_deref()) else { return false };
    let (Some(old), Some(new)) = (old["spec"].as_object(), new["spec"].as_object()) else { return false };
    let others = |spec: &serde_json::Map<String, Value>| {
        spec.iter().filter(|(name, _)| *name != RENEWED).map(|(name, value)| (name.clone(), value.clone())).collect()
    };
    let others_of_old: BTreeMap<String, Value> = others(old);
    change.resource == "leases" && old.get(RENEWED) != new.get(RENEWED) && others_of_old == others(new)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use plumbline::transcript::{Actor, ChangeKind, Origin, Transcript};
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn lease(renewed: usize, holder: &str) -> Value {
        json!({"metadata": {"name": "l"}, "spec": {"holderIdentity": holder, "renewTime": format!("t{renewed}")}})
    }

    #[rstest]
    #[case::renewed(&[lease(0, "a"), lease(1, "a"), lease(2, "a"), lease(3, "a")], "leases", true)]
    #[case::renewed_twice(&[lease(0, "a"), lease(1, "a"), lease(2, "a")], "leases", false)]
    #[case::taken_each_time(&[lease(0, "a"), lease(1, "b"), lease(2, "a"), lease(3, "b")], "leases", false)]
    #[case::annotated(&[json!({"metadata": {"annotations": {LEADER: "{}"}}})], "configmaps", true)]
    #[case::another(&[json!({"data": {"a": "1"}}), json!({"data": {"a": "2"}})], "configmaps", false)]
    fn locks_are_recognised(#[case] states: &[Value], #[case] resource: &str, #[case] expected: bool) {
        let transcript = Transcript::new();
        let mut old = None;
        for state in states {
            let request = RecordedRequest { verb: "update".to_owned(), ..RecordedRequest::default() };
            let seq = transcript.request(Duration::ZERO, Actor::Bystander("manager".to_owned()), request);
            let change = Change {
                kind: ChangeKind::Modified,
                group: String::new(),
                resource_version: 1,
                resource: resource.to_owned(),
                namespace: Some("default".to_owned()),
                name: "l".to_owned(),
                old: old.take(),
                new: Some(state.clone().into()),
                request: Some(seq),
            };
            transcript.change(Duration::ZERO, Origin::client("manager/1", ""), change);
            old = Some(state.clone().into());
        }
        let locks = transcript.with(|entries| Locks::new(entries, None));
        assert_eq!(locks.has(resource, Some("default"), "l"), expected);
        let request = RecordedRequest {
            verb: "create".to_owned(),
            resource: resource.to_owned(),
            namespace: Some("default".to_owned()),
            body: Some(json!({"metadata": {"name": "l"}}).into()),
            ..RecordedRequest::default()
        };
        assert_eq!(locks.has_request(&request), expected);
    }
}
