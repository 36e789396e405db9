//! Module `service`.
