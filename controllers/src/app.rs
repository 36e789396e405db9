//! The one place that knows all four controllers: builds what they stand on, starts those that are enabled, in order,
//! and stops them in order.
