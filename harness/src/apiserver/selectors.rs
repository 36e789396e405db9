//! Module `selectors`.
