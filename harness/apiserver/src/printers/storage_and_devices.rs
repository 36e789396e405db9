//! Columns of storage drivers, resource claims and slices, and admission policy bindings. Follows
//! `pkg/printers/internalversion/printers.go` of Kubernetes 1.36. PURE.

use super::column::{AGE, CellSource, Column, Description, NAME};
use super::format::{NONE, UNSET, flag, items, text};
use crate::json::{Key, Value, json};

const fn about_driver(field: &'static str) -> Description {
    Description::Field("api.storage.v1.CSIDriverSpec", field)
}

/// The columns of `csidrivers`.
pub(super) const CSI_DRIVERS: &[Column] = &[
    NAME,
    Column::boolean(
        "AttachRequired",
        about_driver("attachRequired"),
        CellSource::Custom(|driver, _| {
            json!(driver.pointer("/spec/attachRequired").is_none() || flag(driver, "/spec/attachRequired"))
        }),
    ),
    Column::boolean("PodInfoOnMount", about_driver("podInfoOnMount"), CellSource::Flag("/spec/podInfoOnMount")),
    Column::boolean("StorageCapacity", about_driver("storageCapacity"), CellSource::Flag("/spec/storageCapacity")),
    Column::string(
        "TokenRequests",
        about_driver("tokenRequests"),
        CellSource::Custom(|driver, _| match items(driver, "/spec/tokenRequests") {
            [] => json!(UNSET),
            requests => json!(joined(requests.iter().map(|request| text(request, "/audience")))),
        }),
    ),
    Column::boolean(
        "RequiresRepublish",
        about_driver("requiresRepublish"),
        CellSource::Flag("/spec/requiresRepublish"),
    ),
    Column::string(
        "Modes",
        about_driver("volumeLifecycleModes"),
        CellSource::Custom(|driver, _| match items(driver, "/spec/volumeLifecycleModes") {
            [] => json!(NONE),
            modes => json!(joined(modes.iter().filter_map(Value::as_str))),
        }),
    ),
    AGE,
];

/// The columns of `volumeattributesclasses`.
pub(super) const VOLUME_ATTRIBUTES_CLASSES: &[Column] = &[
    NAME,
    Column::string(
        "DriverName",
        Description::Field("api.storage.v1.VolumeAttributesClass", "driverName"),
        CellSource::Text("/driverName", ""),
    ),
    AGE,
];

/// The columns of `validatingadmissionpolicybindings` and `mutatingadmissionpolicybindings`.
pub(super) const ADMISSION_POLICY_BINDINGS: &[Column] = &[
    NAME,
    Column::string(
        "PolicyName",
        Description::Text("PolicyName indicates the policy definition which the policy binding binded to"),
        CellSource::Text("/spec/policyName", ""),
    ),
    Column::string(
        "ParamRef",
        Description::Text("ParamRef indicates the param resource which sets the configuration param"),
        CellSource::Custom(|binding, _| json!(parameters(binding))),
    ),
    AGE,
];

/// The columns of `resourceclaims`.
pub(super) const RESOURCE_CLAIMS: &[Column] = &[
    NAME,
    Column::string(
        "State",
        Description::Text("A summary of the current state (allocated, pending, reserved, etc.)."),
        CellSource::Custom(|claim, _| json!(state(claim))),
    ),
    AGE,
];

/// The columns of `resourceslices`.
pub(super) const RESOURCE_SLICES: &[Column] = &[
    NAME,
    Column::string("Node", Description::Field(SLICE, "nodeName"), CellSource::Text("/spec/nodeName", "")),
    Column::string("Driver", Description::Field(SLICE, "driver"), CellSource::Text("/spec/driver", "")),
    Column::string(
        "Pool",
        Description::Field("api.resource.v1.ResourcePool", "name"),
        CellSource::Text("/spec/pool/name", ""),
    ),
    AGE,
];

const SLICE: &str = "api.resource.v1.ResourceSliceSpec";

fn joined<'a>(texts: impl Iterator<Item = &'a str>) -> String {
    texts.collect::<Vec<_>>().join(",")
}

