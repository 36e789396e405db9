//! Strategy of custom resources. Follows `strategy.go`, `status_strategy.go` and `validator.go` in
//! `staging/src/k8s.io/apiextensions-apiserver/pkg/registry/customresource` of Kubernetes 1.36. PURE.

use std::sync::{Arc, OnceLock};

use super::text_fields::text;
use super::{cel, defaults, embedded, validate};
use crate::field_errors::{ErrorList, ErrorType, Path};
use crate::json::fields::object_or_insert;
use crate::json::{Key, Value};
use crate::metadata;
use crate::registry::custom::CustomResource;
use crate::registry::prepare::{copy_field, set_generation};
use crate::registry::{NameFormat, Strategy, StrategyContext, meta};
use crate::subresources::scale::{nested_int64, nested_string};

/// The strategy of one served version of a definition.
#[derive(Debug)]
pub(super) struct CustomResourceStrategy {
    own: Arc<CustomResource>,
    /// The compiled CEL rules of the schema, if it has any. They are compiled for the first object that is validated,
    /// because the kinds of all definitions are made again after each write of a definition.
    rules: OnceLock<Option<cel::CompiledRules>>,
    /// True if the schema declares embedded objects.
    embeds: OnceLock<bool>,
    api_version: String,
    kind: String,
    namespaced: bool,
}

impl CustomResourceStrategy {
    pub(super) fn new(own: Arc<CustomResource>, group: &str, version: &str, kind: &str, namespaced: bool) -> Self {
        Self {
            own,
            rules: OnceLock::new(),
            embeds: OnceLock::new(),
            api_version: format!("{group}/{version}"),
            kind: kind.to_owned(),
            namespaced,
        }
    }

    fn type_errors(&self, object: &Value) -> ErrorList {
        let mut errors = ErrorList::new();
        for (field, expected) in [("kind", &self.kind), ("apiVersion", &self.api_version)] {
            let actual = text(object, field);
            if actual != expected {
                errors.invalid(&Path::new(field), actual, format!("must be {expected}"));
            }
        }
        errors
    }

    /// Evaluates the CEL rules, unless earlier errors are of a kind that could make the rules fail.
    fn judge(&self, new: &Value, old: Option<&Value>, errors: &mut ErrorList) {
        const BLOCKING: [ErrorType; 5] = [
            ErrorType::NotSupported,
            ErrorType::Required,
            ErrorType::TooLong,
            ErrorType::TooMany,
            ErrorType::TypeInvalid,
        ];
        let compile = || cel::CompiledRules::of(&self.own.schema);
        let Some(rules) = self.rules.get_or_init(compile) else { return };
        if errors.iter().any(|error| BLOCKING.contains(&error.error_type)) {
            let why = "some validation rules were not checked because the object was invalid; correct the existing errors to complete validation";
            errors.invalid(&Path::new("<nil>"), None::<&Value>, why);
            return;
        }
        errors.append(rules.judge(new, old));
    }

    fn scale_errors(&self, object: &Value, spec: bool, errors: &mut ErrorList) {
        let Some(scale) = &self.own.scale else { return };
        if spec {
            replicas(object, &scale.spec_replicas, errors);
        }
        replicas(object, &scale.status_replicas, errors);
        if let Some(selector) = &scale.label_selector
            && let Err(error) = nested_string(object, selector)
        {
            errors.invalid(&Path::new(selector), "", error.to_string());
        }
    }
}

/// Checks that the replicas at a path are a non-negative 32 bit integer; an absent value counts as 0.
fn replicas(object: &Value, path: &str, errors: &mut ErrorList) {
    let field = Path::new(path);
    match nested_int64(object, path) {
        Err(error) => errors.invalid(&field, 0_i64, error.to_string()),
        Ok(Some(number)) if number < 0 => errors.invalid(&field, number, "should be a non-negative integer"),
        Ok(Some(number)) if number > i64::from(i32::MAX) => {
            errors.invalid(&field, number, format!("should be less than or equal to {}", i32::MAX));
        }
        Ok(_) => {}
    }
}

fn without_metadata(object: &Value) -> Vec<(&Key, &Value)> {
    object.as_object().into_iter().flatten().filter(|(field, _)| *field != "metadata").collect()
}

impl Strategy for CustomResourceStrategy {
    fn default(&self, object: &mut Value) {
        defaults::apply(&self.own.schema, object);
        if *self.embeds.get_or_init(|| embedded::has_embedded(&self.own.schema)) {
            embedded::coerce_embedded(&self.own.schema, object);
        }
    }

    /// Keeps nulls, which are dropped when an object is decoded. Those that the schema does not allow are refused.
    fn default_applied(&self, object: &mut Value) {
        defaults::fill(&self.own.schema, object);
        if *self.embeds.get_or_init(|| embedded::has_embedded(&self.own.schema)) {
            embedded::coerce_embedded(&self.own.schema, object);
        }
    }

