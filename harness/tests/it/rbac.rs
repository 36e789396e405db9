//! The role that ships with the controllers grants what they ask for in the whole suite, and nothing else.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use plumbline::cluster::{Embedded, Role};
use plumbline::fixture::parse;
use plumbline::report::Outcome;
use plumbline::runner::suite::{self, Arena, Options};
use plumbline::transcript::{Attributed as _, Entry, Happening};
use serde_json::Value;

/// A resource of a group with its subresource, and a verb.
type Right = (String, String, String);

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("")
}

/// The rules of the role called `name` in `deploy/rbac.yaml`.
fn rules(kind: &str, name: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(root().join("controllers/deploy/rbac.yaml")).expect("rbac.yaml");
    let documents = text.split("\n---\n").map(|document| serde_saphyr::from_str::<Value>(document).expect("YAML"));
    let role = documents.into_iter().find(|role| role["kind"] == kind && role["metadata"]["name"] == name);
    role.unwrap_or_else(|| panic!("no {kind} {name}"))["rules"].as_array().expect("rules").clone()
}

fn words(rule: &Value, field: &str) -> Vec<String> {
    let words = rule[field].as_array().unwrap_or_else(|| panic!("{field} of {rule}"));
    words.iter().map(|word| word.as_str().expect("a string").to_owned()).collect()
}

/// Every right that the rules spell out, wildcards as they are.
fn granted(rules: &[Value]) -> BTreeSet<Right> {
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

/// Whether `right` as it is written in a role covers what was asked for.
fn covers(right: &Right, asked: &Right) -> bool {
    let (group, resource, verb) = right;
    let subresource = |of: &str| of.split_once('/').map(|(_, subresource)| subresource.to_owned());
    let same = resource == &asked.1
        || resource.starts_with("*/") && subresource(resource).is_some_and(|sub| Some(sub) == subresource(&asked.1));
    (group == "*" || group == &asked.0) && same && verb == &asked.2
}

/// What a request of the controllers needs, if it is about a resource.
fn asked(entry: &Entry) -> Option<Right> {
    let Happening::Request(exchange) = &entry.what else { return None };
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

fn role() -> Role {
    Role::read(&root().join("controllers/deploy/rbac.yaml")).expect("a role")
}

/// Our controllers on servers that enforce `role`.
fn confined(role: Role) -> Arena {
    Arena { cluster: Arc::new(Embedded { role: Some(role) }), ..Arena::embedded() }
}

#[test]
fn the_role_is_what_the_suite_needs() {
    let fixtures = parse::load(&root().join("fixtures")).expect("good fixtures");
    let mut needed: BTreeMap<Right, String> = BTreeMap::new();
    let options = Options { jobs: 2, ..Options::one_by_one() };
    // The server enforces the role: what it does not grant is refused, and the fixture fails.
    suite::run_all(&fixtures, &confined(role()), options, |_, judged| {
        assert!(matches!(judged.report.outcome, Outcome::Pass | Outcome::Skip), "{:?}", judged.report.id);
        for right in judged.entries.iter().filter_map(asked) {
            needed.entry(right).or_insert_with(|| judged.report.id.clone());
        }
        true
    });
    assert!(needed.len() > 15, "the search is broken: {needed:?}");
    let granted = granted(&rules("ClusterRole", "plumbline-controllers"));
    let missing: Vec<_> =
        needed.iter().filter(|(asked, _)| !granted.iter().any(|right| covers(right, asked))).collect();
    assert!(missing.is_empty(), "asked for, by the first fixture that does, but not granted: {missing:#?}");
    let unused: Vec<_> = granted.iter().filter(|right| !needed.keys().any(|asked| covers(right, asked))).collect();
    assert!(unused.is_empty(), "granted, but no fixture needs it: {unused:#?}");
}

/// Upstream's #113580: without `pods/status` no orphan is marked, and none is deleted.
#[test]
fn a_smaller_role_is_noticed() {
    let text = std::fs::read_to_string(root().join("controllers/deploy/rbac.yaml")).expect("rbac.yaml");
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("rbac.yaml");
    std::fs::write(&file, text.replace("[pods/status]", "[pods/status-not]")).expect("written");
    let mut fixtures = parse::load(&root().join("fixtures")).expect("good fixtures");
    fixtures.retain(|fixture| fixture.id == "podgc/orphaned-quarantine-40s");
    let mut outcomes = Vec::new();
    suite::run_all(&fixtures, &confined(Role::read(&file).expect("a role")), Options::one_by_one(), |_, judged| {
        let refused = judged.entries.iter().filter_map(|entry| match &entry.what {
            Happening::Request(exchange) if exchange.request.resource_path() == "pods/status" => {
                exchange.reply.as_ref()
            }
            _ => None,
        });
        outcomes.push((judged.report.outcome, refused.map(|reply| reply.status).collect::<BTreeSet<_>>()));
        true
    });
    assert_eq!(outcomes, [(Outcome::Fail, BTreeSet::from([403]))]);
}

/// No fixture elects a leader: `failover.rs` does. What that takes is written down here.
#[test]
fn the_lease_is_the_only_thing_beside_the_suite() {
    let rules = rules("Role", "plumbline-controllers-leader-election");
    let right = |verb: &str| ("coordination.k8s.io".to_owned(), "leases".to_owned(), verb.to_owned());
    assert_eq!(granted(&rules), ["create", "get", "update"].map(right).into());
    for rule in &rules {
        let named = rule["resourceNames"].as_array().map(Vec::as_slice).unwrap_or_default();
        let creates = words(rule, "verbs") == ["create"];
        assert!(creates || named == ["plumbline-controllers"], "{rule}");
    }
}
