//! `policy/v1` `PodDisruptionBudget`.
//!
//! See `pkg/registry/policy/poddisruptionbudget/strategy.go` and `pkg/apis/policy/validation/validation.go`.

use crate::field_errors::{BadValue, ErrorList, Path};
use crate::json::fields::{array_field, is_empty_value, non_null, object_or_insert};
use crate::json::{Value, json};
use crate::metadata;
use crate::printers::column::{AGE, CellSource, Column, Description, NAME};
use crate::printers::format::int_or_string;
use crate::registry::builder::{ResourceBuilder, resource};
use crate::registry::prepare::{copy_field, set_generation, specs_equal};
use crate::registry::strategy::{Strategy, StrategyContext};
use crate::registry::{checks, conditions, int_or_percent, label_selector};

/// The resource `poddisruptionbudgets` of `policy/v1`.
pub(in crate::registry) fn definition() -> ResourceBuilder {
    resource("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", "io.k8s.api.policy.v1.PodDisruptionBudget")
        .short(&["pdb"])
        .status()
        .hash("EVWiDmWqyJw=")
        .rules(PodDisruptionBudget)
        .columns(COLUMNS)
}

/// The strategy of disruption budgets. All updates, including those of the status, need a resourceVersion.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PodDisruptionBudget;

const STATUS_COUNTERS: [&str; 4] = ["disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"];

impl Strategy for PodDisruptionBudget {
    fn default(&self, object: &mut Value) {
        object_or_insert(object, "spec");
        let Some(status) = object_or_insert(object, "status") else { return };
        for counter in STATUS_COUNTERS {
            status.entry(counter).or_insert_with(|| 0.into());
        }
        if is_empty_value(status.get("disruptedPods")) {
            status.remove("disruptedPods");
        }
    }

    fn prepare_for_create(&self, object: &mut Value, _ctx: &StrategyContext<'_>) {
        if let Some(map) = object.as_object_mut() {
            let status = json!({
                "disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0,
            });
            map.insert("status", status);
        }
        set_generation(object, 1);
    }

    fn validate(&self, object: &Value) -> ErrorList {
        validate_spec(object, false)
    }

    fn prepare_for_update(&self, new: &mut Value, old: &Value, _ctx: &StrategyContext<'_>) {
        copy_field(new, old, "status");
        if !specs_equal(new, old) {
            set_generation(new, metadata::generation(old) + 1);
        }
    }

    fn validate_update(&self, new: &Value, old: &Value) -> ErrorList {
        let old_selector = old.get("spec").and_then(|s| s.get("selector"));
        let lenient = !label_selector::validate(old_selector, false, &Path::new("")).is_empty();
        validate_spec(new, lenient)
    }

    fn validate_status_update(&self, new: &Value, _old: &Value) -> ErrorList {
        let mut errors = ErrorList::new();
        let Some(status) = new.get("status") else { return errors };
        let path = Path::new("status");
        conditions::validate(array_field(status, "conditions"), &path.child("conditions"), &mut errors);
        for counter in STATUS_COUNTERS {
            checks::validate_non_negative(status.get(counter), &path.child(counter), &mut errors);
        }
        errors
    }

    fn allow_unconditional_update(&self) -> bool {
        false
    }
}

fn validate_spec(object: &Value, lenient: bool) -> ErrorList {
    let mut errors = ErrorList::new();
    let Some(spec) = object.get("spec") else { return errors };
    let path = Path::new("spec");
    let given = |field: &str| non_null(spec, field);
    if given("minAvailable").is_some() && given("maxUnavailable").is_some() {
        errors.invalid(&path, BadValue::Raw(spec_json(spec)), "minAvailable and maxUnavailable cannot be both set");
    }
    for field in ["minAvailable", "maxUnavailable"] {
        if let Some(value) = given(field) {
            int_or_percent::validate_positive(value, &path.child(field), &mut errors);
            int_or_percent::validate_at_most_100_percent(value, &path.child(field), &mut errors);
        }
    }
    errors.append(label_selector::validate(given("selector"), lenient, &path.child("selector")));
    if let Some(policy) = given("unhealthyPodEvictionPolicy") {
        let policy = policy.as_str().unwrap_or_default();
        if policy != "IfHealthyBudget" && policy != "AlwaysAllow" {
            let supported = ["AlwaysAllow", "IfHealthyBudget"];
            errors.not_supported(&path.child("unhealthyPodEvictionPolicy"), policy, &supported);
        }
    }
    errors
}

/// Encodes the spec like upstream's internal type, with Go's field names and all four fields.
fn spec_json(spec: &Value) -> String {
    let field = |name: &str| spec.get(name).map_or_else(|| "null".to_owned(), ToString::to_string);
    format!(
        "{{\"MinAvailable\":{},\"Selector\":{},\"MaxUnavailable\":{},\"UnhealthyPodEvictionPolicy\":{}}}",
        field("minAvailable"),
        label_selector::selector_json(spec.get("selector")),
        field("maxUnavailable"),
        field("unhealthyPodEvictionPolicy"),
    )
}

/// The columns of `poddisruptionbudgets`.
const COLUMNS: &[Column] = &[
    NAME,
    Column::string(
        "Min Available",
        Description::Text("The minimum number of pods that must be available."),
        CellSource::Custom(|pdb, _| json!(int_or_string(pdb, "/spec/minAvailable", "N/A"))),
    ),
    Column::string(
        "Max Unavailable",
        Description::Text("The maximum number of pods that may be unavailable."),
        CellSource::Custom(|pdb, _| json!(int_or_string(pdb, "/spec/maxUnavailable", "N/A"))),
    ),
    Column::integer(
        "Allowed Disruptions",
        Description::Text("Calculated number of pods that may be disrupted at this time."),
        CellSource::Number("/status/disruptionsAllowed"),
    ),
    AGE,
];
