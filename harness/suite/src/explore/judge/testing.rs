//! Transcripts and runs for the tests of oracles.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use plumbline::expect::world::{Key, ObjectStates};
use plumbline::explore::faults::plan::FaultPlan;
use plumbline::explore::knowledge::Knowledge;
use plumbline::fixture::pattern::Resources;
use plumbline::fixture::{Fixture, Target, parse};
use plumbline::rules::budgets::BUDGETS;
use plumbline::transcript::by_object::STARTS;
use plumbline::transcript::{
    Actor, Change, ChangeKind, DeliveredObject, Origin, RecordedJson, RecordedReply, RecordedRequest, Transcript,
};
use serde_json::{Value, json};

use crate::explore::run::explored::ExploredRun;
use crate::explore::run::observation::Observation;
use crate::runner::RunRecord;

/// Records a change of an object without a namespace.
pub(super) fn change(
    transcript: &Transcript,
    at: u64,
    actor: Option<&str>,
    resource: &str,
    objects: [Option<Value>; 2],
) {
    change_in(None, transcript, at, actor, resource, objects);
}

/// Records a change of an object in a namespace.
pub(super) fn change_in(
    namespace: Option<&str>,
    transcript: &Transcript,
    at: u64,
    actor: Option<&str>,
    resource: &str,
    objects: [Option<Value>; 2],
) {
    let origin = actor.map_or(Origin::Server, |name| Origin::client(&format!("x/1 {name}"), ""));
    let [old, new] = objects.map(|object| object.map(RecordedJson::from));
    let kind = match (&old, &new) {
        (None, _) => ChangeKind::Added,
        (_, None) => ChangeKind::Deleted,
        _ => ChangeKind::Modified,
    };
    let change = Change {
        request: None,
        kind,
        group: String::new(),
        resource: resource.to_owned(),
        namespace: namespace.map(str::to_owned),
        name: "a".to_owned(),
        resource_version: at,
        old,
        new,
    };
    transcript.change(Duration::from_secs(at), origin, change);
}

/// Records a request of the client `name` and its reply.
pub(super) fn exchange(
    transcript: &Transcript,
    at: Duration,
    name: &str,
    request: RecordedRequest,
    reply: RecordedReply,
) {
    let agent = format!("x/1 {name}");
    let request = RecordedRequest { user_agent: agent.clone(), ..request };
    let seq = transcript.request(at, Origin::client(&agent, ""), request);
    transcript.reply(seq, reply);
}

/// Judges a run without faults that has this transcript and began with these objects.
pub(super) fn judged_by<T>(
    controller: &str,
    transcript: &Transcript,
    initial: Vec<Value>,
    judge: impl FnOnce(&Fixture, &ObjectStates, ExploredRun<'_>) -> T,
) -> T {
    let text = format!(
        "promise: x\nrule: T-001\nlevel: provisional\nfeature: ttl.annotation\ncontrollers: [{controller}]\nsteps:\n- \
         {{ at: 1s, expect: {{ quiet: true }} }}\n"
    );
    let (fixtures, problems) = parse::read(Path::new("a.yaml"), "faults", &text);
    assert!(problems.is_empty(), "{problems:?}");
    let record = RunRecord { initial: initial.into_iter().map(RecordedJson::from).collect(), ..RunRecord::default() };
    let entries = transcript.entries();
    let observation = Observation { quiet_at: entries.len(), ..Observation::default() };
    let plan = FaultPlan::calm("faults/a");
    let begin = ObjectStates::new(&record.run(&entries, Duration::ZERO), "default");
    let knowledge = Knowledge::new(&begin, &entries, &transcript.deliveries());
    let explored = ExploredRun {
        plan: &plan,
        record: &record,
        begin: &begin,
        entries: &entries,
        observation: &observation,
        knowledge: &knowledge,
    };
    judge(&fixtures[0], &begin, explored)
}

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// A history whose changes the informers see at once.
pub(super) struct History {
    transcript: Transcript,
    initial: Vec<Value>,
    world: ObjectStates,
    /// The informers' watches by resource.
    watches: BTreeMap<&'static str, usize>,
    version: u64,
}

/// The resources that controllers watch.
const WATCHED: [&str; 3] = ["nodes", "pods", "poddisruptionbudgets"];

/// Returns the short name with which a controller's user agent ends.
fn agent(actor: &Actor) -> &'static str {
    match actor {
        Actor::Disruption => "disruption-controller",
        Actor::PodGc => "pod-garbage-collector",
        Actor::TaintEviction => "taint-eviction-controller",
        Actor::Ttl => "ttl-controller",
        _ => "shared-informers",
    }
}

/// Returns the key of an object as fixtures write it, and its subresource.
fn parse_target(target: &str) -> (Key, Option<String>) {
    let target = Target::parse(target, "default", &Resources::default()).expect("a target");
    let key = Key {
        group: target.resource.group.to_string(),
        resource: target.resource.plural.to_string(),
        namespace: target.namespace,
        name: target.name,
    };
    (key, target.subresource)
}

impl History {
    /// Begins with these objects, which the informers list.
    pub(super) fn new(initial: &[Value]) -> Self {
        let objects: Vec<RecordedJson> = initial.iter().cloned().map(RecordedJson::from).collect();
        let record = RunRecord { initial: objects.into(), ..RunRecord::default() };
        let world = ObjectStates::new(&record.run(&[], Duration::ZERO), "default");
        let transcript = Transcript::new();
        let mut history = Self { transcript, initial: initial.to_vec(), world, watches: BTreeMap::new(), version: 1 };
        history.lists(Duration::ZERO);
        history
    }

