//! Translates faults in the words of fixtures into fault rules of the server.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use crate::apiserver::ResourceId;
use crate::apiserver::faults::{FaultAction, FaultRule, Faults, Predicate, RuleMatcher, WatchEnd};
use crate::fixture::error::Fail;
use crate::fixture::{Effect, Fault, RequestPattern, Resource, WatchFault};
use crate::time::Clock;
use crate::transcript::{Actor, Attributed as _, Origin, RecordedRequest};

/// A crash of the subject by a fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CrashEvent {
    /// Time until new controllers start.
    pub restart_after: Duration,
    /// The request that triggered the crash.
    pub at: String,
    /// The actor of that request.
    pub actor: Option<Actor>,
}

/// Called at a crash, before anything else of the subject runs.
pub type CrashHandler = Arc<dyn Fn(CrashEvent) + Send + Sync>;

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
/// `crash` has to disconnect the subject.
pub fn rule(
    fault: &Fault,
    clock: &Clock,
    leeway: (Duration, Duration),
    crash: &CrashHandler,
) -> (FaultRule, ArmedFault) {
    let last: Arc<Mutex<Option<Actor>>> = Arc::default();
    let mut verdict = action(fault, crash, &last);
    if let FaultAction::Reply { code, message: message @ None, .. } = &mut verdict {
        *message = Some(format!("the fixture's fault answers {code}"));
    }
    let armed = ArmedFault { on: fault.on.to_string(), nth: fault.nth, seen: Arc::default() };
    let seen = armed.seen.clone();
    let means = predicate(fault.on.clone(), clock.clone(), leeway, AnyActor::OfSubject);
    let on: Predicate = Arc::new(move |request, origin| {
        let is_meant = means(request, origin);
        if is_meant {
            seen.fetch_add(1, Ordering::Relaxed);
            *last.lock() = Some(origin.actor());
        }
        is_meant
    });
    let on = RuleMatcher::Fn(on);
    (FaultRule { name: fault.name.clone(), on, nth: fault.nth, count: fault.count, percent: 100, verdict }, armed)
}

/// Builds the rule of a server that programs outside use: without an actor it matches the requests of every client.
///
/// # Errors
///
/// Returns an error if the fault crashes controllers: the server cannot end a client.
pub fn served_rule(fault: &Fault, clock: &Clock) -> Result<FaultRule, Fail> {
    if matches!(fault.effect, Effect::Crash { .. }) {
        let fail = Fail::new("`crash` ends controllers that the harness has started; this server has started none");
        return Err(fail.hint("write `drop: before` or `drop: after`, and end the client yourself"));
    }
    let no_crash: CrashHandler = Arc::new(|_| {});
    let verdict = action(fault, &no_crash, &Arc::default());
    let on = predicate(fault.on.clone(), clock.clone(), (Duration::ZERO, Duration::ZERO), AnyActor::OfServer);
    let on = RuleMatcher::Fn(on);
    Ok(FaultRule { name: fault.name.clone(), on, nth: fault.nth, count: fault.count, percent: 100, verdict })
}

/// Returns the server's action for the effect of a fault: the only translation between the two.
///
/// They are two types, because an effect is what an author writes (it can be compared and written down again, and it
/// may crash controllers, which the server does not know), while an action is what the server does.
fn action(fault: &Fault, crash: &CrashHandler, last: &Arc<Mutex<Option<Actor>>>) -> FaultAction {
    match &fault.effect {
        Effect::Reply { code, reason, message, retry_after, applied } => FaultAction::Reply {
            code: *code,
            reason: reason.clone(),
            message: message.clone(),
            retry_after: retry_after.map(|seconds| i32::try_from(seconds).unwrap_or(i32::MAX)),
            applied: *applied,
        },
        Effect::Drop { applied } => FaultAction::Drop { applied: *applied },
        Effect::Delay { by, applied } => FaultAction::Delay { by: *by, applied: *applied },
        Effect::Crash { applied, restart_after } => {
            let crash = crash.clone();
            let restart_after = *restart_after;
            let last = last.clone();
            let at = format!("{} {}", if *applied { "after" } else { "before" }, fault.on);
            let tell = move || {
                let actor = last.lock().clone();
                crash(CrashEvent { restart_after, at: at.clone(), actor });
            };
            FaultAction::Hang { applied: *applied, tell: Arc::new(tell) }
        }
    }
}

