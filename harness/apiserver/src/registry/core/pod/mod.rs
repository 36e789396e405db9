//! Core `v1` Pod.
//!
//! See `pkg/registry/core/pod/strategy.go`.

pub(in crate::registry) mod admission;
mod annotations;
mod app_armor;
mod columns;
mod containers;
pub(in crate::registry) mod defaults;
mod env;
mod os;
mod overlaps;
mod paths;
pub(in crate::registry) mod privileged;
mod profiles;
pub(crate) mod qos;
pub(in crate::registry) mod resources;
pub(in crate::registry) mod runtime_class;
pub(in crate::registry) mod scheduling;
pub(crate) mod service_account;
mod status;
mod subresources;
pub(in crate::registry) mod validation;
mod volumes;
pub(in crate::registry) mod warnings;
mod windows;

use crate::field_errors::{self, ErrorList};
use crate::json::fields::{array_field, is_empty_value, object_or_insert, str_field};
use crate::json::{Map, Value, json};
use crate::metadata;
use crate::printers::TableHandler;
use crate::registry::builder::{ResourceBuilder, resource};
use crate::registry::core::internal_json;
use crate::registry::core::limit_ranger;
use crate::registry::prepare::{copy_field, copy_member, reset_all_but_status, set_generation, specs_equal};
use crate::registry::served_resource::CREATE_ONLY_VERBS;
use crate::registry::strategy::{Strategy, StrategyContext};
use crate::registry::{addresses, names, time};
use crate::status::Status;

/// The resource `pods`.
pub(in crate::registry) fn definition() -> ResourceBuilder {
    resource("", "v1", "pods", "Pod", "io.k8s.api.core.v1.Pod")
        .short(&["po"])
        .categories(&["all"])
        .sub("attach", "", "", "PodAttachOptions", &["create", "get"])
        .sub("binding", "", "", "Binding", CREATE_ONLY_VERBS)
        .sub("ephemeralcontainers", "", "", "Pod", &["get", "patch", "update"])
        .sub("eviction", "policy", "v1", "Eviction", CREATE_ONLY_VERBS)
        .sub("exec", "", "", "PodExecOptions", &["create", "get"])
        .sub("log", "", "", "Pod", &["get"])
        .sub("portforward", "", "", "PodPortForwardOptions", &["create", "get"])
        .sub("proxy", "", "", "PodProxyOptions", &["create", "delete", "get", "patch", "update"])
        .sub("resize", "", "", "Pod", &["get", "patch", "update"])
        .status()
        .resets("status", &[&["spec"], &["metadata", "deletionTimestamp"], &["metadata", "ownerReferences"]])
        .hash("xPOwRZ+Yhw8=")
        .fields(&[
            ("spec.nodeName", ""),
            ("spec.restartPolicy", ""),
            ("spec.schedulerName", ""),
            ("spec.serviceAccountName", ""),
            ("spec.hostNetwork", "false"),
            ("status.phase", ""),
            ("status.podIP", ""),
            ("status.podIPs", ""),
            ("status.nominatedNodeName", ""),
        ])
        .rules(Pod)
        .table(TableHandler::new(columns::COLUMNS).row_conditions(columns::row_conditions))
}

/// Formats a template like upstream's `Invalid value`.
pub(in crate::registry) fn template_text(template: &Value) -> String {
    let metadata = template.get("metadata").unwrap_or(&Value::Null);
    let fields = ["name", "generateName", "namespace", "labels", "annotations", "finalizers"];
    let shown = fields.iter().filter_map(|field| {
        let value = metadata.get(*field).filter(|value| !is_empty_value(Some(value)))?;
        Some(format!("\"{field}\":{},", field_errors::go_json(value)))
    });
    let spec = internal_json::compact("PodSpec", template.get("spec").unwrap_or(&Value::Null));
    format!("{{{}\"Spec\":{spec}}}", shown.collect::<String>())
}

/// The strategy of pods.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pod;

impl Strategy for Pod {
    fn default(&self, object: &mut Value) {
        defaults::pod(object);
    }

    fn default_status(&self, object: &mut Value) {
        defaults::status(object);
    }

    fn admit_create(&self, object: &mut Value, ctx: &StrategyContext<'_>) -> Result<(), Status> {
        limit_ranger::default_pod(object, None, ctx);
        admission::priority(object, ctx)?;
        admission::admit_default_tolerations(object, ctx);
        runtime_class::admit(object, ctx)?;
        admission::admit_topology_labels(object, ctx);
        Ok(())
    }

    fn admit_update(&self, new: &mut Value, old: &Value, ctx: &StrategyContext<'_>) -> Result<(), Status> {
        admission::keep_priority(new, old);
        admission::admit_default_tolerations(new, ctx);
        Ok(())
    }

    fn prepare_for_create(&self, object: &mut Value, ctx: &StrategyContext<'_>) {
        set_generation(object, 1);
        scheduling::apply_label_keys(object);
        app_armor::sync_fields(object);
        let empty = Value::Null;
        let spec = object.get("spec").unwrap_or(&empty);
        let mut status = json!({"phase": "Pending", "qosClass": qos::class(spec)});
        if !array_field(spec, "schedulingGates").is_empty() {
            status["conditions"] = json!([{
                "type": "PodScheduled", "status": "False", "lastProbeTime": null,
                "lastTransitionTime": time::format_time(ctx.now),
                "reason": "SchedulingGated", "message": "Scheduling is blocked due to non-empty scheduling gates",
            }]);
        }
        if let Some(map) = object.as_object_mut() {
            map.insert("status", status);
        }
    }

