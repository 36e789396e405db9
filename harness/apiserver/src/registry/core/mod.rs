//! The kinds of the core group. See `pkg/registry/core`.

pub(in crate::registry) mod binding;
pub(in crate::registry) mod component_status;
pub(in crate::registry) mod config_map;
pub(in crate::registry) mod data;
pub(in crate::registry) mod difflib;
pub(in crate::registry) mod endpoints;
pub(in crate::registry) mod event;
pub(in crate::registry) mod internal_json;
pub(in crate::registry) mod limit_range;
pub(in crate::registry) mod limit_ranger;
pub(in crate::registry) mod namespace;
pub(in crate::registry) mod node;
pub(in crate::registry) mod node_selector;
pub(crate) mod persistent_volume;
pub(crate) mod persistent_volume_claim;
mod persistent_volume_source;
pub(crate) mod pod;
pub(in crate::registry) mod pod_template;
pub(in crate::registry) mod replication_controller;
pub(in crate::registry) mod resource_quota;
pub(in crate::registry) mod secret;
pub(in crate::registry) mod service;
pub(in crate::registry) mod service_account;
pub(in crate::registry) mod volume_sources;
pub(in crate::registry) mod workload;
