//! The shortest history that shows a finding, and the report.
//!
//! - [`shrink`], [`fixture_text`]: make a finding small and write it as a fixture
//! - [`report`], [`page`]: the result of an exploration as text, as JSON and as HTML

pub mod fixture_text;
pub mod page;
pub mod report;
pub mod shrink;
