//! The server replies to any input with a `Status` or an object, within bounded time and with a bounded size, and
//! stored objects remain readable. Inputs are requests, bodies (JSON, YAML, protobuf), each type of patch, selectors,
//! watch parameters and continue tokens, random but realistic enough to pass the first check.
//!
//! 64 cases each by default; `PROPTEST_CASES=100000 cargo test --release -p plumbline-suite --test it fuzz::` runs
//! more.

use std::cell::OnceCell;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use http::{HeaderValue, Method, header};
use plumbline::apiserver::{ApiRequest, ApiServer, ApiServerConfig, Reply, ReplyBody};
use plumbline::time::Clock;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use serde_json::{Value, json};

/// Longest time of a request, also in debug builds on busy machines.
const LONGEST: Duration = Duration::from_secs(30);
/// Largest reply: this plus a multiple of the bytes that were sent and are stored.
const LARGEST: usize = 1 << 20;
const GROWTH: usize = 64;

fn config() -> ProptestConfig {
    let asked_for = std::env::var_os("PROPTEST_CASES").is_some();
    let usual = ProptestConfig { failure_persistence: None, ..ProptestConfig::default() };
    if asked_for { usual } else { ProptestConfig { cases: 64, ..usual } }
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    thread_local! {
        static RUNTIME: OnceCell<tokio::runtime::Runtime> = const { OnceCell::new() };
    }
    RUNTIME.with(|runtime| {
        let make = || tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.get_or_init(make).block_on(future)
    })
}

const PODS: &str = "/api/v1/namespaces/default/pods";
const BUDGETS: &str = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const WIDGETS: &str = "/apis/example.com/v1/namespaces/default/widgets";
const COLLECTIONS: [&str; 6] = [PODS, BUDGETS, DEPLOYMENTS, DEFINITIONS, MAPS, WIDGETS];

/// Path and a valid object for each kind.
fn samples() -> Vec<(&'static str, Value)> {
    let pod = json!({"containers": [{"name": "a", "image": "i", "env": [{"name": "E", "value": "1"}], "ports": [{"containerPort": 80, "protocol": "TCP"}],
        "resources": {"requests": {"cpu": "100m"}}}], "tolerations": [{"key": "k", "operator": "Exists"}]});
    let widget = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {"spec": {"type": "object", "properties": {
        "size": {"type": "integer", "minimum": 1, "default": 3}, "name": {"type": "string", "pattern": "^[a-z]+$"}}}}});
    vec![
        (
            PODS,
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "probe", "labels": {"app": "x"}}, "spec": pod}),
        ),
        (
            BUDGETS,
            json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "probe"},
            "spec": {"minAvailable": "50%", "selector": {"matchLabels": {"app": "x"}}}}),
        ),
        (
            DEPLOYMENTS,
            json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "probe"}, "spec": {"replicas": 2,
            "selector": {"matchLabels": {"app": "x"}}, "template": {"metadata": {"labels": {"app": "x"}}, "spec": pod}}}),
        ),
        (
            DEFINITIONS,
            json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "widgets.example.com"}, "spec": {"group": "example.com", "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": widget}, "subresources": {"status": {}}}]}}),
        ),
        (MAPS, json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "probe"}, "data": {"a": "x"}})),
        (
            WIDGETS,
            json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "probe"}, "spec": {"name": "abc", "more": [1, {"b": null}]}}),
        ),
    ]
}

fn request(method: Method, path: &str, content_type: &str, body: impl Into<Vec<u8>>) -> ApiRequest {
    let mut request = ApiRequest::new(method, path);
    if let Ok(value) = HeaderValue::from_str(content_type)
        && !content_type.is_empty()
    {
        request.headers.insert(header::CONTENT_TYPE, value);
    }
    request.body = body.into().into();
    request
}

