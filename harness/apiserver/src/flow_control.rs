//! Flow schemas: which of them a request belongs to. Requests are classified, not queued: `X-Kubernetes-PF-*` headers
//! name the schema and its priority level, and no level limits anything. PURE.
//!
//! Follows `staging/src/k8s.io/apiserver/pkg/util/flowcontrol/{rule,apf_controller}.go` of Kubernetes 1.36.

use std::fmt::Write as _;

use http::HeaderValue;

use crate::json::Value;
use crate::json::fields::array_field;
use crate::metadata;
use crate::registry::ObjectLister;
use crate::request::ResourcePath;

/// The API group of flow schemas and priority levels.
pub(crate) const GROUP: &str = "flowcontrol.apiserver.k8s.io";

/// The resource of priority levels.
const LEVELS: &str = "prioritylevelconfigurations";

/// The metric of the seats of priority levels.
const SEATS: &str = "apiserver_flowcontrol_nominal_limit_seats";

/// The requests that kube-apiserver serves at once by default: 400 that read and 200 that write.
const SERVER_SEATS: i64 = 600;

/// Any name, verb, group, resource, namespace or path.
const ALL: &str = "*";

/// Start of the names of service accounts.
const SERVICE_ACCOUNT: &str = "system:serviceaccount:";

/// A request, as flow schemas see it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Digest<'a> {
    /// Name of the user.
    pub user: &'a str,
    /// Groups of the user.
    pub groups: &'a [String],
    /// The verb; for other paths than those of resources, the method in lower case.
    pub verb: &'a str,
    /// The path of the URL.
    pub path: &'a str,
    /// The resource, if the path is that of one.
    pub resource: Option<&'a ResourcePath>,
}

/// A flow schema whose priority level exists.
#[derive(Debug)]
pub(crate) struct MatchingSchema {
    /// UIDs of the schema and of its priority level, as headers have them.
    pub uids: [HeaderValue; 2],
    precedence: i64,
    name: String,
    rules: Vec<Value>,
}

impl MatchingSchema {
    fn of(lister: &dyn ObjectLister, object: &Value) -> Option<Self> {
        let spec = &object["spec"];
        let level = spec["priorityLevelConfiguration"]["name"].as_str()?;
        let level = lister.get(GROUP, LEVELS, "", level)?;
        Some(Self {
            uids: [
                HeaderValue::from_str(metadata::uid(object)).ok()?,
                HeaderValue::from_str(metadata::uid(&level)).ok()?,
            ],
            precedence: spec["matchingPrecedence"].as_i64().unwrap_or_default(),
            name: metadata::name(object).to_owned(),
            rules: array_field(spec, "rules").to_vec(),
        })
    }

    fn takes(&self, digest: &Digest<'_>) -> bool {
        self.rules.iter().any(|rule| {
            array_field(rule, "subjects").iter().any(|subject| is_subject(digest, subject))
                && match digest.resource {
                    Some(path) => {
                        array_field(rule, "resourceRules").iter().any(|rule| takes_resource(digest.verb, path, rule))
                    }
                    None => array_field(rule, "nonResourceRules").iter().any(|rule| takes_path(digest, rule)),
                }
        })
    }
}

/// Returns name and concurrency shares of a priority level.
fn level(object: &Value) -> (String, i64) {
    let shares = |kind: &str| object["spec"][kind]["nominalConcurrencyShares"].as_i64();
    (metadata::name(object).to_owned(), shares("limited").or_else(|| shares("exempt")).unwrap_or(0))
}

/// Returns true if the user is one of a subject's.
fn is_subject(digest: &Digest<'_>, subject: &Value) -> bool {
    let text = |part: &str, field: &str| subject[part][field].as_str().unwrap_or_default();
    match subject["kind"].as_str().unwrap_or_default() {
        "User" => [ALL, digest.user].contains(&text("user", "name")),
        "Group" => {
            let wanted = text("group", "name");
            wanted == ALL || digest.groups.iter().any(|group| group == wanted)
        }
        "ServiceAccount" => {
            let wanted = (text("serviceAccount", "namespace"), text("serviceAccount", "name"));
            let own = digest.user.strip_prefix(SERVICE_ACCOUNT).and_then(|rest| rest.split_once(':'));
            own.is_some_and(|(namespace, name)| namespace == wanted.0 && [ALL, name].contains(&wanted.1))
        }
        _ => false,
    }
}

