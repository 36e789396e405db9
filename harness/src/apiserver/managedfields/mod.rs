//! Module `managedfields`.
