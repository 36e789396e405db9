//! `scheduling.k8s.io/v1` `PriorityClass`. See `pkg/registry/scheduling/priorityclass/strategy.go` and
//! `pkg/apis/scheduling/validation/validation.go`.

use crate::field_errors::{ErrorList, Path};
use crate::json::Value;
use crate::json::fields::value_default;
use crate::metadata;
use crate::printers::column::{AGE, CellSource, Column, Description, NAME};
use crate::registry::builder::{ResourceBuilder, resource};
use crate::registry::generic::{Generation, Generic};
use crate::registry::names::NameFormat;
use crate::registry::strategy::{Strategy, StrategyContext};
use crate::registry::{checks, meta};
use crate::status::{GroupResource, Status};

/// The resource `priorityclasses` of `scheduling.k8s.io/v1`.
pub(in crate::registry) fn definition() -> ResourceBuilder {
    resource("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", "io.k8s.api.scheduling.v1.PriorityClass")
        .cluster()
        .short(&["pc"])
        .hash("1QwjyaZjj3Y=")
        .rules(PriorityClass)
        .columns(COLUMNS)
}

const METADATA: Path<'static> = Path::new("metadata");

/// `scheduling.k8s.io/v1` `PriorityClass`.
#[derive(Debug, Clone, Copy)]
struct PriorityClass;

const STRATEGY: Generic = Generic { generation: Generation::Fixed, namespaced: false, ..Generic::NEW };

/// The highest priority of user-defined classes.
const HIGHEST_USER_PRIORITY: i64 = 1_000_000_000;

impl Strategy for PriorityClass {
    fn default(&self, object: &mut Value) {
        if let Some(map) = object.as_object_mut() {
            value_default(map, "preemptionPolicy", "PreemptLowerPriority");
        }
    }

    fn check_admission(
        &self,
        _subresource: &str,
        new: &Value,
        _old: Option<&Value>,
        ctx: &StrategyContext<'_>,
    ) -> Result<(), Status> {
        only_default(new, ctx)
    }

    fn prepare_for_create(&self, object: &mut Value, ctx: &StrategyContext<'_>) {
        STRATEGY.prepare_for_create(object, ctx);
    }

    fn validate(&self, object: &Value) -> ErrorList {
        let mut errors = meta::validate(object, false, NameFormat::Subdomain, &METADATA);
        let name = metadata::name(object);
        let value = object.get("value").and_then(Value::as_i64).unwrap_or(0);
        if name.starts_with("system-") {
            if let Some(wrong) = system_class_error(name, value, object["globalDefault"] == true) {
                let why = format!(
                    "priority class names with 'system-' prefix are reserved for system use only. error: {wrong}"
                );
                errors.forbidden(&METADATA.child("name"), why);
            }
        } else if value > HIGHEST_USER_PRIORITY {
            let why = format!("maximum allowed value of a user defined priority is {HIGHEST_USER_PRIORITY}");
            errors.forbidden(&Path::new("value"), why);
        }
        let path = Path::new("preemptionPolicy");
        match object["preemptionPolicy"].as_str() {
            None | Some("PreemptLowerPriority" | "Never") => {}
            Some("") => errors.required(&path, ""),
            Some(policy) => errors.not_supported(&path, policy, &["PreemptLowerPriority", "Never"]),
        }
        errors
    }

    fn validate_update(&self, new: &Value, old: &Value) -> ErrorList {
        let mut errors = meta::validate_update(new, old, &METADATA);
        let value = |o: &Value| o.get("value").and_then(Value::as_i64).unwrap_or(0);
        if value(new) != value(old) {
            errors.forbidden(&Path::new("value"), "may not be changed in an update.");
        }
        let path = Path::new("preemptionPolicy");
        checks::validate_immutable(new.get("preemptionPolicy"), old.get("preemptionPolicy"), &path, &mut errors);
        errors
    }
}

