//! Explorations find planted bugs without the expectations of fixtures, find nothing in sound controllers, shrink what
//! they find, and refuse subjects that are not deterministic.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, Patch, PatchParams};
use plumbline::explore::faults::Disturbance;
use plumbline::explore::faults::plan::{FaultPlan, Token};
use plumbline::fixture::{Controller, Fixture, parse};
use plumbline::transcript::render::{render, to_text};
use plumbline_suite::cluster::EmbeddedCluster;
use plumbline_suite::explore::findings::shrink::shrink;
use plumbline_suite::explore::histories::beginnings::find;
use plumbline_suite::explore::histories::random;
use plumbline_suite::explore::run::explored::ReferenceRun;
use plumbline_suite::explore::run::observation::{Observation, SubjectWrite};
use plumbline_suite::explore::search::canary::{self, Canary};
use plumbline_suite::explore::search::runs::{self, PlanResult};
use plumbline_suite::explore::search::{self, Exploration, ExploreOptions, Strategy, equal};
use plumbline_suite::runner::suite::TestBed;
use plumbline_suite::subject::client_factory::ClientFactory;
use plumbline_suite::subject::in_process::{InProcess, Replicas};
use plumbline_suite::subject::task::{RunningTask, TaskController, TaskSubject};
use plumbline_suite::subject::{Launch, Subject, SubjectError};
use rstest::rstest;
use serde_json::json;

use crate::broken::lies::Lie;
use crate::broken::small::BrokenPart;
use crate::support::{all_fixtures, is_full};

/// Returns the fixtures with these ids.
fn fixtures(ids: &[&str]) -> Vec<Fixture> {
    let chosen: Vec<Fixture> =
        all_fixtures().iter().filter(|fixture| ids.contains(&fixture.id.as_str())).cloned().collect();
    assert_eq!(chosen.len(), ids.len(), "each of {ids:?} exists");
    chosen
}

fn explored(subject: impl Subject + 'static, fixtures: &[Fixture], options: ExploreOptions) -> Exploration {
    let test_bed = TestBed::new(Arc::new(EmbeddedCluster::default()), Arc::new(subject));
    let options = ExploreOptions { jobs: 2, ..options };
    search::explore(fixtures, &test_bed, &options, |_| {})
}

fn fingerprints(exploration: &Exploration) -> Vec<String> {
    exploration.findings.list().into_iter().map(|finding| finding.fingerprint).collect()
}

/// Plans whose consequences upstream's controllers have, too, are no finding.
#[rstest]
#[case::a_crash_loses_a_slow_mark_whose_taint_went(
    "taint-eviction/slow-write-leaves-no-timer-behind~2:relist-1s@EVENT:nodes/n1#2,crash-before@LIST:nodes#2"
)]
#[case::a_failing_budget_tells_another_reason_after_its_back_off(
    "disruption/owner-not-resolvable[configmap-as-owner]:429@GET:configmaps/web/scale#17,\
     500@GET:configmaps/web/scale#18"
)]
fn consequences_that_upstream_shares_are_no_finding(#[case] token: &str) {
    let token: Token = token.parse().expect("a token");
    let fixture = find(all_fixtures(), &token.fixture).expect("a fixture");
    let (reference, result, text) = harmless(fixture, &token);
    let writes = |observation: &Observation| (observation.state, observation.last_writes.clone());
    assert_ne!(writes(&reference.observation), writes(&result.observation), "the faults have a consequence: {text}");
}

/// The budget counts a pod that is evicted because the controllers learn too late that its taint has gone.
const EVICTED: &str = "controllers: [disruption, taint-eviction]\n\
    given: { nodes: ['n1 k=v:NoExecute'], budgets: [b minAvailable 1 app=web], \
    pods: [a ready on n1 tolerating k for 40s app=web] }\nsteps:\n- { at: 30s, untaint: n1 }\n";
