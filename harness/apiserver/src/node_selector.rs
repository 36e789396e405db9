//! Node selectors: those of pods' affinities and of volumes. PURE. See
//! `staging/src/k8s.io/component-helpers/scheduling/corev1/nodeaffinity/nodeaffinity.go`.

use crate::json::Value;
use crate::json::fields::array_field;
use crate::metadata;

/// Returns true if the node meets a node selector, which is a list of terms.
pub(crate) fn has_labels(node: &Value, selector: &Value) -> bool {
    array_field(selector, "nodeSelectorTerms").iter().any(|term| {
        let labels = array_field(term, "matchExpressions");
        let fields = array_field(term, "matchFields");
        let label = |key: &str| metadata::label(node, key);
        let field = |key: &str| (key == "metadata.name").then(|| metadata::name(node));
        (!labels.is_empty() || !fields.is_empty())
            && labels.iter().all(|requirement| is_met(requirement, label))
            && fields.iter().all(|requirement| is_met(requirement, field))
    })
}

/// Returns true if a requirement of a node selector is met by the values of a node.
fn is_met<'n>(requirement: &Value, value_of: impl Fn(&str) -> Option<&'n str>) -> bool {
    let value = value_of(requirement["key"].as_str().unwrap_or_default());
    let wanted = array_field(requirement, "values");
    let compared = || {
        let number = |text: &str| text.parse::<i64>().ok();
        let [limit] = wanted else { return None };
        Some(number(value?)?.cmp(&number(limit.as_str()?)?))
    };
    match requirement["operator"].as_str().unwrap_or_default() {
        "In" => value.is_some_and(|value| wanted.iter().any(|one| one == value)),
        "NotIn" => !value.is_some_and(|value| wanted.iter().any(|one| one == value)),
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        "Gt" => compared().is_some_and(std::cmp::Ordering::is_gt),
        "Lt" => compared().is_some_and(std::cmp::Ordering::is_lt),
        _ => false,
    }
}
