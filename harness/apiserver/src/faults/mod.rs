//! Fault injection: ordered rules that decide the fate of a request, and gates that control watches and lists.
//!
//! Rules are tried in the order in which they were added. The first rule that matches a request *and* is due (its `nth`
//! match has been reached, its `count` is not used up) decides. Each rule counts its matches separately. Only `percent`
//! draws random numbers, and those come from the server's seed.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Waker};
use std::time::Duration;

use parking_lot::Mutex;
use serde::{Deserialize, Deserializer};

use super::ids::IdGenerator;
use super::request::Reply;
use super::status::Status;
use super::store::ResourceId;
use super::work_order::WorkOrder;
use crate::clock::Clock;
use crate::record::{Origin, RecordedRequest};

/// Selects requests by their fields. A request matches if it agrees with every field that is set.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub struct RequestMatcher {
    /// API verbs; empty matches any.
    pub verbs: Vec<String>,
    /// API group; absent matches any.
    pub group: Option<String>,
    /// Plural resource name; absent matches any.
    pub resource: Option<String>,
    /// Subresource; absent matches any, empty matches the object itself.
    pub subresource: Option<String>,
    /// Namespace; absent matches any.
    pub namespace: Option<String>,
    /// Object name; absent matches any.
    pub name: Option<String>,
    /// Substring of the user agent; absent matches any.
    pub user_agent: Option<String>,
}

impl RequestMatcher {
    /// Returns true if the request matches.
    pub fn fits(&self, request: &RecordedRequest) -> bool {
        let same = |wanted: &Option<String>, found: Option<&str>| {
            wanted.as_deref().is_none_or(|wanted| wanted == found.unwrap_or_default())
        };
        (self.verbs.is_empty() || self.verbs.contains(&request.verb))
            && same(&self.group, Some(&request.group))
            && same(&self.resource, Some(&request.resource))
            && same(&self.subresource, request.subresource.as_deref())
            && same(&self.namespace, request.namespace.as_deref())
            && same(&self.name, request.name.as_deref())
            && self.user_agent.as_deref().is_none_or(|part| request.user_agent.contains(part))
    }
}

/// A function that selects requests.
pub type Predicate = Arc<dyn Fn(&RecordedRequest, &Origin) -> bool + Send + Sync>;

/// Selects the requests that a rule applies to.
#[derive(Clone)]
pub enum RuleMatcher {
    /// Requests that the matcher matches.
    Fields(RequestMatcher),
    /// Requests for which the function returns true.
    Fn(Predicate),
}

impl std::fmt::Debug for RuleMatcher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Fields(matcher) => matcher.fmt(f),
            Self::Fn(_) => f.write_str("Predicate"),
        }
    }
}

/// The fate of a request. Files of rules have the same words.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum FaultAction {
    /// The request is served as usual; later rules are not tried.
    Pass,
    /// The server replies with a `Status`.
    Reply {
        /// HTTP status code.
        code: u16,
        /// `reason`; `None`: the API's usual one for the code.
        #[serde(default)]
        reason: Option<String>,
        /// `message`; `None`: one that names a fault rule.
        #[serde(default)]
        message: Option<String>,
        /// `Retry-After` in seconds.
        #[serde(default)]
        retry_after: Option<i32>,
        /// The request takes effect first; only its own reply is discarded.
        #[serde(default)]
        applied: bool,
    },
    /// The connection is closed without a reply.
    Drop {
        /// The request takes effect first.
        #[serde(default)]
        applied: bool,
    },
    /// The reply is delayed.
    Delay {
        /// The length of the delay; in files, in milliseconds.
        #[serde(rename = "milliseconds", deserialize_with = "milliseconds")]
        by: Duration,
        /// The request takes effect at once and only its reply is delayed; otherwise it takes effect after the delay.
        #[serde(default)]
        applied: bool,
    },
    /// The request never gets a reply. Simulates a crash of the client in the middle of a request. Files cannot say it.
    #[serde(skip)]
    Hang {
        /// The request takes effect first.
        applied: bool,
        /// Called as soon as the request hangs.
        tell: Arc<dyn Fn() + Send + Sync>,
    },
    /// The watch opens, and its connection is closed after this long.
    CloseWatch {
        /// Lifetime of the watch; in files, in milliseconds.
        #[serde(default, rename = "afterMilliseconds", deserialize_with = "milliseconds")]
        after: Duration,
    },
    /// 410: as the first event of a watch, or as the reply to a list.
    #[serde(rename = "gone")]
    Expired,
}