/// Pod GC does not know that the disruption controller has just reset the pod's condition.
const RESET: &str = "controllers: [disruption, podgc]\ngiven: { nodes: [n1], pods: [a on n1] }\nsteps:\n\
    - { at: 114s, condition: { pods/a: DisruptionTarget=True:PreemptionByScheduler } }\n\
    - { at: 189s, delete: nodes/n1 }\n";

#[rstest]
#[case::a_budget_follows_its_pods(EVICTED, "disruption/a:hold-30s@EVENT:nodes/n1#1", "DELETE pods/a")]
#[case::a_patch_leaves_out_what_seems_unchanged(
    RESET,
    "disruption/a:coalesce-30s@EVENT:pods/a#2",
    "DisruptionTarget=False→False/DeletionByPodGC"
)]
fn consequences_of_late_news_are_no_finding(#[case] history: &str, #[case] token: &str, #[case] consequence: &str) {
    let text = format!(
        "promise: It is sound.\nrule: T-001\nlevel: provisional\nfeature: ttl.annotation\n{history}\
         - {{ at: 300s, expect: {{ quiet: true }} }}\n"
    );
    let (mut fixtures, problems) = parse::read(Path::new("a.yaml"), "disruption", &text);
    assert!(problems.is_empty(), "{problems:?}");
    let (.., text) = harmless(fixtures.pop().expect("a fixture"), &token.parse().expect("a token"));
    assert!(text.contains(consequence), "{text}");
}

/// Runs a plan about which no oracle may complain. Returns the run without faults, and the result and the transcript.
fn harmless(fixture: Fixture, token: &Token) -> (ReferenceRun, PlanResult, String) {
    let test_bed = TestBed::embedded();
    let (reference, _) = runs::reference(&test_bed, &Arc::new(fixture)).expect("deterministic");
    let plan = runs::resolve(&test_bed, &reference, token).expect("its points");
    let mut text = String::new();
    let result = runs::run_plan(&test_bed, &reference, plan, |record, entries| {
        text = to_text(&render(record.start, &record.initial, entries));
    });
    assert_eq!(result.verdict.breaches, [], "{text}");
    (reference, result, text)
}

/// Our controllers survive a part of all single faults in these histories: one of 24, or all with
/// `PLUMBLINE_TESTS=full`. Each history is run twice without faults, and each beginning of it once.
#[rstest]
#[case::podgc("podgc/orphaned-quarantine-40s", 14)]
#[case::taint_eviction("taint-eviction/untaint-cancels[soon]", 26)]
#[case::ttl("ttl/patch-touches-one-annotation", 8)]
#[case::disruption("disruption/status-max-unavailable-percent[30-of-7-is-3]", 8)]
fn sound_controllers_have_no_finding(#[case] id: &str, #[case] runs: u64) {
    let shards = if is_full() { 1 } else { 24 };
    let part = ExploreOptions { shard: (1, shards), ..ExploreOptions::default() };
    let exploration = explored(InProcess, &fixtures(&[id]), part);
    assert_eq!(fingerprints(&exploration), <[&str; 0]>::default(), "{:#?}", exploration.findings.list());
    assert!(exploration.divergent.is_empty() && exploration.left_out.is_empty(), "{exploration:?}");
    assert_eq!(exploration.done, exploration.planned, "{exploration:?}");
    assert!(exploration.runs == runs || is_full() && exploration.runs > runs, "{exploration:?}");
}

/// Random worlds, with random faults, show no flaw of our controllers. The same seed gives the same runs with any
/// number of jobs.
#[test]
fn sound_controllers_survive_random_worlds() {
    let worlds = if is_full() { 30 } else { 1 };
    let random =
        ExploreOptions { strategy: Strategy::Random, worlds: Some(worlds), seed: 5, ..ExploreOptions::default() };
    let exploration = explored(InProcess, &[], random);
    assert_eq!(fingerprints(&exploration), <[&str; 0]>::default(), "{:#?}", exploration.findings.list());
    assert!(exploration.divergent.is_empty() && exploration.worlds == worlds, "{exploration:?}");
    assert!(exploration.runs >= 37 && exploration.coverage.marks().len() >= 15, "{exploration:?}");
    let again = search::explore(&[], &TestBed::embedded(), &ExploreOptions { jobs: 3, ..random }, |_| {});
    let summary = |exploration: Exploration| (exploration.runs, exploration.points, exploration.coverage);
    assert_eq!(summary(again), summary(exploration));
    assert_ne!(random::text(3), random::text(4));
}

