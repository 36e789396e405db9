//! Hostile and broken clients of `plumbline serve` over real sockets: they get the `Status` that kube-apiserver 1.36
//! gives, or a closed connection; the server stays up, and its memory stays bounded.
//!
//! Expected statuses and messages were recorded from a kube-apiserver 1.36 with the same requests, unless a comment
//! states otherwise. [`Limits`] shortens time limits; everything else runs against the program itself.

use std::fmt::Write as _;
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use plumbline::apiserver::listener::{Limits, ListenOptions, listen};
use plumbline::apiserver::{ApiServer, ApiServerConfig};
use plumbline::time::Clock;
use tokio_util::sync::CancellationToken;

use crate::serving::{Answer, PATIENCE, Server, TOKEN, h2, read_all, request};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const MAP: &str = "/api/v1/namespaces/default/configmaps/probe";
const JSON: &str = "application/json";
const YAML: &str = "application/yaml";
const JSON_PATCH: &str = "application/json-patch+json";
const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
const APPLY: &str = "application/apply-patch+yaml";
/// Nesting depth of a body that is too deep.
const DEEP: usize = 100_000;
/// Memory limit for the server in the worst of these tests; a debug build takes about 120 MiB.
const MEMORY_MIB: u64 = 700;

/// A request and its expected reply.
struct Case {
    what: &'static str,
    method: &'static str,
    path: &'static str,
    content_type: &'static str,
    body: Vec<u8>,
    status: u16,
    message: &'static str,
}

fn nested(open: &str, close: &str, times: usize) -> String {
    open.repeat(times) + &close.repeat(times)
}

fn post(
    what: &'static str,
    content_type: &'static str,
    body: impl Into<Vec<u8>>,
    status: u16,
    message: &'static str,
) -> Case {
    Case { what, method: "POST", path: MAPS, content_type, body: body.into(), status, message }
}

fn patch(
    what: &'static str,
    content_type: &'static str,
    body: impl Into<Vec<u8>>,
    status: u16,
    message: &'static str,
) -> Case {
    let path = if content_type == APPLY { "/api/v1/namespaces/default/configmaps/probe?fieldManager=m" } else { MAP };
    Case { what, method: "PATCH", path, content_type, body: body.into(), status, message }
}

fn map(name: &str, more: &str) -> String {
    format!(r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"{name}"}}{more}}}"#)
}

/// A few lines of YAML that expand to ten thousand million nodes.
fn alias_bomb() -> String {
    let mut text = "a: &a [x,x,x,x,x,x,x,x,x,x]\n".to_owned();
    for letter in 'b'..='j' {
        let before = char::from(u8::try_from(letter).expect("ASCII") - 1);
        let aliases = vec![format!("*{before}"); 10].join(",");
        _ = writeln!(text, "{letter}: &{letter} [{aliases}]");
    }
    text
}