/// A server that holds one object of each sample.
async fn server() -> ApiServer {
    let server = ApiServer::new(ApiServerConfig::new(Clock::wall()));
    for (path, object) in samples() {
        let reply = server.handle(request(Method::POST, path, "application/json", object.to_string())).await;
        assert_eq!(reply.status, 201, "{path}: {reply:?}");
    }
    server
}

/// Reads the body of a reply; of an open stream, the part that is available at once.
async fn body_of(reply: Reply) -> Vec<u8> {
    match reply.body {
        ReplyBody::Full(bytes) => bytes.to_vec(),
        ReplyBody::Stream(events) => {
            let mut ready = events.take(100);
            let mut all = Vec::new();
            let clock = Clock::wall();
            while let Some(Some(Ok(event))) = clock.timeout(Duration::from_millis(20), ready.next()).await {
                all.extend_from_slice(&event);
            }
            all
        }
    }
}

/// Sends a request, checks the properties that every reply must have, and returns its status.
async fn ask(server: &ApiServer, request: ApiRequest) -> Result<u16, TestCaseError> {
    let asked = format!("{} {}?{} {:?}", request.method, request.path, request.query, request.body);
    let sent = request.body.len() + request.path.len() + request.query.len();
    let clock = Clock::wall();
    let reply = server.handle(request).await;
    prop_assert!(clock.elapsed() < LONGEST, "{asked} took {:?}", clock.elapsed());
    let status = reply.status;
    let media =
        reply.headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned();
    let stream = matches!(reply.body, ReplyBody::Stream(_));
    let body = body_of(reply).await;
    prop_assert!((200..=504).contains(&status), "{asked}: {status}");
    prop_assert!(body.len() <= LARGEST + GROWTH * sent, "{asked}: {} bytes", body.len());
    if media.starts_with("application/vnd.kubernetes.protobuf") && !stream {
        prop_assert!(body.starts_with(b"k8s\0"), "{asked}: no prefix of protobuf");
        let is_failure = body.windows(b"Failure".len()).any(|part| part == b"Failure");
        prop_assert!(status < 400 || is_failure, "{asked}: {status} without a Status");
        return Ok(status);
    }
    let text = std::str::from_utf8(&body).map_err(|error| TestCaseError::fail(format!("{asked}: {error}")))?;
    if stream {
        for line in text.lines() {
            let event: Value =
                serde_json::from_str(line).map_err(|error| TestCaseError::fail(format!("{asked}: {error}: {line}")))?;
            prop_assert!(event["type"].is_string() && event["object"]["kind"].is_string(), "{asked}: {line}");
        }
    } else if media.starts_with("application/json") {
        let answer: Value =
            serde_json::from_str(text).map_err(|error| TestCaseError::fail(format!("{asked}: {error}: {text}")))?;
        if status >= 400 {
            prop_assert_eq!(
                (&answer["kind"], &answer["status"]),
                (&json!("Status"), &json!("Failure")),
                "{}: {}",
                asked,
                text
            );
            prop_assert_eq!(&answer["code"], &json!(status), "{}: {}", asked, text);
            prop_assert!(answer["message"].is_string(), "{asked}: {text}");
        } else {
            prop_assert!(answer.is_object(), "{asked}: {text}");
        }
    } else {
        prop_assert!(!media.is_empty() || body.is_empty(), "{asked}: a body without a type");
    }
    Ok(status)
}

/// Checks that stored objects can be listed and read, regardless of earlier writes.
async fn sound(server: &ApiServer) -> Result<(), TestCaseError> {
    for path in &COLLECTIONS[..5] {
        prop_assert_eq!(ask(server, request(Method::GET, path, "", "")).await?, 200, "{}", path);
    }
    Ok(())
}

