//! Progress of a measurement.

/// Progress of a measurement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProgressEvent {
    /// A phase began or ended.
    Phase(String),
    /// A number changed.
    Progress(String),
}

/// Receiver of progress.
pub type ProgressSink<'a> = &'a (dyn Fn(ProgressEvent) + Sync);
