//! Module `cli`.
