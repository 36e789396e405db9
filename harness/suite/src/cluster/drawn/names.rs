//! Names that are drawn for a run, and the translation between them and those of the fixture.
//!
//! Drawn names sort as the fixture's do, so an order by name stays as it is. They have a form that nothing else has, so
//! they are found again in any text: in Events, messages, names of fields.

use std::collections::{BTreeMap, BTreeSet};

use plumbline::fixture::{Edit, Fixture, Operation};
use plumbline::metadata;
use serde_json::{Value, json};

use super::step_requests::requests;
use crate::cluster::call::Call;
use crate::url::escape;

/// Length of a drawn name.
const LENGTH: usize = 8;
/// Length of a uid.
const UID: usize = 36;
/// The place of its first dash.
const FIRST_DASH: usize = 8;
/// Longer names are about their length, so they stay.
const LONGEST: usize = 40;
/// Resources whose names mean something to the server or to the subject, so that they stay.
const FIXED: [&str; 18] = [
    "apiservices",
    "clusterrolebindings",
    "clusterroles",
    "customresourcedefinitions",
    "flowschemas",
    "leases",
    "mutatingadmissionpolicies",
    "mutatingadmissionpolicybindings",
    "mutatingwebhookconfigurations",
    "priorityclasses",
    "prioritylevelconfigurations",
    "rolebindings",
    "roles",
    "runtimeclasses",
    "serviceaccounts",
    "validatingadmissionpolicies",
    "validatingadmissionpolicybindings",
    "validatingwebhookconfigurations",
];
/// Field selectors whose value is a name.
const SELECTORS: [&str; 6] = [
    "metadata.name",
    "metadata.namespace",
    "spec.nodeName",
    "involvedObject.name",
    "involvedObject.namespace",
    "regarding.name",
];

/// Names of objects, namespaces and nodes, and uids, with those that are drawn for them.
#[derive(Clone, Debug, Default)]
pub struct DrawnNames {
    names: TwoWay,
    uids: TwoWay,
    /// Drawn names of namespaces that the fixture expects and does not create.
    namespaces: Vec<String>,
}

/// A translation in both directions.
#[derive(Clone, Debug, Default)]
struct TwoWay {
    drawn: BTreeMap<String, String>,
    own: BTreeMap<String, String>,
}

impl TwoWay {
    fn insert(&mut self, own: String, drawn: String) {
        self.own.insert(drawn.clone(), own.clone());
        self.drawn.insert(own, drawn);
    }
}

impl DrawnNames {
    /// Draws a name for each name that `fixture` has.
    #[must_use]
    pub fn draw(fixture: &Fixture, random: &mut fastrand::Rng) -> Self {
        let found = FoundNames::of(fixture);
        let mut drawn = Self::default();
        for uid in &found.uids {
            drawn.uids.insert(uid.clone(), uid_from(random));
        }
        let mut rest = found.names.iter().peekable();
        let mut lower: Option<&String> = None;
        for upper in found.kept.iter().map(Some).chain([None]) {
            let mut group = Vec::new();
            while let Some(name) = rest.next_if(|name| upper.is_none_or(|upper| *name < upper)) {
                group.push(name.clone());
            }
            let fits = |name: &String| lower.is_none_or(|lower| name > lower) && upper.is_none_or(|upper| name < upper);
            drawn.add_in_order(group, fits, random);
            lower = upper;
        }
        let created = |name: &str| {
            let is_it = |object: &Value| object["kind"] == "Namespace" && metadata::name(object) == name;
            fixture.given.objects.iter().any(is_it)
        };
        let missing = found.namespaces.iter().filter(|name| *name == DEFAULT && !created(name));
        drawn.namespaces = missing.filter_map(|name| drawn.names.drawn.get(name).cloned()).collect();
        drawn
    }

    /// Returns the same names for a cluster that creates the namespaces of a fixture itself.
    #[must_use]
    pub(super) fn without_namespaces(self) -> Self {
        Self { namespaces: Vec::new(), ..self }
    }

    /// Draws names that fit between two that stay, and gives them to `names` in order.
    fn add_in_order(&mut self, names: Vec<String>, fits: impl Fn(&String) -> bool, random: &mut fastrand::Rng) {
        const TRIES: usize = 1000;
        let mut drawn = BTreeSet::new();
        // Where next to nothing lies between two names, the names stay: so many tries in vain are no accident.
        let mut vain = 0;
        while drawn.len() < names.len() && vain < TRIES {
            let name = name_from(random);
            let is_free = !self.names.own.contains_key(&name) && fits(&name);
            vain = if is_free && drawn.insert(name) { 0 } else { vain + 1 };
        }
        if drawn.len() == names.len() {
            names.into_iter().zip(drawn).for_each(|(own, drawn)| self.names.insert(own, drawn));
        }
    }