/// Reads a number of milliseconds.
fn milliseconds<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    u64::deserialize(deserializer).map(Duration::from_millis)
}

impl std::fmt::Debug for FaultAction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.describe())
    }
}

impl FaultAction {
    /// Describes the fault; `None` for [`FaultAction::Pass`].
    pub fn fault(&self) -> Option<String> {
        (!matches!(self, Self::Pass)).then(|| self.describe())
    }

    /// Describes the verdict for the transcript.
    pub fn describe(&self) -> String {
        let applied = |yes: &bool| if *yes { ", applied" } else { "" };
        match self {
            Self::Pass => "pass".to_owned(),
            Self::Reply { code, reason, applied: yes, .. } => {
                format!("reply {code} {}{}", reason.as_deref().unwrap_or_else(|| usual_reason(*code)), applied(yes))
            }
            Self::Drop { applied: yes } => format!("drop{}", applied(yes)),
            Self::Delay { by, applied: yes } => format!("delay {by:?}{}", applied(yes)),
            Self::Hang { applied: yes, .. } => format!("hang{}", applied(yes)),
            Self::CloseWatch { after } => format!("close watch after {after:?}"),
            Self::Expired => "gone".to_owned(),
        }
    }
}

/// Serves a request according to `verdict`. Returns the reply, and whether the client never receives it. `serve`
/// handles the request and breaks a watch after the given time; `gone` makes the 410 that suits the request.
pub async fn execute<F: Future<Output = Reply>>(
    verdict: FaultAction,
    clock: &Clock,
    serve: impl Fn(Option<Duration>) -> F,
    gone: impl FnOnce() -> Reply,
) -> (Reply, bool) {
    match verdict {
        FaultAction::Pass => (serve(None).await, false),
        FaultAction::Reply { code, reason, message, retry_after, applied } => {
            if applied {
                drop(serve(None).await);
            }
            let reason = reason.as_deref().unwrap_or_else(|| usual_reason(code));
            let message = message.unwrap_or_else(|| format!("a fault rule answered {code}"));
            let mut status = Status::failure(code, reason, message);
            if let Some(seconds) = retry_after {
                status = status.with_retry_after(seconds);
            }
            (Reply::status(&status), false)
        }
        FaultAction::Drop { applied } => {
            let mut reply = if applied { serve(None).await } else { Reply::text(0, "") };
            reply.drop_connection = true;
            (reply, true)
        }
        FaultAction::Delay { by, applied: true } => {
            let reply = serve(None).await;
            clock.sleep(by).await;
            (reply, false)
        }
        FaultAction::Delay { by, applied: false } => {
            clock.sleep(by).await;
            (serve(None).await, false)
        }
        FaultAction::Hang { applied, tell } => {
            if applied {
                drop(serve(None).await);
            }
            tell();
            std::future::pending().await
        }
        FaultAction::CloseWatch { after } => (serve(Some(after)).await, false),
        FaultAction::Expired => (gone(), false),
    }
}

/// A rule: a selection of requests and their fate.
#[derive(Clone, Debug)]
pub struct FaultRule {
    /// Name, for [`Faults::clear`].
    pub name: Option<String>,
    /// The requests that the rule applies to.
    pub on: RuleMatcher,
    /// Number of the first matching request that is hit, from 1.
    pub nth: u32,
    /// Number of matching requests that are hit from then on; `None`: all.
    pub count: Option<u32>,
    /// Probability in percent that a due request is hit; 100 means always.
    pub percent: u8,
    /// The fate of the requests that are hit.
    pub verdict: FaultAction,
}

#[derive(Debug)]
struct RuleState {
    rule: FaultRule,
    seen: u32,
    hits: u32,
}

/// The way in which open watches end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatchEnd {
    /// Cleanly, as at a timeout.
    Closed,
    /// The connection breaks.
    Broken,
    /// Cleanly, after the events that are in the log.
    Drained,
}

