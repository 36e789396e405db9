//! What a controller wants done: plain data.
