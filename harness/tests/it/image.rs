//! The image of the controllers, made from nothing but the program: built by the local Docker Engine and run as the
//! deployment runs it, with a service account, against `plumbline serve`.
//!
//! Needs Docker and, in `PLUMBLINE_IMAGE_BINARY`, a static build of `plumbline-controllers` (`.ci/run` makes one). Without
//! them it skips and says so.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::serving::{Server, TOKEN};
use base64::Engine as _;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use plumbline::time::{Clock, run_wall};
use serde_json::json;

/// Longest wait for something to happen.
const PATIENCE: Duration = Duration::from_mins(1);

/// Runs `docker …` and returns what it prints.
fn docker(words: &[&str]) -> String {
    let output = Command::new("docker").args(words).stdin(Stdio::null()).output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "docker {words:?}: {out}{err}");
    // The program logs to standard error, and so does `docker logs`.
    format!("{out}{err}").trim().to_owned()
}

/// Why the test cannot run here, or the static program.
fn binary() -> Result<PathBuf, &'static str> {
    let answers = Command::new("docker").args(["version", "--format", "{{.Server.Version}}"]).output();
    if !answers.is_ok_and(|output| output.status.success()) {
        return Err("no Docker Engine answers");
    }
    let path = std::env::var_os("PLUMBLINE_IMAGE_BINARY").ok_or("PLUMBLINE_IMAGE_BINARY names no static build")?;
    Ok(PathBuf::from(path))
}

/// What was made in Docker; gone when dropped.
struct Made {
    image: String,
    container: String,
}

impl Drop for Made {
    fn drop(&mut self) {
        for words in [["rm", "--force", &self.container], ["rmi", "--force", &self.image]] {
            let _ = Command::new("docker").args(words).stdout(Stdio::null()).stderr(Stdio::null()).status();
        }
    }
}

fn build(image: &str, binary: &Path) {
    let context = tempfile::tempdir().unwrap();
    std::fs::copy(binary, context.path().join("plumbline-controllers")).unwrap();
    let dockerfile = Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("controllers").join("deploy/Dockerfile");
    let (dockerfile, folder) = (dockerfile.display().to_string(), context.path().display().to_string());
    docker(&["build", "--quiet", "--tag", image, "--file", &dockerfile, &folder]);
}

/// The folder that kubelets mount into pods.
fn service_account(server: &Server) -> tempfile::TempDir {
    let kubeconfig = Kubeconfig::read_from(server.kubeconfig()).unwrap();
    let cluster = kubeconfig.clusters[0].cluster.as_ref().unwrap();
    let authority = cluster.certificate_authority_data.as_ref().unwrap();
    let authority = base64::engine::general_purpose::STANDARD.decode(authority).unwrap();
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("ca.crt"), authority).unwrap();
    std::fs::write(folder.path().join("token"), TOKEN).unwrap();
    std::fs::write(folder.path().join("namespace"), "kube-system").unwrap();
    // Docker's user is another one than this test's.
    let everybody = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(folder.path(), everybody).unwrap();
    folder
}

fn run(made: &Made, server: &Server, account: &Path) {
    let (port, mount) = (
        format!("KUBERNETES_SERVICE_PORT={}", server.address.port()),
        format!("{}:/var/run/secrets/kubernetes.io/serviceaccount:ro", account.display()),
    );
    let harness = ["run", "--detach", "--network", "host", "--read-only", "--cap-drop", "ALL"];
    let security = ["--security-opt", "no-new-privileges", "--name", &made.container];
    let place = ["--env", "KUBERNETES_SERVICE_HOST=127.0.0.1", "--env", &port, "--volume", &mount, &made.image];
    let flags = ["--secure-port=0", "--logging-format=json"];
    docker(&[&harness[..], &security, &place, &flags].concat());
}

async fn client(server: &Server) -> kube::Client {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let kubeconfig = Kubeconfig::read_from(server.kubeconfig()).unwrap();
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    kube::Client::try_from(config).unwrap()
}

/// Waits until the leader has annotated the node; returns who leads.
async fn until_it_works(client: &kube::Client, made: &Made) -> String {
    let (nodes, leases) = (Api::<Node>::all(client.clone()), leases(client));
    let clock = Clock::wall();
    loop {
        let node = nodes.get("n1").await.unwrap();
        let ttl = node.metadata.annotations.unwrap_or_default().remove("node.alpha.kubernetes.io/ttl");
        if ttl.as_deref() == Some("0") {
            return holder(&leases).await;
        }
        assert!(clock.elapsed() < PATIENCE, "nothing happens: {}", docker(&["logs", &made.container]));
        clock.sleep(Duration::from_millis(100)).await;
    }
}

fn leases(client: &kube::Client) -> Api<Lease> {
    Api::namespaced(client.clone(), "kube-system")
}

async fn holder(leases: &Api<Lease>) -> String {
    let lease = leases.get("plumbline-controllers").await.unwrap();
    lease.spec.unwrap_or_default().holder_identity.unwrap_or_default()
}

#[test]
fn the_image_works_as_in_a_pod_and_stops_in_order() {
    let binary = match binary() {
        Ok(binary) => binary,
        Err(reason) => {
            crate::skips::skip("image", reason);
            return;
        }
    };
    let name = format!("plumbline-controllers-test-{}", std::process::id());
    let made = Made { image: format!("{name}:latest"), container: name };
    build(&made.image, &binary);
    let what = docker(&["image", "inspect", "--format", "{{.Config.User}} {{len .RootFS.Layers}}", &made.image]);
    assert_eq!(what, "65532:65532 1", "nobody's user, and one layer with one file");
    let version = docker(&["run", "--rm", &made.image, "--version"]);
    assert_eq!(version, concat!("plumbline-controllers ", env!("CARGO_PKG_VERSION")));

    let server = Server::start(&[]);
    let account = service_account(&server);
    run_wall(async {
        let client = client(&server).await;
        let node: Node = serde_json::from_value(json!({ "metadata": { "name": "n1" } })).unwrap();
        Api::<Node>::all(client.clone()).create(&PostParams::default(), &node).await.unwrap();
        run(&made, &server, account.path());
        assert_ne!(until_it_works(&client, &made).await, "", "somebody leads");
        docker(&["stop", "--time", "40", &made.container]);
        let code = docker(&["inspect", "--format", "{{.State.ExitCode}}", &made.container]);
        let logs = docker(&["logs", &made.container]);
        assert_eq!(code, "0", "{logs}");
        assert!(logs.contains("\"message\":\"released the lease\""), "{logs}");
        assert_eq!(holder(&leases(&client)).await, "", "and the next one need not wait");
    })
    .unwrap();
}
