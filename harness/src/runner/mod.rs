//! Module `runner`.