/// The rules and gates of one server.
#[derive(Debug)]
pub struct Faults {
    state: Mutex<FaultState>,
    /// While `true`, lists and watches of collections wait before they are served.
    readers_wait: tokio::sync::watch::Sender<bool>,
    /// Incremented, under the lock, with every change that an open watch has to notice.
    changes: AtomicU64,
}

#[derive(Debug)]
struct FaultState {
    rules: Vec<RuleState>,
    ids: IdGenerator,
    gates: BTreeMap<ResourceId, WatchGate>,
    outage: bool,
    next_watch: u64,
    /// Decides which of simultaneous work goes first; `None`: in the order of arrival.
    order: Option<WorkOrder>,
}

/// The state that controls watches and lists of one resource.
#[derive(Debug, Default)]
struct WatchGate {
    held: bool,
    /// Number of releases of held events.
    releases: u64,
    /// The revision up to which released events are coalesced.
    coalesce_up_to: Option<u64>,
    /// Open watches by id: the way each is to end, if it is, and its waker.
    watches: BTreeMap<u64, (Option<WatchEnd>, Option<Waker>)>,
    /// Lists return the state at this resourceVersion.
    stale_at: Option<u64>,
    /// Each event is delivered twice.
    repeated: bool,
    /// Largest number of objects in a page of a list.
    page_size: Option<usize>,
    /// Number of bookmarks that open watches were asked to send.
    bookmarks: u64,
}

impl WatchGate {
    fn wake(&mut self) {
        self.watches.values_mut().filter_map(|(_, waker)| waker.take()).for_each(Waker::wake);
    }
}

/// A watch's registration at the gate of its resource.
#[derive(Debug)]
pub struct WatchRegistration {
    resource: ResourceId,
    id: u64,
    releases: u64,
    bookmarks: u64,
    /// Cached result: the gate was open at this change count, and this waker is registered for the next change.
    open: Option<(u64, Waker)>,
}

/// The state of a gate for one watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatchGateState {
    /// Events are delivered.
    Open,
    /// Open again after events were held; events up to this revision are to be coalesced.
    Coalesce(u64),
    /// Events are held.
    Held,
    /// The watch sends a bookmark now.
    Bookmark,
    /// The watch ends.
    End(WatchEnd),
}

impl Faults {
    /// Creates an empty set of rules whose random choices come from `seed`.
    pub fn new(seed: u64) -> Self {
        let state = FaultState {
            rules: Vec::new(),
            ids: IdGenerator::new(seed.wrapping_add(0x000f_a017)),
            gates: BTreeMap::new(),
            outage: false,
            next_watch: 0,
            order: None,
        };
        let readers_wait = tokio::sync::watch::Sender::new(false);
        Self { state: Mutex::new(state), readers_wait, changes: AtomicU64::new(0) }
    }

    fn changed(&self) {
        self.changes.fetch_add(1, Ordering::Release);
    }

