//! `flowcontrol.apiserver.k8s.io/v1` `PriorityLevelConfiguration`. See
//! `pkg/registry/flowcontrol/prioritylevelconfiguration/strategy.go` and
//! `pkg/apis/flowcontrol/validation/validation.go`.

use crate::field_errors::{ErrorList, Path};
use crate::json::fields::{non_null, object_mut, spec_of, str_field, value_default};
use crate::json::{Map, Value, json};
use crate::metadata;
use crate::printers::column::{AGE, CellSource, Column, Description, NAME};
use crate::printers::format::NONE;
use crate::registry::builder::{ResourceBuilder, resource};
use crate::registry::generic::{Generation, Generic};
use crate::registry::kind_strategy::KindStrategy;

const SPEC: Path<'static> = Path::new("spec");

/// The resource `prioritylevelconfigurations` of `flowcontrol.apiserver.k8s.io/v1`.
pub(in crate::registry) fn definition() -> ResourceBuilder {
    resource(
        "flowcontrol.apiserver.k8s.io",
        "v1",
        "prioritylevelconfigurations",
        "PriorityLevelConfiguration",
        "io.k8s.api.flowcontrol.v1.PriorityLevelConfiguration",
    )
    .cluster()
    .status_without_metadata()
    .hash("Kir5PVfvNeI=")
    .rules(
        KindStrategy::new(
            Generic { generation: Generation::Spec, status: true, namespaced: false, ..Generic::NEW },
            defaults,
        )
        .check_with(validate),
    )
    .columns(COLUMNS)
}

/// Defaults of `PriorityLevelConfiguration`.
fn defaults(map: &mut Map) {
    let Some(spec) = object_mut(map, "spec") else { return };
    if let Some(limited) = object_mut(spec, "limited") {
        value_default(limited, "nominalConcurrencyShares", 30);
        value_default(limited, "lendablePercent", 0);
    }
    if let Some(exempt) = object_mut(spec, "exempt") {
        value_default(exempt, "nominalConcurrencyShares", 0);
        value_default(exempt, "lendablePercent", 0);
    }
}

/// Validates a `PriorityLevelConfiguration`.
fn validate(object: &Value) -> ErrorList {
    let mut errors = ErrorList::new();
    let spec = spec_of(object);
    let path = SPEC.child("type");
    let kind = str_field(spec, "type");
    if (metadata::name(object) == "exempt") != (kind == "Exempt") {
        errors.invalid(&path, kind, "must be 'Exempt' if and only if `name` is 'exempt'");
    }
    let given = |field: &str| non_null(spec, field).is_some();
    match kind {
        "Exempt" if given("limited") => {
            errors.forbidden(&SPEC.child("limited"), "must be nil if the type is not Limited");
        }
        "Exempt" => {}
        "Limited" => {
            if given("exempt") {
                errors.forbidden(&SPEC.child("exempt"), "must be nil if the type is Limited");
            }
            if !given("limited") {
                errors.required(&SPEC.child("limited"), "must not be empty when type is Limited");
            }
        }
        _ => errors.not_supported(&path, kind, &["Exempt", "Limited"]),
    }
    errors
}

const LEVEL: &str = "api.flowcontrol.v1.LimitedPriorityLevelConfiguration";

const QUEUING: &str = "api.flowcontrol.v1.QueuingConfiguration";

/// The columns of `prioritylevelconfigurations`.
const COLUMNS: &[Column] = &[
    NAME,
    Column::string(
        "Type",
        Description::Field("api.flowcontrol.v1.PriorityLevelConfigurationSpec", "type"),
        CellSource::Text("/spec/type", ""),
    ),
    Column::string(
        "NominalConcurrencyShares",
        Description::Field(LEVEL, "nominalConcurrencyShares"),
        CellSource::Custom(|level, _| number_or_none(level, "/spec/limited/nominalConcurrencyShares")),
    ),
    Column::string(
        "Queues",
        Description::Field(QUEUING, "queues"),
        CellSource::Custom(|level, _| number_or_none(level, "/spec/limited/limitResponse/queuing/queues")),
    ),
    Column::string(
        "HandSize",
        Description::Field(QUEUING, "handSize"),
        CellSource::Custom(|level, _| number_or_none(level, "/spec/limited/limitResponse/queuing/handSize")),
    ),
    Column::string(
        "QueueLengthLimit",
        Description::Field(QUEUING, "queueLengthLimit"),
        CellSource::Custom(|level, _| number_or_none(level, "/spec/limited/limitResponse/queuing/queueLengthLimit")),
    ),
    AGE,
];

/// Returns a number, or `<none>` if it is absent.
fn number_or_none(level: &Value, pointer: &str) -> Value {
    level.pointer(pointer).filter(|number| number.is_number()).cloned().unwrap_or_else(|| json!(NONE))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::printers::column::cells;

    #[test]
    fn an_exempt_level_has_no_numbers() {
        let level = json!({"metadata": {"name": "e"}, "spec": {"type": "Exempt", "exempt": {}}});
        assert_eq!(cells(COLUMNS, &level)[1..6], [json!("Exempt"), json!(NONE), json!(NONE), json!(NONE), json!(NONE)]);
    }
}
