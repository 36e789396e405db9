//! The containers of this run and of earlier ones, identified by labels.

#![expect(
    clippy::disallowed_types,
    reason = "bollard wants filters and gives labels as a HashMap; nothing depends on their order"
)]

use std::collections::HashMap;

use testcontainers::bollard::Docker;
use testcontainers::bollard::errors::Error;
use testcontainers::bollard::query_parameters::{ListContainersOptionsBuilder, RemoveContainerOptionsBuilder};
use testcontainers::core::client::docker_client_instance;

use super::environment_error::{EnvironmentError, FailureKind};
use super::owner::ProcessOwner;

/// Label that names the owner of a container.
pub(super) const OWNER: &str = "plumbline.owner";
/// Label that is unique to each server.
pub(super) const RUN: &str = "plumbline.run";

/// Advice when Docker is unavailable.
const NO_DOCKER: &str =
    "start Docker and check it with `docker info`, or set DOCKER_HOST to a running one; --cluster fake needs no Docker";

/// Returns a Docker client after a successful ping.
pub(super) async fn docker() -> Result<Docker, EnvironmentError> {
    let silent = |error: &dyn std::fmt::Display| {
        EnvironmentError::new(FailureKind::Unreachable, format!("Docker is not available: {error}"), NO_DOCKER)
    };
    let docker = docker_client_instance().await.map_err(|error| silent(&error))?;
    docker.ping().await.map_err(|error| silent(&error))?;
    Ok(docker)
}

/// Removes all containers with `label` (`name` or `name=value`), running or not. Returns how many there were.
pub(super) async fn remove(label: &str) -> Result<usize, EnvironmentError> {
    let docker = docker().await?;
    let found = list(&docker, label).await?;
    for (id, _) in &found {
        remove_one(&docker, id).await?;
    }
    Ok(found.len())
}

/// Removes containers of dead runs whose crash cleanup did not happen either.
pub(super) async fn remove_leftovers(docker: &Docker) -> Result<(), EnvironmentError> {
    for (id, labels) in list(docker, OWNER).await? {
        let owner = labels.get(OWNER).and_then(|owner| ProcessOwner::parse(owner));
        if owner.is_some_and(|owner| owner.is_dead()) {
            tracing::warn!(container = id, "removing a container left by a killed run");
            remove_one(docker, &id).await?;
        }
    }
    Ok(())
}

async fn list(docker: &Docker, label: &str) -> Result<Vec<(String, HashMap<String, String>)>, EnvironmentError> {
    let filters = HashMap::from([("label".to_owned(), vec![label.to_owned()])]);
    let options = ListContainersOptionsBuilder::new().all(true).filters(&filters).build();
    let found = docker.list_containers(Some(options)).await.map_err(|error| {
        EnvironmentError::new(FailureKind::Failed, format!("Docker failed to list containers: {error}"), NO_DOCKER)
    })?;
    let with_id = |container: testcontainers::bollard::models::ContainerSummary| {
        Some((container.id?, container.labels.unwrap_or_default()))
    };
    Ok(found.into_iter().filter_map(with_id).collect())
}

async fn remove_one(docker: &Docker, id: &str) -> Result<(), EnvironmentError> {
    let options = RemoveContainerOptionsBuilder::new().force(true).v(true).build();
    match docker.remove_container(id, Some(options)).await {
        // Already removed, or being removed by another process.
        Ok(()) | Err(Error::DockerResponseServerError { status_code: 404 | 409, .. }) => Ok(()),
        Err(error) => {
            let what = format!("unable to remove the container {id}: {error}");
            Err(EnvironmentError::new(
                FailureKind::Failed,
                what,
                format!("remove it with `docker rm --force --volumes {id}`"),
            ))
        }
    }
}
