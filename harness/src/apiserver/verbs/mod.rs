//! Module `verbs`.
