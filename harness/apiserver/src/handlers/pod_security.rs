//! The admission plugin `PodSecurity`: pods are refused, workloads and namespaces get warnings and audit annotations.
//! See `staging/src/k8s.io/pod-security-admission/admission/admission.go` and [`crate::pod_security`].

use super::request_scope::RequestScope;
use super::write_outcome::WriteTarget;
use crate::json::Value;
use crate::metadata;
use crate::pod_security::{self, Level, NamespacePolicy, PREFIX, Verdict};
use crate::status::{GroupResource, Status};
use crate::store::ResourceId;

/// Checks a valid new object, or an update of `old`.
pub(super) fn check(
    scope: &RequestScope<'_>,
    part: WriteTarget,
    new: &Value,
    old: Option<&Value>,
) -> Result<(), Status> {
    let is_whole = part == WriteTarget::Whole;
    let is_containers =
        part == WriteTarget::Subresource && matches!(&*scope.path.subresource, "ephemeralcontainers" | "resize");
    let template: &[&str] = match (&*scope.kind.group, &*scope.kind.plural) {
        ("", "namespaces") if is_whole => return check_namespace(scope, new, old),
        ("", "pods") if is_whole || is_containers => return check_pod(scope, new, old),
        ("", "podtemplates") => &["template"],
        ("", "replicationcontrollers")
        | ("apps", "daemonsets" | "deployments" | "replicasets" | "statefulsets")
        | ("batch", "jobs") => &["spec", "template"],
        ("batch", "cronjobs") => &["spec", "jobTemplate", "spec", "template"],
        _ => return Ok(()),
    };
    if is_whole {
        let template = template.iter().fold(new, |object, field| &object[*field]);
        if let Some((policy, _)) = policy_of(scope) {
            advise(scope, &policy, template);
        }
    }
    Ok(())
}

/// Returns what the namespace of the request asks for, and the errors of its labels; `None` if that is nothing.
fn policy_of(scope: &RequestScope<'_>) -> Option<(NamespacePolicy, String)> {
    let namespace = scope.server.get(&ResourceId::new("", "namespaces"), "", &scope.path.namespace)?;
    let modes = ["enforce", "audit", "warn"];
    if modes.iter().all(|mode| namespace.label(&format!("{PREFIX}{mode}")).is_none()) {
        return None;
    }
    let (policy, errors) = NamespacePolicy::of_labels(metadata::labels(&namespace.value()));
    let errors = errors.iter().map(ToString::to_string).collect::<Vec<_>>();
    let errors = if errors.len() > 1 { format!("[{}]", errors.join(", ")) } else { errors.concat() };
    Some((policy, errors)).filter(|(policy, errors)| !policy.is_privileged() || !errors.is_empty())
}

fn check_pod(scope: &RequestScope<'_>, new: &Value, old: Option<&Value>) -> Result<(), Status> {
    let annotate = |key: &str, value: String| scope.annotate(format!("{PREFIX}{key}"), value);
    let Some((policy, errors)) = policy_of(scope) else {
        if scope.server.config().audit.is_some() {
            annotate("enforce-policy", "privileged:latest".to_owned());
        }
        return Ok(());
    };
    if old.is_some_and(|old| !pod_security::is_significant(new, old)) {
        return Ok(());
    }
    if !errors.is_empty() {
        annotate("error", format!("Failed to parse policy: {errors}"));
    }
    annotate("enforce-policy", policy.enforce.to_string());
    let verdict = Verdict::of(policy.enforce, new);
    if verdict.is_allowed() {
        advise(scope, &policy, new);
        return Ok(());
    }
    audit(scope, &policy, new);
    let why = format!("violates PodSecurity \"{}\": {}", policy.enforce, verdict.detail());
    Err(Status::forbidden(GroupResource::new("", "pods"), metadata::name(new), &why))
}

/// Adds the warning and the audit annotation about a pod or a template that the namespace does not refuse.
fn advise(scope: &RequestScope<'_>, policy: &NamespacePolicy, pod: &Value) {
    audit(scope, policy, pod);
    let verdict = Verdict::of(policy.warn, pod);
    if !verdict.is_allowed() {
        scope.warn(format!("would violate PodSecurity \"{}\": {}", policy.warn, verdict.detail()));
    }
}

fn audit(scope: &RequestScope<'_>, policy: &NamespacePolicy, pod: &Value) {
    let verdict = Verdict::of(policy.audit, pod);
    if !verdict.is_allowed() {
        let what = format!("would violate PodSecurity \"{}\": {}", policy.audit, verdict.detail());
        scope.annotate(format!("{PREFIX}audit-violations"), what);
    }
}

