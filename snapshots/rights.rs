//! The rights that the roles in `controllers/deploy/rbac.yaml` grant, one for each controller, and those that a run
//! asks for.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use plumbline::apiserver::KubernetesVersion;
use plumbline::fixture::parse;
use plumbline::transcript::{Actor, Attributed as _, EntryKind, RecordedRequest, TranscriptEntry};
use plumbline_suite::cluster::{EmbeddedCluster, Role};
use plumbline_suite::report::Outcome;
use plumbline_suite::runner::suite::{self, RunOptions, TestBed};
use serde_json::Value;

/// A resource of a group with its subresource, and a verb.
pub(crate) type Right = (String, String, String);

/// Returns the root of the repository.
pub(crate) fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The manifest with the roles of the controllers.
pub(crate) fn role_file() -> PathBuf {
    repository().join("controllers/deploy/rbac.yaml")
}

/// The rules of the role called `name` in `deploy/rbac.yaml`.
pub(crate) fn rules(kind: &str, name: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(role_file()).expect("rbac.yaml");
    let documents = text.split("\n---\n").map(|document| serde_saphyr::from_str::<Value>(document).expect("YAML"));
    let role = documents.into_iter().find(|role| role["kind"] == kind && role["metadata"]["name"] == name);
    role.unwrap_or_else(|| panic!("no {kind} {name}"))["rules"].as_array().expect("rules").clone()
}

pub(crate) fn words(rule: &Value, field: &str) -> Vec<String> {
    let words = rule[field].as_array().unwrap_or_else(|| panic!("{field} of {rule}"));
    words.iter().map(|word| word.as_str().expect("a string").to_owned()).collect()
}

/// Every right that the rules spell out; wildcards stay as they are.
pub(crate) fn granted(rules: &[Value]) -> BTreeSet<Right> {
    let mut rights = BTreeSet::new();
    for rule in rules {
        for group in words(rule, "apiGroups") {
            for resource in words(rule, "resources") {
                for verb in words(rule, "verbs") {
                    let right = (group.clone(), resource.clone(), verb);
                    assert!(rights.insert(right.clone()), "{right:?} is granted twice");
                }
            }
        }
    }
    rights
}

/// Returns true if `right`, as written in a role, covers the right that a request needs.
pub(crate) fn covers(right: &Right, asked: &Right) -> bool {
    let (group, resource, verb) = right;
    let subresource = |of: &str| of.split_once('/').map(|(_, subresource)| subresource.to_owned());
    let same = resource == &asked.1
        || resource.starts_with("*/") && subresource(resource).is_some_and(|sub| Some(sub) == subresource(&asked.1));
    (group == "*" || group == &asked.0) && same && verb == &asked.2
}

/// The role of the account that a controller, or another client of the program, acts as.
fn role_of(actor: &Actor) -> &'static str {
    match actor {
        Actor::Disruption => "plumbline-controllers:disruption-controller",
        Actor::PodGc => "plumbline-controllers:pod-garbage-collector",
        Actor::TaintEviction => "plumbline-controllers:taint-eviction-controller",
        Actor::Ttl => "plumbline-controllers:ttl-controller",
        _ => "plumbline-controllers",
    }
}

/// The role for leader election: leases, and the Events about them.
const ELECTION: &str = "plumbline-controllers-leader-election";

/// Returns true if a request belongs to the election of a leader.
fn is_election(request: &RecordedRequest) -> bool {
    match request.resource.as_str() {
        "leases" => true,
        "events" => request.body.as_ref().is_some_and(|event| event["involvedObject"]["kind"] == "Lease"),
        _ => false,
    }
}

/// The role and the right that a request of the controllers needs; `None` for other clients and for discovery.
pub(crate) fn required(entry: &TranscriptEntry) -> Option<(&'static str, Right)> {
    let EntryKind::Request(exchange) = &entry.what else { return None };
    let request = &exchange.request;
    let actor = entry.actor();
    if !actor.is_subject() {
        return None;
    }
    if request.resource.is_empty() {
        assert!(request.path.starts_with("/api"), "beyond discovery: {} {}", request.verb, request.path);
        return None;
    }
    let role = if is_election(request) { ELECTION } else { role_of(&actor) };
    Some((role, (request.group.clone(), request.resource_path(), request.verb.clone())))
}