/// Each fault of a whole run, and those without words in fixtures, can be repeated by their tokens.
#[rstest]
#[case::order("order-3@RUN:order#5")]
#[case::duplicate("duplicate@EVENT:nodes/n1#1")]
#[case::bookmark("bookmark@EVENT:nodes/n1#1")]
#[case::last("last@EVENT:nodes/n1#1")]
#[case::hand_over("hand-over@DELETE:pods/a#1")]
#[case::clock("clock-ahead-10m@DELETE:pods/a#1")]
#[case::clock_back("clock-back-10m@EVENT:nodes/n1#1")]
#[case::deleted("deleted@DELETE:pods/a#1")]
#[case::recreated("recreated@PATCH:pods/a/status#1")]
fn faults_are_repeatable(#[case] fault: &str) {
    let fixture = Arc::new(fixtures(&["podgc/orphaned-quarantine-40s"]).remove(0));
    let test_bed = TestBed::embedded();
    let (reference, _) = runs::reference(&test_bed, &fixture).expect("deterministic");
    let token = format!("{}:{fault}", fixture.id).parse().expect("a token");
    let plan = runs::resolve(&test_bed, &reference, &token).expect("the point exists");
    let run = || {
        let mut text = String::new();
        let result = runs::run_plan(&test_bed, &reference, plan.clone(), |record, entries| {
            text = to_text(&render(record.start, &record.initial, entries));
        });
        (result.verdict, text)
    };
    let (verdict, text) = run();
    assert_eq!(verdict.unfit, None);
    assert_eq!(verdict.breaches, []);
    assert_eq!((verdict, text), run());
}

/// The oracles alone find these flaws; the fixtures' expectations are not used.
#[rstest]
#[case::quarantine(
    TaskSubject::new(BrokenPart::Orphans { quarantine: 20 }),
    "podgc/orphaned-quarantine-40s",
    "early"
)]
#[case::no_mark(TaskSubject::new(Lie::MarksLost), "taint-eviction/toleration-seconds[1s]", "condition")]
#[case::no_retry(TaskSubject::new(BrokenPart::Ttl { remembers: true }), "ttl/patch-touches-one-annotation", "alive")]
fn flaws_are_found(#[case] subject: impl Subject + 'static, #[case] id: &str, #[case] oracle: &str) {
    let found = fingerprints(&explored(
        subject,
        &fixtures(&[id]),
        ExploreOptions { fail_fast: true, ..ExploreOptions::default() },
    ));
    assert!(found.iter().any(|fingerprint| fingerprint.starts_with(oracle)), "{found:?}");
}

/// Two replicas with leader election survive a part of all single faults, among them a lease that another holder
/// takes by force, and the one that lost it writes no more.
#[test]
fn only_the_leader_of_two_replicas_writes() {
    let part = ExploreOptions { shard: (1, 48), ..ExploreOptions::default() };
    let chosen = fixtures(&["ttl/patch-touches-one-annotation"]);
    let exploration = explored(Replicas(2), &chosen, part);
    assert_eq!(fingerprints(&exploration), <[&str; 0]>::default(), "{:#?}", exploration.findings.list());
    assert_eq!((exploration.divergent.len(), exploration.runs), (0, 8), "{exploration:?}");
    let fixture = Arc::new(fixtures(&["podgc/orphaned-quarantine-40s"]).remove(0));
    let test_bed = TestBed::new(Arc::new(EmbeddedCluster::default()), Arc::new(Replicas(2)));
    let (reference, _) = runs::reference(&test_bed, &fixture).expect("deterministic");
    let token = format!("{}:lease-taken@PATCH:pods/a/status#1", fixture.id).parse().expect("a token");
    let plan = runs::resolve(&test_bed, &reference, &token).expect("the point exists");
    let mut text = String::new();
    let result = runs::run_plan(&test_bed, &reference, plan, |record, entries| {
        text = to_text(&render(record.start, &record.initial, entries));
    });
    assert_eq!((result.verdict.unfit, result.verdict.breaches), (None, vec![]), "{text}");
    assert!(text.contains("another"), "the lease was taken: {text}");
}

