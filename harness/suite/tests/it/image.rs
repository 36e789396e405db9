//! The images, which contain only the program, built by the local Docker Engine: that of the controllers is run as the
//! deployment runs it, with a service account, against `plumbline serve`; that of `plumbline` serves a cluster.
//!
//! Needs Docker. `PLUMBLINE_IMAGE_BINARY` names a statically linked `plumbline-controllers` (the nightly workflow
//! builds one), `PLUMBLINE_IMAGE_SERVER` a statically linked `plumbline`; without it the program of this build runs on
//! a base image with the shared libraries that it needs.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use base64::Engine as _;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use plumbline::time::{Clock, run_wall};
use serde_json::json;

use crate::serving::{Server, TOKEN};
use crate::source_files::repository;
use crate::support;

/// Largest image of the server, of which users wait for the download: 30 MB.
const IMAGE_MAX: u64 = 30_000_000;

/// Longest wait for an expected event.
const PATIENCE: Duration = Duration::from_mins(1);

/// Runs `docker …` and returns what it prints.
fn docker(words: &[&str]) -> String {
    let output = Command::new("docker").args(words).stdin(Stdio::null()).output().unwrap();
    let out = String::from_utf8_lossy(&output.stdout);
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "docker {words:?}: {out}{err}");
    // The program logs to standard error, and so does `docker logs`.
    format!("{out}{err}").trim().to_owned()
}

/// Returns true if a Docker Engine answers.
fn docker_answers() -> bool {
    let answers = Command::new("docker").args(["version", "--format", "{{.Server.Version}}"]).output();
    answers.is_ok_and(|output| output.status.success())
}

/// The shared libraries that `program` needs, by `ldd`.
fn libraries(program: &Path) -> Vec<PathBuf> {
    let output = Command::new("ldd").arg(program).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let paths = text.lines().filter_map(|line| line.split_whitespace().find(|word| word.starts_with('/')));
    let paths: Vec<PathBuf> = paths.map(PathBuf::from).collect();
    assert!(!paths.is_empty(), "ldd {}: {text}", program.display());
    paths
}

/// Containers and images created by the test; removed on drop.
struct DockerResources {
    image: String,
    container: String,
}

impl DockerResources {
    /// Names that no other test run of this engine uses: a process id repeats in containers and after a restart.
    fn named(prefix: &str) -> Self {
        let folder = tempfile::Builder::new().prefix("").rand_bytes(12).tempdir().unwrap();
        let unique = folder.path().file_name().unwrap().to_string_lossy().to_lowercase();
        let name = format!("{prefix}-{unique}");
        Self { image: format!("{name}:latest"), container: name }
    }
}

impl Drop for DockerResources {
    fn drop(&mut self) {
        for words in [["rm", "--force", &self.container], ["rmi", "--force", &self.image]] {
            let _ = Command::new("docker").args(words).stdout(Stdio::null()).stderr(Stdio::null()).status();
        }
    }
}

/// Builds the image of `program` with the Dockerfile that ships in `folder`. Shared libraries go into a layer below it.
fn build(image: &str, program: &str, folder: &str, binary: &Path, libraries: &[PathBuf]) {
    let context = tempfile::tempdir().unwrap();
    std::fs::copy(binary, context.path().join(program)).unwrap();
    let shipped = repository().join(folder).join("deploy/Dockerfile");
    let mut dockerfile = std::fs::read_to_string(shipped).unwrap();
    assert!(dockerfile.contains("FROM scratch\n"), "{dockerfile}");
    if !libraries.is_empty() {
        dockerfile = dockerfile.replace("FROM scratch\n", "FROM scratch\nCOPY libraries /\n");
        for library in libraries {
            let copy = context.path().join("libraries").join(library.strip_prefix("/").unwrap());
            std::fs::create_dir_all(copy.parent().unwrap()).unwrap();
            std::fs::copy(library, copy).unwrap();
        }
    }
    let file = context.path().join("Dockerfile");
    std::fs::write(&file, dockerfile).unwrap();
    let file = file.display().to_string();
    let folder = context.path().display().to_string();
    // Without the cache: the layers of the libraries are equal in each image, and another test that removes its image
    // removes a cached layer between two steps of this build ("unknown parent image ID").
    docker(&["build", "--no-cache", "--quiet", "--tag", image, "--file", &file, &folder]);
}

/// The service account folder that kubelets mount into pods.
fn service_account(server: &Server) -> tempfile::TempDir {
    let kubeconfig = Kubeconfig::read_from(server.kubeconfig()).unwrap();
    let cluster = kubeconfig.clusters[0].cluster.as_ref().unwrap();
    let authority = cluster.certificate_authority_data.as_ref().unwrap();
    let authority = base64::engine::general_purpose::STANDARD.decode(authority).unwrap();
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("ca.crt"), authority).unwrap();
    std::fs::write(folder.path().join("token"), TOKEN).unwrap();
    std::fs::write(folder.path().join("namespace"), "kube-system").unwrap();
    // The container's user differs from this test's.
    let everybody = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(folder.path(), everybody).unwrap();
    folder
}

