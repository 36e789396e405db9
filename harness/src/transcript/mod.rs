//! Module `transcript`.
