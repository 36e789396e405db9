//! Module `store`.
