//! The script's lines, the replies to them, and the comparison.

use http::{HeaderName, HeaderValue, Method, header};
use plumbline::apiserver::ApiRequest;
use serde_json::Value;

/// A request and the expected status of its reply.
#[derive(Debug, Clone)]
pub(crate) struct Line {
    pub(crate) status: u16,
    method: Method,
    accept: Option<&'static str>,
    path: String,
    content_type: Option<&'static str>,
    body: String,
}

/// Reads the script.
pub(crate) fn parse(text: &str) -> Vec<Line> {
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(|line| read(line).unwrap_or_else(|| panic!("unreadable line: {line}"))).collect()
}

fn read(line: &str) -> Option<Line> {
    let mut parts = line.splitn(5, ' ');
    let status = parts.next()?.parse().ok()?;
    let (method, representation) = match parts.next()?.split_once(':') {
        Some((method, representation)) => (method.to_owned(), Some(representation.to_owned())),
        None => (line.split(' ').nth(1)?.to_owned(), None),
    };
    let accept = match representation.as_deref() {
        None => None,
        Some("table") => Some("application/json;as=Table;v=v1;g=meta.k8s.io"),
        Some("metadata") => Some("application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"),
        Some("yaml") => Some("application/yaml"),
        Some("plain") => Some("text/plain"),
        Some("application") => Some("application/*"),
        Some("metadatalist") => Some("application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"),
        Some(_) => return None,
    };
    let path = parts.next()?.to_owned();
    let content_type = match parts.next().unwrap_or("-") {
        "-" => None,
        "json" => Some("application/json"),
        "yaml" => Some("application/yaml"),
        "text" => Some("text/plain"),
        "merge" => Some("application/merge-patch+json"),
        "strategic" => Some("application/strategic-merge-patch+json"),
        "jsonpatch" => Some("application/json-patch+json"),
        "apply" => Some("application/apply-patch+yaml"),
        _ => return None,
    };
    let body = parts.next().unwrap_or_default();
    let body = if content_type == Some("application/yaml") {
        body.replace("\\n", "\n").replace("\\t", "\t")
    } else {
        body.to_owned()
    };
    Some(Line { status, method: method.parse().ok()?, accept, path, content_type, body })
}

impl Line {
    /// Returns true if the reply has no body, even if the handler writes one.
    pub(crate) fn is_bodiless(&self) -> bool {
        self.method == Method::HEAD
    }

    /// A description of the request.
    pub(crate) fn title(&self) -> String {
        format!("{} {} {}", self.method, self.path, self.body)
    }

    /// The request.
    pub(crate) fn request(&self) -> ApiRequest {
        let mut request = ApiRequest::new(self.method.clone(), &self.path);
        for (name, value) in self.headers() {
            request.headers.insert(name, HeaderValue::from_static(value));
        }
        request.body = self.body.clone().into();
        request
    }

    /// The same request for an HTTP client.
    pub(crate) fn http(&self) -> http::Request<Vec<u8>> {
        let mut request = http::Request::new(self.body.clone().into_bytes());
        *request.method_mut() = self.method.clone();
        *request.uri_mut() = self.path.parse().expect("a path");
        for (name, value) in self.headers() {
            request.headers_mut().insert(name, HeaderValue::from_static(value));
        }
        request
    }

    fn headers(&self) -> impl Iterator<Item = (HeaderName, &'static str)> {
        let own = [(header::ACCEPT, self.accept), (header::CONTENT_TYPE, self.content_type)];
        let all = own.into_iter().chain([(header::USER_AGENT, Some("example/v1"))]);
        all.filter_map(|(name, value)| Some((name, value?)))
    }
}

/// A reply, without the parts that differ from run to run.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    warnings: Vec<String>,
    pub(crate) body: Value,
}

impl Answer {
    pub(crate) fn new(status: u16, warnings: Vec<String>, body: &[u8]) -> Self {
        let body = serde_json::from_slice(body).unwrap_or_else(|_| String::from_utf8_lossy(body).into_owned().into());
        Self { status, warnings, body: plain(body, "") }
    }