    /// Draws a name for an object that only the run has; it is translated to `own`.
    pub(super) fn add(&mut self, own: String, random: &mut fastrand::Rng) -> String {
        let drawn = std::iter::repeat_with(|| name_from(random)).find(|name| !self.names.own.contains_key(name));
        let drawn = drawn.unwrap_or_default();
        self.names.insert(own, drawn.clone());
        drawn
    }

    /// Returns the drawn name for one of the fixture's, or the name itself if it stays.
    #[must_use]
    pub fn hidden<'n>(&'n self, own: &'n str) -> &'n str {
        self.names.drawn.get(own).map_or(own, String::as_str)
    }

    /// Returns true for a name of the fixture in whose place there is another.
    pub(super) fn hides(&self, own: &str) -> bool {
        self.names.drawn.contains_key(own)
    }

    /// Returns true if a body has a uid of the fixture in whose place there is another.
    pub(super) fn has_hidden_uid(&self, body: &[u8]) -> bool {
        // There may be thousands of uids and of requests: a place that may hold one is looked at once.
        let dashes = body.iter().enumerate().filter(|(_, byte)| **byte == b'-');
        let places = dashes.filter_map(|(at, _)| at.checked_sub(FIRST_DASH));
        let mut texts = places.filter_map(|at| std::str::from_utf8(body.get(at..at + UID)?).ok());
        texts.any(|uid| self.uids.drawn.contains_key(uid))
    }

    /// Returns manifests of the namespaces that a server has only under the fixture's names.
    pub(super) fn namespaces(&self) -> Vec<Value> {
        let manifest = |name: &String| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        self.namespaces.iter().map(manifest).collect()
    }

    /// Returns true for a stored namespace of [`Self::namespaces`].
    pub(super) fn is_extra_namespace(&self, stored: &Value) -> bool {
        stored["kind"] == "Namespace" && self.namespaces.iter().any(|name| metadata::name(stored) == name)
    }

    /// Replaces the fixture's names in an object, a patch or another body by the drawn ones.
    pub fn hide_in(&self, body: &mut Value) {
        let is_fixed = is_fixed_kind(body);
        if let Some(name) = body.pointer_mut("/metadata/name").filter(|_| !is_fixed) {
            self.hide(name);
        }
        self.hide_in_fields(body);
    }

    fn hide(&self, value: &mut Value) {
        if let Value::String(text) = value
            && let Some(drawn) = self.names.drawn.get(text.as_str())
        {
            text.clone_from(drawn);
        }
    }

    fn hide_in_fields(&self, value: &mut Value) {
        match value {
            Value::Array(items) => items.iter_mut().for_each(|item| self.hide_in_fields(item)),
            Value::Object(fields) => {
                let text = |name: &str| fields.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
                let (path, key) = (text("path"), text("key"));
                let refers = fields.contains_key("kind")
                    && fields.contains_key("name")
                    && !fields.contains_key("metadata")
                    && !is_fixed_word(&format!("{}s", text("kind").to_lowercase()));
                for (name, field) in fields.iter_mut() {
                    match name.as_str() {
                        "namespace" | "nodeName" | "claimName" => self.hide(field),
                        "name" if refers => self.hide(field),
                        "value" if path.ends_with("/nodeName") => self.hide(field),
                        "values" if key == "metadata.name" => {
                            field.as_array_mut().into_iter().flatten().for_each(|value| self.hide(value));
                        }
                        "uid" => self.hide_uid(field),
                        "managedFields" => {}
                        "disruptedPods" => self.hide_keys(field),
                        _ => self.hide_in_fields(field),
                    }
                }
            }
            _ => {}
        }
    }

    fn hide_uid(&self, value: &mut Value) {
        if let Value::String(text) = value
            && let Some(drawn) = self.uids.drawn.get(text.as_str())
        {
            text.clone_from(drawn);
        }
    }

    fn hide_keys(&self, value: &mut Value) {
        if let Value::Object(fields) = value {
            let hidden = std::mem::take(fields).into_iter();
            *fields =
                hidden.map(|(name, field)| (self.names.drawn.get(&name).cloned().unwrap_or(name), field)).collect();
        }
    }

