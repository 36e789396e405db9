//! Clients of exec over raw sockets: the handshake and its refusals, and hostile clients, which end their own
//! connection only. Refusals are those of `golang.org/x/net/websocket`, which kube-apiserver and the kubelet use.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpStream};

use crate::serving::{Answer, Server, TOKEN};

const PODS: &str = "/api/v1/namespaces/default/pods";
const EXEC: &str = "/api/v1/namespaces/default/pods/p/exec?stdout=1&stdin=1&command=";
/// Memory limit for the server in the worst of these tests; a debug build takes about 120 MiB.
const MEMORY_MIB: u64 = 500;
/// More connections than the server keeps open into pods.
const MANY: usize = 510;
const TEXT: u8 = 1;
const BINARY: u8 = 2;
const CLOSE: u8 = 8;
const PING: u8 = 9;
const PONG: u8 = 10;

/// Starts a server with a pod whose commands an annotation has.
fn server() -> Server {
    server_with(&[])
}

fn server_with(flags: &[&str]) -> Server {
    let server = Server::start(&[&["--http", "--disable-admission-plugins", "ServiceAccount"], flags].concat());
    let node = br#"{"apiVersion":"v1","kind":"Node","metadata":{"name":"n"}}"#;
    assert_eq!(server.ask("POST", "/api/v1/nodes", "application/json", node).status, 201);
    let pod = br#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","annotations":{
        "plumbline.dev/exec":"$ hello\nhi\n$ cat\n<<\n$ wait\n+1h\n$ flood\n<<"}},
        "spec":{"nodeName":"n","containers":[{"name":"c","image":"i"}]}}"#;
    assert_eq!(server.ask("POST", PODS, "application/json", pod).status, 201);
    server
}

/// A WebSocket request; `more` are further header lines.
fn upgrade(path: &str, more: &str) -> Vec<u8> {
    format!(
        "GET {path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {TOKEN}\r\nconnection: keep-alive, Upgrade\r\n\
         upgrade: WebSocket\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n{more}\r\n"
    )
    .into_bytes()
}

const V13: &str = "sec-websocket-version: 13\r\n";

/// Opens a connection to a command; returns the head of the reply, too.
fn open(server: &Server, command: &str, protocol: &str) -> (TcpStream, String) {
    let mut stream = server.connect();
    let more = format!("{V13}sec-websocket-protocol: {protocol}\r\n");
    stream.write_all(&upgrade(&format!("{EXEC}{command}"), &more)).expect("a server");
    let head = head_of(&mut stream);
    (stream, head)
}

/// Reads the head of a reply, in lower case.
fn head_of(stream: &mut TcpStream) -> String {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).is_ok_and(|read| read == 1) {
        head.extend(byte);
    }
    String::from_utf8_lossy(&head).to_ascii_lowercase()
}

/// The first bit of a frame's kind: its last part; of its length: it has a mask.
const BIT: u8 = 0x80;

/// A frame of a client. Its mask changes nothing.
fn frame(kind: u8, data: &[u8]) -> Vec<u8> {
    let mut frame = vec![BIT | kind];
    match u16::try_from(data.len()) {
        Ok(length) if length < 126 => frame.push(BIT | u8::try_from(length).expect("less than 126")),
        Ok(length) => {
            frame.push(BIT + 126);
            frame.extend(length.to_be_bytes());
        }
        Err(_) => {
            frame.push(BIT + 127);
            frame.extend((data.len() as u64).to_be_bytes());
        }
    }
    frame.extend([0; 4]);
    frame.extend(data);
    frame
}

/// Reads the frames of a server until the connection ends, each with its kind. The server's last frame is answered.
fn frames(mut stream: TcpStream) -> Vec<(u8, Vec<u8>)> {
    let mut all = Vec::new();
    loop {
        let mut head = [0; 2];
        if stream.read_exact(&mut head).is_err() {
            return all;
        }
        let length = match head[1] {
            126 => {
                let mut length = [0; 2];
                stream.read_exact(&mut length).expect("a length");
                usize::from(u16::from_be_bytes(length))
            }
            short => usize::from(short),
        };
        let mut data = vec![0; length];
        stream.read_exact(&mut data).expect("a frame");
        let kind = head[0] & 0x0f;
        if kind == CLOSE {
            let _ = stream.write_all(&frame(CLOSE, &data));
            let _ = stream.shutdown(Shutdown::Write);
        }
        all.push((kind, data));
    }
}

/// Runs a command to its end; returns what it writes to stdout.
fn stdout(server: &Server, command: &str) -> String {
    let (stream, head) = open(server, command, "v5.channel.k8s.io");
    assert!(head.starts_with("http/1.1 101 switching protocols"), "{head}");
    let frames = frames(stream);
    let parts = frames.iter().filter(|(kind, data)| *kind == BINARY && data[0] == 1).map(|(_, data)| &data[1..]);
    String::from_utf8(parts.collect::<Vec<_>>().concat()).expect("text")
}