fn run(made: &DockerResources, server: &Server, account: &Path) {
    let port = format!("KUBERNETES_SERVICE_PORT={}", server.address.port());
    let mount = format!("{}:/var/run/secrets/kubernetes.io/serviceaccount:ro", account.display());
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

/// Waits until the leader has annotated the node; returns the leader.
async fn until_it_works(client: &kube::Client, made: &DockerResources) -> String {
    let nodes = Api::<Node>::all(client.clone());
    let leases = leases(client);
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
    if !docker_answers() {
        crate::skips::skip("image", "no Docker Engine answers");
        return;
    }
    let (binary, libraries) = if let Some(path) = std::env::var_os("PLUMBLINE_IMAGE_BINARY") {
        (PathBuf::from(path), Vec::new())
    } else {
        let program = support::controllers();
        let libraries = libraries(&program);
        (program, libraries)
    };
    let made = DockerResources::named("plumbline-controllers-test");
    build(&made.image, "plumbline-controllers", "controllers", &binary, &libraries);
    let what = docker(&["image", "inspect", "--format", "{{.Config.User}} {{len .RootFS.Layers}}", &made.image]);
    let layers = if libraries.is_empty() { 1 } else { 2 };
    assert_eq!(what, format!("65532:65532 {layers}"), "an unprivileged user, and one layer with the program alone");
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

/// The tracer needs neither capabilities nor a profile of its own: Docker's default profile permits all that it does.
#[test]
fn programs_in_a_container_run_in_virtual_time() {
    if !docker_answers() {
        crate::skips::skip("image", "no Docker Engine answers");
        return;
    }
    let named = std::env::var_os("PLUMBLINE_IMAGE_SERVER").map(PathBuf::from);
    let program = named.clone().unwrap_or_else(|| PathBuf::from(support::PROGRAM));
    let sleep = PathBuf::from("/bin/sleep");
    let mut files = libraries(&sleep);
    if named.is_none() {
        files.extend(libraries(&program));
    }
    files.push(sleep);
    let made = DockerResources::named("plumbline-guest-test");
    build(&made.image, "plumbline", "harness", &program, &files);
    let sandbox = ["run", "--rm", "--network", "none", "--read-only", "--tmpfs", "/tmp", "--cap-drop", "ALL"];
    let security = ["--security-opt", "no-new-privileges", &made.image];
    let command = ["test", "--bare", "--real-limit", "1m", "--", "/bin/sleep", "3600"];
    let said = docker(&[&sandbox[..], &security, &command].concat());
    assert!(said.contains("plumbline: virtual time: 3600.000 s in "), "{said}");
}

#[test]
fn the_image_of_the_server_serves_a_cluster() {
    if !docker_answers() {
        crate::skips::skip("image", "no Docker Engine answers");
        return;
    }
    let (program, libraries) = if let Some(path) = std::env::var_os("PLUMBLINE_IMAGE_SERVER") {
        (PathBuf::from(path), Vec::new())
    } else {
        let program = PathBuf::from(support::PROGRAM);
        let libraries = libraries(&program);
        (program, libraries)
    };
    let made = DockerResources::named("plumbline-test");
    build(&made.image, "plumbline", "harness", &program, &libraries);
    if libraries.is_empty() {
        let size: u64 = docker(&["image", "inspect", "--format", "{{.Size}}", &made.image]).parse().unwrap();
        assert!(size < IMAGE_MAX, "the image has {size} bytes, more than {IMAGE_MAX}");
    }
    // The program carries the fixtures, and unpacks them where it may write.
    let suite = docker(&["run", "--rm", "--read-only", "--tmpfs", "/tmp", &made.image, "run", "ttl/grow-100*"]);
    assert!(suite.contains("1 passed of 1"), "{suite}");
    docker(&["run", "--detach", "--publish", "127.0.0.1::6443", "--read-only", "--name", &made.container, &made.image]);
    let clock = Clock::wall();
    let ready = loop {
        let logs = docker(&["logs", &made.container]);
        if let Some(line) = logs.lines().find(|line| line.starts_with("ready https://127.0.0.1:6443 token=")) {
            break line.to_owned();
        }
        assert!(clock.elapsed() < PATIENCE, "no ready line: {logs}");
        std::thread::sleep(Duration::from_millis(100));
    };
    let address = docker(&["port", &made.container, "6443/tcp"]);
    let mut config = kube::Config::new(format!("https://{address}").parse().unwrap());
    // The certificate authority is in the container's kubeconfig, which this test has not asked for.
    config.accept_invalid_certs = true;
    config.auth_info.token = Some(ready.rsplit('=').next().unwrap().to_owned().into());
    run_wall(async {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = kube::Client::try_from(config).unwrap();
        let node = Api::<Node>::all(client).get("node-1").await.unwrap();
        assert_eq!(node.metadata.name.as_deref(), Some("node-1"));
    })
    .unwrap();
    docker(&["stop", "--time", "20", &made.container]);
    let code = docker(&["inspect", "--format", "{{.State.ExitCode}}", &made.container]);
    assert_eq!(code, "0", "{}", docker(&["logs", &made.container]));
}