    /// The controllers start again.
    pub(super) fn starts(&mut self, at: u64) {
        self.transcript.note(secs(at), STARTS);
        self.lists(secs(at));
    }

    /// The informers list and watch.
    fn lists(&mut self, at: Duration) {
        for resource in WATCHED {
            let request = |verb: &str| {
                let group = if resource == BUDGETS { "policy" } else { "" };
                let (verb, group) = (verb.to_owned(), group.to_owned());
                RecordedRequest { verb, group, resource: resource.to_owned(), ..RecordedRequest::default() }
            };
            let reply = RecordedReply { revision: Some(self.version), ..RecordedReply::new(at, 200) };
            exchange(&self.transcript, at, agent(&Actor::Informers), request("list"), reply);
            self.watches.insert(resource, self.transcript.len());
            exchange(&self.transcript, at, agent(&Actor::Informers), request("watch"), RecordedReply::new(at, 200));
        }
    }

    /// Another client makes `new` of the object `target`, such as `pods/a`; `None` deletes it.
    pub(super) fn happens(&mut self, at: u64, target: &str, new: Option<Value>) {
        let change = self.change(target, None, new);
        self.transcript.change(secs(at), Origin::Server, change);
        self.informs(at, target);
    }

    /// The same, and no informer sees it.
    pub(super) fn happens_unseen(&mut self, at: u64, target: &str, new: Option<Value>) {
        let change = self.change(target, None, new);
        self.transcript.change(secs(at), Origin::Server, change);
    }

    /// The informers see the present state of an object.
    pub(super) fn informs(&self, at: u64, target: &str) {
        let (key, _) = parse_target(target);
        let kind = if self.world.get(&key).is_some() { ChangeKind::Modified } else { ChangeKind::Deleted };
        let seen = DeliveredObject {
            kind,
            namespace: key.namespace.as_deref().map(Into::into),
            name: key.name.as_str().into(),
            resource_version: self.version,
        };
        self.transcript.delivery(secs(at), self.watches[key.resource.as_str()], seen);
    }

    /// A controller sends `what`, such as `patch pods/a/status`, which makes `new` of the object.
    pub(super) fn writes(&mut self, at: u64, actor: Actor, what: &str, body: Value, new: Option<Value>) {
        let (_, target) = what.split_once(' ').expect("a verb and a target");
        let seq = self.transcript.len();
        let reply = RecordedReply { body: new.clone().map(Into::into), ..RecordedReply::new(secs(at), 200) };
        exchange(&self.transcript, secs(at), agent(&actor), Self::request(what, body), reply);
        let change = self.change(target, Some(seq), new);
        self.transcript.change(secs(at), Origin::client(&format!("x/1 {}", agent(&actor)), ""), change);
        self.informs(at, target);
    }

    /// A controller reports an Event.
    pub(super) fn reports(&mut self, at: u64, actor: Actor, event: Value) {
        let agent = agent(&actor);
        change_in(Some("default"), &self.transcript, at, Some(agent), "events", [None, Some(event)]);
    }

    /// A controller sends a request without an effect, and gets its reply after `delay` seconds.
    pub(super) fn asks(&self, at: u64, actor: Actor, what: &str, delay: u64) {
        let reply = RecordedReply::new(secs(at + delay), 200);
        exchange(&self.transcript, secs(at), agent(&actor), Self::request(what, json!({})), reply);
    }

    /// A controller reads the present state of an object, such as `nodes/a`, or learns that there is none.
    pub(super) fn reads(&self, at: u64, actor: Actor, target: &str) {
        let object = self.world.get(&parse_target(target).0);
        let status = if object.is_some() { 200 } else { 404 };
        let reply = RecordedReply { body: object.cloned(), ..RecordedReply::new(secs(at), status) };
        let request = Self::request(&format!("get {target}"), json!({}));
        exchange(&self.transcript, secs(at), agent(&actor), request, reply);
    }

    /// A controller sends a request that is refused.
    pub(super) fn fails(&self, at: u64, actor: Actor, what: &str, status: u16) {
        exchange(
            &self.transcript,
            secs(at),
            agent(&actor),
            Self::request(what, json!({})),
            RecordedReply::new(secs(at), status),
        );
    }

    fn request(what: &str, body: Value) -> RecordedRequest {
        let (verb, target) = what.split_once(' ').expect("a verb and a target");
        let (key, subresource) = parse_target(target);
        RecordedRequest {
            verb: verb.to_owned(),
            path: target.to_owned(),
            group: key.group,
            resource: key.resource,
            subresource,
            namespace: key.namespace,
            name: Some(key.name),
            body: Some(body.into()),
            ..RecordedRequest::default()
        }
    }

    /// Makes the change of an object, with the next resourceVersion.
    fn change(&mut self, target: &str, request: Option<usize>, new: Option<Value>) -> Change {
        let (key, _) = parse_target(target);
        self.version += 1;
        let old = self.world.get(&key).cloned();
        let new = new.map(|mut new| {
            new["metadata"]["resourceVersion"] = json!(self.version.to_string());
            RecordedJson::from(new)
        });
        let kind = match (&old, &new) {
            (None, _) => ChangeKind::Added,
            (_, None) => ChangeKind::Deleted,
            _ => ChangeKind::Modified,
        };
        self.world.put(key.clone(), new.clone());
        let Key { group, resource, namespace, name } = key;
        Change { request, kind, group, resource, namespace, name, resource_version: self.version, old, new }
    }

    /// Judges the history as a run without faults of a fixture with this controller.
    pub(super) fn judged<T>(
        self,
        controller: &str,
        judge: impl FnOnce(&Fixture, &ObjectStates, ExploredRun<'_>) -> T,
    ) -> T {
        judged_by(controller, &self.transcript, self.initial, judge)
    }
}
