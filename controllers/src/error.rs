//! Classes of API errors.