/// Words that have a meaning somewhere in the API.
fn word() -> impl Strategy<Value = String> {
    const WORDS: [&str; 44] = [
        "",
        "a",
        "app",
        "x",
        "name",
        "probe",
        "metadata",
        "spec",
        "status",
        "kind",
        "v1",
        "Pod",
        "ConfigMap",
        "default",
        "0",
        "-1",
        "1",
        "true",
        "null",
        "99999999999999999999",
        "1e400",
        "0.1",
        "50%",
        "100m",
        "$patch",
        "replace",
        "delete",
        "merge",
        "$retainKeys",
        "$setElementOrder/containers",
        "$deleteFromPrimitiveList/finalizers",
        "containers",
        "finalizers",
        "labels",
        "annotations",
        "ownerReferences",
        "managedFields",
        "resourceVersion",
        "uid",
        "2030-01-01T00:00:00Z",
        "\u{0}",
        "\u{fffd}",
        "é",
        "a/b~0~1",
    ];
    prop_oneof![4 => select(&WORDS[..]).prop_map(str::to_owned), 1 => any::<String>()]
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        (-3..300_i64).prop_map(Value::from),
        word().prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 40, 6, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            proptest::collection::vec((word(), inner), 0..5)
                .prop_map(|pairs| Value::Object(pairs.into_iter().collect())),
        ]
    })
}

/// Collects JSON pointers to everything in a value.
fn pointers(value: &Value, at: &str, found: &mut Vec<String>) {
    found.push(at.to_owned());
    let escape = |key: &str| key.replace('~', "~0").replace('/', "~1");
    match value {
        Value::Object(map) => {
            for (key, item) in map {
                pointers(item, &format!("{at}/{}", escape(key)), found);
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                pointers(item, &format!("{at}/{index}"), found);
            }
        }
        _ => {}
    }
}

/// Returns a pointer into a sample, sometimes followed by an odd segment.
fn place(object: &Value, at: Index, odd: Option<String>) -> String {
    let mut found = Vec::new();
    pointers(object, "", &mut found);
    let pointer = at.get(&found).clone();
    odd.map_or(pointer.clone(), |odd| format!("{pointer}/{odd}"))
}

/// A sample with some of its parts replaced.
fn mutant() -> impl Strategy<Value = (&'static str, Value)> {
    let changes = proptest::collection::vec((any::<Index>(), value(), any::<bool>()), 0..4);
    (select(samples()), changes).prop_map(|((path, mut object), changes)| {
        for (at, value, grow) in changes {
            let pointer = place(&object, at, None);
            match object.pointer_mut(&pointer) {
                Some(Value::Object(map)) if grow => _ = map.insert(format!("k{}", map.len()), value),
                Some(Value::Array(items)) if grow => items.push(value),
                Some(found) => *found = value,
                None => {}
            }
        }
        (path, object)
    })
}

fn operation(object: Arc<Value>) -> impl Strategy<Value = Value> {
    let place_in = move |object: Arc<Value>| {
        (
            any::<Index>(),
            proptest::option::weighted(0.3, prop_oneof![word(), Just("-".to_owned()), Just("-1".to_owned())]),
        )
            .prop_map(move |(at, odd)| place(&object, at, odd))
    };
    let op = prop_oneof![8 => select(&["add", "remove", "replace", "move", "copy", "test"][..]).prop_map(str::to_owned), 1 => word()];
    (op, place_in(object.clone()), place_in(object), value())
        .prop_map(|(op, path, from, value)| json!({"op": op, "path": path, "from": from, "value": value}))
}

/// A patch for a sample: path, content type, body.
fn a_patch() -> impl Strategy<Value = (String, &'static str, Vec<u8>)> {
    const TYPES: [&str; 3] =
        ["application/merge-patch+json", "application/strategic-merge-patch+json", "application/apply-patch+yaml"];
    let json_patch = select(samples()).prop_flat_map(|(path, object)| {
        let operations = proptest::collection::vec(operation(Arc::new(object)), 0..6);
        operations.prop_map(move |operations| (path, "application/json-patch+json", Value::from(operations)))
    });
    let parts = (mutant(), select(&TYPES[..]), any::<Index>(), word(), value()).prop_map(
        |((path, mut object), media, at, key, value)| {
            let pointer = place(&object, at, None);
            if let Some(Value::Object(map)) = object.pointer_mut(&pointer) {
                map.insert(key, value);
            }
            (path, media, object)
        },
    );
    let whole = prop_oneof![2 => json_patch, 3 => parts]
        .prop_map(|(path, media, body)| (path, media, body.to_string().into_bytes()));
    let cut = (whole, proptest::option::weighted(0.15, (any::<Index>(), any::<u8>())));
    cut.prop_map(|((path, media, mut body), damage)| {
        if let (Some((at, byte)), false) = (damage, body.is_empty()) {
            let at = at.index(body.len());
            body[at] = byte;
        }
        let name = if path == DEFINITIONS { "widgets.example.com" } else { "probe" };
        (format!("{path}/{name}?fieldManager=fuzz&force=true"), media, body)
    })
}

