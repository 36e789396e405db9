//! Module `openapi`.
