//! k3s in a container, through Docker's command line: a small cluster with its own versions of the tested controllers
//! switched off.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use plumbline::time::Clock;
use serde_json::{Value, json};

use super::owner::ProcessOwner;
use super::{
    Bystanders, EVIDENCE_LINES, EnvironmentError, FailureKind, PAUSE, Server, ServerBackend, built_in,
    controllers_without, docker, log_folder, probe, random_token, temporary_folder, write_private,
};
use crate::process::crash_cleanup::{CleanupGuard, CrashCleanup};
use crate::process::{GuardedProcess, ProcessSpec};

/// Port of the API server in the container.
const PORT: u16 = 6443;
/// Path of the kubeconfig that k3s writes.
const KUBECONFIG: &str = "/etc/rancher/k3s/k3s.yaml";
/// Controllers that k3s enables (`pkg/daemons/control/server.go`); its cloud controller manager runs the others.
const CONTROLLERS: &str = "*,tokencleaner,-service,-route,-cloud-node-lifecycle";
/// Add-ons of k3s that are not needed here.
const ADD_ONS: &str = "coredns,local-storage,metrics-server,servicelb,traefik";
/// Time limit for the command line of Docker to end once its container is gone.
const GRACE: Duration = Duration::from_secs(5);

/// Options for k3s.
#[derive(Clone, Debug, clap::Args)]
#[group(id = "k3s_options")]
pub struct K3sOptions {
    /// With --cluster k3s: container image, without its tag
    #[arg(long, env = "PLUMBLINE_K3S_IMAGE", value_name = "IMAGE", default_value = "rancher/k3s")]
    pub k3s_image: String,

    /// With --cluster k3s: tag of the image
    #[arg(long, env = "PLUMBLINE_K3S_TAG", value_name = "TAG", default_value = "v1.36.1-k3s1")]
    pub k3s_tag: String,

    /// With --cluster k3s: keep the built-in versions of the controllers, to test them with --subject external
    #[arg(long)]
    pub k3s_built_in_controllers: bool,

    /// With --cluster k3s: run the control plane only, without the node, which needs a privileged container
    #[arg(long)]
    pub k3s_unprivileged: bool,

    /// With --cluster k3s: extra argument for `k3s server`, such as --kube-apiserver-arg=v=4; may be repeated
    #[arg(long, value_name = "ARGUMENT", allow_hyphen_values = true)]
    pub k3s_arg: Vec<String>,

    /// With --cluster k3s: local port for the API server [default: a free one]
    #[arg(long, value_name = "PORT")]
    pub k3s_port: Option<u16>,

    /// With --cluster k3s: time limit to become ready once the image is available, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 180)]
    pub k3s_ready_limit: u64,
}

impl K3sOptions {
    fn image(&self) -> String {
        format!("{}:{}", self.k3s_image, self.k3s_tag)
    }

    fn arguments(&self) -> Vec<String> {
        let mut arguments =
            vec!["server".to_owned(), format!("--disable={ADD_ONS}"), "--disable-network-policy".to_owned()];
        // They would bind pods that fixtures leave unbound, and remove nodes unknown to the cloud.
        arguments.extend(["--disable-scheduler", "--disable-cloud-controller"].map(str::to_owned));
        if !self.k3s_built_in_controllers {
            arguments.push(format!("--kube-controller-manager-arg=controllers={}", controllers_without(CONTROLLERS)));
        }
        if self.k3s_unprivileged {
            arguments.push("--disable-agent".to_owned());
        }
        arguments.extend(self.k3s_arg.iter().cloned());
        arguments
    }

    /// Returns the arguments of Docker that run the server as a container of this name.
    fn run_words(&self, container: &str) -> Vec<OsString> {
        let mut words = ["run", "--pull=never", "--name", container].map(str::to_owned).to_vec();
        words.push(format!("--label={}={}", docker::OWNER, ProcessOwner::me()));
        // The agent starts containers itself; see k3s' documentation, "Running K3s in Docker".
        words.push(format!("--privileged={}", !self.k3s_unprivileged));
        words.push("--userns=host".to_owned());
        words.push(self.k3s_port.map_or(format!("--publish={PORT}"), |port| format!("--publish={port}:{PORT}")));
        words.push(self.image());
        words.extend(self.arguments());
        words.into_iter().map(OsString::from).collect()
    }
}

