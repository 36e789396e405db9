//! Module `expect`.