    /// Replaces the fixture's names in a request by the drawn ones.
    #[must_use]
    pub(super) fn hide_in_call(&self, call: Call) -> Call {
        let Call { method, path, mut body, user_agent } = call;
        if let Some((_, body)) = &mut body {
            self.hide_in(body);
        }
        let (path, query) = path.split_once('?').unwrap_or((&path, ""));
        let mut out = self.path(path);
        if !query.is_empty() {
            out.push('?');
            out.push_str(&self.query(query));
        }
        Call { method, path: out, body, user_agent }
    }

    /// `/api/v1/namespaces/NAMESPACE/RESOURCE/NAME/…`, or without a namespace.
    fn path(&self, path: &str) -> String {
        let mut parts: Vec<String> = path.split('/').map(str::to_owned).collect();
        let group = match parts.get(1).map(String::as_str) {
            Some("api") => 3,
            Some("apis") => 4,
            _ => return path.to_owned(),
        };
        let is_namespaced = parts.get(group).is_some_and(|part| part == "namespaces") && parts.len() > group + 2;
        let (namespace, resource) = if is_namespaced { (Some(group + 1), group + 2) } else { (None, group) };
        let is_fixed = parts.get(resource).is_some_and(|name| is_fixed_word(name));
        let name = Some(resource + 1).filter(|_| !is_fixed);
        for at in namespace.into_iter().chain(name) {
            if let Some(part) = parts.get_mut(at)
                && let Some(drawn) = self.names.drawn.get(part.as_str())
            {
                part.clone_from(drawn);
            }
        }
        parts.join("/")
    }

    fn query(&self, query: &str) -> String {
        let pairs = plumbline_apiserver::request::Query::parse(query);
        let term = |term: &str| {
            let Some(at) = term.rfind('=') else { return term.to_owned() };
            let (head, value) = term.split_at(at + 1);
            let drawn = SELECTORS.contains(&head.trim_end_matches(['=', '!'])).then(|| self.names.drawn.get(value));
            drawn.flatten().map_or_else(|| term.to_owned(), |drawn| format!("{head}{drawn}"))
        };
        let pair = |(key, value): &(String, String)| {
            let selector = || value.split(',').map(term).collect::<Vec<_>>().join(",");
            let value = if key == "fieldSelector" { selector() } else { value.clone() };
            format!("{}={}", escape(key), escape(&value))
        };
        pairs.pairs().iter().map(pair).collect::<Vec<_>>().join("&")
    }

    /// Returns a text with the fixture's names instead of the drawn ones; `None` if it has none.
    #[must_use]
    pub fn own(&self, text: &str) -> Option<String> {
        if text.len() < LENGTH || self.names.own.is_empty() && self.uids.own.is_empty() {
            return None;
        }
        let bytes = text.as_bytes();
        let (mut out, mut copied, mut at) = (String::new(), 0, 0);
        while at < bytes.len() {
            if !bytes[at].is_ascii_alphanumeric() {
                at += 1;
                continue;
            }
            let run = bytes[at..].iter().take_while(|byte| byte.is_ascii_alphanumeric()).count();
            let uid = || text.get(at..at + UID).and_then(|uid| Some((self.uids.own.get(uid)?, UID)));
            let name = || self.names.own.get(&text[at..at + run]).map(|name| (name, run));
            let found = if run == LENGTH { uid().or_else(name) } else { None };
            if let Some((own, length)) = found {
                out.push_str(&text[copied..at]);
                out.push_str(own);
                at += length;
                copied = at;
            } else {
                at += run;
            }
        }
        if copied == 0 {
            return None;
        }
        out.push_str(&text[copied..]);
        Some(out)
    }