/// Starts k3s in a container; its log goes to `logs`. First removes containers of killed runs.
///
/// # Errors
///
/// Returns an error if Docker or the image is unavailable, the port is taken, the container ends (with the end of its
/// log), or k3s is not ready in time.
pub async fn start(options: &K3sOptions, logs: &Path) -> Result<Server, EnvironmentError> {
    docker::check().await?;
    docker::remove_leftovers().await?;
    let logs = log_folder(logs)?;
    pull(&options.image(), &logs).await?;
    let folder = temporary_folder()?;
    let container = format!("plumbline-k3s-{}", random_token()?);
    let remove = [docker::PROGRAM, "rm", "--force", "--volumes", &container].map(OsString::from).to_vec();
    let crash_cleanup = CrashCleanup { run: remove, folder: Some(folder.path().to_owned()) }.start()?;
    let process = spawn(options.run_words(&container), &logs.join("k3s.log"))?;
    let mut started =
        K3s { process, container, image: options.image(), folder: Some(folder), crash_cleanup: Some(crash_cleanup) };
    match started.ready(options).await {
        Ok((version, kubeconfig)) => Ok(Server {
            name: "k3s",
            image: Some(options.image()),
            version,
            kubeconfig,
            log_folder: logs,
            allows_disruption: true,
            built_in: built_in(options.k3s_built_in_controllers),
            bystanders: Bystanders { scheduler: false, meddlers: options.k3s_built_in_controllers },
            started: Box::new(started),
        }),
        Err(error) => {
            // Report the first failure, not those of removing.
            let _ = Box::new(started).stop().await;
            Err(error)
        }
    }
}

/// Runs Docker under a guard.
fn spawn(words: Vec<OsString>, log: &Path) -> Result<GuardedProcess, EnvironmentError> {
    let argv = std::iter::once(docker::PROGRAM.into()).chain(words).collect();
    let spawned = ProcessSpec { argv, log: log.to_owned(), ..ProcessSpec::default() }.spawn();
    spawned.map_err(|error| {
        EnvironmentError::new(FailureKind::Failed, error.to_string(), "choose another folder with --logs")
    })
}

/// Downloads the image unless Docker has it.
async fn pull(image: &str, logs: &Path) -> Result<(), EnvironmentError> {
    if docker::docker(&["image", "inspect", "--format", "{{.Id}}", image]).await.is_ok() {
        return Ok(());
    }
    let mut process = spawn(["pull", image].map(OsString::from).to_vec(), &logs.join("k3s-pull.log"))?;
    let clock = Clock::wall();
    let end = loop {
        match process.ended() {
            Some(end) => break end,
            None => clock.sleep(PAUSE).await,
        }
    };
    if end.ends_with("exited with code 0") {
        return Ok(());
    }
    let why = process.log_tail(1).pop().unwrap_or(end);
    let next = format!(
        "run `docker pull {image}` with a network, load it with `docker load`, or choose another image with --k3s-image \
         and --k3s-tag (PLUMBLINE_K3S_IMAGE, PLUMBLINE_K3S_TAG)"
    );
    Err(EnvironmentError::new(FailureKind::Missing, format!("the image {image} is not available: {why}"), next))
}

/// Explains why Docker did not start the container.
fn not_begun(image: &str, why: &str) -> EnvironmentError {
    let taken = why.contains("port is already allocated") || why.contains("address already in use");
    let next = if taken {
        "choose another port with --k3s-port, or omit it for a free one".to_owned()
    } else if why.contains("operation not permitted") {
        "allow Docker to start privileged containers, or use --k3s-unprivileged".to_owned()
    } else {
        format!("try it manually: `docker run --privileged {image} server`")
    };
    EnvironmentError::new(FailureKind::Failed, format!("the container of {image} does not start: {why}"), next)
}

/// The container and its resources.
#[derive(Debug)]
struct K3s {
    /// `docker run`, which lasts as long as the container and copies its output.
    process: GuardedProcess,
    container: String,
    image: String,
    folder: Option<tempfile::TempDir>,
    crash_cleanup: Option<CleanupGuard>,
}

