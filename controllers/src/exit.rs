//! Documented exit codes.
