//! Module `schema`.
