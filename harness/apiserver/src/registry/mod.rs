//! The served resources: discovery data, and the rules of each resource in one [`Strategy`].
//!
//! A request passes through the strategy in the order of
//! `staging/src/k8s.io/apiserver/pkg/registry/rest/{create,update}.go`:
//!
//! | create | update | status update |
//! | --- | --- | --- |
//! | [`Strategy::default`] | [`Strategy::default`] | [`Strategy::default`] |
//! | [`Strategy::admit_create`] | [`Strategy::admit_update`] | – |
//! | [`Strategy::begin_create`] | [`Strategy::begin_update`] | – |
//! | [`Strategy::prepare_for_create`] | [`Strategy::prepare_for_update`] | [`Strategy::prepare_for_status_update`] |
//! | [`validate_create`] | [`validate_update`] | [`validate_status_update`] |
//! | [`Strategy::warnings_on_create`] | [`Strategy::warnings_on_update`] | [`Strategy::warnings_on_status_update`] |
//! | [`Strategy::check_admission`] | [`Strategy::check_admission`] | – |
//! | [`Strategy::canonicalize`] | [`Strategy::canonicalize`] | – |
//!
//! Strategies are pure: they get the object, the old object and a [`StrategyContext`], but neither the store nor the
//! clock.

pub(crate) mod admissionregistration;
mod apiextensions;
mod apiregistration;
mod apps;
mod authentication;
mod authorization;
mod autoscaling;
mod batch;
mod certificates;
mod coordination;
pub(crate) mod core;
mod discovery;
mod flowcontrol;
mod networking;
mod node;
mod policy;
mod rbac;
mod resource;
mod scheduling;
pub(crate) mod storage;

mod addresses;
mod builder;
pub(crate) mod builtin;
pub(crate) mod checks;
pub(crate) mod conditions;
pub(crate) mod custom;
pub(crate) mod default_class;
pub(crate) mod generic;
pub(crate) mod int_or_percent;
mod kind_strategy;
pub(crate) mod label_selector;
pub(crate) mod legacy;
mod lister;
pub(crate) mod meta;
pub(crate) mod names;
pub(crate) mod prepare;
pub(crate) mod quota;
pub(crate) mod resource_list;
pub(crate) mod resource_names;
pub(crate) mod scheme;
mod served_resource;
mod strategy;
mod template_metadata;
pub(crate) mod time;
mod validation;

#[cfg(test)]
mod answer_tests;
#[cfg(test)]
mod creation_rules;
#[cfg(test)]
mod example;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod update_rules;
#[cfg(test)]
mod warning_tests;

pub use lister::AdmissionPlugin;
pub(crate) use lister::{ObjectLister, topology_labels};
pub(crate) use names::NameFormat;
pub(crate) use scheme::{GroupVersion, Registry};
pub(crate) use served_resource::{Conversion, Resource, SelectableField, StaticStr, StorageId, Subresource};
pub(crate) use strategy::{Strategy, StrategyContext};
pub(crate) use validation::{
    validate_create, validate_finalize, validate_status_update, validate_subresource_update, validate_update,
};

pub(crate) use crate::field_errors::{ErrorList, NO_FIELD, Path};
