//! Map of the runtime.