fn parameter() -> impl Strategy<Value = String> {
    const NAMES: [&str; 19] = [
        "watch",
        "limit",
        "continue",
        "resourceVersion",
        "resourceVersionMatch",
        "labelSelector",
        "fieldSelector",
        "timeoutSeconds",
        "allowWatchBookmarks",
        "sendInitialEvents",
        "dryRun",
        "fieldManager",
        "fieldValidation",
        "force",
        "pretty",
        "gracePeriodSeconds",
        "propagationPolicy",
        "orphanDependents",
        "includeObject",
    ];
    const VALUES: [&str; 24] = [
        "",
        "0",
        "1",
        "-1",
        "2",
        "7",
        "true",
        "false",
        "abc",
        "9223372036854775807",
        "18446744073709551616",
        "NotOlderThan",
        "Exact",
        "All",
        "Strict",
        "Warn",
        "Ignore",
        "Background",
        "Foreground",
        "Orphan",
        "Metadata",
        "None",
        "app%3Dx",
        "metadata.name%3Dprobe",
    ];
    let raw = "[ -~]{0,12}";
    let value = prop_oneof![5 => select(&VALUES[..]).prop_map(str::to_owned), 1 => raw.prop_map(|text| text.replace(['?', '#'], "%"))];
    prop_oneof![9 => (select(&NAMES[..]), value).prop_map(|(name, value)| format!("{name}={value}")), 1 => raw]
}

fn selector() -> impl Strategy<Value = String> {
    const PARTS: [&str; 30] = [
        "a",
        "app",
        "x",
        "=",
        "==",
        "!=",
        "!",
        ",",
        " ",
        "in",
        "notin",
        "exists",
        "(",
        ")",
        "<",
        ">",
        "5",
        "-1",
        "example.com/a",
        "/",
        "metadata.name",
        "metadata.namespace",
        "spec.nodeName",
        "status.phase",
        "\\",
        "\\,",
        "\"",
        "é",
        "\u{0}",
        "99999999999999999999",
    ];
    proptest::collection::vec(prop_oneof![9 => select(&PARTS[..]).prop_map(str::to_owned), 1 => any::<String>()], 0..12)
        .prop_map(|parts| parts.concat())
}

/// Percent-encodes every byte of a text for a query.
fn escaped(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect::<Vec<_>>().concat()
}

