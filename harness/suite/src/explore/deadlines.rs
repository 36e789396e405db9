//! Oracles of time: evictions that are overdue, durations that follow the wall clock, and controllers that do not come
//! back after they were cut off. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use plumbline::expect::requests;
use plumbline::expect::world::ObjectStates;
use plumbline::explore::disturbance::{FaultTrait, RESTART_AFTER};
use plumbline::explore::point::Site;
use plumbline::fixture::pattern::Verb;
use plumbline::fixture::{Controller, Fixture};
use plumbline::object_meta;
use plumbline::rules::budgets::{BUDGET_STATUS, BUDGETS, says_sync_failed};
use plumbline::rules::queue::MAX_DELAY;
use plumbline::rules::recorder::SENDING;
use plumbline::rules::taints::toleration_limit_of;
use plumbline::transcript::by_object::STARTS;
use plumbline::transcript::{Actor, Attributed as _, EntryKind, TranscriptEntry};
use serde_json::{Value, json};

use super::observation::{Observation, WriteKey};
use super::oracle::{Breach, ExploredRun, ReferenceRun, is_uninformed_at};
use super::plan::FaultPlan;
use super::script::{controls_subject, disturbs_watches, has_faults, stays_uninformed};

/// Time after which an eviction is overdue in a run without faults.
const PROMPT: Duration = Duration::from_secs(15);
/// Time by which each fault delays an eviction, in addition to its own duration.
const DELAY_PER_FAULT: Duration = Duration::from_secs(90);
/// Time after which controllers list or watch again at the latest: client-go's longest back-off of a reflector, 30 s,
/// doubled by its jitter, and the time of an attempt.
const RECONNECT: Duration = Duration::from_secs(90);
/// Time in which controllers learn of a change and act on it.
const AT_ONCE: Duration = Duration::from_millis(500);
/// Difference of two times that are equal but for the order of work.
const SAME_TIME: Duration = Duration::from_secs(2);

/// A pod that may not stay on its node.
#[derive(Debug, Clone, Copy)]
struct Stay {
    /// Since when a taint limits its stay.
    since: Duration,
    /// The limit that counts: the first one of this stay, as in upstream's queue, or zero if no toleration is left.
    limit: Duration,
}

/// Returns pods that were evicted later than their tolerations allow, or not at all.
pub(super) fn overdue(fixture: &Fixture, begin: &ObjectStates, explored: ExploredRun<'_>) -> Option<Breach> {
    // A restart begins each countdown again, and the limit that counts is that of the first taint that was seen.
    let restarts = explored
        .plan
        .faults
        .iter()
        .any(|(disturbance, point)| disturbance.is(FaultTrait::Restarts) || disturbance.delays_information(point));
    // Limits of the client's rate delay everything.
    let judged = fixture.controllers.contains(&Controller::TaintEviction)
        && !fixture.flags.contains_key("kube-api-qps")
        && !(restarts || controls_subject(fixture) || has_faults(fixture) || stays_uninformed(fixture));
    if !judged {
        return None;
    }
    let delays = explored.plan.faults.iter().map(|(disturbance, _)| disturbance.duration() + DELAY_PER_FAULT);
    let slack = PROMPT + delays.sum::<Duration>();
    let entries = &explored.entries[..explored.observation.quiet_at.min(explored.entries.len())];
    let mut world = begin.clone();
    let mut stays: BTreeMap<String, Stay> = BTreeMap::new();
    update(&mut stays, &world, None, Duration::ZERO);
    for entry in entries {
        let EntryKind::Change(change) = &entry.what else { continue };
        world.step(entry);
        let concerned = match change.resource.as_str() {
            "pods" => change.new.as_ref().or(change.old.as_ref()).map(|pod| (false, uid_of(pod))),
            "nodes" => Some((true, change.name.clone())),
            _ => None,
        };
        let Some((is_node, name)) = concerned else { continue };
        if let Some(stay) = stays.get(&name).filter(|_| !is_node)
            && entry.at > stay.since + stay.limit + slack
        {
            return Some(late_eviction(&change.name, *stay, entry.at));
        }
        update(&mut stays, &world, Some((is_node, &name)), entry.at);
    }
    None
}

