//! Classes of API errors: the next step of a controller depends on the class, never on the message.

use std::time::Duration;

use kube::core::Status;

use super::clock::Elapsed;
use super::leadership::NotLeader;

/// An error of a request, classified by how to handle it.
#[derive(Debug, thiserror::Error)]
pub enum ApiError {
    /// 404: the object or subresource does not exist. Usually means that the work is done.
    #[error("{0}")]
    NotFound(Refusal),
    /// 409: a resourceVersion or UID precondition failed, or the object already exists. Read and decide again.
    #[error("{0}")]
    Conflict(Refusal),
    /// 429 after the maximum number of retries in the client.
    #[error("{refusal}")]
    TooManyRequests {
        /// The server's error.
        refusal: Refusal,
        /// The delay that the server requested, if any.
        after: Option<Duration>,
    },
    /// 500, 502, 503, 504 and the like: may succeed later.
    #[error("{0}")]
    Transient(Refusal),
    /// Any other 4xx (invalid, forbidden, …): the same request will fail until something else changes.
    #[error("{0}")]
    Fatal(Refusal),
    /// No usable response: connection refused or reset, truncated or undecodable body. Whether the server acted is
    /// unknown.
    #[error("no usable answer: {0}")]
    Transport(String),
    /// No response within the request timeout. Whether the server acted is unknown.
    #[error("no answer: {0}")]
    Timeout(#[from] Elapsed),
    /// This replica may not write now; the request was not sent.
    #[error("{0}")]
    NotLeader(#[from] NotLeader),
}

/// An error response of the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The HTTP status code.
    pub code: u16,
    /// `metav1.Status.reason`, e.g. `NotFound`; may be empty.
    pub reason: String,
    /// `metav1.Status.message`, which upstream's events and conditions quote.
    pub message: String,
    /// `details.causes[].reason`, e.g. `NamespaceTerminating`.
    pub causes: Vec<String>,
}

/// Formats the server's message alone, as Go's `err.Error()` does for a status error.
impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.message.is_empty() { write!(f, "HTTP status {}", self.code) } else { f.write_str(&self.message) }
    }
}

impl Refusal {
    fn new(status: &Status) -> Self {
        let details = status.details.as_ref();
        Self {
            code: status.code,
            reason: status.reason.clone(),
            message: status.message.clone(),
            causes: details.map(|d| d.causes.iter().map(|c| c.reason.clone()).collect()).unwrap_or_default(),
        }
    }
}

impl ApiError {
    /// Classifies a `metav1.Status` failure.
    pub fn from_status(status: &Status) -> Self {
        let refusal = Refusal::new(status);
        match status.code {
            404 => Self::NotFound(refusal),
            409 => Self::Conflict(refusal),
            429 => {
                let after = status.details.as_ref().map_or(0, |d| d.retry_after_seconds);
                let after = (after > 0).then(|| Duration::from_secs(u64::from(after)));
                Self::TooManyRequests { refusal, after }
            }
            code if code >= 500 => Self::Transient(refusal),
            _ => Self::Fatal(refusal),
        }
    }

    /// Creates a conflict detected by this client: the live object is not the one that the decision was based on.
    pub fn stale(message: impl Into<String>) -> Self {
        Self::Conflict(Refusal { code: 409, reason: "Conflict".into(), message: message.into(), causes: Vec::new() })
    }

    /// Returns true if the object does not exist.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::NotFound(_))
    }

    /// Returns true if a precondition failed.
    pub fn is_conflict(&self) -> bool {
        matches!(self, Self::Conflict(_))
    }

    /// Returns true if the same request may succeed later without a change of the object or of permissions.
    pub fn is_retryable(&self) -> bool {
        !matches!(self, Self::NotFound(_) | Self::Conflict(_) | Self::Fatal(_))
    }

    /// Returns the server's error; `None` if no response was received.
    pub fn refusal(&self) -> Option<&Refusal> {
        match self {
            Self::NotFound(r) | Self::Conflict(r) | Self::Transient(r) | Self::Fatal(r) => Some(r),
            Self::TooManyRequests { refusal, .. } => Some(refusal),
            Self::Transport(_) | Self::Timeout(_) | Self::NotLeader(_) => None,
        }
    }

    /// Returns a short name of the class for logs and metrics.
    pub fn class(&self) -> &'static str {
        match self {
            Self::NotFound(_) => "not-found",
            Self::Conflict(_) => "conflict",
            Self::TooManyRequests { .. } => "too-many-requests",
            Self::Transient(_) => "transient",
            Self::Fatal(_) => "refused",
            Self::Transport(_) => "transport",
            Self::Timeout(_) => "timeout",
            Self::NotLeader(_) => "not-leader",
        }
    }
}

impl From<kube::Error> for ApiError {
    fn from(error: kube::Error) -> Self {
        match error {
            kube::Error::Api(status) => Self::from_status(&status),
            kube::Error::Service(error) => match error.downcast::<Elapsed>() {
                Ok(elapsed) => Self::Timeout(*elapsed),
                Err(error) => match error.downcast::<NotLeader>() {
                    Ok(not_leader) => Self::NotLeader(*not_leader),
                    Err(error) => Self::Transport(chain(error.as_ref())),
                },
            },
            other => Self::Transport(chain(&other)),
        }
    }
}

/// Formats an error with its causes in one line.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.ends_with(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    text
}