/// Returns the reason why a class is not one of the system's: `IsKnownSystemPriorityClass` in
/// `pkg/apis/scheduling/v1/helpers.go`.
fn system_class_error(name: &str, value: i64, is_default: bool) -> Option<String> {
    let known = match name {
        "system-cluster-critical" => 2_000_000_000,
        "system-node-critical" => 2_000_001_000,
        _ => return Some(format!("{name} is not a known system priority class")),
    };
    if value != known {
        return Some(format!("value of {name} PriorityClass must be {known}"));
    }
    is_default.then(|| format!("globalDefault of {name} PriorityClass must be false"))
}

/// The plugin `Priority` refuses a second default: `validatePriorityClass` in
/// `plugin/pkg/admission/priority/admission.go`.
fn only_default(class: &Value, ctx: &StrategyContext<'_>) -> Result<(), Status> {
    const DEFAULT: &str = "globalDefault";
    if class[DEFAULT] != true {
        return Ok(());
    }
    let classes = ctx.lookup.list_holding("scheduling.k8s.io", "priorityclasses", "", r#""globalDefault":true"#);
    let is_other = |other: &&Value| other[DEFAULT] == true && metadata::name(other) != metadata::name(class);
    let Some(known) = classes.iter().find(is_other) else { return Ok(()) };
    let known = metadata::name(known);
    let why = format!("PriorityClass {known} is already marked as default. Only one default can exist");
    let resource = GroupResource::new("scheduling.k8s.io", "priorityclasses");
    Err(Status::forbidden(resource, metadata::admitted_name(class), &why))
}

/// The columns of `priorityclasses`.
const COLUMNS: &[Column] = &[
    NAME,
    Column::integer(
        "Value",
        Description::Field("api.scheduling.v1.PriorityClass", "value"),
        CellSource::Number("/value"),
    ),
    Column::boolean(
        "Global-Default",
        Description::Field("api.scheduling.v1.PriorityClass", "globalDefault"),
        CellSource::Flag("/globalDefault"),
    ),
    AGE,
    Column::string(
        "PreemptionPolicy",
        Description::Field("api.scheduling.v1.PriorityClass", "preemptionPolicy"),
        CellSource::Text("/preemptionPolicy", ""),
    ),
];

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::json::json;
    use crate::registry::lister::ObjectLister;

    /// One class is the default.
    struct Classes;

    impl ObjectLister for Classes {
        fn get(&self, _: &str, _: &str, _: &str, _: &str) -> Option<Value> {
            None
        }

        fn list(&self, _: &str, _: &str, _: &str) -> Vec<Value> {
            vec![json!({"metadata": {"name": "a"}, "globalDefault": true}), json!({"metadata": {"name": "b"}})]
        }
    }

    /// `TestIsKnownSystemPriorityClass` in `pkg/apis/scheduling/v1/helpers_test.go`.
    #[rstest]
    #[case("system-node-critical", 2_000_001_000, false, None)]
    #[case("system-node-critical", 1, false, Some("value of system-node-critical PriorityClass must be 2000001000"))]
    #[case(
        "system-cluster-critical",
        2_000_000_000,
        true,
        Some("globalDefault of system-cluster-critical PriorityClass must be false")
    )]
    #[case("system-x", 1, false, Some("system-x is not a known system priority class"))]
    fn system_classes(#[case] name: &str, #[case] value: i64, #[case] default: bool, #[case] expected: Option<&str>) {
        assert_eq!(system_class_error(name, value, default).as_deref(), expected);
    }

    /// `TestPriorityClassAdmission`.
    #[rstest]
    #[case::second(
        "c",
        true,
        Some(
            "priorityclasses.scheduling.k8s.io \"c\" is forbidden: PriorityClass a is already marked as default. Only one default can exist"
        )
    )]
    #[case::same("a", true, None)]
    #[case::other("c", false, None)]
    fn one_class_is_the_default(#[case] name: &str, #[case] default: bool, #[case] why: Option<&str>) {
        let ctx = StrategyContext::of_test(&Classes);
        let class = json!({"metadata": {"name": name}, "value": 1, "globalDefault": default});
        let admitted = PriorityClass.check_admission("", &class, None, &ctx);
        assert_eq!(admitted.err().map(|status| status.message), why.map(str::to_owned));
    }
}
