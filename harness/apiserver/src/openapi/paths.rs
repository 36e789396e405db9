//! The paths of a group and version with their operations. PURE.
//! See `staging/src/k8s.io/apiserver/pkg/endpoints/installer.go`.

use std::sync::Arc;

use super::custom;
use crate::json::{Key, Map, Value, json};
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
    let tag = format!("{}_{version}", group_word(group));
    let mut paths = Map::new();
    for kind in kinds {
        add_kind(&root, &tag, kind, &mut paths);
    }
    Value::Object(paths)
}

/// Returns a group as one word: `core`, `apps`, `rbacAuthorization`.
fn group_word(group: &str) -> String {
    if group.is_empty() {
        return "core".to_owned();
    }
    let mut words = group.trim_end_matches(".k8s.io").split('.');
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |word, next| word + &title(next))
}

/// Returns a kind with its article, of which plurals have none.
fn with_article(kind: &str) -> String {
    if kind.ends_with('s') && !kind.ends_with("ss") {
        return kind.to_owned();
    }
    let article = if kind.starts_with(['A', 'E', 'I', 'O', 'U']) { "an" } else { "a" };
    format!("{article} {kind}")
}

/// Returns the description of an operation on a kind, or on a subresource of it.
fn description(action: &str, kind: &str, sub: &str, watched: bool) -> String {
    let of = if sub.is_empty() { String::new() } else { format!("{sub} of ") };
    match action {
        "list" if watched => format!("list or watch objects of kind {kind}"),
        "list" => format!("list objects of kind {kind}"),
        "get" => format!("read {of}the specified {kind}"),
        "put" => format!("replace {of}the specified {kind}"),
        "patch" => format!("partially update {of}the specified {kind}"),
        "deletecollection" => format!("delete collection of {kind}"),
        "delete" => format!("delete {}", with_article(kind)),
        _ => format!("create {of}{}", with_article(kind)),
    }
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
    let group = group_word(&kind.group);
    let id = |verb: &str, action: &str, sub: &str| {
        let namespaced = if kind.namespaced { "Namespaced" } else { "" };
        let many = if action == "deletecollection" { "Collection" } else { "" };
        format!("{verb}{}{}{many}{namespaced}{}{}", title(&group), title(&kind.version), kind.kind, title(sub))
    };
    let watched = kind.has_verb("watch");
    let operation = |verb: &str, action: &str, sub: &str, body: &str, gvk: &Value| PathOperation {
        tag: tag.to_owned(),
        id: id(verb, action, sub),
        description: description(action, &kind.kind, sub, watched),
        action: action.to_owned(),
        body: body.to_owned(),
        gvk: gvk.clone(),
        custom: kind.custom.is_some(),
        watched: watched && action == "list",
    };
    let has = |verb: &str| kind.has_verb(verb);
    let mut item = PathItem::new(kind.namespaced, false);
    item.add(has("list"), "get", &operation("list", "list", "", &format!("{own}List"), &gvk));
    item.add(has("create"), "post", &operation("create", "post", "", &own, &gvk));
    item.add(has("deletecollection"), "delete", &operation("delete", "deletecollection", "", STATUS, &gvk));
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
        let rest = sub.name.as_ref();
        let mut item = PathItem::new(kind.namespaced, true);
        item.add(sub.has_verb("get"), "get", &operation("read", "get", rest, &body, &gvk));
        item.add(sub.has_verb("update"), "put", &operation("replace", "put", rest, &body, &gvk));
        item.add(sub.has_verb("patch"), "patch", &operation("patch", "patch", rest, &body, &gvk));
        item.add(sub.has_verb("create"), "post", &operation("create", "post", rest, &body, &gvk));
        item.put(format!("{collection}/{{name}}/{}", sub.name), paths);
    }
}

const STATUS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Status";

/// The media types of replies, those of watches last.
const MEDIA_TYPES: [&str; 5] = [
    "application/json",
    "application/yaml",
    "application/vnd.kubernetes.protobuf",
    "application/json;stream=watch",
    "application/vnd.kubernetes.protobuf;stream=watch",
];

/// The content types of patches, that of built-in kinds last.
const PATCH_TYPES: [&str; 4] = [
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/apply-patch+yaml",
    "application/strategic-merge-patch+json",
];

/// An operation.
struct PathOperation {
    tag: String,
    id: String,
    description: String,
    action: String,
    body: String,
    gvk: Value,
    custom: bool,
    /// A list that can be watched.
    watched: bool,
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
                query("fieldSelector", "string", "Restricts the list of returned objects by their fields"),
                query("labelSelector", "string", "Restricts the list of returned objects by their labels"),
                query("limit", "integer", "Most objects in one answer"),
                query("resourceVersion", "string", "The version to list at or to watch from"),
                query("resourceVersionMatch", "string", "How resourceVersion is meant"),
                query("sendInitialEvents", "boolean", "Begin a watch with the present objects"),
                query("timeoutSeconds", "integer", "Longest time of the call"),
                query("watch", "boolean", "Watch for changes to the described resources, as a stream of events"),
            ],
            _ => Vec::new(),
        }
    }

    /// Returns the media types of replies.
    fn media_types(&self) -> impl Iterator<Item = &'static str> {
        let typed = !self.custom;
        let watched = self.watched;
        MEDIA_TYPES.into_iter().filter(move |media| {
            (typed || !media.contains("protobuf")) && (watched && typed || !media.ends_with(";stream=watch"))
        })
    }

    /// Returns the content types of patches.
    fn patch_types(&self) -> &'static [&'static str] {
        if self.custom { &PATCH_TYPES[..3] } else { &PATCH_TYPES }
    }

    fn render(&self) -> Value {
        let schema = json!({"schema": reference(&self.body)});
        let content: Map = self.media_types().map(|media| (media, schema.clone())).collect();
        let mut responses =
            json!({"200": {"description": "OK", "content": content}, "401": {"description": "Unauthorized"}});
        let further: &[(&str, &str)] = match self.action.as_str() {
            "post" => &[("201", "Created"), ("202", "Accepted")],
            "put" | "patch" => &[("201", "Created")],
            "delete" => &[("202", "Accepted")],
            _ => &[],
        };
        for (code, text) in further {
            responses[*code] = json!({"description": text, "content": content});
        }
        let mut shown = json!({
            "tags": [self.tag],
            "description": self.description,
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
                let content: Map = self.patch_types().iter().map(|media| (*media, any.clone())).collect();
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
        let patches = body.as_ref().filter(|_| method == "patch").and_then(|body| body["content"].as_object());
        let consumes = patches.map_or_else(|| json!(["*/*"]), |content| content.keys().map(Key::as_str).collect());
        operation.get_mut("parameters").and_then(Value::as_array_mut).into_iter().flatten().for_each(plain);
        if let Some(body) = body {
            let schema = body.pointer("/content/*~1*/schema").cloned().unwrap_or_else(|| json!({"type": "object"}));
            let body = json!({"name": "body", "in": "body", "schema": super::types::to_v2(schema)});
            match operation.get_mut("parameters").and_then(Value::as_array_mut) {
                Some(parameters) => parameters.push(body),
                None => operation["parameters"] = json!([body]),
            }
        }
        operation["consumes"] = consumes;
        let produced = operation.pointer("/responses/200/content").and_then(Value::as_object);
        let produces = |content: &Map| {
            MEDIA_TYPES.iter().filter(|media| content.contains_key(media)).map(|media| Value::from(*media)).collect()
        };
        operation["produces"] = produced.map_or_else(|| json!([]), produces);
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
