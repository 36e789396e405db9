use std::sync::Arc;
use std::time::Duration;

use plumbline::transcript::{
    Actor, Change, ChangeKind, DeliveredObject, RecordedJson, RecordedReply, RecordedRequest, Transcript,
};
use serde_json::{Value, json};

use super::model::{ArrowKind, EventKind};
use super::*;
use crate::load::RunLoad;
use crate::report::tests::canned;

fn request(verb: &str, name: &str, body: Option<Value>) -> RecordedRequest {
    RecordedRequest {
        verb: verb.to_owned(),
        path: "/api/v1/pods".to_owned(),
        resource: "pods".to_owned(),
        namespace: Some("default".to_owned()).filter(|_| !name.is_empty()),
        name: Some(name.to_owned()).filter(|name| !name.is_empty()),
        body: body.map(RecordedJson::from),
        ..RecordedRequest::default()
    }
}

fn pod(version: u64, phase: &str) -> RecordedJson {
    let meta = json!({"name": "a", "namespace": "default", "uid": "uid-of-a", "resourceVersion": version.to_string()});
    json!({"kind": "Pod", "metadata": meta, "status": {"phase": phase}}).into()
}

fn change(request: Option<usize>, version: u64, old: &str, new: Option<&str>) -> Change {
    Change {
        request,
        kind: if new.is_some() { ChangeKind::Modified } else { ChangeKind::Deleted },
        group: String::new(),
        resource: "pods".to_owned(),
        namespace: Some("default".to_owned()),
        name: "a".to_owned(),
        resource_version: version,
        old: Some(pod(version - 1, old)),
        new: new.map(|phase| pod(version, phase)),
    }
}

fn judged(transcript: &Transcript) -> JudgedRun {
    JudgedRun {
        report: canned().fixtures.remove(0),
        transcript: String::new(),
        clients: std::collections::BTreeSet::new(),
        entries: transcript.entries(),
        deliveries: transcript.deliveries(),
        initial: Arc::default(),
        start: plumbline::time::epoch(),
        leeway: Duration::ZERO,
        load: RunLoad::default(),
        objects: Vec::new(),
    }
}

/// A user marks a pod, and the collector deletes it at once and again by a timer.
fn history() -> Transcript {
    let transcript = Transcript::new();
    let t = Duration::from_secs;
    let write = |at, actor: Actor, sent: RecordedRequest, status, changed: Option<(u64, &str, Option<&str>)>| {
        let seq = transcript.request(t(at), actor.clone(), sent);
        if let Some((version, old, new)) = changed {
            transcript.change(t(at), actor, change(Some(seq), version, old, new));
        }
        transcript.reply(seq, RecordedReply::new(t(at), status));
    };
    let watch = transcript.request(t(0), Actor::Informers, request("watch", "", None));
    let deliver = |at, kind, resource_version| {
        let object = DeliveredObject { kind, namespace: Some("default".into()), name: "a".into(), resource_version };
        transcript.delivery(t(at), watch, object);
    };
    write(5, Actor::User, request("patch", "a", None), 200, Some((6, "Running", Some("Failed"))));
    deliver(5, ChangeKind::Modified, 6);
    let named = json!({"preconditions": {"resourceVersion": "6"}});
    write(5, Actor::PodGc, request("delete", "a", Some(named)), 409, None);
    write(9, Actor::PodGc, request("delete", "a", None), 200, Some((7, "Failed", None)));
    // The watch is slow.
    transcript.note(t(10), "the controllers crash");
    deliver(10, ChangeKind::Deleted, 7);
    write(11, Actor::User, request("patch", "a", None), 200, Some((8, "Running", Some("Failed"))));
    transcript
}

#[test]
fn a_timeline_has_deliveries_causes_and_versions() {
    let timeline = timeline(None, &judged(&history()));
    let lanes: Vec<&str> = timeline.lanes.iter().map(|lane| lane.name.as_str()).collect();
    assert_eq!(lanes, ["user", "harness", "informers", "podgc"]);
    let events: Vec<_> =
        timeline.events.iter().map(|event| (event.at, lanes[event.lane], event.kind, event.failed)).collect();
    let expected = [
        (0, "informers", EventKind::Watch, false),
        (5000, "user", EventKind::Write, false),
        (5000, "informers", EventKind::Delivery, false),
        (5000, "podgc", EventKind::Write, true),
        (9000, "podgc", EventKind::Write, false),
        (10_000, "harness", EventKind::Note, false),
        (10_000, "informers", EventKind::Delivery, false),
        // It is not delivered.
        (11_000, "user", EventKind::Write, false),
    ];
    assert_eq!(events, expected);
    let arrows: Vec<_> = timeline.arrows.iter().map(|arrow| (arrow.from, arrow.to, arrow.kind)).collect();
    assert_eq!(arrows, [(1, 2, ArrowKind::Delivers), (2, 3, ArrowKind::Version), (4, 6, ArrowKind::Delivers)]);
    let first = &timeline.events[1].changes[0];
    assert!(first.before.is_some() && !first.chained, "{first:?}");
    assert_eq!(first.patch.as_ref().map(|patch| patch["status"].clone()), Some(json!({"phase": "Failed"})));
    let second = &timeline.events[4].changes[0];
    assert!(second.before.is_none() && second.chained && second.after.is_none(), "{second:?}");
    assert_eq!(timeline.bands.iter().map(|band| (band.kind, band.from)).collect::<Vec<_>>(), [("crash", 10_000)]);
}

#[test]
fn long_histories_lose_their_middle_and_their_objects() {
    let transcript = Transcript::new();
    for number in 0..5000 {
        let body = json!({"text": "x".repeat(1000)});
        let seq = transcript.request(Duration::from_secs(number), Actor::User, request("patch", "a", Some(body)));
        transcript.reply(seq, RecordedReply::new(Duration::from_secs(number), 200));
    }
    let mut run = judged(&transcript);
    run.report.failures.clear();
    let timeline = timeline(None, &run);
    assert_eq!((timeline.events.len(), timeline.total), (2000, 5000));
    assert_eq!(timeline.events.last().map(|event| event.at), Some(4_999_000), "the end is kept");
    assert!(timeline.without_objects > 1800, "{}", timeline.without_objects);
    let size = serde_json::to_string(&timeline).expect("JSON").len();
    assert!(size < 1_000_000, "{size}");
}

#[test]
fn texts_of_fixtures_are_escaped() {
    let mut report = canned();
    let markup = "<script>alert(1)</script><img src=x>\"'&";
    for fixture in &mut report.fixtures {
        fixture.promise = markup.to_owned();
        fixture.id = format!("podgc/{markup}");
        fixture.reason = markup.to_owned();
        fixture.rules = vec![markup.to_owned()];
        for failure in &mut fixture.failures {
            (failure.message, failure.expected, failure.observed) = (markup.into(), markup.into(), markup.into());
        }
    }
    let report = RunReport::new(markup, markup, 1, report.fixtures);
    let mut out = Vec::new();
    let mut page = Html::new(&mut out, markup, &[]).since(vec![report.clone()]);
    page.event(Event::Finished(&JudgedRun { report: report.fixtures[0].clone(), ..judged(&history()) }))
        .expect("memory");
    page.event(Event::Ended(&report)).expect("memory");
    let text = String::from_utf8(out).expect("UTF-8");
    assert!(!text.contains("<script>alert") && !text.contains("<img"), "markup is escaped");
    assert!(!text.contains("\"podgc/<"), "the index cannot end its element");
    assert_eq!(text.matches("<script").count(), 3, "index, one block, script");
}
