//! Failures of requests to a real API server, in the fixture's names.

use std::time::Duration;

use crate::cluster::error::SeedError;

/// Failures of the requests with which a fixture's objects are created, followed and deleted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum ServerError {
    /// The request could not be sent, or its response not be received. The text has all causes.
    #[error("{0}")]
    Connection(String),
    /// A path is no URI.
    #[error("{path:?} is not a valid path: {why}")]
    Path {
        /// The path.
        path: String,
        /// The problem.
        why: String,
    },
    /// An event of a watch is not JSON.
    #[error("a watch event is not valid JSON: {0}")]
    Event(String),
    /// The server does not do what a request asks for. The text has its reason.
    #[error("{0}")]
    Refused(String),
    /// The server does not serve a resource.
    #[error("unable to list {0}: the server does not have them")]
    NotServed(String),
    /// The server does not list a resource.
    #[error("unable to list {resource}: {code} {message}")]
    NotListed {
        /// The resource.
        resource: String,
        /// HTTP status code.
        code: u16,
        /// The server's message, as JSON.
        message: String,
    },
    /// A definition does not come into force.
    #[error("{what} is not established after {} s", limit.as_secs())]
    NotEstablished {
        /// The definition.
        what: String,
        /// The time limit.
        limit: Duration,
    },
    /// Objects that were deleted are there.
    #[error("these come back or stay; delete them: {0}")]
    Leftovers(String),
    /// The server does not answer while objects are deleted.
    #[error(
        "the server did not respond within {} s; delete the namespaces {namespaces} and nodes with that suffix",
        limit.as_secs()
    )]
    Silent {
        /// The time limit.
        limit: Duration,
        /// The fixture's namespaces.
        namespaces: String,
    },
}

impl From<ServerError> for SeedError {
    fn from(error: ServerError) -> Self {
        Self::Failed(error.to_string())
    }
}
