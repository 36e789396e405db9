//! The requests that a fixture's steps make, as a person, an evictor or a kubelet would.

use http::Method;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::apiserver::request::escape;
use crate::cluster::{Answer, Call, Stage, resource_id};
use crate::fixture::{Edit, Operation, PatchKind, Target, UserRequest, time_text};

const JSON: &str = "application/json";

/// Sends `request`, which may take several calls, and returns the answer to the one that counts: the first that fails, or
/// the main one. `now` and `start` are what relative times in bodies refer to.
pub async fn send(stage: &dyn Stage, request: &UserRequest, now: Timestamp, start: Timestamp) -> Answer {
    let caller = Caller { stage, request };
    let resolved = |value: &Value| {
        let mut value = value.clone();
        time_text::resolve(&mut value, now, start);
        value
    };
    let object = || path(&request.target, true);
    match &request.operation {
        Operation::Get => caller.call(Method::GET, object(), None).await,
        Operation::Create { object } => caller.create(resolved(object)).await,
        Operation::Update { edit } => caller.update(edit, &resolved).await,
        Operation::Replace { object: body } => caller.call(Method::PUT, object(), Some((JSON, resolved(body)))).await,
        Operation::Patch { kind, body } => {
            let path = match kind {
                PatchKind::Apply { manager, force } => {
                    let force = if *force { "&force=true" } else { "" };
                    format!("{}?fieldManager={manager}{force}", object())
                }
                _ => object(),
            };
            caller.call(Method::PATCH, path, Some((kind.content_type(), resolved(body)))).await
        }
        Operation::Delete { options } => {
            let mut options = resolved(options);
            if let Some(fields) = options.as_object_mut() {
                fields.insert("kind".to_owned(), json!("DeleteOptions"));
                fields.insert("apiVersion".to_owned(), json!("v1"));
            }
            caller.call(Method::DELETE, object(), Some((JSON, options))).await
        }
        Operation::Post { body } => caller.call(Method::POST, object(), Some((JSON, resolved(body)))).await,
    }
}

struct Caller<'a> {
    stage: &'a dyn Stage,
    request: &'a UserRequest,
}

impl Caller<'_> {
    async fn call(&self, method: Method, mut path: String, body: Option<(&'static str, Value)>) -> Answer {
        for (key, value) in &self.request.query {
            path.push(if path.contains('?') { '&' } else { '?' });
            for part in [escape(key), "=".to_owned(), escape(value)] {
                path.push_str(&part);
            }
        }
        let user_agent = format!("plumbline/{} {}", env!("CARGO_PKG_VERSION"), self.request.actor);
        self.stage.send(Call { method, path, body, user_agent }).await
    }

    /// POST, and the status through its subresource, as a kubelet or controller would write it.
    async fn create(&self, object: Value) -> Answer {
        let resource = resource_id(&self.request.target.resource);
        let kept_back = self.stage.keep_back(&resource);
        let answer = self.create_with_status(object).await;
        if kept_back {
            self.stage.let_go(&resource);
        }
        answer
    }

    async fn create_with_status(&self, mut object: Value) -> Answer {
        let status = object.as_object_mut().and_then(|fields| fields.remove("status"));
        let target = &self.request.target;
        let answer = self.call(Method::POST, path(target, false), Some((JSON, object))).await;
        let dry_run = self.request.query.iter().any(|(key, _)| key == "dryRun");
        let Some(status) = status.filter(|_| answer.code < 300 && answer.code > 0 && !dry_run) else { return answer };
        let mut created = answer.body.clone();
        let Some(fields) = created.as_object_mut() else { return answer };
        fields.insert("status".to_owned(), status);
        let name = created["metadata"]["name"].as_str().unwrap_or(&target.name).to_owned();
        let of_status = Target { name, subresource: Some("status".to_owned()), ..target.clone() };
        let second = self.call(Method::PUT, path(&of_status, true), Some((JSON, created))).await;
        if (200..300).contains(&second.code) { answer } else { second }
    }

    /// GET, edit, PUT.
    async fn update(&self, edit: &Edit, resolved: &impl Fn(&Value) -> Value) -> Answer {
        let path = path(&self.request.target, true);
        let current = self.call(Method::GET, path.clone(), None).await;
        if current.code != 200 {
            return current;
        }
        let mut object = current.body;
        edit.apply(&mut object);
        self.call(Method::PUT, path, Some((JSON, resolved(&object)))).await
    }
}

/// The URL path of a target, with or without the object's name and subresource.
fn path(target: &Target, with_name: bool) -> String {
    let resource = &target.resource;
    let mut path = if resource.group.is_empty() {
        format!("/api/{}", resource.version)
    } else {
        format!("/apis/{}/{}", resource.group, resource.version)
    };
    if let Some(namespace) = target.namespace.as_deref().filter(|_| resource.namespaced) {
        path.push_str("/namespaces/");
        path.push_str(&escape(namespace));
    }
    path.push('/');
    path.push_str(&resource.plural);
    if with_name && !target.name.is_empty() {
        path.push('/');
        path.push_str(&escape(&target.name));
        if let Some(subresource) = &target.subresource {
            path.push('/');
            path.push_str(subresource);
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::pattern::Resources;

    #[test]
    fn paths() {
        let of = |text: &str| path(&Target::parse(text, "default", &Resources::default()).expect("a target"), true);
        assert_eq!(of("other:pods/a/status"), "/api/v1/namespaces/other/pods/a/status");
        assert_eq!(of("nodes/n 1"), "/api/v1/nodes/n%201");
        assert_eq!(of("pdb/x"), "/apis/policy/v1/namespaces/default/poddisruptionbudgets/x");
        assert_eq!(of("pods"), "/api/v1/namespaces/default/pods");
    }
}