/// Compares the rights that a run of the whole suite needed, each with the first fixture that did, with the roles.
///
/// Returns a message for each right that is missing or unused.
pub(crate) fn compare(needed: &BTreeMap<(&'static str, Right), String>) -> Vec<String> {
    let actors = [Actor::Informers, Actor::Disruption, Actor::PodGc, Actor::TaintEviction, Actor::Ttl];
    let mut problems = Vec::new();
    let roles = actors.iter().map(|actor| ("ClusterRole", role_of(actor))).chain([("Role", ELECTION)]);
    for (kind, role) in roles {
        let granted = granted(&rules(kind, role));
        let needed: Vec<_> = needed.iter().filter(|((of, _), _)| *of == role).collect();
        for ((_, right), fixture) in &needed {
            if !granted.iter().any(|grant| covers(grant, right)) {
                problems.push(format!("{fixture} needs {right:?}, which {role} does not grant"));
            }
        }
        // The rights of the election are listed in `leases_have_a_role_of_their_own`.
        for grant in granted.iter().filter(|_| kind == "ClusterRole") {
            if !needed.iter().any(|((_, right), _)| covers(grant, right)) {
                problems.push(format!("{role} grants {grant:?}, which no fixture needs"));
            }
        }
    }
    problems
}

/// The embedded server, which denies each controller every right that its role in `file` does not grant.
pub(crate) fn confined(file: &Path, kubernetes: KubernetesVersion) -> TestBed {
    let role = Role::read(file).expect("a role");
    TestBed { cluster: Arc::new(EmbeddedCluster { role: Some(role), kubernetes }), ..TestBed::embedded() }
}

/// Runs one fixture with the roles of `text`; returns the outcome and the codes of the requests for `resource`.
fn run_with(text: &str, id: &str, resource: &str) -> (Outcome, BTreeSet<u16>) {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("rbac.yaml");
    std::fs::write(&file, text).expect("written");
    let mut fixtures = parse::load(&repository().join("fixtures")).expect("good fixtures");
    fixtures.retain(|fixture| fixture.id == id);
    let mut ran = None;
    suite::run_all(&fixtures, &confined(&file, KubernetesVersion::default()), RunOptions::one_by_one(), |_, judged| {
        let answered = judged.entries.iter().filter_map(|entry| match &entry.what {
            EntryKind::Request(exchange) if exchange.request.resource_path() == resource => exchange.reply.as_ref(),
            _ => None,
        });
        ran = Some((judged.report.outcome, answered.map(|reply| reply.status).collect()));
        true
    });
    ran.expect("the fixture runs")
}

/// Without `pods/status` no orphan is marked, and none is deleted (kubernetes/kubernetes#113580).
pub(crate) fn a_smaller_role_is_noticed() {
    let text = std::fs::read_to_string(role_file()).expect("rbac.yaml");
    let smaller = text.replace("[pods/status]", "[pods/status-not]");
    let ran = run_with(&smaller, "podgc/orphaned-quarantine-40s", "pods/status");
    assert_eq!(ran, (Outcome::Fail, BTreeSet::from([403])));
}

/// The rights on leases and their Events, which are granted in one namespace and for one lease.
pub(crate) fn leases_have_a_role_of_their_own() {
    let rules = rules("Role", ELECTION);
    let right = |(group, resource, verb): (&str, &str, &str)| (group.to_owned(), resource.to_owned(), verb.to_owned());
    let lease = |verb| right(("coordination.k8s.io", "leases", verb));
    let event = |verb| right(("", "events", verb));
    let expected = [lease("create"), lease("get"), lease("update"), event("create"), event("patch")];
    assert_eq!(granted(&rules), expected.into());
    for rule in rules.iter().filter(|rule| words(rule, "resources") == ["leases"]) {
        let named = rule["resourceNames"].as_array().map(Vec::as_slice).unwrap_or_default();
        let creates = words(rule, "verbs") == ["create"];
        assert!(creates || named == ["plumbline-controllers"], "{rule}");
    }
}

/// The disruption controller only writes status and must not be able to delete a pod, and only two controllers must.
pub(crate) fn only_two_controllers_may_delete_pods() {
    let delete = (String::new(), "pods".to_owned(), "delete".to_owned());
    let actors = [Actor::Informers, Actor::Disruption, Actor::PodGc, Actor::TaintEviction, Actor::Ttl];
    let may =
        |actor: &&Actor| granted(&rules("ClusterRole", role_of(actor))).iter().any(|right| covers(right, &delete));
    assert_eq!(actors.iter().filter(may).collect::<Vec<_>>(), [&Actor::PodGc, &Actor::TaintEviction]);
}

/// With the disruption controller's rights the collector is refused: each client has the rights of its own account.
pub(crate) fn a_controller_has_no_rights_of_another() {
    let text = std::fs::read_to_string(role_file()).expect("rbac.yaml");
    let swapped = text
        .replace("- kind: ServiceAccount\n  name: pod-garbage-collector", "- kind: ServiceAccount\n  name: x")
        .replace(
            "- kind: ServiceAccount\n  name: disruption-controller",
            "- kind: ServiceAccount\n  name: pod-garbage-collector",
        )
        .replace("- kind: ServiceAccount\n  name: x", "- kind: ServiceAccount\n  name: disruption-controller");
    let (outcome, codes) = run_with(&swapped, "podgc/orphaned-quarantine-40s", "nodes");
    assert_eq!((outcome, codes.contains(&403)), (Outcome::Fail, true));
}
