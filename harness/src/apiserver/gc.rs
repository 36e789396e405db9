//! Module `gc`.
