//! The `AppArmor` annotations that were before the fields: `applyAppArmorVersionSkew` in
//! `pkg/registry/core/pod/strategy.go`, and `ApparmorFieldForAnnotation` in `pkg/api/pod/util.go`. PURE.

use crate::json::fields::{array_field, object_or_insert, str_field};
use crate::json::{Value, json};
use crate::metadata;
use crate::registry::core::pod::profiles::{APP_ARMOR, CONTAINERS, profile};

const FIELD: &str = "appArmorProfile";

/// Returns the field that says the same as an annotation; `None` if it says nothing valid.
fn field_of(annotation: &str) -> Option<Value> {
    match annotation {
        "unconfined" => Some(json!({"type": "Unconfined"})),
        "runtime/default" => Some(json!({"type": "RuntimeDefault"})),
        other => {
            let profile = other.strip_prefix("localhost/").filter(|profile| !profile.trim().is_empty())?;
            Some(json!({"type": "Localhost", "localhostProfile": profile}))
        }
    }
}

fn annotation<'p>(pod: &'p Value, container: &Value) -> Option<&'p str> {
    metadata::annotation(pod, &format!("{APP_ARMOR}{}", str_field(container, "name")))
}

/// Sets the fields of containers that have an annotation only.
pub(super) fn sync_fields(pod: &mut Value) {
    if pod["spec"]["os"]["name"] == "windows" {
        return;
    }
    let of_pod = profile(&pod["spec"], FIELD).cloned();
    for list in CONTAINERS {
        for index in 0..array_field(&pod["spec"], list).len() {
            let container = &pod["spec"][list][index];
            let field = annotation(pod, container).filter(|_| profile(container, FIELD).is_none()).and_then(field_of);
            let Some(field) = field.filter(|field| of_pod.as_ref() != Some(field)) else { continue };
            if let Some(context) = object_or_insert(&mut pod["spec"][list][index], "securityContext") {
                context.insert(FIELD, field);
            }
        }
    }
}

/// Returns true if a container in a template has an annotation and no field, and the pod has another profile.
pub(in crate::registry) fn ignores_annotation(template: &Value, container: &Value) -> bool {
    let given = annotation(template, container).filter(|_| profile(container, FIELD).is_none());
    given.is_some_and(|given| {
        let of_pod = profile(&template["spec"], FIELD);
        of_pod.is_none() || of_pod != field_of(given).as_ref()
    })
}

/// Returns the warnings about annotations, after [`sync_fields`]: about those that became a field, or could not.
pub(super) fn warnings(pod: &Value) -> Vec<String> {
    if pod["spec"]["os"]["name"] == "windows" {
        return Vec::new();
    }
    let containers = CONTAINERS.iter().flat_map(|list| array_field(&pod["spec"], list));
    let warned = containers.filter(|container| {
        annotation(pod, container).is_some_and(|annotation| match field_of(annotation) {
            Some(field) => profile(container, FIELD) == Some(&field),
            None => profile(container, FIELD).is_none(),
        })
    });
    warned
        .map(|container| {
            let key = format!("{APP_ARMOR}{}", str_field(container, "name"));
            format!("metadata.annotations[{key}]: deprecated since v1.30; use the \"appArmorProfile\" field instead")
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    /// `TestApplyAppArmorVersionSkew`: the annotation, the pod's and the container's profile, what the container has
    /// then, and whether there is a warning.
    #[rstest]
    #[case::unconfined("unconfined", json!(null), json!(null), json!({"type": "Unconfined"}), 1)]
    #[case::default("runtime/default", json!(null), json!(null), json!({"type": "RuntimeDefault"}), 1)]
    #[case::local("localhost/a", json!(null), json!(null), json!({"type": "Localhost", "localhostProfile": "a"}), 1)]
    #[case::invalid("localhost/", json!(null), json!(null), json!(null), 1)]
    #[case::as_the_pod("unconfined", json!({"type": "Unconfined"}), json!(null), json!(null), 0)]
    #[case::other_field("unconfined", json!(null), json!({"type": "RuntimeDefault"}), json!({"type": "RuntimeDefault"}), 0)]
    fn annotations_become_fields(
        #[case] given: &str,
        #[case] of_pod: Value,
        #[case] of_container: Value,
        #[case] expected: Value,
        #[case] warned: usize,
    ) {
        let mut pod = json!({"metadata": {"annotations": {(format!("{APP_ARMOR}c")): given}},
            "spec": {"securityContext": {"appArmorProfile": of_pod},
                "containers": [{"name": "c", "securityContext": {"appArmorProfile": of_container}}, {"name": "d"}]}});
        sync_fields(&mut pod);
        assert_eq!(pod["spec"]["containers"][0]["securityContext"]["appArmorProfile"], expected);
        assert_eq!(pod["spec"]["containers"][1], json!({"name": "d"}));
        assert_eq!(warnings(&pod).len(), warned);
    }
}
