//! Failures of a cluster, of a sandbox in it, and of seeding.

use super::provision::EnvironmentError;

/// Failures of a cluster, or of a sandbox in it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClusterError {
    /// The environment failed: something is missing, does not start or cannot be stopped.
    #[error(transparent)]
    Environment(#[from] EnvironmentError),
    /// A signal arrived before the server was ready.
    #[error("received {0} before the server was ready")]
    Interrupted(&'static str),
    /// No runtime or client can be created for the server.
    #[error("{0}")]
    Client(String),
    /// The sandbox of a fixture cannot be created.
    #[error("{0}")]
    Sandbox(String),
    /// Objects of a fixture could not be deleted.
    #[error("{0}")]
    Leftovers(String),
}

/// Reasons why a fixture's objects could not be seeded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SeedError {
    /// The server rejects the object as invalid (422), so no client can create it: the fixture is skipped.
    #[error("{0}")]
    Refused(String),
    /// Any other failure.
    #[error("{0}")]
    Failed(String),
}
