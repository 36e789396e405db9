//! Module `plan`.
