//! Module `patch`.