    /// Replaces the drawn names in a reply by the fixture's. Field ownership keeps them, because steps send it back.
    pub fn own_in(&self, value: &mut Value) {
        match value {
            Value::String(text) => {
                if let Some(own) = self.own(text) {
                    *text = own;
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.own_in(item)),
            Value::Object(fields) => {
                let translated = std::mem::take(fields).into_iter().map(|(name, mut field)| {
                    if name != "managedFields" {
                        self.own_in(&mut field);
                    }
                    (self.own(&name).unwrap_or(name), field)
                });
                *fields = translated.collect();
            }
            _ => {}
        }
    }
}

/// The namespace that exists on every server.
const DEFAULT: &str = "default";

/// Returns true if names of a resource stay.
fn is_fixed_word(plural: &str) -> bool {
    FIXED.contains(&plural)
}

/// Returns true if the name of an object stays.
fn is_fixed_kind(object: &Value) -> bool {
    let kind = object["kind"].as_str().unwrap_or_default().to_lowercase();
    let plural = match kind.strip_suffix('y') {
        Some(stem) => format!("{stem}ies"),
        None if kind.ends_with('s') => format!("{kind}es"),
        None => format!("{kind}s"),
    };
    is_fixed_word(&plural)
}

/// Draws a name: a letter, then letters and digits, at least one of each, so that it is no word.
fn name_from(random: &mut fastrand::Rng) -> String {
    loop {
        let first = random.lowercase();
        let rest = std::iter::repeat_with(|| random.digit(36).to_ascii_lowercase()).take(LENGTH - 1);
        let name: String = std::iter::once(first).chain(rest).collect();
        if name.bytes().any(|byte| byte.is_ascii_digit()) {
            return name;
        }
    }
}

/// Draws a uid in the form of a version 4 UUID.
pub(super) fn uid_from(random: &mut fastrand::Rng) -> String {
    let (high, low) = (random.u64(..), random.u64(..));
    format!(
        "{:08x}-{:04x}-4{:03x}-8{:03x}-{:012x}",
        high >> 32,
        (high >> 16) & 0xffff,
        high & 0xfff,
        (low >> 48) & 0xfff,
        low & 0xffff_ffff_ffff
    )
}

/// The names that a fixture has.
#[derive(Default)]
struct FoundNames {
    names: BTreeSet<String>,
    /// Names that stay as they are.
    kept: BTreeSet<String>,
    namespaces: BTreeSet<String>,
    uids: BTreeSet<String>,
}

impl FoundNames {
    fn of(fixture: &Fixture) -> Self {
        let mut found = Self::default();
        fixture.given.objects.iter().for_each(|object| found.body(object));
        for request in requests(fixture) {
            let target = &request.target;
            if let Some(namespace) = &target.namespace {
                found.namespace(namespace);
            }
            if !is_fixed_word(&target.resource.plural) {
                found.name(&target.name);
            }
            match &request.operation {
                Operation::Create { object } | Operation::Replace { object } => found.body(object),
                Operation::Delete { options } => found.body(options),
                Operation::Patch { body, .. }
                | Operation::Post { body }
                | Operation::Update { edit: Edit::Merge(body) } => found.body(body),
                _ => {}
            }
        }
        found.names.retain(|name| !found.kept.contains(name));
        found
    }

    fn name(&mut self, name: &str) {
        let is_plain =
            name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-.".contains(&byte));
        let ends = [name.chars().next(), name.chars().next_back()];
        let is_name = is_plain && ends.iter().flatten().all(char::is_ascii_alphanumeric) && !name.is_empty();
        if is_name && name.len() <= LONGEST && !name.starts_with("kube-") {
            self.names.insert(name.to_owned());
        } else {
            self.kept.insert(name.to_owned());
        }
    }

    fn namespace(&mut self, name: &str) {
        self.name(name);
        self.namespaces.insert(name.to_owned());
    }

    fn body(&mut self, body: &Value) {
        if !is_fixed_kind(body)
            && let Some(name) = body["metadata"]["name"].as_str()
        {
            self.name(name);
        }
        self.fields(body);
    }