    /// Adds a rule after the existing ones.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use http::Method;
    /// use plumbline_apiserver::faults::FaultRuleSpec;
    /// use plumbline_apiserver::{ApiRequest, ApiServer, clock};
    /// use serde_json::json;
    ///
    /// // The second list of pods is answered with 503.
    /// let rule: FaultRuleSpec = serde_json::from_value(json!({
    ///     "on": {"verbs": ["list"], "resource": "pods"},
    ///     "nth": 2,
    ///     "count": 1,
    ///     "verdict": {"reply": {"code": 503}},
    /// }))?;
    /// let codes = clock::run_virtual(async {
    ///     let server = ApiServer::builder().build();
    ///     server.faults().arm(rule.into());
    ///     let mut codes = Vec::new();
    ///     for _ in 0..3 {
    ///         codes.push(server.handle(ApiRequest::new(Method::GET, "/api/v1/pods")).await.status);
    ///     }
    ///     codes
    /// })?;
    /// assert_eq!(codes, [200, 503, 200]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn arm(&self, rule: FaultRule) {
        self.state.lock().rules.push(RuleState { rule, seen: 0, hits: 0 });
    }

    /// Removes the rules of this name, or all rules. Returns the number removed.
    pub fn clear(&self, name: Option<&str>) -> usize {
        let mut state = self.state.lock();
        let before = state.rules.len();
        state.rules.retain(|armed| name.is_some_and(|name| armed.rule.name.as_deref() != Some(name)));
        before - state.rules.len()
    }

    /// Returns the number of rules, spent ones included.
    #[must_use]
    pub fn armed(&self) -> usize {
        self.state.lock().rules.len()
    }

    /// Returns the number of requests that the rules of this name have hit.
    pub fn hits(&self, name: &str) -> u32 {
        let state = self.state.lock();
        state.rules.iter().filter(|armed| armed.rule.name.as_deref() == Some(name)).map(|armed| armed.hits).sum()
    }

    /// Decides the fate of a request.
    pub fn judge(&self, request: &RecordedRequest, origin: &Origin) -> FaultAction {
        let mut state = self.state.lock();
        if state.outage {
            return FaultAction::Drop { applied: false };
        }
        let FaultState { rules, ids, .. } = &mut *state;
        for armed in rules {
            let rule = &armed.rule;
            let fits = match &rule.on {
                RuleMatcher::Fields(matcher) => matcher.fits(request),
                RuleMatcher::Fn(predicate) => predicate(request, origin),
            };
            if !fits {
                continue;
            }
            armed.seen += 1;
            let due = armed.seen >= rule.nth && rule.count.is_none_or(|count| armed.hits < count);
            if due && (rule.percent >= 100 || ids.number() % 100 < u64::from(rule.percent)) {
                armed.hits += 1;
                return rule.verdict.clone();
            }
        }
        FaultAction::Pass
    }

    /// Makes lists and watches of collections wait, or lets them proceed. They are recorded on arrival and served
    /// afterwards.
    pub fn block_readers(&self, wait: bool) {
        self.readers_wait.send_replace(wait);
    }

    /// Returns true if `request` has to wait in [`Faults::turn`] before it is judged and served.
    pub fn is_blocked(&self, request: &RecordedRequest) -> bool {
        *self.readers_wait.borrow() && request.name.is_none() && matches!(request.verb.as_str(), "list" | "watch")
    }

    /// Waits until readers may proceed.
    pub async fn turn(&self) {
        // Cannot fail: `self` owns the sender.
        let _ = self.readers_wait.subscribe().wait_for(|wait| !wait).await;
    }

    /// Starts or ends an outage: every request is dropped without a reply, and open watches break.
    pub fn set_outage(&self, outage: bool) {
        self.state.lock().outage = outage;
        if outage {
            self.end_watches(None, WatchEnd::Broken);
        }
    }

    /// Ends the open watches of a resource, or all open watches.
    pub fn end_watches(&self, resource: Option<&ResourceId>, how: WatchEnd) {
        let mut state = self.state.lock();
        self.changed();
        let gates = state.gates.iter_mut().filter(|(id, _)| resource.is_none_or(|wanted| wanted == *id));
        for (_, gate) in gates {
            gate.watches.values_mut().for_each(|(end, _)| *end = Some(how));
            gate.wake();
        }
    }

    /// Holds back the watch events of a resource.
    pub fn hold(&self, resource: &ResourceId) {
        let mut state = self.state.lock();
        self.changed();
        state.gates.entry(resource.clone()).or_default().held = true;
    }

    /// Returns true if watch events of a resource are held back.
    pub fn is_held(&self, resource: &ResourceId) -> bool {
        self.state.lock().gates.get(resource).is_some_and(|gate| gate.held)
    }

    /// Delivers the events held back. With `coalesce_up_to` (the current resourceVersion), only the last state of each
    /// object is delivered: a deletion and re-creation under one name arrives as one update.
    pub fn release(&self, resource: &ResourceId, coalesce_up_to: Option<u64>) {
        let mut state = self.state.lock();
        self.changed();
        let gate = state.gates.entry(resource.clone()).or_default();
        gate.held = false;
        gate.releases += 1;
        gate.coalesce_up_to = coalesce_up_to;
        gate.wake();
    }

    /// Makes lists of a resource return the state at `revision`; `None` restores the current state.
    pub fn set_stale(&self, resource: &ResourceId, revision: Option<u64>) {
        self.state.lock().gates.entry(resource.clone()).or_default().stale_at = revision;
    }

    /// The revision whose state lists of a resource show; `None`: the present one.
    pub fn stale_at(&self, resource: &ResourceId) -> Option<u64> {
        self.state.lock().gates.get(resource)?.stale_at
    }

    /// Delivers each event of a resource twice, or once again.
    pub fn set_repeated(&self, resource: &ResourceId, repeated: bool) {
        self.state.lock().gates.entry(resource.clone()).or_default().repeated = repeated;
    }

    /// Returns true if each event of a resource is delivered twice.
    pub fn is_repeated(&self, resource: &ResourceId) -> bool {
        self.state.lock().gates.get(resource).is_some_and(|gate| gate.repeated)
    }

    /// Lets pages of lists of a resource have at most `size` objects; `None`: as many as the client asks for. A list
    /// without a limit has no pages.
    pub fn set_page_size(&self, resource: &ResourceId, size: Option<usize>) {
        self.state.lock().gates.entry(resource.clone()).or_default().page_size = size;
    }

    /// Returns the largest number of objects in a page of a list.
    pub fn page_size(&self, resource: &ResourceId) -> Option<usize> {
        self.state.lock().gates.get(resource)?.page_size
    }

    /// Makes open watches of a resource send a bookmark with the version of what they have sent, if their clients asked
    /// for bookmarks. Works while events are held.
    pub fn send_bookmarks(&self, resource: &ResourceId) {
        let mut state = self.state.lock();
        self.changed();
        let gate = state.gates.entry(resource.clone()).or_default();
        gate.bookmarks += 1;
        gate.wake();
    }

    /// Lets simultaneous requests and events proceed in an order that `seed` decides and that changes `depth - 1`
    /// times, instead of in the order of arrival.
    pub fn set_order(&self, seed: u64, depth: u32) {
        self.state.lock().order = Some(WorkOrder::new(seed, depth));
    }

    /// Returns the number of turns of the runtime that the next work of a line waits.
    pub(crate) fn turns(&self, line: impl FnOnce() -> String) -> u32 {
        self.state.lock().order.as_mut().map_or(0, |order| order.turns(&line()))
    }

    /// Registers a watch of a resource; call [`Faults::leave`] when it ends.
    pub fn enter(&self, resource: &ResourceId) -> WatchRegistration {
        let mut state = self.state.lock();
        state.next_watch += 1;
        let id = state.next_watch;
        let gate = state.gates.entry(resource.clone()).or_default();
        gate.watches.insert(id, (None, None));
        let releases = gate.releases;
        let bookmarks = gate.bookmarks;
        WatchRegistration { resource: resource.clone(), id, releases, bookmarks, open: None }
    }

    /// Returns the state of the gate for a watch; `context` is woken when it changes.
    pub fn pass(&self, pass: &mut WatchRegistration, context: &Context<'_>) -> WatchGateState {
        let changes = self.changes.load(Ordering::Acquire);
        if pass.open.as_ref().is_some_and(|(then, waker)| *then == changes && waker.will_wake(context.waker())) {
            return WatchGateState::Open;
        }
        let found = self.poll_gate_locked(pass, context);
        pass.open = (found == WatchGateState::Open).then(|| (changes, context.waker().clone()));
        found
    }

    fn poll_gate_locked(&self, pass: &mut WatchRegistration, context: &Context<'_>) -> WatchGateState {
        let mut state = self.state.lock();
        let Some(gate) = state.gates.get_mut(&pass.resource) else { return WatchGateState::Open };
        let is_held = gate.held;
        let releases = gate.releases;
        let coalesce = gate.coalesce_up_to;
        let bookmarks = gate.bookmarks;
        let Some((end, waker)) = gate.watches.get_mut(&pass.id) else { return WatchGateState::Open };
        if let Some(end) = end {
            return WatchGateState::End(*end);
        }
        *waker = Some(context.waker().clone());
        if std::mem::replace(&mut pass.bookmarks, bookmarks) != bookmarks {
            return WatchGateState::Bookmark;
        }
        if is_held {
            return WatchGateState::Held;
        }
        if pass.releases != releases {
            pass.releases = releases;
            return coalesce.map_or(WatchGateState::Open, WatchGateState::Coalesce);
        }
        WatchGateState::Open
    }

    /// Removes a watch that has ended.
    pub fn leave(&self, pass: &WatchRegistration) {
        if let Some(gate) = self.state.lock().gates.get_mut(&pass.resource) {
            gate.watches.remove(&pass.id);
        }
    }

    /// Number of open watches of a resource, or of all resources.
    pub fn open_watches(&self, resource: Option<&ResourceId>) -> usize {
        let state = self.state.lock();
        let gates = state.gates.iter().filter(|(id, _)| resource.is_none_or(|wanted| wanted == *id));
        gates.map(|(_, gate)| gate.watches.len()).sum()
    }
}

