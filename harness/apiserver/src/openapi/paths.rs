//! The paths of a group and version with their operations. PURE.
//! See `staging/src/k8s.io/apiserver/pkg/endpoints/installer.go`.

use std::sync::Arc;

use super::custom;
use crate::json::{Map, Value, json};
use crate::registry::{Resource, Subresource};

/// Returns the name of a kind's type.
fn type_of(kind: &Resource) -> String {
    if kind.custom.is_some() { custom::name_of(kind) } else { kind.schema.to_string() }
}

/// Returns the name of a subresource's type if it differs from the kind's.
pub(super) fn body_of(kind: &Resource, sub: &Subresource) -> Option<String> {
    let name = match sub.kind.as_ref() {
        "Scale" => "io.k8s.api.autoscaling.v1.Scale",
        "Eviction" => "io.k8s.api.policy.v1.Eviction",
        "Binding" => "io.k8s.api.core.v1.Binding",
        "TokenRequest" => "io.k8s.api.authentication.v1.TokenRequest",
        own if own == kind.kind => return None,
        // Streams (exec, proxy …) have no body to describe.
        _ => return None,
    };
    Some(name.to_owned())
}

/// Returns the paths of a version.
pub(super) fn version_paths(group: &str, version: &str, kinds: &[Arc<Resource>]) -> Value {
    let root = if group.is_empty() { format!("/api/{version}") } else { format!("/apis/{group}/{version}") };
    let tag = if group.is_empty() { format!("core_{version}") } else { format!("{}_{version}", first_word(group)) };
    let mut paths = Map::new();
    for kind in kinds {
        add_kind(&root, &tag, kind, &mut paths);
    }
    Value::Object(paths)
}

fn first_word(group: &str) -> String {
    let first = group.split('.').next().unwrap_or_default();
    first.to_owned()
}

fn title(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map(|first| first.to_ascii_uppercase().to_string() + letters.as_str()).unwrap_or_default()
}

fn add_kind(root: &str, tag: &str, kind: &Resource, paths: &mut Map) {
    let own = type_of(kind);
    let gvk = json!({"group": kind.group, "kind": kind.kind, "version": kind.version});
    let scope = if kind.namespaced { "/namespaces/{namespace}" } else { "" };
    let collection = format!("{root}{scope}/{}", kind.plural);
    let group = if kind.group.is_empty() { "core".to_owned() } else { first_word(&kind.group) };
    let id = |verb: &str, rest: &str| {
        let namespaced = if kind.namespaced { "Namespaced" } else { "" };
        format!("{verb}{}{}{namespaced}{}{rest}", title(&group), title(&kind.version), kind.kind)
    };
    let operation = |verb: &str, action: &str, rest: &str, body: &str, gvk: &Value| PathOperation {
        tag: tag.to_owned(),
        id: id(verb, rest),
        verb: verb.to_owned(),
        action: action.to_owned(),
        kind: kind.kind.to_string(),
        body: body.to_owned(),
        gvk: gvk.clone(),
        custom: kind.custom.is_some(),
    };
    let has = |verb: &str| kind.has_verb(verb);
    let mut item = PathItem::new(kind.namespaced, false);
    item.add(has("list"), "get", &operation("list", "list", "", &format!("{own}List"), &gvk));
    item.add(has("create"), "post", &operation("create", "post", "", &own, &gvk));
    item.add(has("deletecollection"), "delete", &operation("deletecollection", "deletecollection", "", STATUS, &gvk));
    item.put(collection.clone(), paths);

    if kind.namespaced && has("list") {
        let mut item = PathItem::new(false, false);
        let mut everywhere = operation("list", "list", "", &format!("{own}List"), &gvk);
        everywhere.id = format!("list{}{}{}ForAllNamespaces", title(&group), title(&kind.version), kind.kind);
        item.add(true, "get", &everywhere);
        item.put(format!("{root}/{}", kind.plural), paths);
    }
    let mut item = PathItem::new(kind.namespaced, true);
    item.add(has("get"), "get", &operation("read", "get", "", &own, &gvk));
    item.add(has("update"), "put", &operation("replace", "put", "", &own, &gvk));
    item.add(has("patch"), "patch", &operation("patch", "patch", "", &own, &gvk));
    item.add(has("delete"), "delete", &operation("delete", "delete", "", STATUS, &gvk));
    item.put(format!("{collection}/{{name}}"), paths);

    for sub in &kind.subresources {
        let body = body_of(kind, sub);
        if body.is_none() && sub.kind != kind.kind {
            continue;
        }
        let body = body.unwrap_or_else(|| own.clone());
        let group = if sub.group.is_empty() { &kind.group } else { &sub.group };
        let version = if sub.version.is_empty() { &kind.version } else { &sub.version };
        // Operations on subresources of custom resources have the kind of the resource.
        let gvk = match &kind.custom {
            Some(_) => gvk.clone(),
            None => json!({"group": group, "kind": sub.kind, "version": version}),
        };
        let rest = title(&sub.name);
        let mut item = PathItem::new(kind.namespaced, true);
        item.add(sub.has_verb("get"), "get", &operation("read", "get", &rest, &body, &gvk));
        item.add(sub.has_verb("update"), "put", &operation("replace", "put", &rest, &body, &gvk));
        item.add(sub.has_verb("patch"), "patch", &operation("patch", "patch", &rest, &body, &gvk));
        item.add(sub.has_verb("create"), "post", &operation("create", "post", &rest, &body, &gvk));
        item.put(format!("{collection}/{{name}}/{}", sub.name), paths);
    }
}

