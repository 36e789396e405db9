//! Decides what a candidate does with the lease it observes. PURE.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::LeaseSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;

/// The next step.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum LeaseAction {
    /// There is no lease: create it with this spec.
    Create(LeaseSpec),
    /// The lease is ours or free: update the observed version to this spec.
    Update(LeaseSpec),
    /// Another replica holds the lease.
    Wait {
        /// The other replica.
        holder: String,
    },
}

/// Decides what to do with the lease `seen`, whose content has not changed for `unchanged_for`.
///
/// A record without a usable duration is respected for our own `lease_duration`; upstream takes it over at once.
pub(super) fn decide(
    seen: Option<&LeaseSpec>,
    identity: &str,
    unchanged_for: Duration,
    lease_duration: Duration,
    now: Timestamp,
) -> LeaseAction {
    let Some(seen) = seen else {
        return LeaseAction::Create(claim(&LeaseSpec::default(), identity, lease_duration, now));
    };
    let holder = holder(seen);
    if holder == identity {
        return LeaseAction::Update(renewal(seen, lease_duration, now));
    }
    if holder.is_empty() || unchanged_for >= respected_for(seen, lease_duration) {
        let transitions = seen.lease_transitions.unwrap_or_default().saturating_add(1);
        let claim = claim(seen, identity, lease_duration, now);
        return LeaseAction::Update(LeaseSpec { lease_transitions: Some(transitions), ..claim });
    }
    LeaseAction::Wait { holder: holder.to_owned() }
}

/// Returns the holder of the lease; empty if it is free.
pub(super) fn holder(spec: &LeaseSpec) -> &str {
    spec.holder_identity.as_deref().unwrap_or_default()
}

/// Returns the lease as its holder renews it.
pub(super) fn renewal(lease: &LeaseSpec, lease_duration: Duration, now: Timestamp) -> LeaseSpec {
    LeaseSpec {
        lease_duration_seconds: Some(seconds(lease_duration)),
        renew_time: Some(MicroTime(now)),
        ..lease.clone()
    }
}

/// Returns the lease as its holder releases it: free at once.
pub(super) fn release(lease: &LeaseSpec, now: Timestamp) -> LeaseSpec {
    LeaseSpec {
        holder_identity: Some(String::new()),
        lease_duration_seconds: Some(1),
        acquire_time: Some(MicroTime(now)),
        renew_time: Some(MicroTime(now)),
        ..lease.clone()
    }
}

/// Returns a new term of `identity`; unknown fields stay.
fn claim(seen: &LeaseSpec, identity: &str, lease_duration: Duration, now: Timestamp) -> LeaseSpec {
    LeaseSpec {
        holder_identity: Some(identity.to_owned()),
        lease_duration_seconds: Some(seconds(lease_duration)),
        acquire_time: Some(MicroTime(now)),
        renew_time: Some(MicroTime(now)),
        lease_transitions: Some(seen.lease_transitions.unwrap_or_default()),
        ..seen.clone()
    }
}

fn respected_for(seen: &LeaseSpec, ours: Duration) -> Duration {
    let seconds = seen.lease_duration_seconds.and_then(|seconds| u64::try_from(seconds).ok());
    seconds.filter(|seconds| *seconds > 0).map_or(ours, Duration::from_secs)
}

/// Returns whole seconds, rounded up, so that no other replica considers the lease expired before we do.
fn seconds(duration: Duration) -> i32 {
    i32::try_from(duration.as_secs() + u64::from(duration.subsec_nanos() > 0)).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    const OURS: Duration = Duration::from_secs(15);

    fn at(second: u8) -> Timestamp {
        format!("2026-01-01T00:00:{second:02}Z").parse().unwrap()
    }

    fn held_by(holder: &str, seconds: Option<i32>) -> LeaseSpec {
        LeaseSpec {
            holder_identity: Some(holder.into()),
            lease_duration_seconds: seconds,
            lease_transitions: Some(3),
            acquire_time: Some(MicroTime(at(1))),
            renew_time: Some(MicroTime(at(2))),
            ..LeaseSpec::default()
        }
    }

    #[test]
    fn without_a_lease_it_is_created() {
        let LeaseAction::Create(spec) = decide(None, "me", Duration::ZERO, OURS, at(5)) else { panic!("not created") };
        let expected = LeaseSpec {
            holder_identity: Some("me".into()),
            lease_duration_seconds: Some(15),
            lease_transitions: Some(0),
            acquire_time: Some(MicroTime(at(5))),
            renew_time: Some(MicroTime(at(5))),
            ..LeaseSpec::default()
        };
        assert_eq!(spec, expected);
    }

    #[test]
    fn ours_is_renewed_in_its_term() {
        let LeaseAction::Update(spec) = decide(Some(&held_by("me", Some(15))), "me", Duration::ZERO, OURS, at(9))
        else {
            panic!("not renewed")
        };
        assert_eq!(spec, LeaseSpec { renew_time: Some(MicroTime(at(9))), ..held_by("me", Some(15)) });
    }

    #[rstest]
    #[case::fresh(held_by("other", Some(15)), 0, false)]
    #[case::almost_over(held_by("other", Some(15)), 14, false)]
    #[case::over(held_by("other", Some(15)), 15, true)]
    #[case::its_own_duration_counts(held_by("other", Some(60)), 59, false)]
    #[case::its_own_duration_is_over(held_by("other", Some(2)), 2, true)]
    #[case::released(held_by("", Some(1)), 0, true)]
    #[case::no_holder(LeaseSpec { holder_identity: None, ..held_by("", Some(15)) }, 0, true)]
    #[case::no_duration(held_by("other", None), 14, false)]
    #[case::zero_duration(held_by("other", Some(0)), 14, false)]
    #[case::negative_duration(held_by("other", Some(-5)), 14, false)]
    #[case::no_duration_and_ours_is_over(held_by("other", None), 15, true)]
    fn of_others_only_what_is_over_is_taken(#[case] seen: LeaseSpec, #[case] unchanged: u64, #[case] taken: bool) {
        match decide(Some(&seen), "me", Duration::from_secs(unchanged), OURS, at(30)) {
            LeaseAction::Update(spec) => {
                assert!(taken, "{spec:?}");
                assert_eq!(spec.holder_identity.as_deref(), Some("me"));
                assert_eq!(spec.lease_transitions, Some(4));
                assert_eq!((spec.acquire_time, spec.renew_time), (Some(MicroTime(at(30))), Some(MicroTime(at(30)))));
                assert_eq!(spec.lease_duration_seconds, Some(15));
            }
            step => assert_eq!((step, taken), (LeaseAction::Wait { holder: "other".into() }, false)),
        }
    }

    #[test]
    fn released_is_free_for_anybody() {
        let spec = release(&held_by("me", Some(15)), at(20));
        assert_eq!((holder(&spec), spec.lease_duration_seconds), ("", Some(1)));
        assert_eq!(spec.lease_transitions, Some(3));
    }

    #[rstest]
    #[case(15_000, 15)]
    #[case(1_500, 2)]
    #[case(1, 1)]
    fn durations_are_rounded_up(#[case] millis: u64, #[case] expected: i32) {
        assert_eq!(seconds(Duration::from_millis(millis)), expected);
    }
}
