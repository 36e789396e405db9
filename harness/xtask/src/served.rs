//! The table of what the API server serves, in `harness/apiserver/SERVED.md`: from the discovery document of a server
//! in this process.

use http::{HeaderValue, Method, header};
use plumbline_apiserver::{ApiRequest, ApiServer, ReplyBody, clock};
use serde_json::Value;

/// The file with the table, below the root of the repository.
pub(crate) const PATH: &str = "harness/apiserver/SERVED.md";

const BEGIN: &str = "<!-- begin: cargo run -p xtask -- served -->\n";
const END: &str = "<!-- end -->";

/// Longest line of a Markdown file of this repository.
const WIDTH: usize = 120;

/// A reason for which the table cannot be written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ServedError {
    /// The file lacks a line around the table.
    #[error("there is no line {:?}", .0.trim_end())]
    NoMark(&'static str),
    /// The server's discovery is no document.
    #[error("GET {path}: {why}")]
    NoDocument {
        /// The path of the request.
        path: String,
        /// The reason.
        why: String,
    },
    /// The server's discovery names nothing.
    #[error("the server's discovery names no resources")]
    NoResources,
    /// There is no runtime.
    #[error(transparent)]
    Runtime(#[from] std::io::Error),
}

/// Returns `text` with the present table.
pub(crate) fn updated(text: &str) -> Result<String, ServedError> {
    let (before, rest) = text.split_once(BEGIN).ok_or(ServedError::NoMark(BEGIN))?;
    let (_, after) = rest.split_once(END).ok_or(ServedError::NoMark(END))?;
    Ok(format!("{before}{BEGIN}\n{}\n{END}{after}", table(&documents()?)?))
}

/// Asks a new server for the aggregated discovery of the core group and of all others.
fn documents() -> Result<[Value; 2], ServedError> {
    let ask = async |server: &ApiServer, path: &str| {
        let mut request = ApiRequest::new(Method::GET, path);
        let accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
        request.headers.insert(header::ACCEPT, HeaderValue::from_static(accept));
        let none = |why: String| ServedError::NoDocument { path: path.to_owned(), why };
        match server.handle(request).await.body {
            ReplyBody::Full(bytes) => serde_json::from_slice(&bytes).map_err(|error| none(error.to_string())),
            ReplyBody::Stream(_) => Err(none("a stream".to_owned())),
        }
    };
    clock::run_virtual(async {
        let server = ApiServer::builder().build();
        Ok([ask(&server, "/api").await?, ask(&server, "/apis").await?])
    })?
}

fn text<'v>(value: &'v Value, field: &str) -> &'v str {
    value[field].as_str().unwrap_or_default()
}

fn items<'v>(value: &'v Value, field: &str) -> impl Iterator<Item = &'v Value> {
    value[field].as_array().into_iter().flatten()
}

fn table(documents: &[Value]) -> Result<String, ServedError> {
    let mut rows: Vec<(String, String)> = Vec::new();
    let mut groups = 0;
    let mut resources = 0;
    for group in documents.iter().flat_map(|document| items(document, "items")) {
        for version in items(group, "versions") {
            let name = text(&group["metadata"], "name");
            let slash = if name.is_empty() { "" } else { "/" };
            let mut first = format!("`{name}{slash}{}`", text(version, "version"));
            groups += 1;
            let mut line = String::new();
            for resource in items(version, "resources") {
                resources += 1;
                let shown = describe(resource);
                let joined = if line.is_empty() { shown.clone() } else { format!("{line}, {shown}") };
                if format!("| {first} | {joined} |").len() <= WIDTH {
                    line = joined;
                } else {
                    rows.push((first, line));
                    (first, line) = (String::new(), shown);
                }
            }
            rows.push((first, line));
        }
    }
    if resources == 0 {
        return Err(ServedError::NoResources);
    }
    let rows: String =
        rows.iter().map(|(first, line)| format!("| {first} | {line} |\n").replacen("|  |", "| |", 1)).collect();
    let head = "| group and version | resources, with short names and subresources |\n| --- | --- |\n";
    Ok(format!("{resources} resources in {groups} groups and versions:\n\n{head}{rows}"))
}

/// Describes a resource: `pods (po: binding, status)`, with a star if its objects are not in a namespace.
fn describe(resource: &Value) -> String {
    let star = if text(resource, "scope") == "Cluster" { "\\*" } else { "" };
    let names: Vec<&str> = items(resource, "shortNames").filter_map(Value::as_str).collect();
    let parts: Vec<&str> = items(resource, "subresources").map(|part| text(part, "subresource")).collect();
    let name = text(resource, "resource");
    let details = match (names.is_empty(), parts.is_empty()) {
        (true, true) => String::new(),
        (false, true) => format!(" ({})", names.join(", ")),
        (true, false) => format!(" (/{})", parts.join(", /")),
        (false, false) => format!(" ({}, /{})", names.join(", "), parts.join(", /")),
    };
    format!("{name}{star}{details}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_in_the_readme_is_current() {
        let text = std::fs::read_to_string(crate::layout::root().join(PATH)).expect("the README");
        let updated = updated(&text).expect("a table");
        assert!(text == updated, "run `cargo run -p xtask -- served` and read the change of {PATH}");
    }

    #[test]
    fn subresources_and_short_names_are_listed() {
        let document = serde_json::json!({"items": [{"metadata": {}, "versions": [{"version": "v1", "resources": [
            {"resource": "nodes", "scope": "Cluster", "shortNames": ["no"], "subresources": [{"subresource": "status"}]},
            {"resource": "secrets", "scope": "Namespaced"},
        ]}]}]});
        let table = table(&[document]).expect("resources");
        assert!(table.ends_with("| `v1` | nodes\\* (no, /status), secrets |\n"), "{table}");
        assert!(super::table(&[Value::Null]).is_err());
    }
}
