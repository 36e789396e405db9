//! Module `lifecycle`.
