//! A shortcut for status updates: clients mostly send the stored object back byte for byte, with another status at its
//! end. Comparing the rest with the stored encoding is cheaper than decoding it. Upstream has no such shortcut; results
//! are the same.

use http::header::CONTENT_TYPE;

use super::body_format::{BodyFormat, body_format};
use super::request_scope::RequestScope;
use crate::json::Value;

/// Returns the result of [`super::body::decode_object`] for the body of a write to `/status`, if the body is the stored
/// object except for its status, and the status decodes without complaints.
pub(super) fn decode(scope: &RequestScope<'_>) -> Option<Value> {
    let body = &scope.request.body;
    if scope.path.subresource != "status" || scope.kind.conversion.is_some() || scope.kind.is_unstructured() {
        return None;
    }
    body_format(scope.request.header(CONTENT_TYPE), body, &scope.kind.kind)
        .ok()
        .filter(|format| *format == BodyFormat::Json)?;
    let stored = scope.server.get(&scope.resource, &scope.path.namespace, &scope.path.name)?;
    let status = stored.strip_to_status(body).filter(|status| status.starts_with(b"{"))?;
    let known = scope.server.decode_cache().find(&stored)?;
    let schema = scope.schema();
    let mut object = (*known).clone();
    if !schema.decode_field("status", status, object.as_object_mut()?) {
        return None;
    }
    scope.kind.strategy.default_status(&mut object);
    #[cfg(any(test, feature = "checks"))]
    assert_eq!(
        schema.decode(body).map(|mut decoded| {
            scope.kind.strategy.default(&mut decoded.value);
            (decoded.value, decoded.strict.len())
        }),
        Ok((object.clone(), 0)),
        "what is stored means the same when it is sent"
    );
    Some(object)
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use http::{HeaderValue, Method};
    use proptest::prelude::*;
    use proptest::sample::select;

    use super::*;
    use crate::clock::{Clock, epoch, run_virtual};
    use crate::handlers::ParsedRequest;
    use crate::json::json;
    use crate::request::{ApiRequest, ReplyBody, Target};
    use crate::{ApiServer, ApiServerConfig};

    fn request(method: Method, path: &str, body: String) -> ApiRequest {
        ApiRequest { body: body.into(), ..ApiRequest::new(method, path) }
    }

    /// Returns status code, warnings and body of a reply.
    async fn ask(server: &ApiServer, method: Method, path: &str, body: String) -> (u16, Vec<HeaderValue>, String) {
        let reply = server.handle(request(method, path, body)).await;
        let warnings = reply.headers.get_all(http::header::WARNING).iter().cloned().collect();
        let ReplyBody::Full(bytes) = reply.body else { panic!("a body") };
        (reply.status, warnings, String::from_utf8(bytes.to_vec()).unwrap())
    }

    /// Collections, and objects that can be created there.
    fn objects() -> Vec<(&'static str, Value)> {
        let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i:1", "env": [{"name": "E", "value": "x".repeat(200)}],
            "resources": {"limits": {"cpu": "1500m", "memory": "1024Mi"}}}]}});
        let selector = json!({"matchLabels": {"a": "b"}});
        let of = |api_version: &str, kind: &str, spec: Value| json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "x", "finalizers": ["ex.com/f"]}, "spec": spec});
        vec![
            ("/api/v1/namespaces/default/pods", of("v1", "Pod", template["spec"].clone())),
            ("/api/v1/nodes", of("v1", "Node", json!({}))),
            ("/api/v1/namespaces", json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "x"}})),
            (
                "/apis/apps/v1/namespaces/default/deployments",
                of("apps/v1", "Deployment", json!({"selector": selector, "template": template})),
            ),
            (
                "/apis/policy/v1/namespaces/default/poddisruptionbudgets",
                of("policy/v1", "PodDisruptionBudget", json!({"selector": selector, "minAvailable": "50%"})),
            ),
        ]
    }

    /// Statuses, valid and invalid, with various text after them.
    fn status() -> impl Strategy<Value = String> {
        const CONDITION: &str =
            r#"{"conditions":[{"type":"Ready","status":"True","lastTransitionTime":"2026-01-01T00:00:00Z"}]}"#;
        let status = select(vec![
            CONDITION,
            "{}",
            "null",
            "[]",
            "",
            r#"{"phase":"Running","startTime":"2026-01-01T00:00:00Z"}"#,
            r#"{"phase":1,"replicas":"x","disruptionsAllowed":true}"#,
            r#"{"phase":"Running","phase":"Failed"}"#,
            r#"{"nothing":[1,{"a":null}]}"#,
            r#"{"conditions":null,"phase":null}"#,
            r#"{"replicas":3,"readyReplicas":0,"observedGeneration":1}"#,
            r#"{"disruptionsAllowed":0,"currentHealthy":0,"desiredHealthy":0,"expectedPods":0}"#,
            r#"{"capacity":{"cpu":"0.5","memory":"1e3"},"allocatable":{"cpu":1}}"#,
            r#"{"startTime":"2026-01-01T00:00:00.5+01:00"}"#,
            r#"{"startTime":"soon"}"#,
        ]);
        let behind = select(vec!["}", "}", "}", "}\n", "}}", "", r#","spec":{}}"#, r#","status":{}}"#, "} x"]);
        (status, behind).prop_map(|(status, behind)| format!("{status}{behind}"))
    }

    /// Returns the object at `path` up to its status.
    fn up_to_status(shown: &str) -> &str {
        &shown[..shown.find(r#","status":{"#).unwrap() + r#","status":"#.len()]
    }

    proptest! {
        #[test]
        fn a_repeated_object_is_answered_like_any_other(number in 0..5_usize, first in status(), second in status()) {
            run_virtual(async {
                let (collection, object) = objects().swap_remove(number);
                let [quick, usual] = [(); 2].map(|()| ApiServer::new(ApiServerConfig::new(Clock::virtual_from(epoch()))));
                let path = format!("{collection}/x");
                let (code, _, created) = ask(&quick, Method::POST, collection, object.to_string()).await;
                prop_assert_eq!(code, 201, "{}", created);
                prop_assert_eq!(&ask(&usual, Method::POST, collection, object.to_string()).await.2, &created);
                for status in [first, second] {
                    let (_, _, shown) = ask(&quick, Method::GET, &path, String::new()).await;
                    let body = format!("{}{status}", up_to_status(&shown));
                    let spaced = body.replacen('{', "{ ", 1);
                    let put = format!("{path}/status");
                    let mut answer = ask(&quick, Method::PUT, &put, body).await;
                    let mut expected = ask(&usual, Method::PUT, &put, spaced).await;
                    for (.., body) in [&mut answer, &mut expected] {
                        // Quotes the beginning of the body.
                        if body.contains("the object provided is unrecognized") {
                            body.clear();
                        }
                    }
                    prop_assert_eq!(answer, expected);
                }
                Ok(())
            })
            .unwrap()?;
        }
    }

    #[test]
    fn the_usual_body_is_taken_as_a_repetition() {
        run_virtual(async {
            for (collection, object) in objects() {
                let server = ApiServer::new(ApiServerConfig::new(Clock::virtual_from(epoch())));
                let (_, _, created) = ask(&server, Method::POST, collection, object.to_string()).await;
                let body = format!("{}{{\"conditions\":[]}}}}\n", up_to_status(&created));
                let request = request(Method::PUT, &format!("{collection}/x/status"), body);
                let parsed = ParsedRequest::new(&server, request);
                let Target::Resource(path) = &parsed.target else { panic!("a resource") };
                let kind = server.registry().get(&path.group, &path.version, &path.resource).cloned().unwrap();
                let scope = RequestScope::new(&server, kind, Cow::Borrowed(path), &parsed);
                let repeated = decode(&scope).unwrap_or_else(|| panic!("{collection}"));
                assert_eq!(repeated["metadata"]["name"], "x");
            }
        })
        .unwrap();
    }
}
