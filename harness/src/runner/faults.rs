//! A fixture's faults, in the words of the server.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tokio::sync::mpsc::UnboundedSender;

use crate::apiserver::Status;
use crate::apiserver::faults::{On, Predicate, Rule, Verdict, usual_reason};
use crate::fixture::{Effect, Fault, RequestPattern};
use crate::time::Clock;
use crate::transcript::{Attributed as _, Origin, Request};

/// The subject was crashed by a fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Crashed {
    /// For how long nothing runs.
    pub restart_after: Duration,
    /// At which request.
    pub at: String,
}

/// A fault that was armed, and how many requests it has been asked about that it means.
#[derive(Clone, Debug)]
pub struct Armed {
    /// The fault's own words.
    pub on: String,
    /// The first request that it hits.
    pub nth: u32,
    /// The requests so far.
    pub seen: Arc<AtomicU32>,
}

impl Armed {
    /// Whether nothing has come of it.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.seen.load(Ordering::Relaxed) < self.nth
    }
}

/// The rule for `fault`, and what will be known of it. Its times hold within `leeway`: as far off, and so much later. A crash cuts the subject off through `cut` and is told to `crashes`.
pub fn rule(
    fault: &Fault,
    clock: &Clock,
    leeway: (Duration, Duration),
    cut: Arc<dyn Fn() + Send + Sync>,
    crashes: &UnboundedSender<Crashed>,
) -> (Rule, Armed) {
    let verdict = match &fault.effect {
        Effect::Reply { code, reason, message, retry_after, applied } => {
            let reason = reason.clone().unwrap_or_else(|| usual_reason(*code).to_owned());
            let message = message.clone().unwrap_or_else(|| format!("the fixture's fault answers {code}"));
            let mut status = Status::failure(*code, &reason, message);
            if let Some(seconds) = retry_after {
                status = status.with_retry_after(i32::try_from(*seconds).unwrap_or(i32::MAX));
            }
            Verdict::Reply { status, applied: *applied }
        }
        Effect::Drop { applied } => Verdict::Drop { applied: *applied },
        Effect::Delay { by, applied } => Verdict::Delay { by: *by, applied: *applied },
        Effect::Crash { applied, restart_after } => {
            let when = if *applied { "after" } else { "before" };
            let crashed = Crashed { restart_after: *restart_after, at: format!("{when} {}", fault.on) };
            let crashes = crashes.clone();
            let tell = move || {
                cut();
                // Without a listener the fixture is over.
                let _ = crashes.send(crashed.clone());
            };
            Verdict::Hang { applied: *applied, tell: Arc::new(tell) }
        }
    };
    let armed = Armed { on: fault.on.to_string(), nth: fault.nth, seen: Arc::default() };
    let (seen, means) = (armed.seen.clone(), predicate(fault.on.clone(), clock.clone(), leeway));
    let on: Predicate = Arc::new(move |request, actor| {
        let is_meant = means(request, actor);
        seen.fetch_add(u32::from(is_meant), Ordering::Relaxed);
        is_meant
    });
    let on = On::Predicate(on);
    (Rule { name: fault.name.clone(), on, nth: fault.nth, count: fault.count, percent: 100, verdict }, armed)
}

/// Whether a request is meant; without an actor: any of the subject's.
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

fn is_aimed_at(pattern: &RequestPattern, request: &Request, _origin: &Origin) -> bool {
    let target = &pattern.target;
    let name = request.name.as_deref().or_else(|| request.body.as_ref()?.get("metadata")?.get("name")?.as_str());
    let subresource = target.subresource.as_deref();
    target.covers(&request.group, &request.resource, request.namespace.as_deref(), name.unwrap_or_default())
        && (subresource == Some("*") || subresource == request.subresource.as_deref())
}
