//! Module `listener`.
