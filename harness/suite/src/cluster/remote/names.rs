//! Maps the names of a fixture's objects to names on a shared server.
//!
//! On the server, namespaces, nodes and all references to them carry a suffix that is unique to the fixture; uids are
//! the server's. [`NameMapper::to_cluster`] adds the suffix to requests, [`NameMapper::to_fixture`] removes it from
//! responses wherever it occurs, messages included. The subject, the steps and the transcript therefore only see the
//! fixture's names.

use std::collections::BTreeMap;

use parking_lot::{Mutex, MutexGuard};
use plumbline::metadata;
use plumbline_apiserver::request::{Query, ResourcePath};
use serde_json::Value;

use crate::url::escape;

/// Length of a uid.
const UID: usize = 36;
/// Field selectors whose value is a namespace or a node, for any resource.
const SELECTORS: [&str; 4] = ["metadata.namespace", "spec.nodeName", "involvedObject.namespace", "regarding.namespace"];

/// Translates between a fixture's names and the server's.
#[derive(Debug)]
pub(super) struct NameMapper {
    suffix: String,
    uids: Mutex<UidMap>,
}

#[derive(Debug, Default)]
struct UidMap {
    to_server: BTreeMap<String, String>,
    to_fixture: BTreeMap<String, String>,
}

/// Returns true if objects of a resource carry the suffix in their own names.
fn is_renamed(group: &str, resource: &str) -> bool {
    group.is_empty() && matches!(resource, "nodes" | "namespaces")
}

/// Returns true for the config maps that the server publishes in the real kube-system namespace.
fn is_published(path: &ResourcePath) -> bool {
    path.namespace == "kube-system" && path.group.is_empty() && path.resource == "configmaps"
}

impl NameMapper {
    pub(super) fn new(suffix: String) -> Self {
        Self { suffix, uids: Mutex::default() }
    }

    fn uids(&self) -> MutexGuard<'_, UidMap> {
        self.uids.lock()
    }

    /// Returns the server's name for a namespace or a node of the fixture.
    pub(super) fn cluster_name(&self, name: &str) -> String {
        format!("{name}{}", self.suffix)
    }

    /// Records that the server assigned the uid `server` to the object with uid `fixture`.
    pub(super) fn learn_uid(&self, fixture: &str, server: &str) {
        let mut uids = self.uids();
        uids.to_server.insert(fixture.to_owned(), server.to_owned());
        uids.to_fixture.insert(server.to_owned(), fixture.to_owned());
    }

    /// Returns a path for the server. `only` is the fixture's namespace if it has just one: requests across all
    /// namespaces are narrowed to it. `namespaced` is true if the resource is namespaced.
    pub(super) fn path(&self, path: &ResourcePath, namespaced: bool, only: Option<&str>) -> String {
        let mut out = if path.group.is_empty() {
            format!("/api/{}", path.version)
        } else {
            format!("/apis/{}/{}", escape(&path.group), escape(&path.version))
        };
        if path.watch {
            out.push_str("/watch");
        }
        let collection = namespaced && path.namespace.is_empty() && path.name.is_empty();
        let namespace = if is_published(path) {
            Some(path.namespace.clone())
        } else if !path.namespace.is_empty() {
            Some(self.cluster_name(&path.namespace))
        } else {
            only.filter(|_| collection).map(|name| self.cluster_name(name))
        };
        let name = Some(path.name.as_str()).filter(|name| !name.is_empty()).map(|name| {
            if is_renamed(&path.group, &path.resource) { self.cluster_name(name) } else { name.to_owned() }
        });
        let parts = namespace.iter().flat_map(|name| ["namespaces", name.as_str()]).chain([path.resource.as_str()]);
        let parts = parts.chain(name.as_deref()).chain(Some(path.subresource.as_str()).filter(|part| !part.is_empty()));
        for part in parts.chain(path.rest.iter().map(String::as_str)) {
            out.push('/');
            out.push_str(&escape(part));
        }
        out
    }

    /// Returns a query for the server.
    pub(super) fn query(&self, query: &Query, path: &ResourcePath) -> Vec<(String, String)> {
        let pair = |(key, value): &(String, String)| {
            let value = if key == "fieldSelector" { self.selector(value, path) } else { value.clone() };
            (key.clone(), value)
        };
        query.pairs().iter().map(pair).collect()
    }

    fn selector(&self, selector: &str, path: &ResourcePath) -> String {
        let own_name = is_renamed(&path.group, &path.resource);
        let term = |term: &str| {
            let Some(at) = term.rfind('=') else { return term.to_owned() };
            let (head, value) = term.split_at(at + 1);
            let field = head.trim_end_matches(['=', '!']);
            let named = SELECTORS.contains(&field) || (own_name && field == "metadata.name");
            if named && !value.is_empty() { format!("{head}{}", self.cluster_name(value)) } else { term.to_owned() }
        };
        selector.split(',').map(term).collect::<Vec<_>>().join(",")
    }

    /// Translates a body (a complete object, or a patch for `path`) into the server's names.
    pub(super) fn to_cluster(&self, body: &mut Value, path: &ResourcePath) {
        self.rename_fields(body);
        if let Some(name) = (is_renamed(&path.group, &path.resource) && path.subresource != "eviction")
            .then(|| body.pointer_mut("/metadata/name"))
            .flatten()
        {
            self.rename(name);
        }
        let uids = self.uids();
        if !uids.to_server.is_empty() {
            replace_uids(body, &uids.to_server);
        }
    }

    fn rename(&self, value: &mut Value) {
        if let Value::String(text) = value
            && !text.is_empty()
        {
            text.push_str(&self.suffix);
        }
    }

    fn rename_fields(&self, value: &mut Value) {
        match value {
            Value::Array(items) => {
                for item in items {
                    self.rename_fields(item);
                }
            }
            Value::Object(fields) => {
                // An operation of a JSON patch.
                let names_node =
                    fields.get("path").and_then(Value::as_str).is_some_and(|path| path.ends_with("/nodeName"));
                // An object reference, or the target of a binding.
                let refers = fields.get("kind").is_some_and(|kind| kind == "Node" || kind == "Namespace");
                let bare = refers && !fields.contains_key("metadata");
                for (key, field) in fields.iter_mut() {
                    match key.as_str() {
                        "namespace" | "nodeName" => self.rename(field),
                        "value" if names_node => self.rename(field),
                        "name" if bare => self.rename(field),
                        "managedFields" => {}
                        _ => self.rename_fields(field),
                    }
                }
            }
            _ => {}
        }
    }

    /// Translates a response into the fixture's names.
    pub(super) fn to_fixture(&self, value: &mut Value) {
        self.strip(value);
        let uids = self.uids();
        if !uids.to_fixture.is_empty() {
            replace_uids(value, &uids.to_fixture);
        }
    }

    fn strip(&self, value: &mut Value) {
        match value {
            Value::String(text) if text.contains(&self.suffix) => *text = text.replace(&self.suffix, ""),
            Value::Array(items) => items.iter_mut().for_each(|item| self.strip(item)),
            Value::Object(fields) => fields.values_mut().for_each(|field| self.strip(field)),
            _ => {}
        }
    }

    /// Removes the suffix from a text.
    pub(super) fn to_fixture_text(&self, text: &str) -> String {
        text.replace(&self.suffix, "")
    }

    /// Returns true if an object, as stored by the server, belongs to the fixture. Cluster-scoped objects without a
    /// suffix belong to all fixtures.
    pub(super) fn owns(&self, object: &Value, group: &str, resource: &str) -> bool {
        match metadata::namespace(object) {
            Some(namespace) => namespace.ends_with(&self.suffix),
            None => !is_renamed(group, resource) || metadata::name(object).ends_with(&self.suffix),
        }
    }
}

