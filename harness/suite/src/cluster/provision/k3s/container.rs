//! The container of k3s, through testcontainers.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use plumbline::time::Clock;
use serde_json::{Value, json};
use testcontainers::core::IntoContainerPort as _;
use testcontainers::core::logs::LogFrame;
use testcontainers::runners::AsyncRunner as _;
use testcontainers::{ContainerAsync, ContainerRequest, GenericImage, ImageExt as _, TestcontainersError};

use super::K3sOptions;
use crate::cluster::provision::built_in_controllers::{built_in, controllers_without};
use crate::cluster::provision::environment_error::{EVIDENCE_LINES, EnvironmentError, FailureKind};
use crate::cluster::provision::owner::ProcessOwner;
use crate::cluster::provision::private_files::{log_folder, random_token, temporary_folder, write_private};
use crate::cluster::provision::probe::PAUSE;
use crate::cluster::provision::server::{Bystanders, Server, ServerBackend};
use crate::cluster::provision::{containers, probe};
use crate::process::crash_cleanup::{CleanupGuard, CrashCleanup};

/// Port of the API server in the container.
const PORT: u16 = 6443;
/// Path of the kubeconfig that k3s writes.
const KUBECONFIG: &str = "/etc/rancher/k3s/k3s.yaml";
/// Controllers that k3s enables (`pkg/daemons/control/server.go`); its cloud controller manager runs the others.
const CONTROLLERS: &str = "*,tokencleaner,-service,-route,-cloud-node-lifecycle";
/// Add-ons of k3s that are not needed here.
const ADD_ONS: &str = "coredns,local-storage,metrics-server,servicelb,traefik";
/// Limit for the stored output of the container, in bytes.
const LOG_LIMIT: usize = 16 * 1024 * 1024;

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
}

/// Starts k3s in a container; its log goes to `logs`. First removes containers of killed runs.
///
/// # Errors
///
/// Returns an error if Docker or the image is unavailable, the port is taken, the container ends (with the end of its
/// log), or k3s is not ready in time.
pub(super) async fn start(options: &K3sOptions, logs: &Path) -> Result<Server, EnvironmentError> {
    let docker = containers::docker().await?;
    containers::remove_leftovers(&docker).await?;
    let logs = log_folder(logs)?;
    let folder = temporary_folder()?;
    let label = format!("{}={}", containers::RUN, random_token()?);
    let crash_cleanup = CrashCleanup {
        containers: Some(label.clone()),
        folder: Some(folder.path().to_owned()),
        ..CrashCleanup::default()
    }
    .start()?;

    let begun = request(options, &label, &logs.join("k3s.log"))?.start().await;
    let container = match begun {
        Ok(container) => container,
        Err(error) => {
            // Docker may have created the container without starting it. Report the first failure, not those of
            // removing.
            let _ = containers::remove(&label).await;
            crash_cleanup.cancel();
            return Err(not_begun(options, &error));
        }
    };
    let mut started =
        K3s { container: Some(container), label, folder: Some(folder), crash_cleanup: Some(crash_cleanup) };
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
            let error = error.with(started.log_tail().await);
            let _ = Box::new(started).stop().await;
            Err(error)
        }
    }
}

fn request(options: &K3sOptions, label: &str, log: &Path) -> Result<ContainerRequest<GenericImage>, EnvironmentError> {
    let file = std::fs::File::create(log).map_err(|error| {
        let what = format!("unable to write the log {}: {error}", log.display());
        EnvironmentError::new(FailureKind::Failed, what, "choose another folder with --logs")
    })?;
    let log = Mutex::new((file, LOG_LIMIT));
    let keep = move |frame: &LogFrame| {
        let (file, left) = &mut *log.lock();
        let bytes = frame.bytes();
        let kept = bytes.len().min(*left);
        *left -= kept;
        // A full disk must not stop the cluster that logs here.
        let _ = file.write_all(&bytes[..kept]);
    };
    let (name, value) = label.split_once('=').unwrap_or((label, ""));
    let request = GenericImage::new(&options.k3s_image, &options.k3s_tag)
        .with_exposed_port(PORT.tcp())
        .with_cmd(options.arguments())
        .with_label(name, value)
        .with_label(containers::OWNER, ProcessOwner::me().to_string())
        // The agent starts containers itself; see k3s' documentation, "Running K3s in Docker".
        .with_privileged(!options.k3s_unprivileged)
        .with_userns_mode("host")
        .with_startup_timeout(Duration::from_secs(options.k3s_ready_limit))
        .with_log_consumer(keep);
    Ok(match options.k3s_port {
        Some(port) => request.with_mapped_port(port, PORT.tcp()),
        None => request,
    })
}

/// Explains why the container was not started.
fn not_begun(options: &K3sOptions, error: &TestcontainersError) -> EnvironmentError {
    let image = options.image();
    let text = error.to_string();
    let missing = text.contains("failed to pull the image") || text.contains("No such image");
    if missing {
        let next = format!(
            "run `docker pull {image}` with a network, load it with `docker load`, or choose another image with \
             --k3s-image and --k3s-tag (PLUMBLINE_K3S_IMAGE, PLUMBLINE_K3S_TAG)"
        );
        return EnvironmentError::new(
            FailureKind::Missing,
            format!("the image {image} is not available: {text}"),
            next,
        );
    }
    let taken = text.contains("port is already allocated") || text.contains("address already in use");
    let next = if taken {
        "choose another port with --k3s-port, or omit it for a free one".to_owned()
    } else if text.contains("operation not permitted") {
        "allow Docker to start privileged containers, or use --k3s-unprivileged".to_owned()
    } else {
        format!("try it manually: `docker run --privileged {image} server`")
    };
    EnvironmentError::new(FailureKind::Failed, format!("the container of {image} does not start: {text}"), next)
}

