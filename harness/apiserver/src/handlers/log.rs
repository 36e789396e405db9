//! `pods/log`: always empty, because nothing runs. Checks follow `pkg/registry/core/pod/rest/log.go` of Kubernetes
//! 1.36.

use http::HeaderValue;
use http::header::CONTENT_TYPE;

use super::proxy;
use super::request_scope::RequestScope;
use crate::json::Value;
use crate::registry::{ErrorList, NO_FIELD, Path, checks};
use crate::request::{Query, Reply};
use crate::status::Status;
use crate::store::ResourceId;

/// Serves the log of a container that never runs: empty.
pub(crate) fn get(scope: &RequestScope<'_>) -> Result<Reply, Status> {
    let errors = log_errors(scope.query)?;
    if !errors.is_empty() {
        return Err(Status::invalid("", "PodLogOptions", &scope.path.name, &errors));
    }
    let pod = scope.value(&*scope.stored()?);
    proxy::check_container(scope, &pod)?;
    if node_of(&pod).is_empty() {
        let mut reply = Reply::text(204, "");
        reply.headers.remove(CONTENT_TYPE);
        return Ok(reply);
    }
    check_node(scope, &pod)?;
    let mut reply = Reply::text(200, "");
    reply.headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain"));
    Ok(reply)
}

/// Checks that the pod's node exists: upstream needs its address.
fn check_node(scope: &RequestScope<'_>, pod: &Value) -> Result<(), Status> {
    let node = node_of(pod);
    match scope.server.get(&ResourceId::new("", "nodes"), "", node) {
        Some(_) => Ok(()),
        None => Err(Status::not_found(scope.group_resource(), node)),
    }
}

fn node_of(pod: &Value) -> &str {
    pod.pointer("/spec/nodeName").and_then(Value::as_str).unwrap_or_default()
}

/// Validates the options of a log request.
fn log_errors(query: &Query) -> Result<ErrorList, Status> {
    let mut errors = ErrorList::new();
    if let Some(lines) = query.number("tailLines")?.filter(|lines| *lines < 0) {
        errors.invalid(&Path::new("tailLines"), lines, checks::NON_NEGATIVE_MESSAGE);
    }
    if let Some(bytes) = query.number("limitBytes")?.filter(|bytes| *bytes < 1) {
        errors.invalid(&Path::new("limitBytes"), bytes, checks::POSITIVE_MESSAGE);
    }
    let seconds = query.number("sinceSeconds")?;
    if seconds.is_some() && query.get("sinceTime").is_some_and(|time| !time.is_empty()) {
        errors.forbidden(&Path::new(NO_FIELD), "at most one of `sinceTime` or `sinceSeconds` may be specified");
    } else if let Some(seconds) = seconds.filter(|seconds| *seconds < 1) {
        errors.invalid(&Path::new("sinceSeconds"), seconds, checks::POSITIVE_MESSAGE);
    }
    if query.get("stream").is_some_and(|stream| !stream.is_empty()) {
        errors.forbidden(&Path::new("stream"), "may not be specified");
    }
    Ok(errors)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("tailLines=5&limitBytes=1&sinceSeconds=1", &[])]
    #[case("tailLines=-1&limitBytes=0", &["tailLines", "limitBytes"])]
    #[case("sinceSeconds=0", &["sinceSeconds"])]
    #[case("sinceSeconds=0&sinceTime=2024-01-01T00:00:00Z", &["[]"])]
    #[case("stream=Stdout", &["stream"])]
    fn options(#[case] query: &str, #[case] fields: &[&str]) {
        let errors = log_errors(&Query::parse(query)).unwrap();
        let found: Vec<&str> = errors.iter().map(|error| error.field.as_str()).collect();
        assert_eq!(found, fields);
    }
}