const STATUS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Status";

/// An operation.
struct PathOperation {
    tag: String,
    id: String,
    verb: String,
    action: String,
    kind: String,
    body: String,
    gvk: Value,
    custom: bool,
}

fn query(name: &str, kind: &str, description: &str) -> Value {
    json!({"name": name, "in": "query", "description": description, "schema": {"type": kind, "uniqueItems": true}})
}

fn reference(name: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{name}")})
}

impl PathOperation {
    fn parameters(&self) -> Vec<Value> {
        let dry_run = || query("dryRun", "string", "Directives of a dry run; All means that nothing is stored");
        let manager = || query("fieldManager", "string", "The name under which the fields in this request are owned");
        let validation =
            || query("fieldValidation", "string", "What unknown and duplicate fields lead to: Ignore, Warn or Strict");
        match self.action.as_str() {
            "post" | "put" => vec![dry_run(), manager(), validation()],
            "patch" => {
                let force = query("force", "boolean", "Take over fields that others own, in server-side apply");
                vec![dry_run(), manager(), validation(), force]
            }
            "delete" => vec![
                dry_run(),
                query("gracePeriodSeconds", "integer", "Seconds until the object is removed"),
                query("orphanDependents", "boolean", "Deprecated: use propagationPolicy"),
                query("propagationPolicy", "string", "What becomes of dependents: Orphan, Background or Foreground"),
            ],
            "list" | "deletecollection" => vec![
                query("allowWatchBookmarks", "boolean", "Send bookmarks in a watch"),
                query("continue", "string", "Where the next page begins"),
                query("fieldSelector", "string", "Selects objects by fields"),
                query("labelSelector", "string", "Selects objects by labels"),
                query("limit", "integer", "Most objects in one answer"),
                query("resourceVersion", "string", "The version to list at or to watch from"),
                query("resourceVersionMatch", "string", "How resourceVersion is meant"),
                query("sendInitialEvents", "boolean", "Begin a watch with the present objects"),
                query("timeoutSeconds", "integer", "Longest time of the call"),
                query("watch", "boolean", "Send changes as they happen"),
            ],
            _ => Vec::new(),
        }
    }

