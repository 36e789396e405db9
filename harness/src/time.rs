//! Module `time`.
