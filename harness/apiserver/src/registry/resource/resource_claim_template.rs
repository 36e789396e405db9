//! `resource.k8s.io/v1` `ResourceClaimTemplate`. See `pkg/registry/resource/resourceclaimtemplate/strategy.go`.

use crate::field_errors::{BadValue, ErrorList, Path, go_json};
use crate::json::fields::{is_empty_value, object_mut, semantic_equal, spec_of};
use crate::json::{Map, Value};
use crate::printers::column::NAME_AND_AGE;
use crate::registry::builder::{ResourceBuilder, resource};
use crate::registry::checks::IMMUTABLE_MESSAGE;
use crate::registry::core::internal_json;
use crate::registry::generic::{Generic, MetadataRules};
use crate::registry::kind_strategy::KindStrategy;
use crate::registry::resource::claim_spec::{access, claim_spec};
use crate::registry::resource::resource_claim;
use crate::registry::strategy::StrategyContext;
use crate::registry::template_metadata;

const SPEC: Path<'static> = Path::new("spec");

/// The resource `resourceclaimtemplates` of `resource.k8s.io/v1`.
pub(in crate::registry) fn definition() -> ResourceBuilder {
    resource(
        "resource.k8s.io",
        "v1",
        "resourceclaimtemplates",
        "ResourceClaimTemplate",
        "io.k8s.api.resource.v1.ResourceClaimTemplate",
    )
    .hash("TuzjC49aUfM=")
    .rules(
        KindStrategy::new(Generic { updates: MetadataRules::ObjectFirst, ..Generic::NEW }, defaults)
            .check_with(validate)
            .check_among_others_with(validate_access)
            .check_update_with(spec_stays),
    )
    .columns(NAME_AND_AGE)
}

/// Defaults of `ResourceClaimTemplate`.
fn defaults(map: &mut Map) {
    if let Some(spec) = object_mut(map, "spec") {
        resource_claim::defaults(spec);
    }
}

/// Validates a `ResourceClaimTemplate`, except for administrative access.
fn validate(object: &Value) -> ErrorList {
    let mut errors = ErrorList::new();
    let template = spec_of(object);
    template_metadata::validate(template, &SPEC.child("metadata"), &mut errors);
    claim_spec(spec_of(template), &SPEC.child("spec"), &mut errors);
    errors
}

/// Requires the spec to be unchanged. Its internal type has the fields of metadata in itself.
fn spec_stays(new: &Value, old: &Value) -> ErrorList {
    let mut errors = ErrorList::new();
    if !semantic_equal(new.get("spec"), old.get("spec")) {
        let template = spec_of(new);
        let fields = template_metadata::FIELDS.into_iter().filter(|field| *field != "managedFields");
        let given = fields.filter_map(|field| Some((field, template["metadata"].get(field)?)));
        let set = given.filter(|(_, value)| !is_empty_value(Some(value)));
        let metadata: Vec<String> = set.map(|(field, value)| format!("\"{field}\":{},", go_json(value))).collect();
        let spec = internal_json::compact("ResourceClaimSpec", spec_of(template));
        let shown = BadValue::Raw(format!("{{{}\"Spec\":{spec}}}", metadata.concat()));
        errors.invalid(&SPEC, shown, IMMUTABLE_MESSAGE);
    }
    errors
}

/// Like [`claim_access`] for a template.
fn validate_access(object: &Value, ctx: &StrategyContext<'_>) -> ErrorList {
    access(spec_of(spec_of(object)), object, ctx)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::json;

    #[test]
    fn templates_have_labels_and_annotations_only() {
        let errors = validate(&json!({"spec": {"metadata": {"name": "n", "labels": {"a": "b"}}, "spec": {}}}));
        let errors: Vec<_> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(errors, ["spec.metadata.name: Forbidden: cannot be set"]);
    }
}
