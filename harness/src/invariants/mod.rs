//! Module `invariants`.