fn uid_of(pod: &Value) -> String {
    object_meta::uid(pod).unwrap_or_default().to_owned()
}

/// Updates the stays of the pods on this node, of this pod, or of all pods.
fn update(stays: &mut BTreeMap<String, Stay>, world: &ObjectStates, concerned: Option<(bool, &str)>, now: Duration) {
    if let Some((false, uid)) = concerned
        && !world.all("pods").any(|(_, pod)| object_meta::uid(pod) == Some(uid))
    {
        stays.remove(uid);
        return;
    }
    let is_concerned = |pod: &Value| match concerned {
        None => true,
        Some((true, node)) => pod["spec"]["nodeName"] == node,
        Some((false, uid)) => object_meta::uid(pod) == Some(uid),
    };
    for (_, pod) in world.all("pods").filter(|(_, pod)| is_concerned(pod)) {
        let uid = uid_of(pod);
        let live = !object_meta::is_terminating(pod);
        // The deletion of a node ends no countdown.
        let is_lost = live && !world.all("nodes").any(|(key, _)| pod["spec"]["nodeName"] == *key.name);
        match toleration_limit_of(world, pod).filter(|_| live) {
            None if is_lost => {}
            None => _ = stays.remove(&uid),
            Some(limit) => {
                let stay = stays.entry(uid).or_insert(Stay { since: now, limit });
                if limit.is_zero() && !stay.limit.is_zero() {
                    *stay = Stay { since: now, limit };
                }
            }
        }
    }
}

/// Returns the eviction of a pod that may stay on its node, and of which the controllers know it: the taint went, or is
/// tolerated, before the request was sent.
pub(super) fn needless(fixture: &Fixture, begin: &ObjectStates, explored: ExploredRun<'_>) -> Option<Breach> {
    if !fixture.controllers.contains(&Controller::TaintEviction) || disturbs_watches(fixture) {
        return None;
    }
    let mut world = begin.clone();
    // When each pod's stay was last limited.
    let mut limited: BTreeMap<String, Duration> = BTreeMap::new();
    for entry in explored.entries {
        match &entry.what {
            EntryKind::Change(change) if matches!(change.resource.as_str(), "pods" | "nodes") => {
                note_limits(&mut limited, &world, entry.at);
                world.step(entry);
            }
            EntryKind::Request(exchange) if entry.actor() == Actor::TaintEviction => {
                let request = &exchange.request;
                let deletes = request.verb == "delete" && request.resource == "pods";
                let succeeds = exchange.reply.as_ref().is_some_and(|reply| (200..300).contains(&reply.status));
                if !(deletes && succeeds) || is_uninformed_at(entry.at, explored.plan) {
                    continue;
                }
                note_limits(&mut limited, &world, entry.at);
                let mut pods = world.all("pods");
                let found = pods
                    .find(|(key, _)| request.name.as_ref() == Some(&key.name) && request.namespace == key.namespace);
                let Some((_, pod)) = found else { continue };
                let last = limited.get(&uid_of(pod)).copied();
                // The deletion of a node ends no countdown.
                let has_node = world.all("nodes").any(|(key, _)| pod["spec"]["nodeName"] == *key.name);
                if has_node
                    && toleration_limit_of(&world, pod).is_none()
                    && last.is_some_and(|last| last + AT_ONCE <= entry.at)
                {
                    let name = request.name.clone().unwrap_or_default();
                    return Some(Breach {
                        oracle: "early".to_owned(),
                        resource: "pods".to_owned(),
                        kind: "eviction".to_owned(),
                        at: entry.at,
                        text: format!("pods/{name} is evicted at {:?}, but it may stay since {last:?}", entry.at),
                        expected: json!({ "exists": format!("pods/{name}") }),
                    });
                }
            }
            _ => {}
        }
    }
    None
}

/// Notes the pods whose stay is limited now.
fn note_limits(limited: &mut BTreeMap<String, Duration>, world: &ObjectStates, now: Duration) {
    let pods = world.all("pods").filter(|(_, pod)| toleration_limit_of(world, pod).is_some());
    limited.extend(pods.map(|(_, pod)| (uid_of(pod), now)));
}