/// Formats the parameter reference of a policy binding; `*` replaces an absent namespace, because the scope is unknown
/// here.
fn parameters(binding: &Value) -> String {
    let given = |pointer: &str| binding.pointer(pointer).is_some_and(Value::is_object);
    let (name, namespace) = (text(binding, "/spec/paramRef/name"), text(binding, "/spec/paramRef/namespace"));
    match (name, namespace) {
        ("", _) if given("/spec/paramRef/selector") => go_text(&binding["spec"]["paramRef"]["selector"]),
        ("", _) => UNSET.to_owned(),
        (name, "") => format!("*/{name}"),
        (name, namespace) => format!("{namespace}/{name}"),
    }
}

/// Formats a label selector as Go prints it.
fn go_text(selector: &Value) -> String {
    let labels = selector["matchLabels"].as_object().into_iter().flatten();
    let label = |(key, value): (&Key, &Value)| format!("{key}: {},", value.as_str().unwrap_or_default());
    let labels = labels.map(label).collect::<Vec<_>>().concat();
    let requirement = |one: &Value| {
        let values = items(one, "/values").iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" ");
        format!(
            "LabelSelectorRequirement{{Key:{},Operator:{},Values:[{values}],}},",
            text(one, "/key"),
            text(one, "/operator")
        )
    };
    let expressions = items(selector, "/matchExpressions").iter().map(requirement).collect::<Vec<_>>().concat();
    format!(
        "&LabelSelector{{MatchLabels:map[string]string{{{labels}}},MatchExpressions:[]LabelSelectorRequirement{{{expressions}}},}}"
    )
}

fn state(claim: &Value) -> String {
    let there = |pointer: &str| claim.pointer(pointer).is_some_and(|value| !value.is_null());
    let deleted = there("/metadata/deletionTimestamp");
    let allocated = there("/status/allocation");
    let reserved = allocated && !items(claim, "/status/reservedFor").is_empty();
    let states =
        [(deleted, "deleted"), (!allocated && !deleted, "pending"), (allocated, "allocated"), (reserved, "reserved")];
    joined(states.into_iter().filter(|(holds, _)| *holds).map(|(_, state)| state))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(json!({}), "pending")]
    #[case(json!({"status": {"allocation": {}}}), "allocated")]
    #[case(json!({"status": {"allocation": {}, "reservedFor": [{"name": "p"}]}}), "allocated,reserved")]
    #[case(json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}), "deleted")]
    fn claims_have_states(#[case] claim: Value, #[case] expected: &str) {
        assert_eq!(state(&claim), expected);
    }

    #[rstest]
    #[case(json!(null), "<unset>")]
    #[case(json!({"name": "p"}), "*/p")]
    #[case(json!({"name": "p", "namespace": "n"}), "n/p")]
    #[case(json!({"namespace": "n"}), "<unset>")]
    #[case(
        json!({"selector": {"matchLabels": {"a": "b"}}}),
        "&LabelSelector{MatchLabels:map[string]string{a: b,},MatchExpressions:[]LabelSelectorRequirement{},}"
    )]
    fn parameters_are_named(#[case] reference: Value, #[case] expected: &str) {
        assert_eq!(parameters(&json!({"spec": {"paramRef": reference}})), expected);
    }

    #[test]
    fn drivers_attach_unless_they_say_otherwise() {
        let read = |driver: &Value| -> Vec<Value> {
            CSI_DRIVERS[1..7].iter().map(|column| column.read(driver, jiff::Timestamp::UNIX_EPOCH)).collect()
        };
        assert_eq!(
            read(&json!({"spec": {}})),
            [json!(true), json!(false), json!(false), json!("<unset>"), json!(false), json!("<none>")]
        );
        let said = json!({"spec": {"attachRequired": false, "podInfoOnMount": true, "storageCapacity": true, "requiresRepublish": true,
            "tokenRequests": [{"audience": "a"}, {"audience": "b"}], "volumeLifecycleModes": ["Persistent", "Ephemeral"]}});
        assert_eq!(
            read(&said),
            [json!(false), json!(true), json!(true), json!("a,b"), json!(true), json!("Persistent,Ephemeral")]
        );
    }
}
