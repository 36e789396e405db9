//! `plumbline serve` on the command line: the line printed when ready, tokens, addresses, invalid files, shutdown.

use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use plumbline::time::Clock;
use rstest::rstest;
use serde_json::Value;

use crate::serving::{PATIENCE, Server, TOKEN, read_all, request};
use crate::support;

/// The reply of kube-apiserver 1.36 to an invalid token.
const UNAUTHORIZED: &str = r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"Unauthorized","reason":"Unauthorized","code":401}"#;

/// Runs a server that must fail to start; returns its exit code and its error output.
fn refused(flags: &[&str]) -> (Option<i32>, String) {
    let mut command = support::program();
    let mut child =
        command.arg("serve").args(flags).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("a start");
    let clock = Clock::wall();
    while child.try_wait().expect("a child").is_none() {
        if clock.elapsed() > PATIENCE {
            let _ = child.kill();
            panic!("serve {flags:?} runs");
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let output = child.wait_with_output().expect("output");
    assert!(output.stdout.is_empty(), "standard output is for the ready line");
    (output.status.code(), String::from_utf8(output.stderr).expect("UTF-8"))
}

fn file(name: &str, text: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::create_dir_all(path.parent().expect("a folder")).expect("a writable folder");
    std::fs::write(&path, text).expect("a writable folder");
    path
}

/// Each request has its event in the file before its reply has arrived, with the ID of the reply.
#[test]
fn requests_are_audited() {
    let log = file("audit.log", "");
    let server = Server::start(&["--http", "--audit-log-path", log.to_str().expect("UTF-8")]);
    let asked = b"GET /api/v1/nodes/n1 HTTP/1.1\r\nhost: x\r\nauthorization: bearer t0ken\r\nuser-agent: me/1\r\n\
        audit-id: 7\r\nconnection: close\r\n\r\n";
    assert_eq!(server.exchange(asked).status, 404);
    let text = std::fs::read_to_string(&log).expect("a log");
    let events = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let own: Vec<Value> = events.filter(|event| event["auditID"] == "7").collect();
    assert_eq!(own.len(), 1, "{text}");
    let fields = ["stage", "verb", "userAgent"].map(|field| own[0][field].as_str().unwrap_or_default());
    assert_eq!(fields, ["ResponseComplete", "get", "me/1"]);
    assert_eq!(own[0]["sourceIPs"], serde_json::json!(["127.0.0.1"]));
    assert_eq!(own[0]["responseStatus"]["reason"], "NotFound");
}

#[test]
fn an_audit_log_that_cannot_be_opened_is_named() {
    let (code, text) = refused(&["--audit-log-path", "/nowhere/audit.log"]);
    assert_eq!(code, Some(96), "{text}");
    assert!(text.contains("unable to open the audit log /nowhere/audit.log: No such file or directory"), "{text}");
}

#[test]
fn tokens_are_asked_for() {
    let server = Server::start(&["--http"]);
    let with = |header: &str| {
        let answer =
            server.exchange(format!("GET /api HTTP/1.1\r\nhost: x\r\n{header}connection: close\r\n\r\n").as_bytes());
        (answer.status, answer.body.trim_end().to_owned())
    };
    for header in ["authorization: Bearer wrong\r\n", "authorization: Bearer t0ke\r\n"] {
        assert_eq!(with(header), (401, UNAUTHORIZED.to_owned()), "{header:?}");
    }
    // As with kube-apiserver, these are no credentials at all.
    let anonymous = r#"forbidden: User \"system:anonymous\" cannot get path \"/api\""#;
    for header in ["", "authorization: Bearer \r\n", "authorization: Basic dDBrZW4=\r\n", "authorization: t0ken\r\n"] {
        let (status, body) = with(header);
        assert!(status == 403 && body.contains(anonymous), "{header:?}: {body}");
    }
    assert_eq!(with("authorization: bearer t0ken\r\n").0, 200);
    let open = server.exchange(b"GET /version HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    assert_eq!(open.json()["major"], "1");
}

/// The clock of a manual world is out of the listener's reach, its signatures are not.
#[rstest]
#[case::manual(&["--http", "--clock", "manual"])]
#[case::wall(&["--http"])]
fn forged_tokens_open_nothing(#[case] flags: &[&str]) {
    let server = Server::start(flags);
    let ask = |line: &str, token: &str, body: &str| {
        let length = body.len();
        let head = format!(
            "{line} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n"
        );
        server.exchange(format!("{head}{body}").as_bytes()).status
    };
    assert_eq!(ask("POST /plumbline/worlds", "t0ken", r#"{"name": "other", "clock": "manual"}"#), 201);
    for token in ["x.y", "e30.e30.e30", "."] {
        for path in
            ["/plumbline/state", "/plumbline/worlds", "/plumbline/worlds/other/plumbline/state", "/api/v1/secrets"]
        {
            assert_eq!(ask(&format!("GET {path}"), token, ""), 401, "{token} {path}");
        }
        let path = "GET /plumbline/worlds/other/api/v1/secrets";
        assert_eq!(ask(path, token, ""), 401, "{token} {path}");
    }
}

#[test]
fn anonymous_requests_have_the_rights_of_their_roles_alone() {
    let server = Server::start(&["--http"]);
    let ask = |path: &str, headers: &str| {
        server.exchange(format!("GET {path} HTTP/1.1\r\nhost: x\r\n{headers}connection: close\r\n\r\n").as_bytes())
    };
    let pods = ask("/api/v1/pods", "");
    let why = r#"pods is forbidden: User "system:anonymous" cannot list resource "pods" in API group "" at the cluster scope"#;
    assert_eq!((pods.status, pods.json()["message"].as_str().map(str::to_owned)), (403, Some(why.to_owned())));
    assert_eq!(ask("/api/v1/pods", "impersonate-user: x\r\nimpersonate-group: system:masters\r\n").status, 403);
    assert_eq!(ask("/livez", "").status, 200);
    assert_eq!(ask("/plumbline/transcript", "").status, 401);
    assert_eq!(ask("/plumbline/worlds", "").status, 401);
    let strict = Server::start(&["--http", "--anonymous-auth=false"]);
    for (path, status) in [("/api/v1/pods", 401), ("/api", 401), ("/livez", 200), ("/version", 200)] {
        let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
        assert_eq!(strict.exchange(request.as_bytes()).status, status, "{path}");
    }
}

#[rstest]
#[case::default(&[], "36", "v1.36.0")]
#[case::later(&["--kubernetes-version", "1.37"], "37", "v1.37.0")]
#[case::patch(&["--version", "v1.37.3+k3s1"], "37", "v1.37.3+k3s1")]
fn the_release_of_kubernetes_is_reported(#[case] flags: &[&str], #[case] minor: &str, #[case] git_version: &str) {
    let server = Server::start(&[&["--http"], flags].concat());
    let get = |path: &str| {
        let request =
            format!("GET {path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer t0ken\r\nconnection: close\r\n\r\n");
        server.exchange(request.as_bytes()).json()
    };
    let version = get("/version");
    assert_eq!((&version["minor"], &version["emulationMinor"]), (&minor.into(), &minor.into()));
    assert_eq!(version["gitVersion"], git_version);
    assert_eq!(get("/openapi/v3/apis/policy/v1")["info"]["version"], format!("1.{minor}"));
}

/// Tokens of service accounts authenticate their account until it is deleted. Roles determine its rights; the control
/// plane's own accounts may do everything: kube-controller-manager with `--use-service-account-credentials` needs them.
#[test]
fn tokens_of_service_accounts_let_in() {
    let server = Server::start(&["--http"]);
    let send = |method: &str, path: &str, token: &str, body: &str| {
        let length = body.len();
        let head = format!("{method} {path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token}\r\n");
        let rest =
            format!("content-type: application/json\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}");
        server.exchange(format!("{head}{rest}").as_bytes())
    };
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    let account = r#"{"apiVersion":"v1","kind":"ServiceAccount","metadata":{"name":"robot"}}"#;
    assert_eq!(send("POST", accounts, TOKEN, account).status, 201);
    let wanted = r#"{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest","spec":{}}"#;
    let given = send("POST", &format!("{accounts}/robot/token"), TOKEN, wanted).json();
    let token = given["status"]["token"].as_str().expect("a token").to_owned();
    assert_eq!(send("GET", "/api", &token, "").status, 200);
    let elsewhere = r#"{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest","spec":{"audiences":["vault"]}}"#;
    let given = send("POST", &format!("{accounts}/robot/token"), TOKEN, elsewhere).json();
    let of_vault = given["status"]["token"].as_str().expect("a token");
    assert_eq!(send("GET", "/api", of_vault, "").status, 401, "it is for another audience");
    let who = r#"{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}"#;
    let review = send("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", &token, who).json();
    let user = &review["status"]["userInfo"];
    assert_eq!(user["username"], "system:serviceaccount:default:robot");
    let groups =
        serde_json::json!(["system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated"]);
    assert_eq!(user["groups"], groups);
    let refused = send("GET", "/api/v1/nodes", &token, "");
    assert_eq!(refused.status, 403);
    let why = r#"nodes is forbidden: User "system:serviceaccount:default:robot" cannot list resource "nodes" in API group "" at the cluster scope"#;
    assert_eq!(refused.json()["message"], why);
    // Nor may it impersonate a user with more rights.
    let disguised = format!("{token}\r\nimpersonate-user: x\r\nimpersonate-group: system:masters");
    let refused = send("GET", "/api/v1/nodes", &disguised, "");
    assert_eq!(refused.status, 403);
    let why = r#"nodes is forbidden: User "system:serviceaccount:default:robot" cannot impersonate-on:user-info:list resource "nodes" in API group "" at the cluster scope"#;
    assert_eq!(refused.json()["message"], why);
    assert_eq!(send("GET", "/metrics", &token, "").status, 403);
    assert_eq!(send("POST", "/plumbline/worlds", TOKEN, r#"{"name": "other", "clock": "manual"}"#).status, 201);
    let control = [
        ("POST", "/plumbline/faults", r#"["POST pods/* 500"]"#),
        ("POST", "/plumbline/clock", r#"{"advance": "1s"}"#),
        ("GET", "/plumbline/state", ""),
        ("GET", "/plumbline/transcript?format=text", ""),
        ("GET", "/plumbline/transcript", ""),
        ("GET", "/plumbline/worlds", ""),
        ("DELETE", "/plumbline/worlds/other", ""),
    ];
    for (method, path, body) in control {
        let refused = send(method, path, &token, body);
        assert_eq!(refused.status, 403, "{path}");
        let verb = method.to_ascii_lowercase();
        let path = path.split('?').next().unwrap_or_default();
        let user = "system:serviceaccount:default:robot";
        let why = format!("forbidden: User \"{user}\" cannot {verb} path \"{path}\"");
        assert_eq!(refused.json()["message"], why);
    }
    assert_eq!(
        send("GET", "/plumbline/worlds/other/plumbline/clock", &token, "").status,
        401,
        "it has no such account"
    );
    let bindings = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
    let admin = r#"{"metadata":{"name":"a"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"cluster-admin"},"subjects":[{"kind":"ServiceAccount","name":"robot","namespace":"default"}]}"#;
    assert_eq!(send("POST", bindings, TOKEN, admin).status, 201);
    assert_eq!(send("GET", "/plumbline/worlds", &token, "").status, 200);
    assert_eq!(send("GET", "/plumbline/transcript?format=text", &token, "").status, 200);
    assert_eq!(send("DELETE", &format!("{bindings}/a"), TOKEN, "").status, 200);
    let role = r#"{"metadata":{"name":"r"},"rules":[{"apiGroups":[""],"resources":["pods"],"verbs":["list"]}]}"#;
    let binding = r#"{"metadata":{"name":"b"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"Role","name":"r"},"subjects":[{"kind":"ServiceAccount","name":"robot"}]}"#;
    let rbac = "/apis/rbac.authorization.k8s.io/v1/namespaces/default";
    assert_eq!(send("POST", &format!("{rbac}/roles"), TOKEN, role).status, 201);
    assert_eq!(send("POST", &format!("{rbac}/rolebindings"), TOKEN, binding).status, 201);
    assert_eq!(send("GET", "/api/v1/namespaces/default/pods", &token, "").status, 200);
    assert_eq!(send("DELETE", &format!("{accounts}/robot"), TOKEN, "").status, 200);
    assert_eq!(send("GET", "/api", &token, "").status, 401);
    let own = "/api/v1/namespaces/kube-system/serviceaccounts";
    assert_eq!(send("POST", own, TOKEN, account).status, 201);
    let given = send("POST", &format!("{own}/robot/token"), TOKEN, wanted).json();
    let token = given["status"]["token"].as_str().expect("a token").to_owned();
    assert_eq!(send("GET", "/api/v1/nodes", &token, "").status, 200);
    assert_eq!(send("GET", "/plumbline/worlds", &token, "").status, 403);
}

#[test]
fn a_server_says_one_line_and_ends_its_watches_cleanly() {
    let mut server = Server::start(&["--http"]);
    let kubeconfig = server.folder.join("kubeconfig");
    assert_eq!(server.ready, format!("ready http://{} kubeconfig={}\n", server.address, kubeconfig.display()));
    let mut watches: Vec<_> = (0..20).map(|_| server.connect()).collect();
    for watch in &mut watches {
        watch.write_all(&request("GET", "/api/v1/namespaces?watch=true", "", b"")).expect("the server reads");
        // The response head has arrived: the watch is open.
        let mut first = [0; 64];
        watch.read_exact(&mut first).expect("an answer");
    }
    assert_eq!(server.stop(), Some(0), "{}", server.log());
    for watch in watches {
        // The rest after the first 64 bytes of the head; `Answer` rejects a body whose last chunk is missing.
        let rest = read_all(watch);
        assert!(rest.head.contains("transfer-encoding: chunked"), "{rest:?}");
        let events: Vec<Value> =
            rest.body.lines().map(|line| serde_json::from_str(line).expect("a whole event")).collect();
        assert_eq!(events.len(), 4, "the four namespaces of every cluster");
    }
    let mut more = String::new();
    server.out.read_to_string(&mut more).expect("text");
    assert_eq!(more, "", "one line only");
}

#[test]
fn addresses_beyond_loopback_need_a_word() {
    let (code, said) = refused(&["--listen", "0.0.0.0:0"]);
    assert!(code == Some(96) || code == Some(2), "{code:?}: {said}");
    assert!(said.contains("0.0.0.0:0 can be reached by others: allow it explicitly or listen on loopback"), "{said}");
    let (_, said) = refused(&["--listen", "0.0.0.0:0", "--allow-remote", "--http"]);
    assert!(said.contains("plain HTTP is for loopback only, not for 0.0.0.0:0"), "{said}");
    let server = Server::start(&["--listen", "0.0.0.0:0", "--allow-remote"]);
    assert!(server.log().contains("every client with the token may do anything"), "{}", server.log());
    assert_eq!(refused(&["--listen", "nowhere"]).0, Some(2));
    assert!(refused(&["--token", "a b"]).1.contains("visible ASCII"));
}

#[test]
fn seeds_that_are_wrong_are_named() {
    let pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: [{name: a, image: b}]}\n";
    let cases = [
        ("syntax.yaml", format!("{pod}---\nkind: [Pod\n"), "syntax.yaml: ", "line "),
        ("kind.yaml", format!("{pod}---\napiVersion: v1\nkind: Pid\nmetadata: {{name: a}}\n"), "kind.yaml: document 2: ", "kind \"Pid\" in apiVersion \"v1\" is not served"),
        ("name.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {}\n".to_owned(), "name.yaml: document 1: ", "Pod without metadata.name"),
        ("type.yaml", pod.replace("image: b", "image: 7"), "type.yaml: document 1: Pod \"default/a\": ", "Container.spec.containers.image of type string"),
        ("field.yaml", pod.replace("containers:", "contaners:"), "field.yaml: document 1: Pod \"default/a\": ", "unknown field \"spec.contaners\""),
        ("item.json", r#"{"kind":"List","apiVersion":"v1","items":[{"apiVersion":"v1","kind":"Node","metadata":{"name":"n"}},7]}"#.to_owned(), "item.json: document 1: items[1]: ", "not an object"),
    ];
    for (name, text, place, why) in &cases {
        let path = file(&format!("bad-seeds/{name}"), text);
        let (code, said) = refused(&["--seed-from", &path.display().to_string()]);
        assert!(code != Some(0) && said.contains(place) && said.contains(why), "{name}: {code:?} {said}");
    }
    let (code, said) = refused(&["--seed-from", "/no/such/file.yaml"]);
    assert!(code != Some(0) && said.contains("unable to read /no/such/file.yaml"), "{said}");
    let good = file("good-seeds/pod.yaml", pod);
    let server = Server::start(&["--http", "--seed-from", &good.display().to_string()]);
    assert_eq!(server.get("/api/v1/namespaces/default/pods/a").json()["spec"]["containers"][0]["image"], "b");
}

#[test]
fn fault_rules_that_are_wrong_are_named() {
    let cases = [
        ("syntax", "- verdict: [", "line 1"),
        ("no list", "verdict: pass", "line 1"),
        ("field", "- { on: { verb: [get] }, verdict: pass }", "unknown field `verb`"),
        ("verdict", "- { verdict: pas }", "unknown variant `pas`"),
        ("nothing", "- { on: { verbs: [get] } }", "a fault has exactly one of `reply`"),
        ("words", "- POST podz/a 500", "rule 1 (POST podz/a 500): `podz` is not a resource (did you mean `pods`?)"),
        (
            "verb",
            "- { verdict: pass }\n- { name: x, on: { verbs: [gett] }, verdict: pass }",
            "rule 2 (x): on.verbs: \"gett\" is no verb",
        ),
        ("nth", "- { nth: 0, verdict: pass }", "rule 1 (without a name): nth: counts from 1"),
        ("count", "- { count: 0, verdict: gone }", "count: a rule that hits 0 requests"),
        ("percent", "- { percent: 150, verdict: gone }", "percent: 150 is more than 100"),
        ("code", "- { verdict: { reply: { code: 42 } } }", "verdict.reply.code: 42 is no status"),
    ];
    for (name, text, why) in cases {
        let path = file(&format!("bad-faults/{name}.yaml"), text).display().to_string();
        let (code, said) = refused(&["--faults", &path]);
        assert!(code != Some(0) && said.contains(&path) && said.contains(why), "{name}: {code:?} {said}");
    }
    let (code, said) = refused(&["--faults", "/no/such/file"]);
    assert!(code != Some(0) && said.contains("unable to read /no/such/file"), "{said}");
}

#[test]
fn latency_and_faults_reach_the_client() {
    let rules = "- { on: { resource: nodes }, verdict: { reply: { code: 429, retryAfter: 7 } } }\n";
    let rules = file("good-faults.yaml", rules).display().to_string();
    let server = Server::start(&["--http", "--latency", "300ms", "--faults", &rules]);
    let clock = Clock::wall();
    assert_eq!(server.get("/api/v1/pods").status, 200);
    assert!(clock.elapsed() >= Duration::from_millis(300), "{:?}", clock.elapsed());
    let refused_by_rule = server.get("/api/v1/nodes");
    assert_eq!(refused_by_rule.status, 429);
    assert!(refused_by_rule.head.contains("retry-after: 7"), "{}", refused_by_rule.head);
    for bad in ["5", "-5s", "soon"] {
        let (code, said) = refused(&[&format!("--latency={bad}")]);
        assert!(code == Some(2) && said.contains("--latency"), "{bad}: {said}");
    }
}

#[test]
fn what_is_not_there_is_404_and_the_log_says_what_is() {
    let server = Server::start(&["--http"]);
    for (path, status, logged) in [
        ("/nope", "404 page not found\n", "/api, /apis, /openapi"),
        ("/apis/no.such/v1/things", "404 page not found\n", "apps/v1"),
        ("/plumbline/nope", "404 page not found\n", "/plumbline/compact"),
        ("/api/v1/things", "the server could not find the requested resource", "configmaps, "),
        ("/apis/apps/v9/deployments", "the server could not find the requested resource", "policy/v1"),
    ] {
        let before = server.log().len();
        let answer = server.get(path);
        assert!(answer.status == 404 && answer.body.contains(status), "{path}: {answer:?}");
        let log = server.log();
        assert!(log[before..].contains(path) && log[before..].contains(logged), "{path}: {}", &log[before..]);
        assert_eq!(log[before..].lines().count(), 1, "{path}: {}", &log[before..]);
    }
}