/// Plans that are left out because another plan has the same run have the same run.
#[rstest]
#[case::podgc("podgc/orphaned-quarantine-40s")]
#[case::disruption("disruption/status-max-unavailable-percent[30-of-7-is-3]")]
#[case::taint_eviction("taint-eviction/untaint-cancels[soon]")]
fn plans_that_are_left_out_change_nothing(#[case] id: &str) {
    let fixture = Arc::new(fixtures(&[id]).remove(0));
    let test_bed = TestBed::embedded();
    let (reference, _) = runs::reference(&test_bed, &fixture).expect("deterministic");
    let classes = equal::classes(&reference);
    assert!(classes.len() > 5, "{}", classes.len());
    let facts = |plan: &FaultPlan| {
        let result = runs::run_plan(&test_bed, &reference, plan.clone(), |_, _| {});
        let Observation { replies, boundaries, state, writes, last_writes, events, late, fresh, .. } =
            result.observation;
        let texts = |writes: Vec<SubjectWrite>| -> Vec<_> {
            writes.into_iter().map(|write| (write.key, write.at, write.text)).collect()
        };
        (result.verdict, replies, boundaries, state, writes, last_writes, events, texts(late), texts(fresh))
    };
    for (tried, left_out) in classes.into_iter().step_by(if is_full() { 1 } else { 6 }) {
        let expected = facts(&tried);
        for plan in left_out {
            assert_eq!(facts(&plan), expected, "{plan} is left out for {tried}");
        }
    }
}

/// A run without the restart at the end has the verdict of the whole run.
#[rstest]
#[case::podgc("podgc/orphaned-quarantine-40s")]
#[case::disruption("disruption/status-max-unavailable-percent[30-of-7-is-3]")]
fn the_restart_is_left_out_where_it_shows_nothing(#[case] id: &str) {
    let fixture = Arc::new(fixtures(&[id]).remove(0));
    let test_bed = TestBed::embedded();
    let (reference, _) = runs::reference(&test_bed, &fixture).expect("deterministic");
    for point in reference.points.iter().step_by(if is_full() { 1 } else { 20 }) {
        for disturbance in Disturbance::at(point) {
            let plan = FaultPlan { fixture: id.to_owned(), faults: vec![(disturbance, point.clone())] };
            let run = |result: PlanResult| (result.verdict, result.observation.state, result.points);
            let whole = run(runs::run_plan(&test_bed, &reference, plan.clone(), |_, _| {}));
            let tried = run(runs::try_plan(&test_bed, &reference, plan.clone(), true, |_, _| {}));
            assert_eq!(tried, whole, "{plan}");
        }
    }
}

/// Writes the canary's history to a file, where it can be shrunk.
fn canary_file(name: &str, text: &str) -> (PathBuf, Fixture) {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("explore");
    std::fs::create_dir_all(&folder).expect("a folder");
    let path = folder.join(format!("{name}.yaml"));
    std::fs::write(&path, text).expect("a file");
    let (mut fixtures, problems) = parse::read(&path, "ttl", text);
    assert!(problems.is_empty(), "{problems:?}");
    (path, fixtures.pop().expect("a fixture"))
}