/// Returns true if a list of a rule has the text, or is about all.
fn lists(rule: &Value, field: &str, text: &str) -> bool {
    let all = array_field(rule, field);
    matches!(all, [one] if *one == ALL) || all.iter().any(|one| *one == text)
}

fn takes_resource(verb: &str, path: &ResourcePath, rule: &Value) -> bool {
    let resource = &path.resource;
    let subresource = &path.subresource;
    let resource = if subresource.is_empty() { resource.clone() } else { format!("{resource}/{subresource}") };
    // A namespace is in itself.
    let of_itself = path.group.is_empty() && path.resource == "namespaces" && path.namespace.is_empty();
    let namespace = if of_itself { &path.name } else { &path.namespace };
    lists(rule, "verbs", verb)
        && lists(rule, "resources", &resource)
        && lists(rule, "apiGroups", &path.group)
        && if namespace.is_empty() { rule["clusterScope"] == true } else { lists(rule, "namespaces", namespace) }
}

fn takes_path(digest: &Digest<'_>, rule: &Value) -> bool {
    let mut paths = array_field(rule, "nonResourceURLs").iter().filter_map(Value::as_str);
    lists(rule, "verbs", digest.verb)
        && paths.any(|wanted| {
            let prefix = wanted.strip_suffix('*').unwrap_or(wanted).trim_end_matches('/');
            wanted == ALL
                || wanted == digest.path
                || digest.path.strip_prefix(prefix).is_some_and(|rest| rest.starts_with('/'))
        })
}

/// The flow schemas in the order in which requests are matched, and the priority levels.
#[derive(Debug, Default)]
pub(crate) struct FlowSchemas {
    schemas: Vec<MatchingSchema>,
    /// Name and concurrency shares of each level.
    levels: Vec<(String, i64)>,
}

impl FlowSchemas {
    pub(crate) fn read(lister: &dyn ObjectLister) -> Self {
        let stored = lister.list(GROUP, "flowschemas", "");
        let mut schemas: Vec<MatchingSchema> =
            stored.iter().filter_map(|object| MatchingSchema::of(lister, object)).collect();
        schemas.sort_by(|a, b| (a.precedence, &a.name).cmp(&(b.precedence, &b.name)));
        let levels = lister.list(GROUP, LEVELS, "").iter().map(level).collect();
        Self { schemas, levels }
    }

    /// Renders the seats of the priority levels in Prometheus' text format.
    pub(crate) fn metrics(&self) -> String {
        let sum = self.levels.iter().map(|(_, shares)| *shares).sum::<i64>().max(1);
        let mut text = format!(
            "# HELP {SEATS} [BETA] Nominal number of execution seats configured for each priority level\n\
                                # TYPE {SEATS} gauge\n"
        );
        for (name, shares) in &self.levels {
            let seats = (SERVER_SEATS * shares + sum - 1) / sum;
            // Writing to a String cannot fail.
            let _ = writeln!(text, "{SEATS}{{priority_level=\"{name}\"}} {seats}");
        }
        text
    }

