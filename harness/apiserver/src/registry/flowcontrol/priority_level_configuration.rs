//! `flowcontrol.apiserver.k8s.io/v1` `PriorityLevelConfiguration`. See
//! `pkg/registry/flowcontrol/prioritylevelconfiguration/strategy.go` and
//! `pkg/apis/flowcontrol/validation/validation.go`.

use crate::field_errors::{ErrorList, Path};
use crate::json::fields::{non_null, object_mut, semantic_equal, spec_of, str_field, value_default};
use crate::json::{Map, Value, json};
use crate::metadata;
use crate::printers::column::{AGE, CellSource, Column, Description, NAME};
use crate::printers::format::NONE;
use crate::registry::builder::{ResourceBuilder, resource};
use crate::registry::flowcontrol::conditions;
use crate::registry::generic::{Generation, Generic, MetadataRules};
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
            Generic {
                generation: Generation::Spec,
                status: true,
                namespaced: false,
                updates: MetadataRules::Whole,
                ..Generic::NEW
            },
            defaults,
        )
        .check_with(validate)
        .check_status_with(|new, _| conditions::validate(new)),
    )
    .columns(COLUMNS)
}

/// Defaults of `PriorityLevelConfiguration`.
fn defaults(map: &mut Map) {
    let Some(spec) = object_mut(map, "spec") else { return };
    if let Some(limited) = object_mut(spec, "limited") {
        value_default(limited, "nominalConcurrencyShares", 30);
        value_default(limited, "lendablePercent", 0);
        let queuing = object_mut(limited, "limitResponse").and_then(|response| object_mut(response, "queuing"));
        if let Some(queuing) = queuing {
            for (field, default) in [("queues", 64), ("handSize", 8), ("queueLengthLimit", 50)] {
                if queuing.get(field).and_then(Value::as_i64).unwrap_or(0) == 0 {
                    queuing.insert(field, default.into());
                }
            }
        }
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
    let exempt = non_null(spec, "exempt");
    let limited = non_null(spec, "limited");
    match kind {
        "Exempt" => {
            if limited.is_some() {
                errors.forbidden(&SPEC.child("limited"), "must be nil if the type is not Limited");
            }
            if let Some(exempt) = exempt {
                shares(exempt, &SPEC.child("exempt"), &mut errors);
                lendable(exempt, &SPEC.child("exempt"), &mut errors);
            }
        }
        "Limited" => {
            if exempt.is_some() {
                errors.forbidden(&SPEC.child("exempt"), "must be nil if the type is Limited");
            }
            match limited {
                None => errors.required(&SPEC.child("limited"), "must not be empty when type is Limited"),
                Some(limited) => validate_limited(limited, &SPEC.child("limited"), &mut errors),
            }
        }
        _ => errors.not_supported(&path, kind, &["Exempt", "Limited"]),
    }
    errors.append(mandatory(object));
    errors
}

/// Validates that the levels that must exist have their fixed specs: `MandatoryPriorityLevelConfigurations` in
/// `staging/src/k8s.io/apiserver/pkg/apis/flowcontrol/bootstrap/default.go`.
fn mandatory(object: &Value) -> ErrorList {
    let mut errors = ErrorList::new();
    let spec = spec_of(object);
    let name = metadata::name(object);
    let (fixed, except) = match name {
        "exempt" => (json!({"type": "Exempt", "exempt": spec["exempt"]}), " except the 'spec.exempt' field"),
        "catch-all" => {
            let limited =
                json!({"nominalConcurrencyShares": 5, "lendablePercent": 0, "limitResponse": {"type": "Reject"}});
            (json!({"type": "Limited", "limited": limited}), "")
        }
        _ => return errors,
    };
    if !semantic_equal(Some(spec), Some(&fixed)) {
        errors.invalid(&SPEC, spec, format!("spec of '{name}'{except} must equal the fixed value"));
    }
    errors
}

fn number(holder: &Value, field: &str) -> i64 {
    holder.get(field).and_then(Value::as_i64).unwrap_or(0)
}

fn shares(level: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let shares = number(level, "nominalConcurrencyShares");
    if shares < 0 {
        errors.invalid(&path.child("nominalConcurrencyShares"), shares, "must be a non-negative integer");
    }
}

fn lendable(level: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let percent = number(level, "lendablePercent");
    if !(0..=100).contains(&percent) {
        errors.invalid(&path.child("lendablePercent"), percent, "must be between 0 and 100, inclusive");
    }
}

fn validate_limited(limited: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    shares(limited, path, errors);
    let response = &limited["limitResponse"];
    let path_of_response = path.child("limitResponse");
    let path_of_queuing = path_of_response.child("queuing");
    match (str_field(response, "type"), non_null(response, "queuing")) {
        ("Reject", Some(_)) => {
            errors.forbidden(&path_of_queuing, "must be nil if limited.limitResponse.type is not Limited");
        }
        ("Reject", None) => {}
        ("Queue", None) => {
            errors.required(&path_of_queuing, "must not be empty if limited.limitResponse.type is Limited");
        }
        ("Queue", Some(queuing)) => validate_queuing(queuing, &path_of_queuing, errors),
        (kind, _) => errors.not_supported(&path_of_response.child("type"), kind, &["Queue", "Reject"]),
    }
    lendable(limited, path, errors);
    let borrowed = number(limited, "borrowingLimitPercent");
    if borrowed < 0 {
        let why = "if specified, must be a non-negative integer";
        errors.invalid(&path.child("borrowingLimitPercent"), borrowed, why);
    }
}

/// Validates the queues of a level, among which a hash of limited length chooses a hand.
fn validate_queuing(queuing: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    const MOST_QUEUES: i64 = 10_000_000;
    /// `MaxHashBits` in `staging/src/k8s.io/apiserver/pkg/util/shufflesharding/shufflesharding.go`.
    const HASH_BITS: i64 = 60;
    const POSITIVE: &str = "must be positive";
    let [length, queues, hand] = ["queueLengthLimit", "queues", "handSize"].map(|field| number(queuing, field));
    if length <= 0 {
        errors.invalid(&path.child("queueLengthLimit"), length, POSITIVE);
    }
    if queues <= 0 {
        errors.invalid(&path.child("queues"), queues, POSITIVE);
    } else if queues > MOST_QUEUES {
        errors.invalid(&path.child("queues"), queues, format!("must not be greater than {MOST_QUEUES}"));
    }
    let path = path.child("handSize");
    let bits = || ((queues as f64).log2() * hand as f64).ceil() as i64;
    if hand <= 0 {
        errors.invalid(&path, hand, POSITIVE);
    } else if hand > queues {
        errors.invalid(&path, hand, format!("should not be greater than queues ({queues})"));
    } else if bits() > HASH_BITS {
        let why = format!(
            "required entropy bits of deckSize {queues} and handSize {hand} should not be greater than {HASH_BITS}"
        );
        errors.invalid(&path, hand, why);
    }
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
    use rstest::rstest;

    use super::*;
    use crate::registry::tests::defaulted;

    fn limited(response: Value) -> Value {
        json!({"type": "Limited", "limited": {"nominalConcurrencyShares": 10, "limitResponse": response}})
    }

    /// `TestPriorityLevelConfigurationValidation` and `TestValidatePriorityLevelQueuingConfiguration` in
    /// `pkg/apis/flowcontrol/validation/validation_test.go`.
    #[rstest]
    #[case::fine("a", limited(json!({"type": "Queue", "queuing": {"queues": 512, "handSize": 4, "queueLengthLimit": 100}})), &[])]
    #[case::no_queues("a", limited(json!({"type": "Queue"})),
        &["spec.limited.limitResponse.queuing: Required value: must not be empty if limited.limitResponse.type is Limited"])]
    #[case::queues("a", limited(json!({"type": "Reject", "queuing": {}})),
        &["spec.limited.limitResponse.queuing: Forbidden: must be nil if limited.limitResponse.type is not Limited"])]
    #[case::response("a", limited(json!({"type": ""})),
        &["spec.limited.limitResponse.type: Unsupported value: \"\": supported values: \"Queue\", \"Reject\""])]
    #[case::negative("a", limited(json!({"type": "Queue", "queuing": {"queues": -1, "handSize": -1, "queueLengthLimit": -1}})), &[
        "spec.limited.limitResponse.queuing.queueLengthLimit: Invalid value: -1: must be positive",
        "spec.limited.limitResponse.queuing.queues: Invalid value: -1: must be positive",
        "spec.limited.limitResponse.queuing.handSize: Invalid value: -1: must be positive",
    ])]
    #[case::hand("a", limited(json!({"type": "Queue", "queuing": {"queues": 7, "handSize": 8, "queueLengthLimit": 1}})),
        &["spec.limited.limitResponse.queuing.handSize: Invalid value: 8: should not be greater than queues (7)"])]
    #[case::entropy("a", limited(json!({"type": "Queue", "queuing": {"queues": 10_000_000, "handSize": 3, "queueLengthLimit": 1}})),
        &["spec.limited.limitResponse.queuing.handSize: Invalid value: 3: required entropy bits of deckSize 10000000 and handSize 3 should not be greater than 60"])]
    #[case::exempt("exempt", json!({"type": "Exempt", "exempt": {"nominalConcurrencyShares": -1, "lendablePercent": 101}}), &[
        "spec.exempt.nominalConcurrencyShares: Invalid value: -1: must be a non-negative integer",
        "spec.exempt.lendablePercent: Invalid value: 101: must be between 0 and 100, inclusive",
    ])]
    fn levels(#[case] name: &str, #[case] spec: Value, #[case] expected: &[&str]) {
        let level = defaulted(defaults, json!({"metadata": {"name": name}, "spec": spec}));
        assert_eq!(validate(&level).iter().map(ToString::to_string).collect::<Vec<_>>(), expected);
    }

    #[rstest]
    #[case::exempt("exempt", json!({"type": "Exempt", "exempt": {"lendablePercent": 10}}), None)]
    #[case::catch_all("catch-all", json!({"type": "Limited", "limited": {"nominalConcurrencyShares": 5,
        "limitResponse": {"type": "Reject"}}}), None)]
    #[case::other_shares("catch-all", limited(json!({"type": "Reject"})), Some("spec of 'catch-all' must equal the fixed value"))]
    fn mandatory_levels_stay(#[case] name: &str, #[case] spec: Value, #[case] expected: Option<&str>) {
        let level = defaulted(defaults, json!({"metadata": {"name": name}, "spec": spec}));
        assert_eq!(validate(&level).iter().map(|error| &*error.detail).collect::<Vec<_>>(), Vec::from_iter(expected));
    }

    #[test]
    fn queues_have_defaults() {
        let level = defaulted(defaults, json!({"spec": limited(json!({"type": "Queue", "queuing": {}}))}));
        let expected = json!({"queues": 64, "handSize": 8, "queueLengthLimit": 50});
        assert_eq!(level["spec"]["limited"]["limitResponse"]["queuing"], expected);
    }
}
