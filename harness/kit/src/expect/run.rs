//! The record of a run that is judged.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

use super::races::retries_until;
use crate::transcript::{Delivery, RecordedJson, TranscriptEntry};

/// The record of a run: everything that judging needs.
#[derive(Debug, Clone, Copy)]
pub struct Run<'a> {
    /// The time on the clock at `t=+0s`.
    pub start: Timestamp,
    /// The objects as the server had stored them before the controllers started.
    pub initial: &'a [RecordedJson],
    /// The transcript's entries, in order.
    pub entries: &'a [TranscriptEntry],
    /// For every step that was reached, in order: the length of the transcript when the step was over and the cluster
    /// had become idle. A window (`consistently`, `eventually`) is over at its end ([`crate::fixture::Step::end`]).
    pub marks: &'a [usize],
    /// The replies to users' requests, in order.
    pub replies: &'a [StepReply],
    /// The subject's metrics (Prometheus text) and the times at which they were read. Needed only for fixtures with
    /// `metrics:` checks: at the end of every step that has one, and at the end of the run.
    pub scrapes: &'a [(Duration, String)],
    /// Duration of the run. If it was interrupted, checks after this time fail.
    pub end: Duration,
    /// Allowed deviation of clocks and reactions. Zero in virtual time, where every time is exact; on a real clock
    /// [`crate::fixture::Fixture::tolerance`].
    pub tolerance: Duration,
    /// Additional delay allowed for reactions, see [`crate::fixture::Fixture::late`]. Zero in virtual time.
    pub late: Duration,
    /// The watch events, if the subject's threads race: see [`races`]. `None` if its tasks run one at a time.
    pub deliveries: Option<&'a [Delivery]>,
}

impl Run<'_> {
    /// Returns true if `at` equals `wanted`, within the tolerances of the clock, or is that of a retry after a conflict
    /// at that time.
    pub(crate) fn is_at(&self, wanted: Duration, at: Duration) -> bool {
        let leeway = self.tolerance + self.late;
        let is_retry = || self.deliveries.is_some() && at <= retries_until(self.entries, wanted) + leeway;
        wanted <= at + self.tolerance && (at <= wanted + leeway || is_retry())
    }

    /// Returns the allowed error of a duration whose ends were both measured by the server's clock. The server records
    /// the cause before the subject sees it, and the effect after the subject acted, so the subject's wait can only
    /// appear longer. The remaining error comes from different ticks and rounding of two clocks: a twentieth of the
    /// tolerance, 50 ms of a second. So 39 s are never accepted for 40 s.
    pub fn slack(&self) -> Duration {
        self.tolerance / 20
    }
}

/// The reply to a request of a step. If a step has several requests, only the last may fail.
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