    /// Returns the schema that a request belongs to.
    pub(crate) fn classify(&self, digest: &Digest<'_>) -> Option<&MatchingSchema> {
        self.schemas.iter().find(|schema| schema.takes(digest))
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::json::json;

    fn path(group: &str, resource: &str, namespace: &str, name: &str, subresource: &str) -> ResourcePath {
        let text = str::to_owned;
        let group = text(group);
        let resource = text(resource);
        let namespace = text(namespace);
        ResourcePath {
            group,
            resource,
            namespace,
            name: text(name),
            subresource: text(subresource),
            ..Default::default()
        }
    }

    #[rstest]
    #[case::user(json!({"kind": "User", "user": {"name": "jane"}}), true)]
    #[case::other_user(json!({"kind": "User", "user": {"name": "joe"}}), false)]
    #[case::any_user(json!({"kind": "User", "user": {"name": "*"}}), true)]
    #[case::group(json!({"kind": "Group", "group": {"name": "devs"}}), true)]
    #[case::other_group(json!({"kind": "Group", "group": {"name": "ops"}}), false)]
    #[case::account(json!({"kind": "ServiceAccount", "serviceAccount": {"namespace": "*", "name": "*"}}), false)]
    fn subjects(#[case] subject: Value, #[case] expected: bool) {
        let groups = ["devs".to_owned()];
        let digest = Digest { user: "jane", groups: &groups, verb: "get", path: "/", resource: None };
        assert_eq!(is_subject(&digest, &subject), expected);
    }

    #[rstest]
    #[case::own("ns", "a", true)]
    #[case::all_of_a_namespace("ns", "*", true)]
    #[case::other_name("ns", "b", false)]
    #[case::other_namespace("n", "*", false)]
    fn service_accounts(#[case] namespace: &str, #[case] name: &str, #[case] expected: bool) {
        let subject = json!({"kind": "ServiceAccount", "serviceAccount": {"namespace": namespace, "name": name}});
        let digest = Digest { user: "system:serviceaccount:ns:a", groups: &[], verb: "get", path: "/", resource: None };
        assert_eq!(is_subject(&digest, &subject), expected);
    }

    #[rstest]
    #[case::namespaced(path("", "pods", "ns", "p", ""), json!({"namespaces": ["ns"]}), true)]
    #[case::elsewhere(path("", "pods", "other", "p", ""), json!({"namespaces": ["ns"]}), false)]
    #[case::everywhere(path("", "pods", "other", "p", ""), json!({"namespaces": ["*"]}), true)]
    #[case::cluster(path("", "pods", "", "", ""), json!({"namespaces": ["*"]}), false)]
    #[case::cluster_scope(path("", "pods", "", "", ""), json!({"clusterScope": true}), true)]
    #[case::subresource(path("", "pods", "ns", "p", "status"), json!({"namespaces": ["*"]}), false)]
    #[case::its_subresource(path("", "pods", "ns", "p", "status"),
        json!({"namespaces": ["*"], "resources": ["pods/status"]}), true)]
    #[case::other_group(path("apps", "pods", "ns", "p", ""), json!({"namespaces": ["*"]}), false)]
    #[case::namespace(path("", "namespaces", "", "ns", ""), json!({"namespaces": ["ns"], "resources": ["*"]}), true)]
    fn resources(#[case] path: ResourcePath, #[case] rule: Value, #[case] expected: bool) {
        let mut full = json!({"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]});
        for (field, value) in rule.as_object().expect("a rule") {
            full[&**field] = value.clone();
        }
        assert_eq!(takes_resource("get", &path, &full), expected);
        assert!(!takes_resource("list", &path, &full));
    }

    #[test]
    fn seats_are_shared_among_the_levels() {
        let limited = |name: &str, shares: i64| {
            level(&json!({"metadata": {"name": name}, "spec": {"limited": {"nominalConcurrencyShares": shares}}}))
        };
        let exempt = level(&json!({"metadata": {"name": "exempt"}, "spec": {"exempt": {}}}));
        let levels = vec![limited("a", 1), limited("b", 6), exempt];
        let text = FlowSchemas { schemas: Vec::new(), levels }.metrics();
        for line in ["a\"} 86", "b\"} 515", "exempt\"} 0"] {
            assert!(text.contains(&format!("{SEATS}{{priority_level=\"{line}\n")), "{text}");
        }
    }

    #[rstest]
    #[case("/healthz", "/healthz", true)]
    #[case("/healthz", "/healthz/ping", true)]
    #[case("/healthz/*", "/healthz/ping", true)]
    #[case("/healthz", "/healthzz", false)]
    #[case("*", "/version", true)]
    fn other_paths(#[case] wanted: &str, #[case] path: &str, #[case] expected: bool) {
        let digest = Digest { user: "jane", groups: &[], verb: "get", path, resource: None };
        assert_eq!(takes_path(&digest, &json!({"verbs": ["get"], "nonResourceURLs": [wanted]})), expected);
    }
}
