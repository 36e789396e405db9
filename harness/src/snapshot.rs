//! Module `snapshot`.
