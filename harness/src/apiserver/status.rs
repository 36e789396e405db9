//! Module `status`.
