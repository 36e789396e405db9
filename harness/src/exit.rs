//! Module `exit`.
