//! Translates a fixture's faults into fault rules of the server.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tokio::sync::mpsc::UnboundedSender;

use crate::apiserver::Status;
use crate::apiserver::faults::{FaultAction, FaultRule, Predicate, RuleMatcher, usual_reason};
use crate::fixture::{Effect, Fault, RequestPattern};
use crate::time::Clock;
use crate::transcript::{Attributed as _, Origin, RecordedRequest};

/// A crash of the subject by a fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CrashEvent {
    /// Time until new controllers start.
    pub restart_after: Duration,
    /// The request that triggered the crash.
    pub at: String,
}

/// An armed fault and the number of requests that it matched.
#[derive(Clone, Debug)]
pub struct ArmedFault {
    /// The fault's request pattern as text.
    pub on: String,
    /// The first matching request that the fault affects.
    pub nth: u32,
    /// Number of matching requests so far.
    pub seen: Arc<AtomicU32>,
}

impl ArmedFault {
    /// Returns true if the fault has not affected any request.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.seen.load(Ordering::Relaxed) < self.nth
    }
}

/// Builds the fault rule and its hit counter. Times match within `leeway`: the tolerance, and the additional lateness.
/// A crash disconnects the subject through `cut` and is reported to `crashes`.
pub fn rule(
    fault: &Fault,
    clock: &Clock,
    leeway: (Duration, Duration),
    cut: Arc<dyn Fn() + Send + Sync>,
    crashes: &UnboundedSender<CrashEvent>,
) -> (FaultRule, ArmedFault) {
    let verdict = match &fault.effect {
        Effect::Reply { code, reason, message, retry_after, applied } => {
            let reason = reason.clone().unwrap_or_else(|| usual_reason(*code).to_owned());
            let message = message.clone().unwrap_or_else(|| format!("the fixture's fault answers {code}"));
            let mut status = Status::failure(*code, &reason, message);
            if let Some(seconds) = retry_after {
                status = status.with_retry_after(i32::try_from(*seconds).unwrap_or(i32::MAX));
            }
            FaultAction::Reply { status, applied: *applied }
        }
        Effect::Drop { applied } => FaultAction::Drop { applied: *applied },
        Effect::Delay { by, applied } => FaultAction::Delay { by: *by, applied: *applied },
        Effect::Crash { applied, restart_after } => {
            let when = if *applied { "after" } else { "before" };
            let crashed = CrashEvent { restart_after: *restart_after, at: format!("{when} {}", fault.on) };
            let crashes = crashes.clone();
            let tell = move || {
                cut();
                // If the receiver is gone, the fixture is over.
                let _ = crashes.send(crashed.clone());
            };
            FaultAction::Hang { applied: *applied, tell: Arc::new(tell) }
        }
    };
    let armed = ArmedFault { on: fault.on.to_string(), nth: fault.nth, seen: Arc::default() };
    let (seen, means) = (armed.seen.clone(), predicate(fault.on.clone(), clock.clone(), leeway));
    let on: Predicate = Arc::new(move |request, actor| {
        let is_meant = means(request, actor);
        seen.fetch_add(u32::from(is_meant), Ordering::Relaxed);
        is_meant
    });
    let on = RuleMatcher::Fn(on);
    (FaultRule { name: fault.name.clone(), on, nth: fault.nth, count: fault.count, percent: 100, verdict }, armed)
}

/// Returns the predicate for `pattern`; without an actor it matches any request of the subject.
fn predicate(pattern: RequestPattern, clock: Clock, (tolerance, late): (Duration, Duration)) -> Predicate {
    Arc::new(move |request, origin| {
        pattern.at.is_none_or(|at| {
            let now = clock.elapsed();
            at <= now + tolerance && now <= at + tolerance + late
        }) && pattern.actor.as_deref().map_or_else(|| origin.actor().is_subject(), |name| name == origin.actor().name())
            && pattern.verb.covers(&request.verb)
            && is_aimed_at(&pattern, request, origin)
    })
}

fn is_aimed_at(pattern: &RequestPattern, request: &RecordedRequest, _origin: &Origin) -> bool {
    let target = &pattern.target;
    let name = request.name.as_deref().or_else(|| request.body.as_ref()?.get("metadata")?.get("name")?.as_str());
    let subresource = target.subresource.as_deref();
    target.covers(&request.group, &request.resource, request.namespace.as_deref(), name.unwrap_or_default())
        && (subresource == Some("*") || subresource == request.subresource.as_deref())
}
