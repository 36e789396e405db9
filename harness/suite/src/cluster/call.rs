//! The requests of steps and their answers.

use http::Method;
use serde_json::Value;

/// The answer to a request of a step.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// HTTP status code; 0 if the connection broke.
    pub code: u16,
    /// `Retry-After`, in seconds.
    pub retry_after: Option<u32>,
    /// Decoded body; a string if it is not JSON.
    pub body: Value,
}

/// A request of a step, ready to send.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    /// HTTP method.
    pub method: Method,
    /// Path and query.
    pub path: String,
    /// Body and its content type.
    pub body: Option<(&'static str, Value)>,
    /// User agent of the request.
    pub user_agent: String,
}