fn late_eviction(pod: &str, stay: Stay, at: Duration) -> Breach {
    let Stay { since, limit } = stay;
    Breach {
        oracle: "late".to_owned(),
        resource: "pods".to_owned(),
        kind: "eviction".to_owned(),
        at,
        text: format!("pods/{pod} may stay on its node for {limit:?} from {since:?} on and is evicted at {at:?}"),
        expected: json!({ "absent": format!("pods/{pod}") }),
    }
}

/// Returns a write whose time changes although only the controllers' wall clock was set. The disruption controller
/// compares times in objects with that clock; all others measure durations.
pub(super) fn follows_wall_clock(reference: &ReferenceRun, explored: ExploredRun<'_>) -> Option<Breach> {
    let faults = &explored.plan.faults;
    if faults.is_empty() || !faults.iter().all(|(disturbance, _)| disturbance.steps_clock()) {
        return None;
    }
    let measures = |key: &WriteKey| key.actor != Actor::Disruption && key.resource != "events";
    let times = |observation: &Observation| -> BTreeMap<WriteKey, Duration> {
        observation.last_writes.iter().filter(|(key, _)| measures(key)).map(|(key, at)| (key.clone(), *at)).collect()
    };
    let (normal, found) = (times(&reference.observation), times(explored.observation));
    normal.iter().find_map(|(key, usual)| {
        let at = found.get(key)?;
        (at.abs_diff(*usual) > SAME_TIME).then(|| Breach {
            oracle: "clock".to_owned(),
            resource: key.resource.clone(),
            kind: format!("{} {}", key.actor, key.verb),
            at: *at,
            text: format!("{key} at {at:?}; without the step of the wall clock at {usual:?}"),
            expected: json!({ "quiet": true }),
        })
    })
}

/// Returns a resource that the controllers watched before they were cut off, and neither listed nor watched again in
/// time afterwards.
pub(super) fn stays_away(fixture: &Fixture, explored: ExploredRun<'_>) -> Option<Breach> {
    let plan = explored.plan;
    // Controllers that the fixture has stopped have no watches.
    if controls_subject(fixture) {
        return None;
    }
    // A watch that another fault concerns is served in spite of the partition, or later.
    let disturbed = plan.faults.iter().any(|(disturbance, point)| {
        disturbance.is(FaultTrait::Restarts) || matches!(point.site, Site::Request(Verb::List | Verb::Watch))
    }) || plan.faults.iter().filter(|(disturbance, _)| disturbance.cut_off().is_some()).count() > 1;
    let (from, healed) = plan
        .faults
        .iter()
        .filter(|_| !disturbed)
        .find_map(|(disturbance, point)| Some((point.at, point.at + disturbance.cut_off()?)))?;
    let seen = |during: &dyn Fn(&TranscriptEntry) -> bool| -> BTreeSet<(String, String)> {
        requests(explored.entries)
            .filter(|(entry, exchange)| {
                entry.actor().is_subject()
                    && matches!(exchange.request.verb.as_str(), "list" | "watch")
                    && during(entry)
            })
            .map(|(_, exchange)| (exchange.request.group.clone(), exchange.request.resource.clone()))
            .collect()
    };
    let before = seen(&|entry| entry.at < from);
    let after = seen(&|entry| entry.at >= healed && entry.at <= healed + RECONNECT);
    let (_, resource) = before.difference(&after).next()?;
    Some(Breach {
        oracle: "late".to_owned(),
        resource: resource.clone(),
        kind: "reconnect".to_owned(),
        at: healed + RECONNECT,
        text: format!("{resource} are neither listed nor watched within {RECONNECT:?} after the server is back"),
        expected: json!({ "quiet": true }),
    })
}