    fn fields(&mut self, value: &Value) {
        match value {
            Value::Array(items) => items.iter().for_each(|item| self.fields(item)),
            Value::Object(fields) => {
                let refers = fields.contains_key("uid") && fields.contains_key("kind");
                for (name, field) in fields.iter().filter(|(name, _)| *name != "managedFields") {
                    match (name.as_str(), field.as_str()) {
                        ("namespace", Some(text)) => self.namespace(text),
                        ("nodeName" | "claimName", Some(text)) => self.name(text),
                        ("uid", Some(text)) if is_uid(text) => {
                            self.uids.insert(text.to_owned());
                        }
                        _ => self.fields(field),
                    }
                }
                if let Some(name) = fields.get("name").and_then(Value::as_str).filter(|_| refers) {
                    self.name(name);
                }
            }
            _ => {}
        }
    }
}

/// Returns true for a text in the form of a uid.
fn is_uid(text: &str) -> bool {
    let is_dash = |at: usize| matches!(at, FIRST_DASH | 13 | 18 | 23);
    let fits = |(at, byte): (usize, u8)| if is_dash(at) { byte == b'-' } else { byte.is_ascii_hexdigit() };
    text.len() == UID && text.bytes().enumerate().all(fits)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use plumbline::fixture::parse;

    use super::*;

    fn fixture(text: &str) -> Fixture {
        let head = "promise: x\nrule: BR-24-03\nlevel: core\nfeature: podgc.orphaned\n";
        let (fixtures, problems) = parse::read(Path::new("x.yaml"), "podgc", &format!("{head}{text}"));
        assert!(problems.is_empty(), "{problems:?}");
        fixtures.into_iter().next().expect("a fixture")
    }

    fn drawn(seed: u64) -> DrawnNames {
        let fixture = fixture(
            "given: { nodes: [n1, n2], pods: [a on n1, b on gone] }\nsteps: [{ at: 1s, delete: kube-system:pods/z }]\n\
             order: [DELETE pods/b 200]\n",
        );
        DrawnNames::draw(&fixture, &mut fastrand::Rng::with_seed(seed))
    }

    #[test]
    fn drawn_names_sort_as_the_fixtures_do() {
        for seed in 0..100 {
            let names = drawn(seed);
            let own = ["a", "b", "default", "gone", "n1", "n2", "z"];
            let mut sorted: Vec<&String> = own.iter().map(|name| &names.names.drawn[*name]).collect();
            assert!(sorted.is_sorted(), "{sorted:?}");
            let system = "kube-system".to_owned();
            sorted.insert(4, &system);
            assert!(sorted.is_sorted(), "a name that stays has its place among them: {sorted:?}");
        }
        assert_eq!(drawn(1).names.drawn, drawn(1).names.drawn);
        assert_ne!(drawn(1).names.drawn, drawn(2).names.drawn);
    }

    #[test]
    fn what_is_hidden_is_found_again() {
        let names = drawn(7);
        let own = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "a", "namespace": "default", "ownerReferences": [{"kind": "Node", "name": "n1"}]},
            "spec": {"nodeName": "n1", "containers": [{"name": "a"}]},
            "status": {"disruptedPods": {"a": "now"}},
        });
        let mut hidden = own.clone();
        names.hide_in(&mut hidden);
        let text = hidden.to_string();
        assert!(["\"n1\"", "\"default\""].iter().all(|name| !text.contains(name)), "{text}");
        assert_eq!(hidden["spec"]["containers"][0]["name"], "a", "a container has no other name");
        let mut found = hidden.clone();
        names.own_in(&mut found);
        assert_eq!(found, own);
        let drawn = &names.names.drawn["a"];
        assert_eq!(
            names.own(&format!("pods \"{drawn}\" and {drawn}.17f3: x{drawn}")).expect("names"),
            format!("pods \"a\" and a.17f3: x{drawn}")
        );
        assert_eq!(names.own("nothing to translate"), None);
    }

    #[test]
    fn uids_of_the_fixture_are_found_in_requests() {
        let uid = "00000000-0000-4000-8000-00000000abcd";
        let fixture = fixture(&format!(
            "given: {{ pods: [{{ name: a, uid: {uid} }}] }}\nsteps: [{{ at: 1s, delete: pods/a }}]\n\
             order: [DELETE pods/a 200]\n"
        ));
        let names = DrawnNames::draw(&fixture, &mut fastrand::Rng::with_seed(1));
        let has = |body: &str| names.has_hidden_uid(body.as_bytes());
        assert!(has(&format!(r#"{{"preconditions":{{"uid":"{uid}"}}}}"#)) && has(uid) && has(&format!("$x-y{uid}-")));
        assert!(!has("") && !has("-") && !has(&uid[1..]) && !has(&uid[..35]) && !has(&uid.replace('d', "e")));
        assert!(!names.has_hidden_uid(&[b"\xff-", &uid.as_bytes()[1..]].concat()));
    }

    #[test]
    fn requests_have_the_drawn_names() {
        let names = drawn(3);
        let of = |own: &str| names.names.drawn[own].clone();
        let path = |path: &str| {
            let call = Call { method: http::Method::GET, path: path.to_owned(), body: None, user_agent: String::new() };
            names.hide_in_call(call).path
        };
        assert_eq!(path("/api/v1/nodes/n1/status"), format!("/api/v1/nodes/{}/status", of("n1")));
        assert_eq!(
            path("/api/v1/namespaces/default/pods/a?dryRun=All"),
            format!("/api/v1/namespaces/{}/pods/{}?dryRun=All", of("default"), of("a"))
        );
        assert_eq!(path("/api/v1/namespaces/default"), format!("/api/v1/namespaces/{}", of("default")));
        assert_eq!(
            path("/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/a"),
            "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/a"
        );
        assert_eq!(
            path("/api/v1/pods?fieldSelector=spec.nodeName%3Dn1"),
            format!("/api/v1/pods?fieldSelector={}", escape(&format!("spec.nodeName={}", of("n1"))))
        );
    }
}
