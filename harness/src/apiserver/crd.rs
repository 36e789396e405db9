//! Module `crd`.