    fn render(&self) -> Value {
        let content = json!({"application/json": {"schema": reference(&self.body)}, "application/yaml": {"schema": reference(&self.body)}});
        let mut responses =
            json!({"200": {"description": "OK", "content": content}, "401": {"description": "Unauthorized"}});
        if self.action == "post" {
            responses["201"] = json!({"description": "Created", "content": content});
        }
        let mut shown = json!({
            "tags": [self.tag],
            "description": format!("{} objects of kind {}", self.verb, self.kind),
            "operationId": self.id,
            "responses": responses,
            "x-kubernetes-action": self.action,
            "x-kubernetes-group-version-kind": self.gvk,
        });
        let parameters = self.parameters();
        if !parameters.is_empty() {
            shown["parameters"] = Value::Array(parameters);
        }
        let body = match self.action.as_str() {
            "post" | "put" => json!({"content": {"*/*": {"schema": reference(&self.body)}}, "required": true}),
            "patch" => {
                let any = json!({"schema": {"type": "object"}});
                let mut content = json!({"application/apply-patch+yaml": any, "application/json-patch+json": any,
                    "application/merge-patch+json": any});
                if !self.custom {
                    content["application/strategic-merge-patch+json"] = any;
                }
                json!({"content": content, "required": true})
            }
            "delete" | "deletecollection" => {
                json!({"content": {"*/*": {"schema": reference("io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions")}}})
            }
            _ => return shown,
        };
        shown["requestBody"] = body;
        shown
    }
}

/// The operations of one path.
struct PathItem {
    operations: Map,
    parameters: Vec<Value>,
}

impl PathItem {
    fn new(namespaced: bool, named: bool) -> Self {
        let in_path = |name: &str, description: &str| {
            json!({"name": name, "in": "path", "required": true, "description": description,
                "schema": {"type": "string", "uniqueItems": true}})
        };
        let mut parameters = Vec::new();
        if named {
            parameters.push(in_path("name", "Name of the object"));
        }
        if namespaced {
            parameters.push(in_path("namespace", "Namespace of the objects"));
        }
        parameters.push(query("pretty", "string", "Write the answer for people"));
        Self { operations: Map::new(), parameters }
    }

    fn add(&mut self, served: bool, method: &str, operation: &PathOperation) {
        if served {
            self.operations.insert(method.to_owned(), operation.render());
        }
    }

    fn put(mut self, path: String, paths: &mut Map) {
        if !self.operations.is_empty() {
            self.operations.insert("parameters", Value::Array(self.parameters));
            paths.insert(path, Value::Object(self.operations));
        }
    }
}

/// Converts a path to v2: parameters carry their type directly, and the body is a parameter.
pub(super) fn to_v2(mut item: Value) -> Value {
    let plain = |parameter: &mut Value| {
        if let Some(schema) = parameter.as_object_mut().and_then(|fields| fields.remove("schema")) {
            parameter["type"] = schema["type"].clone();
            parameter["uniqueItems"] = json!(true);
        }
    };
    for (method, operation) in item.as_object_mut().into_iter().flatten() {
        if method == "parameters" {
            operation.as_array_mut().into_iter().flatten().for_each(plain);
            continue;
        }
        let body = operation.as_object_mut().and_then(|fields| fields.remove("requestBody"));
        operation.get_mut("parameters").and_then(Value::as_array_mut).into_iter().flatten().for_each(plain);
        if let Some(body) = body {
            let schema = body.pointer("/content/*~1*/schema").cloned().unwrap_or_else(|| json!({"type": "object"}));
            let body = json!({"name": "body", "in": "body", "schema": super::types::to_v2(schema)});
            match operation.get_mut("parameters").and_then(Value::as_array_mut) {
                Some(parameters) => parameters.push(body),
                None => operation["parameters"] = json!([body]),
            }
        }
        operation["consumes"] = json!(["*/*"]);
        operation["produces"] = json!(["application/json", "application/yaml"]);
        operation["schemes"] = json!(["https"]);
        for response in operation["responses"].as_object_mut().into_iter().flat_map(Map::values_mut) {
            let content = response.as_object_mut().and_then(|fields| fields.remove("content"));
            if let Some(schema) = content.as_ref().and_then(|content| content.pointer("/application~1json/schema")) {
                response["schema"] = super::types::to_v2(schema.clone());
            }
        }
    }
    item
}
