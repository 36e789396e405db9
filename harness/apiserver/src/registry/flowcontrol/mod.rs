//! The kinds of `flowcontrol.apiserver.k8s.io`. See `pkg/registry/flowcontrol`.

mod conditions;
pub(in crate::registry) mod flow_schema;
pub(in crate::registry) mod priority_level_configuration;