/// A history with much that does not matter: one node and one failed write remain.
#[test]
fn a_finding_shrinks_to_its_minimum() {
    let text = "promise: Each node has a TTL.\nrule: T-001\nlevel: provisional\nfeature: ttl.annotation\n\
        given: { nodes: [n1, n2, n3], pods: [a on n1, b on n2] }\nsteps:\n\
        - { at: 5s, delete: pods/a }\n- { at: 10s, create: { nodes: [n4] } }\n- { at: 15s, delete: nodes/n3 }\n\
        - { at: 20s, expect: { exists: nodes/n4 } }\n";
    let (_, fixture) = canary_file("shrink", text);
    let part = ExploreOptions { shard: (1, 3), ..ExploreOptions::default() };
    let exploration = explored(TaskSubject::new(Canary), std::slice::from_ref(&fixture), part);
    let test_bed = TestBed::new(Arc::new(EmbeddedCluster::default()), Arc::new(TaskSubject::new(Canary)));
    let (plan, breach) =
        exploration.findings.simplest().find(|(_, breach)| breach.oracle == "end state").expect("a finding");
    let history = find(std::slice::from_ref(&fixture), &plan.fixture).expect("the fixture or a beginning");
    let shrunk = shrink(&test_bed, &history, plan, &breach.fingerprint()).expect("it repeats");
    let (smallest, problems) = parse::read(Path::new("found.yaml"), "ttl", &shrunk.text);
    assert!(problems.is_empty(), "{}\n{problems:?}", shrunk.text);
    assert_eq!(smallest[0].given.objects.len() + smallest[0].steps.len(), 2, "one node, one check: {}", shrunk.text);
    assert!(shrunk.text.lines().count() <= 13, "{}", shrunk.text);
    assert!(shrunk.text.contains(&format!("plumbline explore --replay '{plan}'")), "{}", shrunk.text);
    // The fixture fails while the bug exists, and a controller without it passes.
    assert!(shrunk.text.contains("reply: 500"), "the weakest fault: {}", shrunk.text);
}

#[test]
fn the_canary_is_found() {
    assert_eq!(canary::is_found(), Ok(true));
}

#[test]
fn the_parts_of_all_machines_are_everything() {
    let chosen = fixtures(&["ttl/patch-touches-one-annotation"]);
    let test_bed = TestBed::embedded();
    let planned = |shard| {
        let options = ExploreOptions { shard, budget: Some(std::time::Duration::ZERO), ..ExploreOptions::default() };
        search::explore(&chosen, &test_bed, &options, |_| {}).planned
    };
    let parts: Vec<usize> = (1..=3).map(|part| planned((part, 3))).collect();
    assert!(parts.iter().all(|part| *part > 0), "{parts:?}");
    assert_eq!(parts.iter().sum::<usize>(), planned((1, 1)));
}

/// A controller whose writes differ from run to run.
struct Dice;

static THROWS: AtomicU64 = AtomicU64::new(0);

impl TaskController for Dice {
    fn name(&self) -> String {
        "dice".to_owned()
    }

    fn controllers(&self) -> BTreeSet<Controller> {
        [Controller::Ttl].into()
    }

    fn start(&self, launch: &Launch<'_>) -> Result<RunningTask, SubjectError> {
        let factory = ClientFactory::new(launch.access, launch.clock)?;
        let nodes: Api<Node> = Api::all(factory.client("dice/1 ttl-controller"));
        Ok(RunningTask::spawn(factory, async move {
            let throw = THROWS.fetch_add(1, Ordering::Relaxed).to_string();
            let patch = Patch::Merge(json!({ "metadata": { "labels": { "throw": throw } } }));
            nodes.patch("n1", &PatchParams::default(), &patch).await?;
            std::future::pending::<Result<(), kube::Error>>().await
        }))
    }
}

#[test]
fn a_subject_that_is_not_deterministic_is_refused() {
    let fixture = canary::fixture().expect("a fixture");
    let exploration = explored(TaskSubject::new(Dice), &[fixture], ExploreOptions::default());
    let (_, divergence) = exploration.divergent.first_key_value().expect("a divergence");
    assert!(divergence.contains("throw"), "the first divergence is shown: {divergence}");
    assert_eq!((exploration.planned, exploration.fixtures), (0, 0), "it is not explored");
}
