//! Invariants of the disruption controller.

use std::collections::BTreeSet;

use jiff::SignedDuration;
use serde_json::Value;

use super::violation::Violation;
use crate::expect::{JudgeContext, requests};
use crate::fixture::Action;
use crate::fixture::parse::step_actions;
use crate::metadata;
use crate::rules::budgets::{BUDGETS, STALE_POD_DISRUPTION_TIMEOUT, check_status, says_sync_failed};
use crate::rules::pods::{DISRUPTION_TARGET, condition};
use crate::transcript::{Actor, Attributed as _, RecordedJson};

/// See [`super::ALL`].
pub(super) fn disruptions_allowed(context: &JudgeContext<'_>) -> Vec<Violation> {
    context.changes(&Actor::Disruption, BUDGETS, |entry, _, _, new| {
        check_status(&new["status"]).err().map(|found| Violation::new(entry, found.to_string()))
    })
}

/// See [`super::ALL`].
pub(super) fn status_carries_version(context: &JudgeContext<'_>) -> Vec<Violation> {
    let mine = requests(context.run.entries).filter(|(entry, exchange)| {
        exchange.request.resource == BUDGETS
            && matches!(exchange.request.verb.as_str(), "update" | "patch")
            && entry.actor() == Actor::Disruption
    });
    let unversioned = mine.filter(|(_, exchange)| {
        let version = exchange.request.body.as_ref().and_then(|body| metadata::resource_version(body));
        version.is_none_or(str::is_empty)
    });
    unversioned.map(|(entry, _)| Violation::new(entry, "no resourceVersion in the body")).collect()
}

/// See [`super::ALL`].
pub(super) fn generation_never_falls(context: &JudgeContext<'_>) -> Vec<Violation> {
    context.changes(&Actor::Disruption, BUDGETS, |entry, _, old, new| {
        let observed = |object: &Value| object["status"]["observedGeneration"].as_i64().unwrap_or(0);
        let generation = metadata::generation(new).unwrap_or(i64::MAX);
        let now = observed(new);
        // A status ahead of its own generation was copied from an earlier object of that name by another client. A
        // failed sync leaves the field as it is.
        let is_own = |old: &&RecordedJson| observed(old) <= metadata::generation(old).unwrap_or(i64::MAX);
        let before = old.filter(is_own).map_or(0, |old| observed(old));
        let kept = says_sync_failed(new) && old.is_some_and(|old| observed(old) == now);
        (!kept && (now < before || now > generation)).then(|| {
            Violation::new(entry, format!("observedGeneration {before} became {now}, the generation is {generation}"))
        })
    })
}

fn claims(object: &Value) -> BTreeSet<&str> {
    object["status"]["disruptedPods"].as_object().into_iter().flatten().map(|(name, _)| name.as_str()).collect()
}

/// See [`super::ALL`].
pub(super) fn claims_are_not_invented(context: &JudgeContext<'_>) -> Vec<Violation> {
    context.changes(&Actor::Disruption, BUDGETS, |entry, _, old, new| {
        let before = old.map(|old| claims(old)).unwrap_or_default();
        let added: Vec<&str> = claims(new).difference(&before).copied().collect();
        (!added.is_empty()).then(|| Violation::new(entry, format!("added {added:?}")))
    })
}

/// See [`super::ALL`].
pub(super) fn foreign_conditions_survive(context: &JudgeContext<'_>) -> Vec<Violation> {
    let kept = |resource: &str, own: &str| {
        context.changes(&Actor::Disruption, resource, |entry, _, old, new| {
            let conditions = old?["status"]["conditions"].as_array()?;
            let mut foreign = conditions.iter().filter(|condition| condition["type"] != own);
            let lost = foreign.find(|old| condition(new, old["type"].as_str().unwrap_or_default()) != Some(*old))?;
            Some(Violation::new(entry, format!("the condition {} was lost or changed", lost["type"])))
        })
    };
    let mut violations = kept(BUDGETS, "DisruptionAllowed");
    violations.extend(kept("pods", DISRUPTION_TARGET));
    violations
}

/// See [`super::ALL`].
pub(super) fn conditions_age_two_minutes(context: &JudgeContext<'_>) -> Vec<Violation> {
    let skewed = context.fixture.steps.iter().flat_map(step_actions).any(|action| matches!(action, Action::Skew(_)));
    let tolerance = SignedDuration::try_from(context.run.tolerance).unwrap_or(SignedDuration::ZERO);
    context.changes(&Actor::Disruption, "pods", |entry, _, old, new| {
        let old = old?;
        let before = condition(old, DISRUPTION_TARGET).filter(|condition| condition["status"] == "True")?;
        let reset = condition(new, DISRUPTION_TARGET).is_some_and(|condition| condition["status"] == "False");
        if !reset {
            return None;
        }
        let phase = old["status"]["phase"].as_str().unwrap_or_default();
        let observed = if metadata::is_terminating(old) {
            "the pod is terminating".to_owned()
        } else if matches!(phase, "Succeeded" | "Failed") {
            format!("the pod is {phase}")
        } else if before["reason"] == "TerminationByKubelet" {
            "the kubelet set it".to_owned()
        } else {
            let set: jiff::Timestamp = before["lastTransitionTime"].as_str()?.parse().ok()?;
            let reset = context.run.start.checked_add(entry.at).ok()?;
            let age = reset.duration_since(set);
            // The condition's time is from another client's clock, so the whole tolerance applies.
            if age.saturating_add(tolerance) >= STALE_POD_DISRUPTION_TIMEOUT || skewed {
                return None;
            }
            format!("it is {} s old", age.as_secs())
        };
        Some(Violation::new(entry, observed))
    })
}
