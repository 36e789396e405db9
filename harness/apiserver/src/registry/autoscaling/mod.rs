//! The kinds of `autoscaling`. See `pkg/registry/autoscaling`.

pub(in crate::registry) mod horizontal_pod_autoscaler;
mod round_trip;
