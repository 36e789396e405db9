//! Module `subject`.
