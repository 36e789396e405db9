//! Classes of API errors: what a controller does next depends on the class, never on the text.

use std::time::Duration;

use kube::core::Status;

use super::clock::Elapsed;
use super::leadership::NotLeader;

/// Why a request did not do what was asked, by what to do about it.
#[derive(Debug, thiserror::Error)]
pub enum ApiError {
    /// 404: the object (or the subresource) is not there. Usually means that the work is done.
    #[error("{0}")]
    NotFound(Refusal),
    /// 409: a resourceVersion or UID precondition failed, or the object exists already. Read again, decide again.
    #[error("{0}")]
    Conflict(Refusal),
    /// 429 after the client has waited and tried as often as it may.
    #[error("{refusal}")]
    TooManyRequests {
        /// What the server said.
        refusal: Refusal,
        /// How long the server asked to wait, when it did.
        after: Option<Duration>,
    },
    /// 500, 502, 503, 504 and the like: may well work later.
    #[error("{0}")]
    Transient(Refusal),
    /// Any other 4xx: the request itself is refused (invalid, forbidden, …); the same request will be refused again
    /// until something else changes.
    #[error("{0}")]
    Fatal(Refusal),
    /// No usable answer: connection refused or reset, torn or undecodable body. Whether the server acted is unknown.
    #[error("no usable answer: {0}")]
    Transport(String),
    /// No answer within the request timeout. Whether the server acted is unknown.
    #[error("no answer: {0}")]
    Timeout(#[from] Elapsed),
    /// This replica may not write at the moment; the server was not asked.
    #[error("{0}")]
    NotLeader(#[from] NotLeader),
}

/// A refusal as the server worded it.
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

/// The server's message alone: what Go's `err.Error()` prints for a status error.
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
    /// The class of a `metav1.Status` failure.
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

    /// A conflict found on our side: the live object is not the one that was decided about.
    pub fn stale(message: impl Into<String>) -> Self {
        Self::Conflict(Refusal { code: 409, reason: "Conflict".into(), message: message.into(), causes: Vec::new() })
    }

    /// Whether the object is not there.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::NotFound(_))
    }

    /// Whether a precondition failed.
    pub fn is_conflict(&self) -> bool {
        matches!(self, Self::Conflict(_))
    }

    /// Whether the same request may succeed later without anybody changing anything.
    pub fn is_retryable(&self) -> bool {
        !matches!(self, Self::NotFound(_) | Self::Conflict(_) | Self::Fatal(_))
    }

    /// Whether the server said no itself (as against: no answer came).
    pub fn refusal(&self) -> Option<&Refusal> {
        match self {
            Self::NotFound(r) | Self::Conflict(r) | Self::Transient(r) | Self::Fatal(r) => Some(r),
            Self::TooManyRequests { refusal, .. } => Some(refusal),
            Self::Transport(_) | Self::Timeout(_) | Self::NotLeader(_) => None,
        }
    }

    /// One word for logs and metrics.
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

/// An error with its causes, in one line.
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