/// A patch that adds a nesting level with every two operations.
fn move_chain(length: usize) -> String {
    let mut operations = vec![r#"{"op":"add","path":"/a","value":{}}"#.to_owned()];
    for index in 0..length {
        let (inner, outer) = if index % 2 == 0 { ("a", "b") } else { ("b", "a") };
        operations.push(format!(r#"{{"op":"add","path":"/{outer}","value":{{}}}}"#));
        operations.push(format!(r#"{{"op":"move","from":"/{inner}","path":"/{outer}/{inner}"}}"#));
    }
    format!("[{}]", operations.join(","))
}

/// A patch that doubles the document with every operation.
fn copy_bomb() -> String {
    let mut operations = vec![format!(r#"{{"op":"add","path":"/data","value":{{"a":"{}"}}}}"#, "x".repeat(1000))];
    operations.extend((0..60).map(|index| format!(r#"{{"op":"copy","from":"/data","path":"/data/{index}"}}"#)));
    format!("[{}]", operations.join(","))
}

fn json_bodies() -> Vec<Case> {
    vec![
        post(
            "deep objects",
            JSON,
            nested("{\"a\":", "}", DEEP),
            400,
            "json parse error: invalid character '{' exceeded max depth ({\"a\":{\"a\":{\"a\":{\"a\":{\"a\":{\"a\": ...)",
        ),
        post(
            "deep lists",
            JSON,
            nested("[", "]", DEEP),
            400,
            "json parse error: invalid character '[' exceeded max depth (5b5b5b5b5b",
        ),
        post("deep, never closed", JSON, "[".repeat(DEEP), 400, "invalid character '[' exceeded max depth"),
        post(
            "deep in an unknown field",
            JSON,
            map("a", &format!(",\"zz\":{}", nested("[", "]", DEEP))),
            400,
            "couldn't get version/kind; json parse error: invalid character '[' exceeded max depth",
        ),
        post(
            "less deep in an unknown field",
            JSON,
            map("unknown", &format!(",\"zz\":{}", nested("[", "]", 9_000))),
            201,
            "",
        ),
        post(
            "many names in the worst order",
            JSON,
            many_names(),
            422,
            "metadata.annotations: Too long: may not be more than 262144 bytes",
        ),
    ]
}

/// A body near the size limit, in which each name sorts before all previous ones and most share a prefix.
fn many_names() -> String {
    let names: Vec<String> = (0..200_000).rev().map(|number| format!(r#""n{number:06}":"""#)).collect();
    format!(
        r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"many","annotations":{{{}}}}}}}"#,
        names.join(",")
    )
}

fn yaml_bodies() -> Vec<Case> {
    vec![
        post(
            "deep YAML lists",
            YAML,
            nested("[", "]", DEEP),
            400,
            "(must be of type ConfigMap): yaml: exceeded max depth of 10000 (5b5b",
        ),
        post("deep YAML maps", YAML, nested("{a: ", "}", DEEP), 400, "yaml: exceeded max depth of 10000"),
        post("YAML alias bomb", YAML, alias_bomb(), 400, "yaml: document contains excessive aliasing"),
        post(
            "YAML aliases",
            YAML,
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: alias}\ndata: {a: &a x, b: *a}\n",
            201,
            "",
        ),
        post(
            "two YAML documents",
            YAML,
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: first}\n---\nkind: Pod\n",
            201,
            "",
        ),
        post("NUL in YAML", YAML, "apiVersion: v1\nkind: ConfigMap\0", 400, "yaml: control characters are not allowed"),
        post(
            "invalid UTF-8 in YAML",
            YAML,
            b"apiVersion: v1\ndata: {a: \"\xff\xfe\"}\n",
            400,
            "yaml: invalid leading UTF-8 octet",
        ),
    ]
}

fn odd_bodies() -> Vec<Case> {
    vec![
        post(
            "invalid UTF-8 in a name",
            JSON,
            b"{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"\xff\"}}",
            422,
            "metadata.name: Invalid value: \"\u{fffd}\"",
        ),
        post(
            "NUL in a string",
            JSON,
            map("a\0b", ""),
            400,
            "json parse error: invalid character '\\x00' in string literal",
        ),
        post("NUL in a name", JSON, map("a\\u0000b", ""), 422, "metadata.name: Invalid value: \"a\\x00b\""),
        post("only NUL", JSON, vec![0; 100], 400, "invalid character '\\x00' looking for beginning of value"),
        post("two objects", JSON, map("a", "") + &map("b", ""), 400, "invalid character '{' after top-level value"),
        post(
            "a number that is none",
            JSON,
            map("a", ",\"immutable\":1e400"),
            400,
            "json: cannot unmarshal number into Go struct field ConfigMap.immutable of type bool",
        ),
        post("content type of nothing", ";;;", map("a", ""), 415, "the body of the request was in an unknown format"),
        post(
            "broken protobuf",
            "application/vnd.kubernetes.protobuf",
            b"k8s\0\xff\xff\xff",
            400,
            "(must be of type ConfigMap): unexpected EOF (6b387300ffffff)",
        ),
        post("no protobuf", "application/vnd.kubernetes.protobuf", "junk", 400, "expected prefix [107 56 115 0]"),
        post("just too large", JSON, vec![b' '; (3 << 20) + 1], 413, "Request entity too large: limit is 3145728"),
        post("just not too large", JSON, vec![b' '; 3 << 20], 400, "unexpected end of JSON input"),
        Case {
            what: "too large for etcd",
            method: "POST",
            path: "/api/v1/namespaces/default/pods",
            content_type: JSON,
            body: format!(
                r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"large"}},"spec":{{"containers":[{{"name":"a","image":"b","args":["{}"]}}]}}}}"#,
                "x".repeat(2_000_000)
            )
            .into_bytes(),
            status: 500,
            message: "etcdserver: request is too large",
        },
    ]
}

fn patches() -> Vec<Case> {
    vec![
        patch(
            "JSON patch that doubles",
            JSON_PATCH,
            copy_bomb(),
            422,
            "the server rejected our request due to an error in our request",
        ),
        // Upstream's decoder accepts 10 000 levels; 512 are enough here.
        patch(
            "JSON patch that nests",
            JSON_PATCH,
            move_chain(4000),
            422,
            "the server rejected our request due to an error in our request",
        ),
        patch("JSON patch that nests less", JSON_PATCH, move_chain(500), 200, ""),
        patch(
            "JSON patch of many operations",
            JSON_PATCH,
            format!("[{}]", vec![r#"{"op":"test","path":"/kind","value":"ConfigMap"}"#; 10_001].join(",")),
            413,
            "Request entity too large: The allowed maximum operations in a JSON patch is 10000, got 10001",
        ),
        patch(
            "deep JSON patch",
            JSON_PATCH,
            format!(r#"[{{"op":"add","path":"/data","value":{}}}]"#, nested("[", "]", DEEP)),
            400,
            "error decoding patch: invalid character '[' exceeded max depth",
        ),
        patch(
            "deep merge patch",
            MERGE,
            nested("{\"a\":", "}", DEEP),
            400,
            "error decoding patch: invalid character '{' exceeded max depth",
        ),
        patch(
            "deep strategic patch",
            STRATEGIC,
            nested("{\"a\":", "}", DEEP),
            400,
            "invalid character '{' exceeded max depth",
        ),
        patch(
            "deep apply",
            APPLY,
            nested("{\"a\":", "}", DEEP),
            400,
            "error decoding YAML: error converting YAML to JSON: yaml: exceeded max depth of 10000",
        ),
        patch(
            "apply of an alias bomb",
            APPLY,
            alias_bomb(),
            400,
            "error decoding YAML: error converting YAML to JSON: yaml: document contains excessive aliasing",
        ),
        patch(
            "NUL in a merge patch",
            MERGE,
            "{\"data\":{\"a\":\"\0\"}}",
            400,
            "error decoding patch: invalid character '\\x00' in string literal",
        ),
    ]
}

fn bodies() -> Vec<Case> {
    [json_bodies(), yaml_bodies(), odd_bodies(), patches()].into_iter().flatten().collect()
}

fn check(case: &Case, status: u16, answer: &Answer) {
    let start: String = answer.body.chars().take(600).collect();
    assert_eq!(status, case.status, "{}: {start}", case.what);
    if status >= 300 {
        assert!(answer.refusal().contains(case.message), "{}: {start}", case.what);
    }
}

#[test]
fn hostile_bodies_over_http1() {
    let mut server = Server::start(&["--http"]);
    server.ask("POST", MAPS, JSON, map("probe", ",\"data\":{\"a\":\"x\"}").as_bytes());
    for case in bodies() {
        let answer = server.ask(case.method, case.path, case.content_type, &case.body);
        check(&case, answer.status, &answer);
    }
    assert_eq!(server.get(MAP).json()["data"]["a"], "x");
    assert!(server.is_alive() && server.peak_mib() < MEMORY_MIB, "{} MiB", server.peak_mib());
}

#[test]
fn hostile_bodies_over_http2() {
    let mut server = Server::start(&["--http"]);
    server.ask("POST", MAPS, JSON, map("probe", "").as_bytes());
    for case in &bodies() {
        let mut connection = h2::begin(server.connect());
        connection.write_all(&h2::head(1, case.method, case.path, case.content_type, true)).expect("the server reads");
        let body = h2::exchange(&mut connection, 1, &case.body);
        let body = body.unwrap_or_else(|| panic!("{}: the stream broke", case.what));
        let code = serde_json::from_str::<serde_json::Value>(&body).expect("JSON")["code"]
            .as_u64()
            .unwrap_or(case.status.into());
        let code = u16::try_from(code).expect("a code");
        check(case, code, &Answer { status: code, head: String::new(), body });
    }
    assert!(server.is_alive() && server.peak_mib() < MEMORY_MIB, "{} MiB", server.peak_mib());
}

#[test]
fn a_hundred_megabytes_are_refused_and_not_kept() {
    let server = Server::start(&["--http"]);
    let before = server.peak_mib();
    let head = |framing: &str| {
        format!(
            "POST {MAPS} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {TOKEN}\r\ncontent-type: {JSON}\r\n{framing}\r\n\r\n"
        )
    };
    let piece = vec![b' '; 65_536];
    for chunked in [false, true] {
        let mut stream = server.connect();
        let framing = if chunked { "transfer-encoding: chunked" } else { "content-length: 104857600" };
        stream.write_all(head(framing).as_bytes()).expect("the server reads");
        for _ in 0..1600 {
            let sent = if chunked {
                stream
                    .write_all(b"10000\r\n")
                    .and_then(|()| stream.write_all(&piece))
                    .and_then(|()| stream.write_all(b"\r\n"))
            } else {
                stream.write_all(&piece)
            };
            if sent.is_err() {
                break;
            }
        }
        // The reply may be lost if the server closed while the client was still sending.
        let answer = read_all(stream);
        assert!(answer.status == 413 || answer.status == 0, "{answer:?}");
    }
    let mut stream = server.connect();
    stream.write_all(head("content-length: 104857600").as_bytes()).expect("the server reads");
    assert_eq!(read_all(stream).refusal(), "Request entity too large: limit is 3145728");
    assert!(server.peak_mib() < before + 64, "{} MiB, {before} before", server.peak_mib());
}

#[test]
fn what_is_recorded_does_not_pile_up() {
    let server = Server::start(&["--http"]);
    // 435 MB in all, and the transcript records every body. The allocator keeps some pages for each thread.
    let body = map("large", &format!(",\"data\":{{\"a\":\"{}\"}}", "x".repeat(2_900_000)));
    for _ in 0..150 {
        let answer = server.ask("POST", MAPS, JSON, body.as_bytes());
        assert!(answer.refusal().contains("may not be more than 1048576 bytes"), "{answer:?}");
    }
    assert!(server.peak_mib() < 400, "{} MiB", server.peak_mib());
}

#[test]
fn absurd_queries_and_paths() {
    let server = Server::start(&["--http"]);
    let long = format!("/api/v1/namespaces?labelSelector={}a", "a,".repeat(20_000));
    let cases: &[(&str, u16, &str)] = &[
        (
            "/api/v1/namespaces?limit=99999999999999999999",
            400,
            "strconv.ParseInt: parsing \"99999999999999999999\": value out of range",
        ),
        ("/api/v1/namespaces?limit=1.5", 400, "strconv.ParseInt: parsing \"1.5\": invalid syntax"),
        ("/api/v1/namespaces?limit=-1", 200, ""),
        ("/api/v1/namespaces?limit=9223372036854775807", 200, ""),
        ("/api/v1/namespaces?a=%zz&limit=abc", 400, "strconv.ParseInt: parsing \"abc\": invalid syntax"),
        ("/api/v1/namespaces?a;b&limit=1", 200, ""),
        ("/api/v1/namespaces?&&&===&%00=%00", 200, ""),
        ("/api/v1/namespaces?watch=1&timeoutSeconds=abc", 400, "strconv.ParseInt: parsing \"abc\": invalid syntax"),
        (
            "/api/v1/namespaces?watch=1&timeoutSeconds=99999999999999999999",
            400,
            "strconv.ParseInt: parsing \"99999999999999999999\": value out of range",
        ),
        ("/api/v1/namespaces?watch=1&timeoutSeconds=-5&resourceVersion=1", 200, ""),
        (
            "/api/v1/namespaces?resourceVersion=-1",
            400,
            "resourceVersion: Invalid value: \"-1\": strconv.ParseUint: parsing \"-1\": invalid syntax",
        ),
        (
            "/api/v1/namespaces?watch=1&resourceVersion=abc",
            500,
            "resourceVersion: Invalid value: \"abc\": strconv.ParseUint: parsing \"abc\": invalid syntax",
        ),
        (
            "/api/v1/namespaces?resourceVersion=9223372036854775807",
            504,
            "Timeout: Too large resource version: 9223372036854775807, current: ",
        ),
        ("/api/v1/namespaces?limit=1&continue=!!!", 400, "invalid continue token: "),
        (
            "/api/v1/namespaces?limit=1&continue=eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MSwic3RhcnQiOiIuLi8uLi9hIn0",
            400,
            "continue key is not valid: ../../a",
        ),
        ("/api/v1/namespaces?labelSelector=a%20in%20((((", 400, "unable to parse requirement"),
        (&long, 200, ""),
        ("/api/v1/namespaces?fieldSelector=a.b%3Dc", 400, "field label not supported: a.b"),
        ("/api/v1/namespaces/%00", 404, "namespaces \"\\x00\" not found"),
    ];
    for (path, status, message) in cases {
        let answer = server.get(path);
        assert_eq!(answer.status, *status, "{path}: {answer:?}");
        if !message.is_empty() {
            assert!(answer.refusal().contains(message), "{path}: {answer:?}");
        }
    }
    for (path, status, body) in
        [("/api/v1/namespaces/%zz", 400, "400 Bad Request"), ("//api/v1//namespaces", 404, "404 page not found\n")]
    {
        let answer = server.get(path);
        assert_eq!((answer.status, answer.body.as_str()), (status, body), "{path}");
    }
}

#[test]
fn requests_that_are_none() {
    let server = Server::start(&["--http"]);
    let auth = format!("authorization: Bearer {TOKEN}\r\nconnection: close\r\n");
    let get = |more: &str| format!("GET /api/v1/namespaces HTTP/1.1\r\nhost: x\r\n{auth}{more}\r\n");
    let many = |count: usize| (0..count).map(|index| format!("x-{index}: y\r\n")).collect::<Vec<_>>().concat();
    let cases = [
        ("garbage", "\u{1}\u{2}\u{3}\r\n\r\n".to_owned(), &[400][..]),
        ("another version", "GET / HTTP/9.9\r\n\r\n".to_owned(), &[400, 505]),
        ("300 headers", get(&many(300)), &[200]),
        ("5,000 headers", get(&many(5_000)), &[431]),
        ("100,000 headers", get(&many(100_000)), &[431, 0]),
        ("a large header", get(&format!("x: {}\r\n", "y".repeat(500_000))), &[200]),
        ("a larger header", get(&format!("x: {}\r\n", "y".repeat(1_200_000))), &[431]),
        ("an endless header", get(&format!("x: {}\r\n", "y".repeat(10_000_000))), &[431, 0]),
        // Upstream takes a long path as a name; hyper rejects longer paths itself.
        ("a long path", get("").replacen("namespaces", &"y".repeat(500_000), 1), &[414]),
        ("a space in a header's name", get("x y: z\r\n"), &[400]),
        ("a control character in a header", get("x: \u{1}\r\n"), &[400]),
        ("no host", format!("GET /api HTTP/1.1\r\n{auth}\r\n"), &[400]),
        ("two hosts", get("host: y\r\n"), &[400]),
        ("two lengths", get("content-length: 1\r\ncontent-length: 2\r\n"), &[400]),
        ("a negative length", get("content-length: -1\r\n"), &[400]),
        ("a huge length", get("content-length: 99999999999999999999\r\n"), &[400]),
        ("an unknown method", get("").replacen("GET", "FOO", 1), &[405]),
        ("an unknown expectation", get("expect: miracles\r\n"), &[417]),
        ("CONNECT", get("").replacen("GET", "CONNECT", 1), &[400, 405]),
        ("TLS", "\u{16}\u{3}\u{1}\u{2}\u{0}\u{1}\r\n\r\n".to_owned(), &[400]),
    ];
    for (what, request, expected) in cases {
        let answer = server.exchange(request.as_bytes());
        assert!(expected.contains(&answer.status), "{what}: {answer:?}");
    }
    assert_eq!(server.get("/api").status, 200);
}

#[test]
fn a_wrong_chunk_and_half_a_body() {
    let server = Server::start(&["--http"]);
    let head = format!(
        "POST {MAPS} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {TOKEN}\r\ncontent-type: {JSON}\r\nconnection: close\r\n"
    );
    let answer = server.exchange(format!("{head}transfer-encoding: chunked\r\n\r\nzz\r\n{{}}\r\n0\r\n\r\n").as_bytes());
    assert_eq!(answer.status, 500, "{answer:?}");
    let mut stream = server.connect();
    stream.write_all(format!("{head}content-length: 100\r\n\r\n{{").as_bytes()).expect("the server reads");
    stream.shutdown(Shutdown::Write).expect("half a connection");
    let answer = read_all(stream);
    assert!(answer.status == 500 || answer.status == 0, "{answer:?}");
    // A whole request on a half-closed connection: the server may reply or close.
    let mut stream = server.connect();
    stream.write_all(&request("GET", "/api", "", b"")).expect("the server reads");
    stream.shutdown(Shutdown::Write).expect("half a connection");
    let answer = read_all(stream);
    assert!(answer.status == 200 || answer.status == 0, "{answer:?}");
    assert_eq!(server.get("/api").status, 200);
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let server = Server::start(&["--http"]);
    let ask =
        |path: &str, end: &str| format!("GET {path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {TOKEN}\r\n{end}\r\n");
    let mut all: String = (0..500).map(|index| ask(&format!("/api/v1/nodes/n{index}"), "")).collect();
    all.push_str(&ask("/healthz", "connection: close\r\n"));
    let mut stream = server.connect();
    stream.write_all(all.as_bytes()).expect("the server reads");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("answers");
    let names: Vec<&str> = text.split("nodes \\\"").skip(1).filter_map(|rest| rest.split('\\').next()).collect();
    assert_eq!(names, (0..500).map(|index| format!("n{index}")).collect::<Vec<_>>());
    assert!(text.ends_with("ok"), "{text}");
}

#[test]
fn streams_that_are_reset_at_once() {
    let mut server = Server::start(&["--http"]);
    let mut connection = h2::begin(server.connect());
    let mut flood = Vec::new();
    for id in (1..100_000).step_by(2) {
        flood.extend(h2::head(id, "GET", "/api/v1/namespaces", "", false));
        flood.extend(h2::frame(h2::RST_STREAM, 0, id, &8_u32.to_be_bytes()));
    }
    // The server may close before it has read everything, which is its defence.
    let _ = connection.write_all(&flood);
    drop(connection);
    // Endless headers, and a flow-control window of zero.
    let mut connection = h2::begin(server.connect());
    let _ = connection.write_all(&h2::frame(h2::HEADERS, 0, 1, &h2::field("x", "y")));
    for _ in 0..100_000 {
        if connection.write_all(&h2::frame(h2::CONTINUATION, 0, 1, &h2::field("x", &"y".repeat(100)))).is_err() {
            break;
        }
    }
    let ended = std::iter::from_fn(|| h2::next(&mut connection)).any(|(kind, ..)| kind == h2::GOAWAY);
    assert!(ended || h2::next(&mut connection).is_none(), "endless headers end the connection");
    let mut connection = h2::begin(server.connect());
    let _ = connection.write_all(&h2::frame(h2::WINDOW_UPDATE, 0, 0, &0x7fff_ffff_u32.to_be_bytes()));
    assert!(
        std::iter::from_fn(|| h2::next(&mut connection)).any(|(kind, ..)| kind == h2::GOAWAY),
        "too large a window"
    );
    assert_eq!(server.get("/api").status, 200);
    assert!(server.is_alive() && server.peak_mib() < 250, "{} MiB", server.peak_mib());
}

#[test]
fn a_thousand_connections_that_say_nothing() {
    let server = Server::start(&[]);
    // As many connections as the system allows this process.
    let idle: Vec<TcpStream> = (0..1000).map_while(|_| TcpStream::connect(server.address).ok()).collect();
    assert!(idle.len() > 100, "only {} connections", idle.len());
    let answer = server.exchange(&request("GET", "/api", "", b""));
    assert_eq!(answer.head, "HTTP/1.0 400 Bad Request");
    assert_eq!(answer.body, "Client sent an HTTP request to an HTTPS server.\n");
    let garbage = server.exchange(&[0x16, 3, 1, 0xff, 0xff, 1, 2, 3]);
    assert_ne!(garbage.status, 200, "{garbage:?}");
    drop(idle);
}

/// Starts a server in this process with limits of its own, for limits whose defaults take long to reach.
async fn with(limits: Limits) -> (ApiServer, SocketAddr, CancellationToken, tokio::task::JoinHandle<()>) {
    let server = ApiServer::new(ApiServerConfig::new(Clock::wall()));
    let options = ListenOptions { plain: true, limits, token: Some(TOKEN.to_owned()), ..ListenOptions::loopback() };
    let listening = listen(server.clone(), options).await.expect("a free port");
    let address = listening.address();
    let stop = CancellationToken::new();
    let task = tokio::spawn(listening.serve(stop.clone()));
    (server, address, stop, task)
}

fn client(address: SocketAddr, bytes: Vec<u8>) -> tokio::task::JoinHandle<Answer> {
    tokio::task::spawn_blocking(move || {
        let mut stream = TcpStream::connect(address).expect("a connection");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        let _ = stream.write_all(&bytes);
        read_all(stream)
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_clients_are_given_up() {
    let short = Duration::from_millis(300);
    let limits = Limits { head_time: short, body_time: short, ..Limits::default() };
    let (_server, address, stop, task) = with(limits).await;
    let head =
        format!("POST {MAPS} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {TOKEN}\r\ncontent-length: 100\r\n\r\n{{");
    let slow = [
        ("silence", Vec::new(), 0),
        ("half a head", b"GET /api HTTP/1.1\r\nhost".to_vec(), 0),
        ("half a body", head.into_bytes(), 408),
        ("half a preface", b"PRI * HTTP/2.0\r\n".to_vec(), 0),
    ];
    for (what, bytes, expected) in slow {
        let answer = client(address, bytes).await.expect("an end");
        assert_eq!(answer.status, expected, "{what}: {answer:?}");
    }
    let answer = client(address, request("GET", "/api", "", b"")).await.expect("an answer");
    assert_eq!(answer.status, 200);
    stop.cancel();
    task.await.expect("an end");
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_share_a_limit() {
    let limits = Limits { bodies_bytes: 1_000_000, body_time: Duration::from_secs(2), ..Limits::default() };
    let (_server, address, stop, task) = with(limits).await;
    let half = |length: usize| {
        let head = format!(
            "POST {MAPS} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {TOKEN}\r\ncontent-length: {}\r\n\r\n",
            length + 1
        );
        [head.into_bytes(), vec![b' '; length]].concat()
    };
    let first = client(address, half(900_000));
    let clock = Clock::wall();
    clock.sleep(Duration::from_millis(500)).await;
    let refused = client(address, half(200_000)).await.expect("an answer");
    assert_eq!((refused.status, refused.refusal().as_str()), (429, "Too many requests, please try again later."));
    let small = client(address, request("POST", MAPS, JSON, map("small", "").as_bytes())).await.expect("an answer");
    assert_eq!(small.status, 201);
    assert_eq!(first.await.expect("an answer").status, 408);
    // The memory that was held is free again.
    let again = client(address, request("POST", MAPS, JSON, &vec![b' '; 900_000])).await.expect("an answer");
    assert_eq!(again.status, 400);
    stop.cancel();
    task.await.expect("an end");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watcher_that_never_reads_is_closed() {
    let limits = Limits { write_time: Duration::from_millis(300), ..Limits::default() };
    let (server, address, stop, task) = with(limits).await;
    let mut deaf = TcpStream::connect(address).expect("a connection");
    deaf.write_all(&request("GET", &format!("{MAPS}?watch=1"), "", b"")).expect("the server reads");
    let clock = Clock::wall();
    let open = || server.faults().open_watches(None);
    while open() == 0 {
        assert!(clock.elapsed() < PATIENCE, "no watch opened");
        clock.sleep(Duration::from_millis(10)).await;
    }
    // More than the system's socket buffers hold.
    let large = map("x", &format!(",\"data\":{{\"a\":\"{}\"}}", "y".repeat(1_000_000)));
    for index in 0..24 {
        let body = large.replacen("\"x\"", &format!("\"m{index}\""), 1);
        assert_eq!(client(address, request("POST", MAPS, JSON, body.as_bytes())).await.expect("an answer").status, 201);
    }
    while open() > 0 {
        assert!(clock.elapsed() < PATIENCE, "the watch is still open");
        clock.sleep(Duration::from_millis(50)).await;
    }
    drop(deaf);
    stop.cancel();
    task.await.expect("an end");
}