/// Replaces uids that are a complete string or part of a message about a UID.
fn replace_uids(value: &mut Value, by: &BTreeMap<String, String>) {
    match value {
        Value::String(text) if text.len() == UID => {
            if let Some(other) = by.get(text) {
                text.clone_from(other);
            }
        }
        Value::String(text) if text.len() > UID && text.to_ascii_lowercase().contains("uid") => {
            for (from, to) in by {
                if text.contains(from.as_str()) {
                    *text = text.replace(from, to);
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| replace_uids(item, by)),
        Value::Object(fields) => {
            fields.iter_mut().filter(|(key, _)| *key != "managedFields").for_each(|(_, field)| replace_uids(field, by));
        }
        _ => {}
    }
}

/// Formats `?a=b&c=d`; empty without pairs.
pub(super) fn query_text(pairs: &[(String, String)]) -> String {
    let mut out = String::new();
    for (key, value) in pairs {
        out.push(if out.is_empty() { '?' } else { '&' });
        out.push_str(&escape(key));
        out.push('=');
        out.push_str(&escape(value));
    }
    out
}

#[cfg(test)]
mod tests {
    use plumbline_apiserver::request::Target;
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn names() -> NameMapper {
        NameMapper::new("-plx".to_owned())
    }

    fn parsed(path: &str) -> ResourcePath {
        match Target::parse(path) {
            Target::Resource(path) => path,
            Target::NonResource(path) => panic!("{path} is about no resource"),
        }
    }

    #[rstest]
    #[case::object("/api/v1/namespaces/default/pods/a", None, "/api/v1/namespaces/default-plx/pods/a")]
    #[case::subresource(
        "/api/v1/namespaces/default/pods/a/eviction",
        None,
        "/api/v1/namespaces/default-plx/pods/a/eviction"
    )]
    #[case::node("/api/v1/nodes/n1", None, "/api/v1/nodes/n1-plx")]
    #[case::node_status("/api/v1/nodes/n1/status", None, "/api/v1/nodes/n1-plx/status")]
    #[case::nodes("/api/v1/nodes", Some("default"), "/api/v1/nodes")]
    #[case::namespace("/api/v1/namespaces/default", None, "/api/v1/namespaces/default-plx")]
    #[case::all_pods("/api/v1/pods", None, "/api/v1/pods")]
    #[case::all_pods_of_one_namespace("/api/v1/pods", Some("default"), "/api/v1/namespaces/default-plx/pods")]
    #[case::old_watch("/api/v1/watch/pods", Some("a"), "/api/v1/watch/namespaces/a-plx/pods")]
    #[case::other_group(
        "/apis/policy/v1/namespaces/x/poddisruptionbudgets/b/status",
        None,
        "/apis/policy/v1/namespaces/x-plx/poddisruptionbudgets/b/status"
    )]
    #[case::what_the_server_publishes(
        "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication",
        None,
        "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication"
    )]
    fn paths(#[case] path: &str, #[case] only: Option<&str>, #[case] expected: &str) {
        let parsed = parsed(path);
        let namespaced = !matches!(parsed.resource.as_str(), "nodes" | "namespaces");
        assert_eq!(names().path(&parsed, namespaced, only), expected);
    }

    #[rstest]
    #[case("/api/v1/pods", "spec.nodeName=n1,status.phase!=Failed", "spec.nodeName=n1-plx,status.phase!=Failed")]
    #[case("/api/v1/pods", "spec.nodeName!=", "spec.nodeName!=")]
    #[case("/api/v1/nodes", "metadata.name=n1", "metadata.name=n1-plx")]
    #[case("/api/v1/namespaces/a/pods", "metadata.name=n1", "metadata.name=n1")]
    #[case("/api/v1/pods", "metadata.namespace==a", "metadata.namespace==a-plx")]
    fn selectors(#[case] path: &str, #[case] selector: &str, #[case] expected: &str) {
        let query = Query::parse(&format!("limit=5&fieldSelector={}", escape(selector)));
        let pairs = names().query(&query, &parsed(path));
        assert_eq!(pairs, [("limit".to_owned(), "5".to_owned()), ("fieldSelector".to_owned(), expected.to_owned())]);
        assert_eq!(query_text(&pairs), format!("?limit=5&fieldSelector={}", escape(expected)));
    }

    #[rstest]
    #[case::pod("/api/v1/namespaces/a/pods",
        json!({"kind": "Pod", "metadata": {"name": "p", "namespace": "a"}, "spec": {"nodeName": "n1"}}),
        json!({"kind": "Pod", "metadata": {"name": "p", "namespace": "a-plx"}, "spec": {"nodeName": "n1-plx"}}))]
    #[case::node("/api/v1/nodes",
        json!({"kind": "Node", "metadata": {"name": "n1"}}), json!({"kind": "Node", "metadata": {"name": "n1-plx"}}))]
    #[case::event_about_a_node("/api/v1/namespaces/a/events",
        json!({"metadata": {"name": "n1.1"}, "involvedObject": {"kind": "Node", "name": "n1"}}),
        json!({"metadata": {"name": "n1.1"}, "involvedObject": {"kind": "Node", "name": "n1-plx"}}))]
    #[case::binding("/api/v1/namespaces/a/pods/p/binding",
        json!({"target": {"kind": "Node", "name": "n1"}}), json!({"target": {"kind": "Node", "name": "n1-plx"}}))]
    #[case::json_patch("/api/v1/namespaces/a/pods/p",
        json!([{"op": "add", "path": "/spec/nodeName", "value": "n1"}]),
        json!([{"op": "add", "path": "/spec/nodeName", "value": "n1-plx"}]))]
    fn bodies_go_out_and_come_back(#[case] path: &str, #[case] inner: Value, #[case] cluster_name: Value) {
        let names = names();
        let path = parsed(path);
        let mut body = inner.clone();
        names.to_cluster(&mut body, &path);
        assert_eq!(body, cluster_name);
        names.to_fixture(&mut body);
        assert_eq!(body, inner);
    }

    #[test]
    fn uids_are_the_fixtures_inside_and_the_servers_outside() {
        let names = names();
        let mine = "11111111-1111-4111-8111-111111111111";
        let servers = "22222222-2222-4222-8222-222222222222";
        names.learn_uid(mine, servers);
        let mut body = json!({"preconditions": {"uid": mine}});
        names.to_cluster(&mut body, &parsed("/api/v1/namespaces/a/pods/p"));
        assert_eq!(body["preconditions"]["uid"], servers);
        let mut status = json!({"message": format!("UID in precondition: {servers}, nodes \"n1-plx\"")});
        names.to_fixture(&mut status);
        assert_eq!(status["message"], format!("UID in precondition: {mine}, nodes \"n1\""));
    }

    #[rstest]
    #[case(json!({"metadata": {"name": "p", "namespace": "a-plx"}}), "pods", true)]
    #[case(json!({"metadata": {"name": "p-plx", "namespace": "a"}}), "pods", false)]
    #[case(json!({"metadata": {"name": "n-plx"}}), "nodes", true)]
    #[case(json!({"metadata": {"name": "n"}}), "nodes", false)]
    #[case(json!({"metadata": {"name": "c"}}), "priorityclasses", true)]
    fn whose_objects(#[case] object: Value, #[case] resource: &str, #[case] owned: bool) {
        assert_eq!(names().owns(&object, "", resource), owned);
    }
}
