//! Module `subresources`.
