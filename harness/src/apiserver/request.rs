//! Module `request`.