/// The container and its resources.
#[derive(Debug)]
struct K3s {
    container: Option<ContainerAsync<GenericImage>>,
    label: String,
    folder: Option<tempfile::TempDir>,
    crash_cleanup: Option<CleanupGuard>,
}

impl K3s {
    /// Waits until the cluster is ready. Returns its version and the path of its kubeconfig.
    async fn ready(&mut self, options: &K3sOptions) -> Result<(String, PathBuf), EnvironmentError> {
        let limit = Duration::from_secs(options.k3s_ready_limit);
        let clock = Clock::wall();
        let text = self.kubeconfig_text(&clock, limit).await?;
        let Some((container, folder)) = self.container.as_ref().zip(self.folder.as_ref()) else {
            return Err(EnvironmentError::new(FailureKind::Failed, "the container is gone", "start again"));
        };
        let unknown = |error: TestcontainersError| {
            let what = format!("Docker did not report the address of the API server: {error}");
            EnvironmentError::new(FailureKind::Failed, what, "check it with `docker ps` and `docker port`")
        };
        let port = container.get_host_port_ipv4(PORT.tcp()).await.map_err(unknown)?;
        let host = container.get_host().await.map_err(unknown)?.to_string();
        let path = folder.path().join("kubeconfig");
        write_private(&path, &rewrite(&text, &host, port)?)?;
        let client = probe::client(&path).await?;
        let version = tokio::select! {
            ready = probe::ready("k3s", &client, limit.saturating_sub(clock.elapsed())) => ready?,
            error = self.end() => return Err(error),
        };
        Ok((version, path))
    }

    /// Waits for the kubeconfig that k3s writes.
    async fn kubeconfig_text(&self, clock: &Clock, limit: Duration) -> Result<String, EnvironmentError> {
        loop {
            if let Some(error) = self.ended_now().await {
                return Err(error);
            }
            if let Some(container) = &self.container
                && let Ok(bytes) = container.copy_file_from(KUBECONFIG, Vec::new()).await
                && !bytes.is_empty()
            {
                return String::from_utf8(bytes).map_err(|_| unusable("it is not valid UTF-8"));
            }
            if clock.elapsed() > limit {
                let what = format!("k3s has not written {KUBECONFIG} after {} s", limit.as_secs());
                let next = "check its log; a slow machine may need a longer --k3s-ready-limit";
                return Err(EnvironmentError::new(FailureKind::NotReady, what, next));
            }
            clock.sleep(PAUSE).await;
        }
    }

    /// Waits until the container ends.
    async fn end(&self) -> EnvironmentError {
        loop {
            if let Some(error) = self.ended_now().await {
                return error;
            }
            Clock::wall().sleep(PAUSE).await;
        }
    }

    async fn ended_now(&self) -> Option<EnvironmentError> {
        let container = self.container.as_ref()?;
        let what = match container.exit_code().await {
            Ok(None) => return None,
            Ok(Some(code)) => format!("the container of k3s exited with code {code}; the end of its log:"),
            Err(error) => format!("the container of k3s is gone: {error}"),
        };
        Some(EnvironmentError::new(FailureKind::Failed, what, "check the log of k3s and the arguments of --k3s-arg"))
    }

    async fn log_tail(&self) -> Vec<String> {
        let Some(container) = &self.container else { return Vec::new() };
        let mut bytes = container.stdout_to_vec().await.unwrap_or_default();
        bytes.extend(container.stderr_to_vec().await.unwrap_or_default());
        crate::process::last_lines(&bytes, EVIDENCE_LINES)
    }
}

impl ServerBackend for K3s {
    fn ended(&mut self) -> BoxFuture<'_, Option<String>> {
        async {
            let error = self.ended_now().await?;
            Some(error.with(self.log_tail().await).to_string())
        }
        .boxed()
    }

    fn stop(mut self: Box<Self>) -> BoxFuture<'static, Result<(), EnvironmentError>> {
        async move {
            let ended = self.ended_now().await;
            containers::remove(&self.label).await?;
            if let Some(crash_cleanup) = self.crash_cleanup.take() {
                crash_cleanup.cancel();
            }
            ended.map_or(Ok(()), Err)
        }
        .boxed()
    }
}

impl Drop for K3s {
    fn drop(&mut self) {
        // testcontainers would block on Docker here, and panic without a runtime. The crash cleanup removes the
        // container unless `stop` did.
        if let Some(container) = self.container.take() {
            std::mem::forget(container);
        }
    }
}

fn unusable(why: &str) -> EnvironmentError {
    let what = format!("the kubeconfig written by k3s is not usable: {why}");
    EnvironmentError::new(FailureKind::Failed, what, "check that the image is a rancher/k3s image")
}

/// Adapts the container's kubeconfig: the server is at `host` and `port`.
fn rewrite(text: &str, host: &str, port: u16) -> Result<String, EnvironmentError> {
    let mut config: Value =
        serde_saphyr::from_str(text).map_err(|error| unusable(&error.without_snippet().to_string()))?;
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