/// Returns true if a write to a budget at this time may have waited for the work queue: its sync fails anyway, so the
/// key waits for up to the longest back-off after a faulty request made it fail once more, as in client-go.
pub(super) fn is_backed_off(explored: ExploredRun<'_>, key: &WriteKey, at: Duration) -> bool {
    // With several faults a request of this number may come at another time.
    let faulty = requests(explored.entries).filter(|(_, exchange)| {
        let request = &exchange.request;
        let of_budget = request.resource == BUDGETS && request.name.as_ref() == Some(&key.name);
        (of_budget || request.subresource.as_deref() == Some("scale"))
            && exchange.reply.as_ref().is_some_and(|reply| reply.fault.is_some())
    });
    let last = faulty.map(|(entry, _)| entry.at).take_while(|time| *time <= at).last().unwrap_or_default();
    let refused = explored.plan.faults.iter().any(|(disturbance, point)| {
        let of_budget = point.target.resource.plural == BUDGETS && point.target.name == key.name;
        // The sync asks for the scale of an owner, and its failure gives the budget another reason.
        let of_scale = point.target.subresource.as_deref() == Some("scale");
        matches!(point.site, Site::Request(_))
            && (of_budget || of_scale)
            && at <= last.max(point.at) + disturbance.duration() + RECONNECT + MAX_DELAY
    });
    let fails = || {
        explored.entries.iter().any(|entry| match &entry.what {
            EntryKind::Change(change) if change.resource == BUDGETS && change.name == key.name => {
                change.new.as_deref().is_some_and(says_sync_failed)
            }
            _ => false,
        })
    };
    key.resource == BUDGET_STATUS && refused && fails()
}

/// Returns true if controllers ended while their recorder may have had an Event to send once more: it keeps Events in
/// memory, so these are lost with it, as in client-go.
fn may_lose_events(plan: &FaultPlan, entries: &[TranscriptEntry]) -> bool {
    let times = || plan.faults.iter().map(|(_, point)| point.at);
    let (Some(first), Some(last)) = (times().min(), times().max()) else { return false };
    let period = first..=last + SENDING + RESTART_AFTER;
    let starts = |entry: &TranscriptEntry| matches!(&entry.what, EntryKind::Note(text) if text == STARTS);
    entries.iter().any(|entry| starts(entry) && period.contains(&entry.at))
}

/// Returns an Event of the run without faults that a failed request about Events made disappear. One that was lost with
/// the memory of its sender is not expected.
pub(super) fn lost_event(reference: &ReferenceRun, explored: ExploredRun<'_>) -> Option<Breach> {
    let faults = &explored.plan.faults;
    // The recorder sends again what no server answered; an answer is final, as in client-go. After a delay the name,
    // which is made from the time, may be taken by another controller's Event of the same instant of virtual time.
    let about_events = faults.iter().all(|(disturbance, point)| {
        point.target.resource.plural == "events" && disturbance.is(FaultTrait::BreaksConnection)
    });
    let until_quiet = &explored.entries[..explored.observation.quiet_at.min(explored.entries.len())];
    if faults.is_empty() || !about_events || may_lose_events(explored.plan, until_quiet) {
        return None;
    }
    let (object, reason) = reference.observation.events.difference(&explored.observation.events).next()?;
    Some(Breach {
        oracle: "end state".to_owned(),
        resource: "events".to_owned(),
        kind: "is missing".to_owned(),
        at: explored.record.end,
        text: format!("there is no Event {reason} about {object}; without the fault there is"),
        expected: json!({ "quiet": true }),
    })
}

#[cfg(test)]
mod tests {
    use plumbline::explore::disturbance::Disturbance;
    use plumbline::explore::point::FaultPoint;
    use plumbline::transcript::Transcript;
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::while_it_waits_to_send_again(12, true)]
    #[case::before_the_fault(9, false)]
    #[case::after_the_last_try(133, false)]
    fn a_restart_may_lose_events(#[case] at: u64, #[case] lost: bool) {
        let transcript = Transcript::new();
        transcript.note(Duration::from_secs(at), STARTS);
        let mut plan = FaultPlan::calm("faults/a");
        let point = FaultPoint { at: Duration::from_secs(10), ..FaultPoint::of_run(1) };
        plan.faults.push((Disturbance::parse("drop").expect("a fault"), point));
        assert_eq!(may_lose_events(&plan, &transcript.entries()), lost);
    }
}
