//! The disruption controller.
