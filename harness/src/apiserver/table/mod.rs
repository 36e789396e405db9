//! Module `table`.
