//! The rights that the role in `controllers/deploy/rbac.yaml` grants, and those that a run asks for.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use plumbline::cluster::{EmbeddedCluster, Role};
use plumbline::fixture::parse;
use plumbline::report::Outcome;
use plumbline::runner::suite::{self, RunOptions, TestBed};
use plumbline::transcript::{Attributed as _, EntryKind, TranscriptEntry};
use serde_json::Value;

/// A resource of a group with its subresource, and a verb.
pub(crate) type Right = (String, String, String);

/// The manifest with the roles of the controllers.
pub(crate) fn role_file() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("controllers").join("deploy/rbac.yaml")
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

/// The right that a request of the controllers needs; `None` for other clients and for discovery.
pub(crate) fn required(entry: &TranscriptEntry) -> Option<Right> {
    let EntryKind::Request(exchange) = &entry.what else { return None };
    let request = &exchange.request;
    if !entry.actor().is_subject() {
        return None;
    }
    if request.resource.is_empty() {
        assert!(request.path.starts_with("/api"), "beyond discovery: {} {}", request.verb, request.path);
        return None;
    }
    Some((request.group.clone(), request.resource_path(), request.verb.clone()))
}

/// Compares the rights that a run of the whole suite needed, each with the first fixture that did, with the role.
///
/// Returns a message for each right that is missing or unused.
pub(crate) fn compare(needed: &BTreeMap<Right, String>) -> Vec<String> {
    let granted = granted(&rules("ClusterRole", "plumbline-controllers"));
    let missing = needed.iter().filter(|(right, _)| !granted.iter().any(|grant| covers(grant, right)));
    let missing = missing.map(|(right, fixture)| format!("{fixture} needs {right:?}, which the role does not grant"));
    let unused = granted.iter().filter(|grant| !needed.keys().any(|right| covers(grant, right)));
    let unused = unused.map(|grant| format!("the role grants {grant:?}, which no fixture needs"));
    missing.chain(unused).collect()
}

/// The embedded server, which denies the subject every right that the role in `file` does not grant.
pub(crate) fn confined(file: &Path) -> TestBed {
    let role = Role::read(file).expect("a role");
    TestBed { cluster: Arc::new(EmbeddedCluster { role: Some(role) }), ..TestBed::embedded() }
}

/// Without `pods/status` no orphan is marked, and none is deleted (kubernetes/kubernetes#113580).
pub(crate) fn a_smaller_role_is_noticed() {
    let text = std::fs::read_to_string(role_file()).expect("rbac.yaml");
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("rbac.yaml");
    std::fs::write(&file, text.replace("[pods/status]", "[pods/status-not]")).expect("written");
    let mut fixtures =
        parse::load(&Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("fixtures")).expect("good fixtures");
    fixtures.retain(|fixture| fixture.id == "podgc/orphaned-quarantine-40s");
    let mut outcomes = Vec::new();
    suite::run_all(&fixtures, &confined(&file), RunOptions::one_by_one(), |_, judged| {
        let refused = judged.entries.iter().filter_map(|entry| match &entry.what {
            EntryKind::Request(exchange) if exchange.request.resource_path() == "pods/status" => {
                exchange.reply.as_ref()
            }
            _ => None,
        });
        outcomes.push((judged.report.outcome, refused.map(|reply| reply.status).collect::<BTreeSet<_>>()));
        true
    });
    assert_eq!(outcomes, [(Outcome::Fail, BTreeSet::from([403]))]);
}

/// No fixture elects a leader (`failover.rs` does), so the rights on leases are listed here.
pub(crate) fn leases_have_a_role_of_their_own() {
    let rules = rules("Role", "plumbline-controllers-leader-election");
    let right = |verb: &str| ("coordination.k8s.io".to_owned(), "leases".to_owned(), verb.to_owned());
    assert_eq!(granted(&rules), ["create", "get", "update"].map(right).into());
    for rule in &rules {
        let named = rule["resourceNames"].as_array().map(Vec::as_slice).unwrap_or_default();
        let creates = words(rule, "verbs") == ["create"];
        assert!(creates || named == ["plumbline-controllers"], "{rule}");
    }
}
