//! Whether a run kept its promises. Pure: everything is judged afterwards from the transcript.

pub mod matching;

use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

use crate::transcript::Entry;

/// What is left of a run: all that judging needs.
#[derive(Debug, Clone, Copy)]
pub struct Run<'a> {
    /// The time on the clock at `t=+0s`.
    pub start: Timestamp,
    /// The objects as the server had stored them before the controllers started.
    pub initial: &'a [Value],
    /// What happened, in order.
    pub entries: &'a [Entry],
    /// What users' requests were answered, in order.
    pub replies: &'a [StepReply],
    /// The subject's metrics (Prometheus text) and when they were read. Only needed if the fixture has
    /// `metric:` checks: then at the time of each of them.
    pub scrapes: &'a [(Duration, String)],
    /// How long the run was. If it was broken off, checks beyond it fail.
    pub end: Duration,
}

/// The answer to the last request among the actions of a step.
#[derive(Debug, Clone, PartialEq)]
pub struct StepReply {
    /// Index in `Fixture::steps`.
    pub step: usize,
    /// HTTP status code.
    pub code: u16,
    /// Value of the `Retry-After` header, seconds.
    pub retry_after: Option<u32>,
    /// The body: an object or a `Status`.
    pub body: Value,
}