/// Returns the key of a resource on the server.
#[must_use]
pub fn resource_id(resource: &Resource) -> ResourceId {
    ResourceId::new(&resource.group, &resource.plural)
}

/// Starts or ends a fault of lists and watches; `revision` is the server's present one. Returns a note for the
/// transcript, if there is one.
pub fn set_watch_fault(faults: &Faults, revision: u64, fault: &WatchFault) -> Option<String> {
    Some(match fault {
        WatchFault::Drop(resource) => {
            faults.end_watches(resource.as_ref().map(resource_id).as_ref(), WatchEnd::Broken);
            let which = resource.as_ref().map_or("everything", |resource| &resource.plural);
            format!("watches of {which} break")
        }
        WatchFault::Hold(resource) => {
            faults.hold(&resource_id(resource));
            format!("watch events of {} are held", resource.plural)
        }
        WatchFault::Release { resource, coalesce } => {
            faults.release(&resource_id(resource), coalesce.then_some(revision));
            let how = if *coalesce { ", coalesced" } else { "" };
            format!("watch events of {} are let go{how}", resource.plural)
        }
        WatchFault::StaleList(resource) => {
            faults.set_stale(&resource_id(resource), Some(revision));
            format!("lists of {} stay as they are now", resource.plural)
        }
        WatchFault::FreshList(resource) => {
            faults.set_stale(&resource_id(resource), None);
            format!("lists of {} are current again", resource.plural)
        }
        WatchFault::Pages { resource, limit } => {
            let size = limit.map(|limit| usize::try_from(limit).unwrap_or(usize::MAX));
            faults.set_page_size(&resource_id(resource), size);
            match limit {
                Some(limit) => format!("lists of {} have pages of {limit}", resource.plural),
                None => format!("lists of {} have the pages that clients ask for", resource.plural),
            }
        }
        WatchFault::Repeat { resource, twice } => {
            faults.set_repeated(&resource_id(resource), *twice);
            let how = if *twice { "twice" } else { "once" };
            format!("watch events of {} are delivered {how}", resource.plural)
        }
        WatchFault::Bookmark(resource) => {
            faults.send_bookmarks(&resource_id(resource));
            format!("watches of {} send a bookmark", resource.plural)
        }
        WatchFault::Order { seed, depth } => {
            faults.set_order(*seed, *depth);
            return None;
        }
    })
}

/// The requests that a pattern without an actor matches.
#[derive(Clone, Copy)]
enum AnyActor {
    /// Those of the subject.
    OfSubject,
    /// Those of every client.
    OfServer,
}

impl AnyActor {
    fn covers(self, origin: &Origin) -> bool {
        match self {
            Self::OfSubject => origin.actor().is_subject(),
            Self::OfServer => true,
        }
    }
}

/// Returns the predicate for `pattern`.
fn predicate(
    pattern: RequestPattern,
    clock: Clock,
    (tolerance, late): (Duration, Duration),
    any_actor: AnyActor,
) -> Predicate {
    Arc::new(move |request, origin| {
        pattern.at.is_none_or(|at| {
            let now = clock.elapsed();
            at <= now + tolerance && now <= at + tolerance + late
        }) && pattern.actor.as_deref().map_or_else(|| any_actor.covers(origin), |name| name == origin.actor().name())
            && pattern.verb.covers(&request.verb)
            && is_aimed_at(&pattern, request)
    })
}

fn is_aimed_at(pattern: &RequestPattern, request: &RecordedRequest) -> bool {
    let target = &pattern.target;
    let name = request.name.as_deref().or_else(|| request.body.as_ref()?.get("metadata")?.get("name")?.as_str());
    let subresource = target.subresource.as_deref();
    target.covers(&request.group, &request.resource, request.namespace.as_deref(), name.unwrap_or_default())
        && (subresource == Some("*") || subresource == request.subresource.as_deref())
}
