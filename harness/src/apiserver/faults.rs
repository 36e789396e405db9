//! Module `faults`.