/// Checks the labels of a namespace, and warns of pods that a stricter level would refuse.
fn check_namespace(scope: &RequestScope<'_>, new: &Value, old: Option<&Value>) -> Result<(), Status> {
    let (policy, errors) = NamespacePolicy::of_labels(metadata::labels(new));
    let shown = |errors: &crate::registry::ErrorList| errors.iter().map(ToString::to_string).collect::<Vec<_>>();
    let before = old.map(|old| NamespacePolicy::of_labels(metadata::labels(old)));
    let is_known = before.as_ref().is_some_and(|(_, known)| shown(known) == shown(&errors));
    if !errors.is_empty() && !is_known {
        return Err(Status::invalid("", "Namespace", metadata::name(new), &errors));
    }
    let Some((before, _)) = before else { return Ok(()) };
    let wanted = policy.enforce;
    let known = before.enforce;
    if wanted == known || wanted.level == Level::Privileged || wanted.is_relaxed_from(known) {
        return Ok(());
    }
    let pods = scope.server.list(&ResourceId::new("", "pods"), Some(metadata::name(new)));
    let pods = pods.iter().map(|pod| pod.value()).collect();
    for warning in pod_security::warnings_about(pods, metadata::name(new), wanted) {
        scope.warn(warning);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use http::{HeaderValue, Method, header};

    use crate::clock::{Clock, epoch};
    use crate::json::{Value, json};
    use crate::request::{ApiRequest, ReplyBody};
    use crate::{ApiServer, ApiServerConfig, Reply};

    /// Returns code, message and warnings of a reply.
    async fn send(server: &ApiServer, method: Method, path: &str, body: &Value) -> (u16, String, Vec<String>) {
        let mut request = ApiRequest::new(method.clone(), path);
        let kind = if method == Method::PATCH { "application/merge-patch+json" } else { "application/json" };
        request.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
        request.body = body.to_string().into();
        let Reply { status, body, headers, .. } = server.handle(request).await;
        let ReplyBody::Full(bytes) = body else { panic!("no full body") };
        let reply: Value = serde_json::from_slice(&bytes).expect("JSON");
        let warnings = headers.get_all(header::WARNING).iter();
        let warnings = warnings.map(|text| text.to_str().expect("text").to_owned()).collect();
        (status, reply["message"].as_str().unwrap_or_default().to_owned(), warnings)
    }

    fn namespace(labels: Value) -> Value {
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n", "labels": labels}})
    }

    fn pod(name: &str) -> Value {
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
            "spec": {"hostNetwork": true, "containers": [{"name": "c", "image": "i"}]}})
    }

    #[tokio::test(start_paused = true)]
    async fn a_namespace_refuses_warns_and_counts() {
        let server = ApiServer::new(ApiServerConfig::new(Clock::virtual_from(epoch())));
        let wrong = namespace(json!({"pod-security.kubernetes.io/enforce": "x"}));
        assert_eq!(send(&server, Method::POST, "/api/v1/namespaces", &wrong).await.0, 422);
        assert_eq!(send(&server, Method::POST, "/api/v1/namespaces", &namespace(json!({}))).await.0, 201);
        let pods = "/api/v1/namespaces/n/pods";
        assert_eq!(send(&server, Method::POST, pods, &pod("old")).await.0, 201);

        let strict = json!({"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "baseline"}}});
        let (status, _, warnings) = send(&server, Method::PATCH, "/api/v1/namespaces/n", &strict).await;
        assert_eq!(status, 200);
        assert!(warnings[0].contains("existing pods in namespace"), "{warnings:?}");
        assert!(warnings[1].contains("old: host namespaces"), "{warnings:?}");

        let (status, message, _) = send(&server, Method::POST, pods, &pod("new")).await;
        let why =
            "pods \"new\" is forbidden: violates PodSecurity \"baseline:latest\": host namespaces (hostNetwork=true)";
        assert_eq!((status, message.as_str()), (403, why));

        let set = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "s"}, "spec": {
            "selector": {"matchLabels": {"a": "b"}},
            "template": {"metadata": {"labels": {"a": "b"}}, "spec": pod("")["spec"]}}});
        let (status, _, warnings) = send(&server, Method::POST, "/apis/apps/v1/namespaces/n/replicasets", &set).await;
        assert_eq!(status, 201);
        assert!(warnings[0].contains("would violate PodSecurity"), "{warnings:?}");

        // The old pod may change, but not its image.
        let label = json!({"metadata": {"labels": {"a": "b"}}});
        assert_eq!(send(&server, Method::PATCH, &format!("{pods}/old"), &label).await.0, 200);
        let image = json!({"spec": {"containers": [{"name": "c", "image": "j"}]}});
        assert_eq!(send(&server, Method::PATCH, &format!("{pods}/old"), &image).await.0, 403);
    }
}
