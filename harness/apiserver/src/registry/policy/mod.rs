//! The kinds of `policy`. See `pkg/registry/policy`.

pub(in crate::registry) mod pod_disruption_budget;