impl K3s {
    /// Waits until the cluster is ready. Returns its version and the path of its kubeconfig.
    async fn ready(&mut self, options: &K3sOptions) -> Result<(String, PathBuf), EnvironmentError> {
        let limit = Duration::from_secs(options.k3s_ready_limit);
        let clock = Clock::wall();
        let Some(folder) = self.folder.as_ref().map(|folder| folder.path().to_owned()) else {
            return Err(EnvironmentError::new(FailureKind::Failed, "the folder of k3s is gone", "start again"));
        };
        let text = self.kubeconfig_text(&folder.join("k3s.yaml"), limit).await?;
        let ports = docker::docker(&["port", &self.container, &format!("{PORT}/tcp")]).await?;
        let Some(port) = published(&ports) else {
            let what = format!("Docker did not report the port of the API server: {ports:?}");
            return Err(EnvironmentError::new(
                FailureKind::Failed,
                what,
                "check it with `docker ps` and `docker port`",
            ));
        };
        let path = folder.join("kubeconfig");
        write_private(&path, &rewrite(&text, &docker::host().await, port)?)?;
        let client = probe::client(&path).await?;
        let version = tokio::select! {
            ready = probe::ready("k3s", &client, limit.saturating_sub(clock.elapsed())) => ready?,
            error = self.end() => return Err(error),
        };
        Ok((version, path))
    }

    /// Waits for the kubeconfig that k3s writes, and copies it to a file.
    async fn kubeconfig_text(&mut self, to: &Path, limit: Duration) -> Result<String, EnvironmentError> {
        let clock = Clock::wall();
        let from = format!("{}:{KUBECONFIG}", self.container);
        loop {
            if let Some(error) = self.ended_now() {
                return Err(error);
            }
            let copied = docker::docker(&["cp", &from, &to.display().to_string()]).await;
            if copied.is_ok()
                && let Ok(bytes) = std::fs::read(to)
                && !bytes.is_empty()
            {
                return String::from_utf8(bytes).map_err(|_| unusable("it is not valid UTF-8"));
            }
            if clock.elapsed() > limit {
                let what = format!("k3s has not written {KUBECONFIG} after {} s", limit.as_secs());
                let next = "check its log; a slow machine may need a longer --k3s-ready-limit";
                return Err(EnvironmentError::new(FailureKind::NotReady, what, next).with(self.log_tail()));
            }
            clock.sleep(PAUSE).await;
        }
    }

    /// Waits until the container ends.
    async fn end(&mut self) -> EnvironmentError {
        loop {
            if let Some(error) = self.ended_now() {
                return error;
            }
            Clock::wall().sleep(PAUSE).await;
        }
    }

    fn ended_now(&mut self) -> Option<EnvironmentError> {
        let end = self.process.ended()?;
        // Docker's own failures, see "Exit status" of `docker run`.
        if end.ends_with("exited with code 125") {
            return Some(not_begun(&self.image, &self.log_tail().join(" ")));
        }
        let end = end.strip_prefix(docker::PROGRAM).unwrap_or(&end);
        let what = format!("the container of k3s{end}; the end of its log:");
        let next = "check the log of k3s and the arguments of --k3s-arg";
        Some(EnvironmentError::new(FailureKind::Failed, what, next).with(self.log_tail()))
    }

    fn log_tail(&self) -> Vec<String> {
        self.process.log_tail(EVIDENCE_LINES)
    }
}

impl ServerBackend for K3s {
    fn ended(&mut self) -> BoxFuture<'_, Option<String>> {
        let end = self.ended_now().map(|error| error.to_string());
        std::future::ready(end).boxed()
    }

    fn stop(mut self: Box<Self>) -> BoxFuture<'static, Result<(), EnvironmentError>> {
        async move {
            let ended = self.ended_now();
            docker::remove(&self.container).await?;
            // Its log is complete then. Its exit code says that the container was killed.
            let _ = self.process.terminate(GRACE).await;
            if let Some(crash_cleanup) = self.crash_cleanup.take() {
                crash_cleanup.cancel();
            }
            ended.map_or(Ok(()), Err)
        }
        .boxed()
    }
}

/// Returns the port in the output of `docker port`: a line for each address. Those of IPv6 are numbered separately.
fn published(ports: &str) -> Option<u16> {
    let line = ports.lines().find(|line| !line.starts_with('['))?;
    line.rsplit_once(':')?.1.trim().parse().ok()
}

fn unusable(why: &str) -> EnvironmentError {
    let what = format!("the kubeconfig written by k3s is not usable: {why}");
    EnvironmentError::new(FailureKind::Failed, what, "check that the image is a rancher/k3s image")
}