    fn validate(&self, object: &Value) -> ErrorList {
        validation::create(object)
    }

    fn prepare_for_update(&self, new: &mut Value, old: &Value, _ctx: &StrategyContext<'_>) {
        copy_field(new, old, "status");
        if !specs_equal(new, old) {
            set_generation(new, metadata::generation(old) + 1);
        }
    }

    fn validate_update(&self, new: &Value, old: &Value) -> ErrorList {
        validation::update(new, old)
    }

    fn prepare_for_status_update(&self, new: &mut Value, old: &Value, _ctx: &StrategyContext<'_>) {
        reset_all_but_status(new, old);
        status::drop_disabled(new);
        if let (Some(metadata), Some(before)) = (object_or_insert(new, "metadata"), old.get("metadata")) {
            for field in ["ownerReferences", "deletionTimestamp"] {
                copy_member(metadata, before, field);
            }
        }
        let empty = Value::Null;
        let before = old.get("status").unwrap_or(&empty);
        let Some(status) = object_or_insert(new, "status") else { return };
        if is_empty_value(status.get("qosClass")) {
            copy_member(status, before, "qosClass");
        }
        if status.get("observedGeneration").and_then(Value::as_i64).unwrap_or(0) == 0 {
            copy_member(status, before, "observedGeneration");
        }
        keep_observed_generations(status, before);
    }

    fn validate_status_update(&self, new: &Value, old: &Value) -> ErrorList {
        validation::status_update(new, old)
    }

    fn narrow(&self, subresource: &str, new: &mut Value, old: &Value) {
        subresources::restrict_to_subresource(subresource, new, old);
    }

    fn validate_subresource_update(&self, subresource: &str, new: &Value, old: &Value) -> ErrorList {
        subresources::validate(subresource, new, old)
    }

    fn admit_subresource(
        &self,
        subresource: &str,
        new: &mut Value,
        old: &Value,
        ctx: &StrategyContext<'_>,
    ) -> Result<(), Status> {
        if subresource == "resize" {
            limit_ranger::default_pod(new, Some(old), ctx);
        }
        Ok(())
    }

    fn check_admission(
        &self,
        subresource: &str,
        new: &Value,
        old: Option<&Value>,
        ctx: &StrategyContext<'_>,
    ) -> Result<(), Status> {
        if old.is_none() || subresource == "resize" {
            limit_ranger::check_pod(new, old, ctx)?;
        }
        match old {
            None => runtime_class::check(new, ctx),
            Some(old) => subresources::check_admission(subresource, new, old, ctx),
        }
    }

    fn warnings_on_create(&self, object: &Value) -> Vec<String> {
        let mut warnings = Vec::new();
        let messages = names::dns1123_label(metadata::name(object));
        if !messages.is_empty() {
            warnings.push(format!(
                "metadata.name: this is used in the Pod's hostname, which can result in surprising behavior; a DNS label is recommended: [{}]",
                messages.join(" ")
            ));
        }
        warnings.extend(app_armor::warnings(object));
        warnings.extend(warnings::pod_warnings(object, ""));
        warnings
    }

    fn warnings_on_status_update(&self, new: &Value) -> Vec<String> {
        ["podIPs", "hostIPs"].into_iter().flat_map(|field| addresses::status_warnings(new, field, ".ip")).collect()
    }

    fn grace_period(&self, object: &Value, wanted: Option<i64>) -> Option<i64> {
        let empty = Value::Null;
        let spec = object.get("spec").unwrap_or(&empty);
        let configured = || spec.get("terminationGracePeriodSeconds").and_then(Value::as_i64).unwrap_or(0);
        let phase = object.get("status").map_or("", |s| str_field(s, "phase"));
        if str_field(spec, "nodeName").is_empty() || matches!(phase, "Failed" | "Succeeded") {
            return Some(0);
        }
        let period = wanted.unwrap_or_else(configured);
        Some(if period < 0 { 1 } else { period })
    }
}

/// Restores `observedGeneration` of conditions that lack it, matching conditions of a type by position.
fn keep_observed_generations(status: &mut Map, before: &Value) {
    let Some(conditions) = status.get_mut("conditions").and_then(Value::as_array_mut) else { return };
    let before = array_field(before, "conditions");
    let mut seen: Vec<String> = Vec::new();
    for condition in conditions {
        let kind = str_field(condition, "type").to_owned();
        let nth = seen.iter().filter(|k| **k == kind).count();
        if condition.get("observedGeneration").and_then(Value::as_i64).unwrap_or(0) == 0 {
            let old = before.iter().filter(|c| str_field(c, "type") == kind).nth(nth);
            if let Some(generation) = old.and_then(|c| c.get("observedGeneration")).cloned() {
                condition["observedGeneration"] = generation;
            }
        }
        seen.push(kind);
    }
}