/// Random protobuf framing: fields of all wire types, and nested messages.
fn message() -> impl Strategy<Value = Vec<u8>> {
    let varint = |mut number: u64| {
        let mut bytes = Vec::new();
        while number >= 0x80 {
            bytes.push(number as u8 | 0x80);
            number >>= 7;
        }
        bytes.push(number as u8);
        bytes
    };
    let field = move |number: u64, wire: u64, payload: Vec<u8>| {
        let length = if wire == 2 { varint(payload.len() as u64) } else { Vec::new() };
        [varint(number << 3 | wire), length, payload].concat()
    };
    let leaf = prop_oneof![
        (1..20_u64, any::<u64>()).prop_map(move |(number, value)| field(number, 0, varint(value))),
        (1..20_u64, word()).prop_map(move |(number, text)| field(number, 2, text.into_bytes())),
        (1..20_u64, proptest::collection::vec(any::<u8>(), 0..9))
            .prop_map(move |(number, bytes)| field(number, 5, bytes)),
    ];
    leaf.prop_recursive(6, 60, 6, move |inner| {
        (1..20_u64, proptest::collection::vec(inner, 0..6))
            .prop_map(move |(number, parts)| field(number, 2, parts.concat()))
    })
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn requests(
        method in select(&["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "FOO"][..]),
        start in select(&["/api/v1", "/apis/apps/v1", "/apis/policy/v1", "/apis", "/api", "/apis/example.com/v1", "/openapi/v3", "/plumbline", "", "/version"][..]),
        parts in proptest::collection::vec(prop_oneof![
            4 => select(&["namespaces", "default", "pods", "probe", "nodes", "status", "scale", "eviction", "binding", "log", "watch", "configmaps", "token"][..]).prop_map(str::to_owned),
            1 => "[!-~]{0,8}".prop_map(|text| text.replace(['?', '#'], "%")),
        ], 0..6),
        query in proptest::collection::vec(parameter(), 0..5),
        accept in prop_oneof![
            2 => Just(String::new()),
            2 => select(&["application/json;as=Table;v=v1;g=meta.k8s.io", "application/yaml", "application/vnd.kubernetes.protobuf", "*/*;q=0", ";;,,"][..]).prop_map(str::to_owned),
            1 => "[ -~]{0,30}",
        ],
        body in prop_oneof![3 => Just(Vec::new()), 1 => value().prop_map(|value| value.to_string().into_bytes())],
    ) {
        let path = format!("{start}/{}?{}", parts.join("/"), query.join("&"));
        let mut asked = request(Method::from_bytes(method.as_bytes()).expect("a method"), &path, "", body);
        if let Ok(accept) = HeaderValue::from_str(&accept) {
            asked.headers.insert(header::ACCEPT, accept);
        }
        block_on(async {
            let server = server().await;
            ask(&server, asked).await?;
            sound(&server).await
        })?;
    }

    #[test]
    fn json_bodies((path, object) in mutant(), put in any::<bool>(), damage in proptest::option::weighted(0.2, (any::<Index>(), any::<u8>()))) {
        let mut body = object.to_string().into_bytes();
        if let (Some((at, byte)), false) = (damage, body.is_empty()) {
            let at = at.index(body.len());
            body[at] = byte;
        }
        block_on(async {
            let server = server().await;
            if put {
                let name = if path == DEFINITIONS { "widgets.example.com" } else { "probe" };
                ask(&server, request(Method::PUT, &format!("{path}/{name}"), "application/json", body)).await?;
            } else {
                ask(&server, request(Method::DELETE, &format!("{path}/probe"), "", "")).await?;
                ask(&server, request(Method::POST, path, "application/json", body)).await?;
            }
            sound(&server).await
        })?;
    }

    #[test]
    fn yaml_bodies(
        lines in proptest::collection::vec((0..4_usize, prop_oneof![
            3 => (word(), word()).prop_map(|(key, value)| format!("{key}: {value}")),
            1 => word().prop_map(|word| format!("- {word}")),
            1 => select(&["a: &a [x, y]", "b: *a", "<<: *a", "---", "...", "%YAML 1.2", "|", ">-", "? a", ": b", "!!binary AA==", "{a: [", "'", "\"\\x", "\t"][..]).prop_map(str::to_owned),
        ]), 0..15),
        apply in any::<bool>(),
    ) {
        let more: String = lines.iter().map(|(depth, line)| format!("{}{line}\n", "  ".repeat(*depth))).collect::<Vec<_>>().concat();
        let text = format!("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: y\n{more}");
        block_on(async {
            let server = server().await;
            let (method, path, media) = if apply {
                (Method::PATCH, format!("{MAPS}/y?fieldManager=m"), "application/apply-patch+yaml")
            } else {
                (Method::POST, MAPS.to_owned(), "application/yaml")
            };
            ask(&server, request(method, &path, media, text)).await?;
            sound(&server).await
        })?;
    }

    #[test]
    fn protobuf_bodies(kind in select(&[("v1", "Pod", PODS), ("v1", "ConfigMap", MAPS), ("apps/v1", "Deployment", DEPLOYMENTS), ("v2", "Pid", PODS)][..]), raw in message(), cut in any::<Index>()) {
        let (version, kind, path) = kind;
        let text = |number: u8, text: &[u8]| [&[number << 3 | 2, u8::try_from(text.len()).unwrap_or(0)], text].concat();
        let meta = [text(1, version.as_bytes()), text(2, kind.as_bytes())].concat();
        let length = u8::try_from(raw.len() % 128).unwrap_or(0);
        let mut body = [b"k8s\0".to_vec(), text(1, &meta), vec![2 << 3 | 2, length], raw].concat();
        block_on(async {
            let server = server().await;
            ask(&server, request(Method::POST, path, "application/vnd.kubernetes.protobuf", body.clone())).await?;
            body.truncate(cut.index(body.len()));
            ask(&server, request(Method::POST, path, "application/vnd.kubernetes.protobuf", body)).await?;
            sound(&server).await
        })?;
    }

    #[test]
    fn patches(patches in proptest::collection::vec(a_patch(), 1..4)) {
        block_on(async {
            let server = server().await;
            for (path, media, body) in patches {
                ask(&server, request(Method::PATCH, &path, media, body)).await?;
            }
            sound(&server).await
        })?;
    }

    #[test]
    fn selectors(labels in selector(), fields in selector(), path in select(&COLLECTIONS[..])) {
        block_on(async {
            let server = server().await;
            for query in [format!("labelSelector={}", escaped(&labels)), format!("fieldSelector={}", escaped(&fields))] {
                let listed = ask(&server, request(Method::GET, &format!("{path}?{query}"), "", "")).await?;
                let watched = ask(&server, request(Method::GET, &format!("{path}?watch=1&timeoutSeconds=1&{query}"), "", "")).await?;
                // A watch must treat a selector as a list does.
                prop_assert_eq!(listed, watched, "{}", query);
            }
            Ok(())
        })?;
    }

    #[test]
    fn watches(query in proptest::collection::vec(parameter(), 0..6), path in select(&COLLECTIONS[..]), compacted in any::<bool>()) {
        block_on(async {
            let server = server().await;
            if compacted {
                server.compact(server.revision());
            }
            ask(&server, request(Method::GET, &format!("{path}?watch=1&{}", query.join("&")), "", "")).await?;
            Ok::<(), TestCaseError>(())
        })?;
    }

    #[test]
    fn continue_tokens(version in any::<i64>(), start in word(), limit in 0..3_u8, raw in "[A-Za-z0-9_=-]{0,20}", at in any::<Index>(), byte in "[A-Za-z0-9_-]") {
        block_on(async {
            let server = server().await;
            let body = body_of(server.handle(request(Method::GET, "/api/v1/namespaces?limit=1", "", "")).await).await;
            let good: Value = serde_json::from_slice(&body).expect("JSON");
            let good = good["metadata"]["continue"].as_str().expect("a token").to_owned();
            let mut damaged = good.clone();
            let at = at.index(damaged.len());
            damaged.replace_range(at..=at, &byte);
            let made = json!({"v": "meta.k8s.io/v1", "rv": version, "start": start}).to_string();
            let made = base64::Engine::encode(&base64::engine::general_purpose::URL_SAFE_NO_PAD, made);
            prop_assert_eq!(ask(&server, request(Method::GET, &format!("/api/v1/namespaces?limit=1&continue={good}"), "", "")).await?, 200);
            for token in [damaged, made, raw] {
                ask(&server, request(Method::GET, &format!("/api/v1/namespaces?limit={limit}&continue={token}"), "", "")).await?;
            }
            Ok(())
        })?;
    }
}