#[test]
fn a_command_ends_with_its_status() {
    let server = server();
    let (stream, head) = open(&server, "hello", "v6.channel.k8s.io, v5.channel.k8s.io");
    assert!(head.contains("sec-websocket-accept: s3pplmbitxaq9kygzzhzrbk+xoo=\r\n"), "{head}");
    assert!(head.contains("sec-websocket-protocol: v5.channel.k8s.io\r\n"), "{head}");
    let frames = frames(stream);
    let shown: Vec<(u8, String)> =
        frames.iter().map(|(kind, data)| (*kind, String::from_utf8_lossy(data).into_owned())).collect();
    assert_eq!(shown[0], (BINARY, "\u{1}".to_owned()));
    assert_eq!(shown[1], (BINARY, "\u{1}hi\n".to_owned()));
    let status: serde_json::Value = serde_json::from_slice(&frames[2].1[1..]).expect("a status");
    assert_eq!((frames[2].1[0], &status["status"]), (3, &"Success".into()));
    assert_eq!(frames[3], (CLOSE, 1000_u16.to_be_bytes().to_vec()));
}

#[test]
fn handshakes_are_refused_as_upstream_does() {
    let server = server();
    let path = format!("{EXEC}hello");
    let without_key = |request: Vec<u8>| {
        let text = String::from_utf8(request).expect("text");
        text.replace("sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n", "").into_bytes()
    };
    let cases = [
        ("an unknown protocol", upgrade(&path, &format!("{V13}sec-websocket-protocol: x\r\n")), 403, ""),
        ("no version", upgrade(&path, ""), 400, "missing or bad WebSocket Version"),
        ("no key", without_key(upgrade(&path, V13)), 400, "mismatch challenge/response"),
        (
            "no streams, version 4",
            upgrade(
                &path.replace("stdout=1&stdin=1&", ""),
                &format!("{V13}sec-websocket-protocol: v4.channel.k8s.io\r\n"),
            ),
            400,
            "you must specify at least 1 of stdin, stdout, stderr",
        ),
    ];
    for (what, request, status, body) in cases {
        let request = String::from_utf8(request).expect("text").replace("keep-alive, Upgrade", "Upgrade, close");
        let answer: Answer = server.exchange(request.as_bytes());
        assert_eq!((answer.status, answer.body.as_str()), (status, body), "{what}: {answer:?}");
    }
    let post = String::from_utf8(upgrade(&path, V13)).expect("text").replacen("GET", "POST", 1);
    let post = post.replace("keep-alive, Upgrade", "Upgrade, close").replace("host: x", "host: x\r\ncontent-length: 0");
    let answer = server.exchange(post.as_bytes());
    assert_eq!((answer.status, answer.body.as_str()), (405, "bad method"), "{answer:?}");
}

/// A browser has no header for its token; it names it among the protocols. Each event of its watch is a message.
/// `protocol_test.go` of `pkg/authentication/request/websocket` and `watch_test.go` of `pkg/endpoints` in upstream's
/// apiserver.
#[test]
fn a_browser_watches() {
    let server = server();
    let path =
        "/api/v1/namespaces/default/pods?watch=1&resourceVersion=0&timeoutSeconds=1&fieldSelector=metadata.name=p";
    let request = |protocols: &str| {
        let head = format!("{V13}origin: http://localhost\r\nsec-websocket-protocol: {protocols}\r\n");
        let text = String::from_utf8(upgrade(path, &head)).expect("text");
        text.replace(&format!("authorization: Bearer {TOKEN}\r\n"), "")
    };
    // "t0ken"
    let token = "base64url.bearer.authorization.k8s.io.dDBrZW4";
    for (protocols, code) in [(token.to_owned(), 401), (format!("{token},{token},x"), 401), ("x".to_owned(), 403)] {
        let answer = server.exchange(request(&protocols).replace("keep-alive, Upgrade", "Upgrade, close").as_bytes());
        assert_eq!(answer.status, code, "{protocols}: {answer:?}");
    }
    let mut stream = server.connect();
    stream.write_all(request(&format!("base64.binary.k8s.io, {token}")).as_bytes()).expect("a server");
    let head = head_of(&mut stream);
    assert!(head.starts_with("http/1.1 101 switching protocols"), "{head}");
    assert!(head.contains("sec-websocket-protocol: base64.binary.k8s.io\r\n"), "{head}");
    // What a client sends is ignored.
    stream.write_all(&[frame(BINARY, b"abc"), frame(PING, b"p")].concat()).expect("a server");
    let frames = frames(stream);
    let (_, event) = frames.iter().find(|(kind, _)| *kind == TEXT).expect("an event");
    let event: serde_json::Value = serde_json::from_slice(event).expect("JSON");
    assert_eq!((&event["type"], &event["object"]["metadata"]["name"]), (&"ADDED".into(), &"p".into()));
    assert_eq!(frames.last().map(|(kind, _)| *kind), Some(CLOSE), "the watch ends after its time: {frames:?}");
}

