//! Module `kinds`.
