//! Module `discovery`.
