//! A published report.

use crate::conformance::causes::FailureCause;
use crate::conformance::report::ConformanceReport;

/// A report with the causes of its failures.
#[derive(Clone, Debug)]
pub struct PublishedReport {
    /// The report.
    pub report: ConformanceReport,
    /// The causes.
    pub causes: Vec<FailureCause>,
}