    fn prepare_for_create(&self, object: &mut Value, _ctx: &StrategyContext<'_>) {
        if self.own.status
            && let Some(fields) = object.as_object_mut()
        {
            fields.remove("status");
        }
        set_generation(object, 1);
    }

    fn validate(&self, object: &Value) -> ErrorList {
        let mut errors = self.type_errors(object);
        if !errors.is_empty() {
            return errors;
        }
        errors.append(meta::validate(object, self.namespaced, NameFormat::Subdomain, &Path::new("metadata")));
        errors.append(validate::validate(&self.own.schema, object, None, ""));
        self.scale_errors(object, true, &mut errors);
        self.judge(object, None, &mut errors);
        errors
    }

    fn prepare_for_update(&self, new: &mut Value, old: &Value, _ctx: &StrategyContext<'_>) {
        if self.own.status {
            copy_field(new, old, "status");
        }
        let changed = without_metadata(new) != without_metadata(old);
        set_generation(new, metadata::generation(old) + i64::from(changed));
    }

    fn validate_update(&self, new: &Value, old: &Value) -> ErrorList {
        let mut errors = self.type_errors(new);
        if !errors.is_empty() {
            return errors;
        }
        // Upstream validates the metadata of custom resources a second time.
        errors.append(meta::validate_update(new, old, &Path::new("metadata")));
        errors.append(validate::validate(&self.own.schema, new, Some(old), ""));
        self.scale_errors(new, true, &mut errors);
        self.judge(new, Some(old), &mut errors);
        errors
    }

    /// Takes only the status from `new`. Unlike with most built-in kinds, labels and annotations cannot change here.
    fn prepare_for_status_update(&self, new: &mut Value, old: &Value, _ctx: &StrategyContext<'_>) {
        let status = new.get("status").cloned();
        let metadata = new.get("metadata").cloned();
        *new = old.clone();
        let kept = ["managedFields", "resourceVersion"];
        if let (Some(fields), Some(metadata)) = (object_or_insert(new, "metadata"), metadata) {
            fields.extend(kept.iter().filter_map(|name| Some(((*name).to_owned(), metadata.get(*name)?.clone()))));
        }
        if let Some(fields) = new.as_object_mut() {
            fields.remove("status");
            fields.extend(status.map(|status| ("status".to_owned(), status)));
        }
    }

    fn validate_status_update(&self, new: &Value, old: &Value) -> ErrorList {
        let mut errors = self.type_errors(new);
        errors.append(meta::validate_update(new, old, &Path::new("metadata")));
        if let (Some(schema), Some(status)) = (self.own.schema.pointer("/properties/status"), new.get("status")) {
            errors.append(validate::validate(schema, status, old.get("status"), "").below("status"));
        }
        self.scale_errors(new, false, &mut errors);
        self.judge(new, Some(old), &mut errors);
        errors
    }

    fn warnings_on_create(&self, object: &Value) -> Vec<String> {
        finalizer_warnings(object, None)
    }

    fn warnings_on_update(&self, new: &Value, old: &Value) -> Vec<String> {
        finalizer_warnings(new, Some(old))
    }

    fn allow_unconditional_update(&self) -> bool {
        false
    }
}

fn finalizer_warnings(object: &Value, old: Option<&Value>) -> Vec<String> {
    let known: Vec<&str> = old.into_iter().flat_map(metadata::finalizers).collect();
    let mut added: Vec<&str> = metadata::finalizers(object).filter(|name| !known.contains(name)).collect();
    added.sort_unstable();
    added
        .into_iter()
        .filter(|name| !name.contains('/') && !["orphan", "foregroundDeletion", "kubernetes"].contains(name))
        .map(|name| {
            let path = if name.contains('.') { "including a path (/) " } else { "" };
            format!(
                "metadata.finalizers: {name:?}: prefer a domain-qualified finalizer name {path}to avoid accidental conflicts with other finalizer writers"
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::json;
    use rstest::rstest;

    #[rstest]
    #[case(json!({"spec": {"replicas": -7}}), &["Invalid value: -7: should be a non-negative integer"])]
    #[case(json!({"spec": {"replicas": "x"}}), &["Invalid value: 0: .spec.replicas accessor error: x is of the type string, expected int64"])]
    #[case(json!({"spec": "string"}), &["Invalid value: 0: .spec.replicas accessor error: string is of the type string, expected map[string]interface{}"])]
    #[case(json!({}), &[])]
    fn replicas_are_checked(#[case] object: Value, #[case] expected: &[&str]) {
        let mut errors = ErrorList::new();
        replicas(&object, ".spec.replicas", &mut errors);
        assert_eq!(errors.iter().map(|error| error.cause().message).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn short_finalizers_are_warned_about() {
        let object = json!({"metadata": {"finalizers": ["b.c", "a", "x.y/z", "orphan"]}});
        assert_eq!(finalizer_warnings(&object, None).len(), 2);
        assert!(finalizer_warnings(&object, Some(&object)).is_empty());
    }
}
