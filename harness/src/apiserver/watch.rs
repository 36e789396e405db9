//! Module `watch`.
