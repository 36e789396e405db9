//! Module `cluster`.
