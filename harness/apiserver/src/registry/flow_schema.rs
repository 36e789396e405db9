//! `FlowSchema`: its condition `Dangling`, which upstream's controller of priority and fairness sets
//! (`staging/src/k8s.io/apiserver/pkg/util/flowcontrol/apf_controller.go`).

use super::generic::{Generation, Generic};
use super::time::rfc3339;
use super::{Strategy, StrategyContext, flow_rules, meta};
use crate::field_errors::ErrorList;
use crate::json::{Value, json};

/// The strategy of flow schemas.
#[derive(Debug, Clone, Copy)]
pub(super) struct FlowSchema;

const RULES: Generic = Generic { generation: Generation::Spec, status: true, namespaced: false, ..Generic::NEW };

/// Sets the condition: the schema names a priority level that does not exist.
fn set_dangling(object: &mut Value, ctx: &StrategyContext<'_>) {
    let level = object.pointer("/spec/priorityLevelConfiguration/name").and_then(Value::as_str).unwrap_or_default();
    let found = ctx.lookup.get("flowcontrol.apiserver.k8s.io", "prioritylevelconfigurations", "", level).is_some();
    let (status, reason, what) =
        if found { ("False", "Found", "and it exists") } else { ("True", "NotFound", "but there is no such object") };
    let message = format!("This FlowSchema references the PriorityLevelConfiguration object named {level:?} {what}");
    let conditions = object.pointer("/status/conditions").and_then(Value::as_array);
    let known = conditions.into_iter().flatten().any(|condition| {
        meta::str_field(condition, "type") == "Dangling" && meta::str_field(condition, "message") == message
    });
    if let Some(fields) = object.as_object_mut().filter(|_| !known) {
        let status = json!({"conditions": [{"type": "Dangling", "status": status,
            "lastTransitionTime": rfc3339(ctx.now), "reason": reason, "message": message}]});
        fields.insert("status", status);
    }
}

impl Strategy for FlowSchema {
    fn default(&self, object: &mut Value) {
        /// `FlowSchemaDefaultMatchingPrecedence`.
        const PRECEDENCE: i64 = 1_000;
        if let Some(spec) = meta::object_or_insert(object, "spec")
            && spec.get("matchingPrecedence").and_then(Value::as_i64).unwrap_or(0) == 0
        {
            spec.insert("matchingPrecedence", PRECEDENCE.into());
        }
    }

    fn prepare_for_create(&self, object: &mut Value, ctx: &StrategyContext<'_>) {
        RULES.prepare_for_create(object, ctx);
        set_dangling(object, ctx);
    }

    fn validate(&self, object: &Value) -> ErrorList {
        let mut errors = RULES.validate(object);
        errors.append(flow_rules::flow_schema(object));
        errors
    }

    fn prepare_for_update(&self, new: &mut Value, old: &Value, ctx: &StrategyContext<'_>) {
        RULES.prepare_for_update(new, old, ctx);
        set_dangling(new, ctx);
    }

    fn validate_update(&self, new: &Value, old: &Value) -> ErrorList {
        let mut errors = RULES.validate_update(new, old);
        errors.append(flow_rules::flow_schema(new));
        errors
    }

    fn validate_status_update(&self, new: &Value, old: &Value) -> ErrorList {
        RULES.validate_status_update(new, old)
    }

    fn allow_unconditional_update(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::EmptyLister;

    #[test]
    fn a_schema_without_a_level_is_dangling() {
        let now = jiff::Timestamp::UNIX_EPOCH;
        let ctx = StrategyContext { now, user: &crate::authn::NO_USER, lookup: &EmptyLister };
        let mut schema = json!({"metadata": {"name": "a"}, "spec": {"priorityLevelConfiguration": {"name": "b"}}});
        FlowSchema.prepare_for_create(&mut schema, &ctx);
        let condition = &schema["status"]["conditions"][0];
        assert_eq!((&condition["status"], &condition["reason"]), (&json!("True"), &json!("NotFound")));
        assert_eq!(
            condition["message"],
            "This FlowSchema references the PriorityLevelConfiguration object named \"b\" but there is no such object"
        );
    }
}