    /// Returns true if the body is a failure `Status`, or the plain text of an unknown path.
    pub(crate) fn is_refusal(&self) -> bool {
        self.body["kind"] == "Status" && self.body["status"] == "Failure" || self.body.is_string()
    }
}

fn plain(value: Value, field: &str) -> Value {
    match value {
        Value::Object(map) => map.into_iter().map(|(key, value)| (key.clone(), plain(value, &key))).collect(),
        Value::Array(items) => {
            let mut items: Vec<Value> =
                items.into_iter().map(|item| plain(item, if field == "clusterIPs" { field } else { "" })).collect();
            if field == "managedFields" {
                // Sorted by time, which differs between the two servers.
                items.sort_by_cached_key(Value::to_string);
            }
            if field == "resources" && items.iter().all(Value::is_object) {
                // Upstream lists definitions in the order of a map.
                items.sort_by_cached_key(|resource| resource["name"].to_string());
            }
            items.into()
        }
        Value::String(text) => match field {
            "resourceVersion" | "uid" | "continue" if !text.is_empty() => format!("<{field}>").into(),
            "clusterIP" | "clusterIPs" if text.starts_with("10.0.0.") => "<address>".into(),
            "name" if text.len() == 9 && text.starts_with("gen-") => "gen-<random>".into(),
            "creationTimestamp" | "deletionTimestamp" | "time" | "lastTransitionTime" => "<time>".into(),
            _ if is_age(&text) => "<age>".into(),
            _ => words(&text).into(),
        },
        other => other,
    }
}

/// Returns true if a cell is an age in seconds, which differs between the two servers.
fn is_age(text: &str) -> bool {
    text.strip_suffix('s')
        .is_some_and(|seconds| !seconds.is_empty() && seconds.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Replaces uids, versions and times.
fn words(text: &str) -> String {
    let separator = |c: char| !(c.is_ascii_alphanumeric() || matches!(c, '-' | ':'));
    let mut out = String::with_capacity(text.len());
    for piece in text.split_inclusive(separator) {
        let word = piece.trim_end_matches(separator);
        let uid = word.len() == 36 && word.bytes().filter(|byte| *byte == b'-').count() == 4;
        let time = word.len() == 20 && word.ends_with('Z') && word.contains('T');
        let number = !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit());
        let version = number
            && ["record (", "current: ", "resourceVersion\\\":\\\"", "version: ", "resourceVersion: \""]
                .iter()
                .any(|before| out.ends_with(before));
        match (uid, time, version) {
            (true, ..) => out.push_str("<uid>"),
            (_, true, _) => out.push_str("<time>"),
            (.., true) => out.push_str("<version>"),
            _ => out.push_str(word),
        }
        out.push_str(&piece[word.len()..]);
    }
    out
}

/// Describes the differences between two replies.
pub(crate) fn differences(left: &Answer, right: &Answer) -> Vec<String> {
    let mut found = Vec::new();
    if left.status != right.status {
        found.push(format!("status: {} | {}", left.status, right.status));
    }
    if left.warnings != right.warnings {
        found.push(format!("warnings: {:?} | {:?}", left.warnings, right.warnings));
    }
    compare("", &left.body, &right.body, &mut found);
    found
}

fn compare(path: &str, left: &Value, right: &Value, found: &mut Vec<String>) {
    match (left, right) {
        (Value::Object(one), Value::Object(two)) => {
            let keys: std::collections::BTreeSet<_> = one.keys().chain(two.keys()).collect();
            for key in keys {
                let none = Value::Null;
                let a = one.get(key).unwrap_or(&none);
                let b = two.get(key).unwrap_or(&none);
                compare(&format!("{path}.{key}"), a, b, found);
            }
        }
        (Value::Array(one), Value::Array(two)) if one.len() == two.len() => {
            for (index, (a, b)) in one.iter().zip(two).enumerate() {
                compare(&format!("{path}[{index}]"), a, b, found);
            }
        }
        _ if left == right => {}
        _ => found.push(format!("{path}: {left} | {right}")),
    }
}