/// A rule as written in a file (`plumbline serve --faults FILE`).
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct FaultRuleSpec {
    /// Name of the rule.
    #[serde(default)]
    pub name: Option<String>,
    /// The requests that the rule applies to.
    #[serde(default)]
    pub on: RequestMatcher,
    /// Number of the first matching request that is hit, from 1.
    #[serde(default = "one")]
    pub nth: u32,
    /// Number of matching requests that are hit from then on; absent: all.
    #[serde(default)]
    pub count: Option<u32>,
    /// Probability in percent that a due request is hit.
    #[serde(default = "hundred")]
    pub percent: u8,
    /// The fate of the requests that are hit.
    pub verdict: FaultAction,
}

/// Verbs that a rule may name: those of the API, and HTTP methods for paths without a resource.
const VERBS: [&str; 13] = [
    "get",
    "list",
    "watch",
    "create",
    "update",
    "patch",
    "delete",
    "deletecollection",
    "head",
    "options",
    "post",
    "put",
    "trace",
];

/// A field of a fault rule has a value that makes no sense.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {reason}")]
pub struct FaultRuleError {
    /// Path of the field, such as `verdict.reply.code`.
    pub field: &'static str,
    /// The reason.
    pub reason: String,
}

impl FaultRuleSpec {
    /// Rejects values that make no sense.
    ///
    /// # Errors
    ///
    /// Returns an error that names the first such field.
    pub fn check(&self) -> Result<(), FaultRuleError> {
        let wrong = |field, reason: String| Err(FaultRuleError { field, reason });
        if let Some(verb) = self.on.verbs.iter().find(|verb| !VERBS.contains(&verb.as_str())) {
            return wrong("on.verbs", format!("{verb:?} is no verb; there are {}", VERBS.join(", ")));
        }
        if self.nth == 0 {
            return wrong("nth", "counts from 1".to_owned());
        }
        if self.count == Some(0) {
            return wrong("count", "a rule that hits 0 requests does nothing".to_owned());
        }
        if self.percent > 100 {
            return wrong("percent", format!("{} is more than 100", self.percent));
        }
        match self.verdict {
            FaultAction::Reply { code, .. } if !(200..600).contains(&code) => {
                wrong("verdict.reply.code", format!("{code} is no status of an answer (200 to 599)"))
            }
            _ => Ok(()),
        }
    }
}

fn one() -> u32 {
    1
}

fn hundred() -> u8 {
    100
}

/// Returns the API's usual reason for a status code.
pub fn usual_reason(code: u16) -> &'static str {
    match code {
        400 => "BadRequest",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "NotFound",
        405 => "MethodNotAllowed",
        406 => "NotAcceptable",
        409 => "Conflict",
        410 => "Expired",
        413 => "RequestEntityTooLarge",
        415 => "UnsupportedMediaType",
        422 => "Invalid",
        429 => "TooManyRequests",
        500 => "InternalError",
        503 => "ServiceUnavailable",
        504 => "Timeout",
        _ => "Unknown",
    }
}

impl From<FaultRuleSpec> for FaultRule {
    fn from(spec: FaultRuleSpec) -> Self {
        Self {
            name: spec.name,
            on: RuleMatcher::Fields(spec.on),
            nth: spec.nth,
            count: spec.count,
            percent: spec.percent,
            verdict: spec.verdict,
        }
    }
}

#[cfg(test)]
mod tests;
