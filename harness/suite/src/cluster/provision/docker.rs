//! Docker through its command line, and the containers of earlier runs, identified by a label.

use std::path::Path;
use std::process::Stdio;

use http::Uri;
use plumbline::time::Clock;
use tokio::process::Command;

use super::owner::ProcessOwner;
use super::{EnvironmentError, FailureKind, QUICK};

/// The program.
pub(super) const PROGRAM: &str = "docker";
/// Label that names the owner of a container.
pub(super) const OWNER: &str = "plumbline.owner";

/// Advice when Docker is unavailable.
const NO_DOCKER: &str = "start Docker and check it with `docker info`, which is used as well, or set DOCKER_HOST to a \
                         running one; --cluster fake needs no Docker";

/// Runs `docker` with these arguments and returns what it prints.
pub(super) async fn docker(words: &[&str]) -> Result<String, EnvironmentError> {
    let output = Command::new(PROGRAM).args(words).stdin(Stdio::null()).kill_on_drop(true).output();
    let why = match Clock::wall().timeout(QUICK, output).await {
        Some(Ok(output)) if output.status.success() => {
            return Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned());
        }
        Some(Ok(output)) => String::from_utf8_lossy(&output.stderr).trim().to_owned(),
        Some(Err(error)) => format!("unable to run it: {error}"),
        None => format!("it did not finish within {} s", QUICK.as_secs()),
    };
    let what = format!("`docker {}`: {why}", words.first().copied().unwrap_or_default());
    Err(EnvironmentError::new(FailureKind::Failed, what, NO_DOCKER))
}

/// Returns an error unless Docker responds.
pub(super) async fn check() -> Result<(), EnvironmentError> {
    let version = docker(&["version", "--format", "{{.Server.Version}}"]).await;
    version.map(drop).map_err(|error| EnvironmentError {
        kind: FailureKind::Unreachable,
        what: format!("Docker is not available: {}", error.what),
        ..error
    })
}

/// Returns the host at which Docker publishes the ports of containers.
pub(super) async fn host() -> String {
    let endpoint = docker(&["context", "inspect", "--format", "{{.Endpoints.docker.Host}}"]).await;
    if let Some(host) = endpoint.ok().and_then(|endpoint| host_of(&endpoint)) {
        return host;
    }
    // In a container that was given the machine's socket, they are at the machine's side of the bridge.
    let gateway = if Path::new("/.dockerenv").exists() {
        docker(&["network", "inspect", "--format", "{{range .IPAM.Config}}{{.Gateway}} {{end}}", "bridge"]).await.ok()
    } else {
        None
    };
    let gateway = gateway.and_then(|text| text.split_whitespace().next().map(str::to_owned));
    gateway.unwrap_or_else(|| "localhost".to_owned())
}

/// Returns the host of an endpoint such as `tcp://build.example:2376`; `None` for a socket of this machine.
fn host_of(endpoint: &str) -> Option<String> {
    let endpoint: Uri = endpoint.parse().ok()?;
    endpoint.host().filter(|host| !host.is_empty()).map(str::to_owned)
}

/// Removes a container, running or not, if it exists.
pub(super) async fn remove(container: &str) -> Result<(), EnvironmentError> {
    let Err(error) = docker(&["rm", "--force", "--volumes", container]).await else { return Ok(()) };
    // Already removed, or being removed by another process.
    if error.what.contains("No such container") || error.what.contains("already in progress") {
        return Ok(());
    }
    let what = format!("unable to remove the container {container}: {}", error.what);
    let next = format!("remove it with `docker rm --force --volumes {container}`");
    Err(EnvironmentError::new(FailureKind::Failed, what, next))
}

/// Removes containers of dead runs whose crash cleanup did not happen either.
pub(super) async fn remove_leftovers() -> Result<(), EnvironmentError> {
    let filter = format!("label={OWNER}");
    let format = format!("{{{{.ID}}}} {{{{.Label \"{OWNER}\"}}}}");
    let found = docker(&["ps", "--all", "--no-trunc", "--filter", &filter, "--format", &format]).await?;
    for (container, owner) in found.lines().filter_map(|line| line.split_once(' ')) {
        if ProcessOwner::parse(owner).is_some_and(|owner| owner.is_dead()) {
            tracing::warn!(container, "removing a container left by a killed run");
            remove(container).await?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    #[rstest]
    #[case("unix:///var/run/docker.sock", None)]
    #[case("tcp://build.example:2376", Some("build.example"))]
    #[case("ssh://me@build.example", Some("build.example"))]
    #[case("tcp://[2001:db8::1]:2375", Some("[2001:db8::1]"))]
    #[case("", None)]
    fn the_host_of_an_endpoint(#[case] endpoint: &str, #[case] host: Option<&str>) {
        assert_eq!(super::host_of(endpoint).as_deref(), host);
    }
}
