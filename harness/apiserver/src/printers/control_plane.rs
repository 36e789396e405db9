//! Columns of flow control, service addresses and admission policies. Follows
//! `pkg/printers/internalversion/printers.go` of Kubernetes 1.36. PURE.

use std::cmp::Ordering;

use super::column::{AGE, CellSource, Column, Description, NAME};
use super::format::{NONE, UNSET, items, number, text, text_or};
use crate::json::{Value, json};

const LEVEL: &str = "api.flowcontrol.v1.LimitedPriorityLevelConfiguration";
const QUEUING: &str = "api.flowcontrol.v1.QueuingConfiguration";

/// The columns of `flowschemas`.
pub(super) const FLOW_SCHEMAS: &[Column] = &[
    NAME,
    Column::string(
        "PriorityLevel",
        Description::Field("api.flowcontrol.v1.PriorityLevelConfigurationReference", "name"),
        CellSource::Text("/spec/priorityLevelConfiguration/name", ""),
    ),
    Column::string(
        "MatchingPrecedence",
        Description::Field("api.flowcontrol.v1.FlowSchemaSpec", "matchingPrecedence"),
        CellSource::Number("/spec/matchingPrecedence"),
    ),
    Column::string(
        "DistinguisherMethod",
        Description::Field("api.flowcontrol.v1.FlowSchemaSpec", "distinguisherMethod"),
        CellSource::Text("/spec/distinguisherMethod/type", NONE),
    ),
    AGE,
    Column::string(
        "MissingPL",
        Description::Text("references a broken or non-existent PriorityLevelConfiguration"),
        CellSource::Custom(|schema, _| {
            let dangling = items(schema, "/status/conditions").iter().find(|one| text(one, "/type") == "Dangling");
            json!(dangling.map_or("?", |one| text_or(one, "/status", "?")))
        }),
    ),
];

/// Compares flow schemas by matching precedence, then by name.
pub(super) fn flow_schema_order(one: &Value, other: &Value) -> Ordering {
    let precedence = |schema: &Value| number(schema, "/spec/matchingPrecedence");
    precedence(one).cmp(&precedence(other)).then_with(|| text(one, "/metadata/name").cmp(text(other, "/metadata/name")))
}

/// Returns a number, or `<none>` if it is absent.
fn number_or_none(level: &Value, pointer: &str) -> Value {
    level.pointer(pointer).filter(|number| number.is_number()).cloned().unwrap_or_else(|| json!(NONE))
}

/// The columns of `prioritylevelconfigurations`.
pub(super) const PRIORITY_LEVELS: &[Column] = &[
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

/// The columns of `servicecidrs`.
pub(super) const SERVICE_CIDRS: &[Column] = &[
    NAME,
    Column::string(
        "CIDRs",
        Description::Field("api.networking.v1.ServiceCIDRSpec", "cidrs"),
        CellSource::Custom(|range, _| {
            let ranges: Vec<&str> = items(range, "/spec/cidrs").iter().filter_map(Value::as_str).collect();
            json!(ranges.join(","))
        }),
    ),
    AGE,
];

/// The columns of `ipaddresses`; upstream's rows end with an age for which no column is defined.
pub(super) const IP_ADDRESSES: &[Column] = &[
    NAME,
    Column::string(
        "ParentRef",
        Description::Field("api.networking.v1.IPAddressSpec", "parentRef"),
        CellSource::Custom(|address, _| {
            let parent = |field: &str| text(address, &format!("/spec/parentRef/{field}")).to_owned();
            let parts = ["group", "resource", "namespace", "name"].map(parent);
            let parts: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
            json!(parts.join("/"))
        }),
    ),
];

const PARAM_KIND: Column = Column::string(
    "ParamKind",
    Description::Text("ParamKind specifies the kind of resources used to parameterize this policy"),
    CellSource::Custom(|policy, _| match policy.pointer("/spec/paramKind").filter(|kind| kind.is_object()) {
        Some(kind) => json!(format!("{}/{}", text(kind, "/apiVersion"), text(kind, "/kind"))),
        None => json!(UNSET),
    }),
);

/// The columns of `validatingadmissionpolicies`.
pub(super) const VALIDATING_POLICIES: &[Column] = &[
    NAME,
    Column::integer(
        "Validations",
        Description::Text("Validations indicates the number of validation rules defined in this configuration"),
        CellSource::Count("/spec/validations"),
    ),
    PARAM_KIND,
    AGE,
];

/// The columns of `mutatingadmissionpolicies`.
pub(super) const MUTATING_POLICIES: &[Column] = &[
    NAME,
    Column::integer(
        "Mutations",
        Description::Text("Mutation indicates the number of mutations rules defined in this configuration"),
        CellSource::Count("/spec/mutations"),
    ),
    PARAM_KIND,
    AGE,
];

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use rstest::rstest;

    use super::*;

    fn cells(columns: &[Column], object: &Value) -> Vec<Value> {
        columns.iter().map(|column| column.read(object, Timestamp::UNIX_EPOCH)).collect()
    }

    #[rstest]
    #[case::schema(FLOW_SCHEMAS, json!({"metadata": {"name": "n", "creationTimestamp": "1969-12-31T23:59:50Z"}, "spec": {"priorityLevelConfiguration": {"name": "l"}, "matchingPrecedence": 3}}), json!(["n", "l", 3, "<none>", "10s", "?"]))]
    #[case::range(SERVICE_CIDRS, json!({"metadata": {"name": "n", "creationTimestamp": "1969-12-31T23:59:50Z"}, "spec": {"cidrs": ["10.0.0.0/24", "fd00::/112"]}}), json!(["n", "10.0.0.0/24,fd00::/112", "10s"]))]
    #[case::address(IP_ADDRESSES, json!({"metadata": {"name": "n"}, "spec": {"parentRef": {"resource": "services", "namespace": "a", "name": "b"}}}), json!(["n", "services/a/b"]))]
    #[case::policy(VALIDATING_POLICIES, json!({"metadata": {"name": "n", "creationTimestamp": "1969-12-31T23:59:50Z"}, "spec": {"validations": [{}, {}]}}), json!(["n", 2, "<unset>", "10s"]))]
    fn rows(#[case] columns: &[Column], #[case] object: Value, #[case] expected: Value) {
        assert_eq!(Value::from(cells(columns, &object)), expected);
    }

    #[test]
    fn an_exempt_level_has_no_numbers() {
        let level = json!({"metadata": {"name": "e"}, "spec": {"type": "Exempt", "exempt": {}}});
        assert_eq!(
            cells(PRIORITY_LEVELS, &level)[1..6],
            [json!("Exempt"), json!(NONE), json!(NONE), json!(NONE), json!(NONE)]
        );
    }
}
