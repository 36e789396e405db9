//! Handwritten runs.

use std::path::Path;
use std::time::Duration;

use plumbline::expect::{BrokenPromise, Run, StepReply};
use plumbline::fixture::{Fixture, parse, time_text};
use plumbline::transcript::{
    Actor, Change, ChangeKind, RecordedJson, RecordedReply, RecordedRequest, Transcript, TranscriptEntry,
};
use plumbline_suite::runner::verdict;
use serde_json::{Value, json};

/// A handwritten run.
pub(crate) struct Script {
    pub(crate) fixture: Fixture,
    pub(crate) transcript: Transcript,
    pub(crate) initial: Vec<RecordedJson>,
    pub(crate) marks: Vec<usize>,
    pub(crate) replies: Vec<StepReply>,
    pub(crate) scrapes: Vec<(Duration, String)>,
    version: u64,
    pub(crate) tolerance: Duration,
}

pub(crate) fn start() -> jiff::Timestamp {
    "2030-01-01T00:00:00Z".parse().expect("a time")
}

impl Script {
    pub(crate) fn new(suite: &str, level: &str, rest: &str) -> Self {
        let text = format!("promise: x\nrule: G-001\nlevel: {level}\nsource: none\nfeature: podgc.cycle\n{rest}");
        let (fixtures, problems) = parse::read(Path::new("case.yaml"), suite, &text);
        assert_eq!(problems, []);
        let fixture = fixtures.into_iter().next().expect("one fixture");
        let resolved = |object: &Value| {
            let mut object = object.clone();
            time_text::resolve(&mut object, start(), start());
            object.into()
        };
        let initial = fixture.given.objects.iter().map(resolved).collect();
        let transcript = Transcript::new();
        let version = 100;
        let tolerance = Duration::ZERO;
        Self { fixture, transcript, initial, marks: vec![], replies: vec![], scrapes: vec![], version, tolerance }
    }

    /// Adds a request (such as `PATCH pods/a/status`), its body and its reply; returns its number.
    pub(crate) fn request(&self, at: f64, actor: &Actor, line: &str, body: Value, code: u16) -> usize {
        let (verb, path) = line.split_once(' ').expect("VERB path");
        let verb = match verb {
            "POST" => "create",
            "PUT" => "update",
            "GET" => "get",
            "PATCH" => "patch",
            "DELETE" => "delete",
            other => panic!("{other}"),
        };
        let mut parts = path.split('/').map(str::to_owned);
        let resource = parts.next().unwrap_or_default();
        let group = if resource == "poddisruptionbudgets" { "policy" } else { "" };
        let request = RecordedRequest {
            verb: verb.to_owned(),
            path: path.to_owned(),
            group: group.to_owned(),
            namespace: (resource != "nodes").then(|| "default".to_owned()),
            resource,
            name: parts.next(),
            subresource: parts.next(),
            body: (!body.is_null()).then(|| body.into()),
            ..RecordedRequest::default()
        };
        let at = Duration::from_secs_f64(at);
        let seq = self.transcript.request(at, actor.clone(), request);
        self.transcript.reply(seq, RecordedReply::new(at, code));
        seq
    }

    pub(crate) fn object(&self, resource: &str, name: &str) -> Option<Value> {
        let entries = self.transcript.entries();
        let changed = entries.iter().rev().find_map(|entry| match &entry.what {
            plumbline::transcript::EntryKind::Change(change) if change.resource == resource && change.name == name => {
                Some(change.new.as_deref().cloned())
            }
            _ => None,
        });
        let named = |object: &&RecordedJson| object["metadata"]["name"] == name;
        changed.unwrap_or_else(|| self.initial.iter().find(named).map(|object| Value::clone(object)))
    }

    /// Changes an object by a function; `None` from it deletes the object.
    pub(crate) fn change(
        &mut self,
        at: f64,
        actor: &Actor,
        request: Option<usize>,
        path: &str,
        edit: impl FnOnce(Option<Value>) -> Option<Value>,
    ) {
        let (resource, name) = path.split_once('/').expect("resource/name");
        let old = self.object(resource, name);
        let new = edit(old.clone());
        let kind = match (&old, &new) {
            (None, _) => ChangeKind::Added,
            (_, None) => ChangeKind::Deleted,
            _ => ChangeKind::Modified,
        };
        self.version += 1;
        let change = Change {
            request,
            kind,
            group: if resource == "poddisruptionbudgets" { "policy" } else { "" }.to_owned(),
            resource: resource.to_owned(),
            namespace: (resource != "nodes").then(|| "default".to_owned()),
            name: name.to_owned(),
            resource_version: self.version,
            old: old.map(Into::into),
            new: new.map(Into::into),
        };
        self.transcript.change(Duration::from_secs_f64(at), actor.clone(), change);
    }

    /// Ends the current step.
    pub(crate) fn mark(&mut self) {
        self.marks.push(self.transcript.len());
    }

    pub(crate) fn failures(&self) -> Vec<BrokenPromise> {
        verdict::broken_promises(&self.fixture, &self.run(&self.transcript.entries()))
    }

    /// The run so far, with these entries.
    pub(crate) fn run<'a>(&'a self, entries: &'a [TranscriptEntry]) -> Run<'a> {
        Run {
            start: start(),
            initial: &self.initial,
            entries,
            marks: &self.marks,
            replies: &self.replies,
            scrapes: &self.scrapes,
            end: self.fixture.end(),
            tolerance: self.tolerance,
            late: if self.tolerance.is_zero() { Duration::ZERO } else { self.fixture.late },
            deliveries: None,
        }
    }

    /// The failures, in order.
    pub(crate) fn verdict(&self) -> Vec<String> {
        self.failures().into_iter().map(|failure| failure.check).collect()
    }
}

pub(crate) const NONE: [String; 0] = [];

/// The pod garbage collector finds pod `a` orphaned at `at`, and handles it correctly.
pub(crate) fn collect(script: &mut Script, at: f64) {
    script.request(at, &Actor::PodGc, "GET nodes/n1", Value::Null, 404);
    let conditions = json!([{"type": "DisruptionTarget", "status": "True", "reason": "DeletionByPodGC"}]);
    let body = json!({"status": {"phase": "Failed", "conditions": conditions}});
    let patch = script.request(at, &Actor::PodGc, "PATCH pods/a/status", body, 200);
    script.change(at, &Actor::PodGc, Some(patch), "pods/a", |pod| {
        let mut pod = pod?;
        pod["status"]["phase"] = "Failed".into();
        Some(pod)
    });
    let delete = script.request(at, &Actor::PodGc, "DELETE pods/a", json!({"gracePeriodSeconds": 0}), 200);
    script.change(at, &Actor::PodGc, Some(delete), "pods/a", |_| None);
}