/// Adapts the container's kubeconfig: the server is at `host` and `port`.
fn rewrite(text: &str, host: &str, port: u16) -> Result<String, EnvironmentError> {
    let mut config: Value = serde_saphyr::from_str(text).map_err(|error| unusable(&error.to_string()))?;
    let clusters = config["clusters"].as_array_mut().filter(|clusters| !clusters.is_empty());
    let near = ["localhost", "127.0.0.1", "[::1]"].contains(&host);
    // Docker publishes ports on IPv4, but `localhost` may resolve to IPv6.
    let host = if near { "127.0.0.1" } else { host };
    for cluster in clusters.ok_or_else(|| unusable("it has no clusters"))? {
        let cluster = cluster["cluster"].as_object_mut().ok_or_else(|| unusable("a cluster has no settings"))?;
        cluster.insert("server".to_owned(), json!(format!("https://{host}:{port}")));
        if !near {
            // The certificate is valid for names inside the container.
            cluster.insert("tls-server-name".to_owned(), json!("localhost"));
        }
    }
    Ok(format!("{config:#}\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser as _;
    use rstest::rstest;

    #[derive(clap::Parser)]
    struct K3sFlags {
        #[command(flatten)]
        options: K3sOptions,
    }

    fn options(flags: &[&str]) -> K3sOptions {
        K3sFlags::parse_from([&["x"], flags].concat()).options
    }

    #[test]
    fn the_controllers_under_test_are_off_unless_they_are_wanted() {
        let usual = options(&["--k3s-arg", "--debug"]).arguments();
        assert_eq!(usual[0], "server");
        assert_eq!(usual.last().map(String::as_str), Some("--debug"));
        assert!(usual.iter().any(|argument| argument
            == "--kube-controller-manager-arg=controllers=*,tokencleaner,-service,-route,-cloud-node-lifecycle,\
                -disruption-controller,-pod-garbage-collector-controller,-taint-eviction-controller,-ttl-controller,\
                -cronjob-controller,-daemonset-controller,-deployment-controller,-garbage-collector-controller,-job-controller,\
                -node-lifecycle-controller,-replicaset-controller,-replicationcontroller-controller,-statefulset-controller"));
        let left_on = options(&["--k3s-built-in-controllers"]).arguments();
        assert!(!left_on.iter().any(|argument| argument.contains("controllers=")), "{left_on:?}");
        assert!(!usual.contains(&"--disable-agent".to_owned()));
        assert!(options(&["--k3s-unprivileged"]).arguments().contains(&"--disable-agent".to_owned()));
    }

    #[rstest]
    #[case("0.0.0.0:32768\n[::]:32769", Some(32768))]
    #[case("[::]:32769\n0.0.0.0:32768\n", Some(32768))]
    #[case("", None)]
    fn the_port_is_that_of_ipv4(#[case] ports: &str, #[case] port: Option<u16>) {
        assert_eq!(published(ports), port);
    }

    const WRITTEN: &str = "\
apiVersion: v1
clusters:
- cluster:
    certificate-authority-data: Q0E=
    server: https://127.0.0.1:6443
  name: default
users:
- name: default
  user: {client-certificate-data: Q0U=}
";

    #[rstest]
    #[case("localhost", "https://127.0.0.1:40001", Value::Null)]
    #[case("build.example", "https://build.example:40001", json!("localhost"))]
    fn the_server_is_where_docker_says(#[case] host: &str, #[case] server: &str, #[case] name: Value) {
        let config: Value = serde_json::from_str(&rewrite(WRITTEN, host, 40001).unwrap()).unwrap();
        let cluster = &config["clusters"][0]["cluster"];
        assert_eq!(cluster["server"], server);
        assert_eq!(cluster["tls-server-name"], name);
        assert_eq!(cluster["certificate-authority-data"], "Q0E=");
        assert_eq!(config["users"][0]["user"]["client-certificate-data"], "Q0U=");
    }

    #[rstest]
    #[case("{")]
    #[case("{}")]
    #[case("clusters: []")]
    #[case("clusters: [{name: a}]")]
    fn a_kubeconfig_that_is_none_is_refused(#[case] text: &str) {
        assert_eq!(rewrite(text, "localhost", 1).unwrap_err().kind, FailureKind::Failed);
    }
}