#[test]
fn hostile_clients_end_their_own_connection() {
    let mut server = server();
    // A frame that is larger than allowed, by its head alone; and one without a mask.
    let mut huge = vec![BIT | BINARY, BIT + 127];
    huge.extend((1_u64 << 40).to_be_bytes());
    huge.extend([0; 4]);
    for (what, bytes, code) in [("huge", huge, Some(1009_u16)), ("without a mask", vec![0x82, 1, 0], None)] {
        let (mut stream, _) = open(&server, "cat", "v5.channel.k8s.io");
        stream.write_all(&bytes).expect("a server");
        let last = frames(stream).pop().expect("a frame");
        assert_eq!(code.map(|code| code.to_be_bytes().to_vec()), code.map(|_| last.1), "{what}");
    }
    // Unknown channels and empty messages mean nothing; pings are answered; a channel that does not exist cannot end.
    let (mut stream, _) = open(&server, "cat", "v5.channel.k8s.io");
    let sent = [
        frame(BINARY, b"\x09x"),
        frame(BINARY, b""),
        frame(PING, b"p"),
        frame(BINARY, b"\x00a"),
        frame(BINARY, b"\xff\x09"),
    ];
    stream.write_all(&sent.concat()).expect("a server");
    let got = frames(stream);
    assert!(got.contains(&(PONG, b"p".to_vec())) && got.contains(&(BINARY, b"\x01a".to_vec())), "{got:?}");
    assert_eq!(stdout(&server, "hello"), "hi\n");
    assert!(server.is_alive());
}

#[test]
fn connections_that_do_nothing_are_limited_and_end() {
    let mut server = server();
    let mut open_ones = Vec::new();
    let mut refused = 0;
    for _ in 0..MANY {
        let (stream, head) = open(&server, "wait", "v5.channel.k8s.io");
        if head.starts_with("http/1.1 101") {
            open_ones.push(stream);
        } else {
            assert!(head.starts_with("http/1.1 429"), "{head}");
            refused += 1;
        }
    }
    assert_eq!((open_ones.len(), refused), (500, MANY - 500));
    // Others are served, and the end of a connection makes room.
    assert_eq!(server.get("/api/v1/namespaces/default/pods/p").status, 200);
    drop(open_ones);
    let clock = plumbline::time::Clock::wall();
    while !open(&server, "hello", "v5.channel.k8s.io").1.starts_with("http/1.1 101") {
        assert!(clock.elapsed() < crate::serving::PATIENCE, "no room");
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    assert!(server.peak_mib() < MEMORY_MIB, "{} MiB", server.peak_mib());
    assert!(server.is_alive());
}

/// A policy for CONNECT refuses exec before anything is switched; the audit log has the code of each connection.
#[test]
fn connections_are_admitted_and_audited() {
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("audit.log");
    let server = server_with(&["--audit-log-path", log.to_str().expect("a path")]);
    assert_eq!(stdout(&server, "hello"), "hi\n");
    let admission = "/apis/admissionregistration.k8s.io/v1";
    let policy = br#"{"apiVersion":"admissionregistration.k8s.io/v1","kind":"ValidatingAdmissionPolicy",
        "metadata":{"name":"x"},"spec":{"matchConstraints":{"resourceRules":[{"apiGroups":[""],"apiVersions":["v1"],
        "resources":["pods/exec"],"operations":["CONNECT"]}]},"validations":[{"expression":"false","message":"no"}]}}"#;
    let binding = br#"{"apiVersion":"admissionregistration.k8s.io/v1","kind":"ValidatingAdmissionPolicyBinding",
        "metadata":{"name":"x"},"spec":{"policyName":"x","validationActions":["Deny"]}}"#;
    for (plural, object) in
        [("validatingadmissionpolicies", &policy[..]), ("validatingadmissionpolicybindings", &binding[..])]
    {
        let answer = server.ask("POST", &format!("{admission}/{plural}"), "application/json", object);
        assert_eq!(answer.status, 201, "{answer:?}");
    }
    let (_, head) = open(&server, "hello", "v5.channel.k8s.io");
    assert!(head.starts_with("http/1.1 422"), "{head}");
    let log = std::fs::read_to_string(log).expect("a log");
    let events = log.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).expect("an event"));
    let codes: Vec<_> = events
        .filter(|event| event["objectRef"]["subresource"] == "exec")
        .map(|event| event["responseStatus"]["code"].as_u64())
        .collect();
    assert_eq!(codes, [Some(101), Some(422)]);
}

/// Stdin that comes back and is not read stops this client only.
#[test]
fn clients_that_never_read_stall_themselves() {
    let mut server = server();
    let mut floods = Vec::new();
    for _ in 0..20 {
        let (mut stream, _) = open(&server, "flood", "v5.channel.k8s.io");
        stream.set_write_timeout(Some(std::time::Duration::from_millis(100))).expect("a timeout");
        let piece = frame(BINARY, &vec![0; 1 << 20]);
        while stream.write_all(&piece).is_ok() {}
        floods.push(stream);
    }
    assert_eq!(stdout(&server, "hello"), "hi\n");
    assert!(server.peak_mib() < MEMORY_MIB, "{} MiB", server.peak_mib());
    assert!(server.is_alive());
}
