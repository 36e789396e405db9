//! Transcripts and runs for the tests of oracles.

use std::path::Path;
use std::time::Duration;

use plumbline::expect::world::ObjectStates;
use plumbline::explore::faults::plan::FaultPlan;
use plumbline::fixture::{Fixture, parse};
use plumbline::transcript::{Change, ChangeKind, Origin, RecordedJson, RecordedReply, RecordedRequest, Transcript};
use serde_json::Value;

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
    let explored = ExploredRun { plan: &plan, record: &record, entries: &entries, observation: &observation };
    let begin = ObjectStates::new(&record.run(&entries, Duration::ZERO), "default");
    judge(&fixtures[0], &begin, explored)
}
