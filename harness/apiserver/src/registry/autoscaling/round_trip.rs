//! The annotations in which an autoscaler of `autoscaling/v1` has what only `v2` has fields for. Follows
//! `pkg/apis/autoscaling/v1/conversion.go` and `pkg/apis/autoscaling/{annotations,helpers}.go`. PURE.

use crate::json::fields::{array_field, is_empty_value, str_field};
use crate::json::{Map, Value, json};
use crate::metadata;

const METRICS: &str = "autoscaling.alpha.kubernetes.io/metrics";
const CURRENT_METRICS: &str = "autoscaling.alpha.kubernetes.io/current-metrics";
const CONDITIONS: &str = "autoscaling.alpha.kubernetes.io/conditions";
const BEHAVIOR: &str = "autoscaling.alpha.kubernetes.io/behavior";

/// All of them; no version stores any.
const ANNOTATIONS: [&str; 6] = [
    METRICS,
    CURRENT_METRICS,
    CONDITIONS,
    BEHAVIOR,
    "autoscaling.alpha.kubernetes.io/scale-down-tolerance",
    "autoscaling.alpha.kubernetes.io/scale-up-tolerance",
];

/// The types of metrics, and for each the field with its source.
const SOURCES: [(&str, &str); 5] = [
    ("Object", "object"),
    ("Pods", "pods"),
    ("Resource", "resource"),
    ("ContainerResource", "containerResource"),
    ("External", "external"),
];

/// The fields of the behavior, and their names in Go, which the annotation has.
const BEHAVIOR_FIELDS: [(&str, &str); 9] = [
    ("scaleUp", "ScaleUp"),
    ("scaleDown", "ScaleDown"),
    ("stabilizationWindowSeconds", "StabilizationWindowSeconds"),
    ("selectPolicy", "SelectPolicy"),
    ("policies", "Policies"),
    ("tolerance", "Tolerance"),
    ("type", "Type"),
    ("value", "Value"),
    ("periodSeconds", "PeriodSeconds"),
];

/// Removes the annotations: `DropRoundTripHorizontalPodAutoscalerAnnotations`.
pub(super) fn drop_annotations(object: &mut Map) {
    let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else { return };
    let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) else { return };
    annotations.retain(|key, _| !ANNOTATIONS.contains(&key.as_str()));
    if annotations.is_empty() {
        metadata.remove("annotations");
    }
}

/// Returns the processor's target or current utilization in a metric of `v2`.
pub(super) fn processor_utilization(metric: &Value, part: &str) -> Option<Value> {
    let is_processor = str_field(metric, "type") == "Resource" && metric.pointer("/resource/name")? == "cpu";
    let utilization = metric.pointer(&format!("/resource/{part}/averageUtilization"))?;
    (is_processor && !utilization.is_null()).then(|| utilization.clone())
}

/// Sets the annotations of an object of `v1` whose other fields were taken from these of `v2`.
pub(super) fn annotate(object: &mut Value, spec: &Value, status: &Value) {
    let metrics: Vec<&Value> = array_field(spec, "metrics")
        .iter()
        .filter(|metric| processor_utilization(metric, "target").is_none())
        .collect();
    let current = array_field(status, "currentMetrics");
    let conditions = array_field(status, "conditions");
    let mut found = Vec::new();
    if !metrics.is_empty() {
        found.push((METRICS, list(metrics.into_iter().map(|metric| metric_text(metric, "target")))));
    }
    if !current.is_empty() {
        found.push((CURRENT_METRICS, list(current.iter().map(|metric| metric_text(metric, "current")))));
    }
    if !conditions.is_empty() {
        found.push((CONDITIONS, list(conditions.iter().map(condition_text))));
    }
    if let Some(behavior) = spec.get("behavior").filter(|behavior| !behavior.is_null()) {
        found.push((BEHAVIOR, behavior_text(behavior)));
    }
    if found.is_empty() {
        return;
    }
    let annotations = &mut object["metadata"]["annotations"];
    for (key, text) in found {
        annotations[key] = text.into();
    }
}

/// Fields of `v2` in the annotations of an object of `v1`.
#[derive(Debug, Default)]
pub(super) struct Annotated {
    pub(super) metrics: Option<Vec<Value>>,
    pub(super) current_metrics: Option<Vec<Value>>,
    pub(super) conditions: Option<Value>,
    pub(super) behavior: Option<Value>,
}

/// Takes the annotations of an object of `v1`. Those that cannot be read are dropped.
pub(super) fn take(object: &mut Value) -> Annotated {
    let read = |key: &str| -> Option<Value> {
        let text = metadata::annotations(object)?.get(key)?.as_str()?;
        serde_json::from_str(text).ok()
    };
    let metrics = |key: &str, part: &str| -> Option<Vec<Value>> {
        let Some(Value::Array(found)) = read(key) else { return None };
        Some(found.iter().map(|metric| metric_of_v2(metric, part)).collect())
    };
    let annotated = Annotated {
        metrics: metrics(METRICS, "target"),
        current_metrics: metrics(CURRENT_METRICS, "current"),
        conditions: read(CONDITIONS).filter(Value::is_array),
        behavior: read(BEHAVIOR).map(|given| behavior_of_v2(&given)).filter(|behavior| !is_empty_value(Some(behavior))),
    };
    if let Some(fields) = object.as_object_mut() {
        drop_annotations(fields);
    }
    annotated
}

/// Writes an object as Go writes a struct: fields in their order, those without a text left out.
fn object_text<const N: usize>(fields: [(&str, Option<String>); N]) -> String {
    let given = fields.into_iter().filter_map(|(name, text)| Some(format!("\"{name}\":{}", text?)));
    format!("{{{}}}", given.collect::<Vec<_>>().join(","))
}

fn list(items: impl Iterator<Item = String>) -> String {
    format!("[{}]", items.collect::<Vec<_>>().join(","))
}

/// Writes a value as Go does, where it is set.
fn text(value: Option<&Value>) -> Option<String> {
    let value = value.filter(|value| !value.is_null())?;
    Some(value.to_string().replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026"))
}

/// Writes a text that may be empty but not absent.
fn plain(value: Option<&Value>) -> Option<String> {
    text(value).or_else(|| Some("\"\"".to_owned()))
}

/// Writes a quantity that may be zero but not absent.
fn amount(value: Option<&Value>) -> Option<String> {
    text(value).or_else(|| Some("\"0\"".to_owned()))
}

fn selector_text(selector: Option<&Value>) -> Option<String> {
    let selector = selector.filter(|selector| selector.is_object())?;
    let expressions = array_field(selector, "matchExpressions").iter().map(|one| {
        let given = |field: &str| text(one.get(field).filter(|value| !is_empty_value(Some(value))));
        object_text([
            ("key", plain(one.get("key"))),
            ("operator", plain(one.get("operator"))),
            ("values", given("values")),
        ])
    });
    let expressions = list(expressions);
    let labels = selector.get("matchLabels").filter(|labels| !is_empty_value(Some(labels)));
    Some(object_text([
        ("matchLabels", text(labels)),
        ("matchExpressions", Some(expressions).filter(|expressions| expressions != "[]")),
    ]))
}

/// Writes a metric of `v2` as one of `v1`; `part` is `target` or `current`.
fn metric_text(metric: &Value, part: &str) -> String {
    let kind = str_field(metric, "type");
    let inside = |field: &str| {
        let source = metric.get(field).filter(|source| source.is_object())?;
        let is_target = part == "target";
        let given = |name: &str| source.pointer(&format!("/{part}/{name}"));
        let name = ("metricName", plain(source.pointer("/metric/name")));
        let selector = selector_text(source.pointer("/metric/selector"));
        let average = |name: &'static str| {
            let value = given("averageValue");
            (name, if is_target { text(value) } else { amount(value) })
        };
        Some(match field {
            "object" => object_text([
                ("target", Some(reference_text(&source["describedObject"]))),
                name,
                (if is_target { "targetValue" } else { "currentValue" }, amount(given("value"))),
                ("selector", selector),
                ("averageValue", text(given("averageValue"))),
            ]),
            "pods" => object_text([
                name,
                (if is_target { "targetAverageValue" } else { "currentAverageValue" }, amount(given("averageValue"))),
                ("selector", selector),
            ]),
            "external" => {
                let (value, average) = if is_target {
                    (("targetValue", text(given("value"))), ("targetAverageValue", text(given("averageValue"))))
                } else {
                    (("currentValue", amount(given("value"))), ("currentAverageValue", text(given("averageValue"))))
                };
                object_text([name, ("metricSelector", selector), value, average])
            }
            _ => object_text([
                ("name", plain(source.get("name"))),
                (
                    if is_target { "targetAverageUtilization" } else { "currentAverageUtilization" },
                    text(given("averageUtilization")),
                ),
                average(if is_target { "targetAverageValue" } else { "currentAverageValue" }),
                ("container", if field == "containerResource" { plain(source.get("container")) } else { None }),
            ]),
        })
    };
    let [object, pods, resource, container, external] = SOURCES.map(|(_, field)| (field, inside(field)));
    object_text([("type", text(Some(&kind.into()))), object, pods, resource, container, external])
}

fn reference_text(reference: &Value) -> String {
    let version = reference.get("apiVersion").filter(|version| !is_empty_value(Some(version)));
    object_text([
        ("kind", plain(reference.get("kind"))),
        ("name", plain(reference.get("name"))),
        ("apiVersion", text(version)),
    ])
}

fn condition_text(condition: &Value) -> String {
    let given = |field: &str| text(condition.get(field).filter(|value| !is_empty_value(Some(value))));
    object_text([
        ("type", plain(condition.get("type"))),
        ("status", plain(condition.get("status"))),
        ("lastTransitionTime", given("lastTransitionTime").or_else(|| Some("null".to_owned()))),
        ("reason", given("reason")),
        ("message", given("message")),
    ])
}

/// Writes the behavior as upstream's internal type, whose fields have no names in JSON of their own.
fn behavior_text(behavior: &Value) -> String {
    let null = || Some("null".to_owned());
    let rules = |direction: &str| {
        let rules = behavior.get(direction).filter(|rules| rules.is_object())?;
        let policies = rules.get("policies").filter(|policies| policies.is_array()).map(|_| {
            list(array_field(rules, "policies").iter().map(|policy| {
                let number = |field: &str| text(policy.get(field)).or_else(|| Some("0".to_owned()));
                object_text([
                    ("Type", plain(policy.get("type"))),
                    ("Value", number("value")),
                    ("PeriodSeconds", number("periodSeconds")),
                ])
            }))
        });
        Some(object_text([
            ("StabilizationWindowSeconds", text(rules.get("stabilizationWindowSeconds")).or_else(null)),
            ("SelectPolicy", text(rules.get("selectPolicy")).or_else(null)),
            ("Policies", policies.or_else(null)),
            ("Tolerance", text(rules.get("tolerance")).or_else(null)),
        ]))
    };
    object_text([("ScaleUp", rules("scaleUp").or_else(null)), ("ScaleDown", rules("scaleDown").or_else(null))])
}

/// Returns the behavior with the names of `v2`; Go reads names of fields in any case.
fn behavior_of_v2(given: &Value) -> Value {
    match given {
        Value::Object(fields) => {
            let known = fields.iter().filter(|(_, value)| !value.is_null()).filter_map(|(name, value)| {
                let (known, _) = BEHAVIOR_FIELDS.iter().find(|(_, known)| known.eq_ignore_ascii_case(name))?;
                Some((*known, behavior_of_v2(value)))
            });
            Value::Object(known.collect())
        }
        Value::Array(items) => Value::Array(items.iter().map(behavior_of_v2).collect()),
        other => other.clone(),
    }
}

/// Returns a metric of `v1` as one of `v2`; `part` is `target` or `current`.
fn metric_of_v2(metric: &Value, part: &str) -> Value {
    let mut converted = json!({"type": metric["type"]});
    for (_, field) in SOURCES {
        if let Some(source) = metric.get(field).filter(|source| source.is_object()) {
            converted[field] = source_of_v2(field, source, part == "target");
        }
    }
    converted
}

fn source_of_v2(field: &str, source: &Value, is_target: bool) -> Value {
    let given = |name: &str| source.get(name).filter(|value| !value.is_null());
    let named = |target: &'static str, current: &'static str| given(if is_target { target } else { current });
    let mut amounts = Map::new();
    let mut put = |field: &str, value: Option<&Value>| {
        if let Some(value) = value {
            amounts.insert(field, value.clone());
        }
    };
    let utilization = named("targetAverageUtilization", "currentAverageUtilization");
    let by_average = match field {
        "object" => {
            let average = given("averageValue");
            let value = named("targetValue", "currentValue");
            // An amount of zero beside an average is one that was not set.
            put("value", value.filter(|value| !is_target || average.is_none() || **value != "0"));
            put("averageValue", average);
            average.is_some()
        }
        "external" => {
            let value = named("targetValue", "currentValue");
            put("value", value);
            put("averageValue", named("targetAverageValue", "currentAverageValue"));
            value.is_none()
        }
        _ => {
            put("averageUtilization", utilization);
            put("averageValue", named("targetAverageValue", "currentAverageValue"));
            true
        }
    };
    if is_target {
        let kind = match (field, utilization) {
            ("resource" | "containerResource", Some(_)) => "Utilization",
            _ if by_average => "AverageValue",
            _ => "Value",
        };
        amounts.insert("type", kind.into());
    }
    let mut converted = Map::new();
    converted.insert(if is_target { "target" } else { "current" }, Value::Object(amounts));
    match field {
        "resource" | "containerResource" => {
            for name in ["name", "container"] {
                if let Some(value) = given(name).filter(|_| name == "name" || field == "containerResource") {
                    converted.insert(name, value.clone());
                }
            }
        }
        _ => {
            let mut identifier = json!({"name": source["metricName"]});
            let selector = if field == "external" { "metricSelector" } else { "selector" };
            if let Some(selector) = given(selector) {
                identifier["selector"] = selector.clone();
            }
            converted.insert("metric", identifier);
            if field == "object" {
                converted.insert("describedObject", source["target"].clone());
            }
        }
    }
    Value::Object(converted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    /// `TestConversion` of `pkg/apis/autoscaling/v1/conversion_test.go` goes there and back, too.
    #[rstest]
    #[case::pods(
        json!({"type": "Pods", "pods": {"metric": {"name": "m", "selector": {"matchLabels": {"a": "b"}}},
            "target": {"type": "AverageValue", "averageValue": "1500m"}}}),
        r#"{"type":"Pods","pods":{"metricName":"m","targetAverageValue":"1500m","selector":{"matchLabels":{"a":"b"}}}}"#
    )]
    #[case::object(
        json!({"type": "Object", "object": {"describedObject": {"kind": "Ingress", "name": "i",
            "apiVersion": "networking.k8s.io/v1"}, "metric": {"name": "m"}, "target": {"type": "Value", "value": "2"}}}),
        r#"{"type":"Object","object":{"target":{"kind":"Ingress","name":"i","apiVersion":"networking.k8s.io/v1"},"metricName":"m","targetValue":"2"}}"#
    )]
    #[case::average_of_object(
        json!({"type": "Object", "object": {"describedObject": {"kind": "Service", "name": "s"}, "metric": {"name": "m"},
            "target": {"type": "AverageValue", "averageValue": "2"}}}),
        r#"{"type":"Object","object":{"target":{"kind":"Service","name":"s"},"metricName":"m","targetValue":"0","averageValue":"2"}}"#
    )]
    #[case::memory(
        json!({"type": "Resource", "resource": {"name": "memory", "target": {"type": "AverageValue",
            "averageValue": "1Gi"}}}),
        r#"{"type":"Resource","resource":{"name":"memory","targetAverageValue":"1Gi"}}"#
    )]
    #[case::container(
        json!({"type": "ContainerResource", "containerResource": {"name": "cpu", "container": "c",
            "target": {"type": "Utilization", "averageUtilization": 60}}}),
        r#"{"type":"ContainerResource","containerResource":{"name":"cpu","targetAverageUtilization":60,"container":"c"}}"#
    )]
    #[case::external(
        json!({"type": "External", "external": {"metric": {"name": "m", "selector": {"matchExpressions":
            [{"key": "k", "operator": "In", "values": ["<v>"]}]}}, "target": {"type": "Value", "value": "9"}}}),
        r#"{"type":"External","external":{"metricName":"m","metricSelector":{"matchExpressions":[{"key":"k","operator":"In","values":["\u003cv\u003e"]}]},"targetValue":"9"}}"#
    )]
    fn metrics_go_there_and_back(#[case] metric: Value, #[case] shown: &str) {
        assert_eq!(metric_text(&metric, "target"), shown);
        assert_eq!(metric_of_v2(&serde_json::from_str(shown).unwrap(), "target"), metric);
    }

    #[test]
    fn current_values_and_conditions_are_annotations() {
        let status = json!({"currentMetrics": [{"type": "Resource", "resource": {"name": "cpu",
            "current": {"averageUtilization": 7, "averageValue": "3m"}}}],
            "conditions": [{"type": "AbleToScale", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z",
                "reason": "R"}]});
        let mut object = json!({"metadata": {"annotations": {"own": "1"}}});
        annotate(&mut object, &json!({}), &status);
        let current = r#"[{"type":"Resource","resource":{"name":"cpu","currentAverageUtilization":7,"currentAverageValue":"3m"}}]"#;
        let conditions =
            r#"[{"type":"AbleToScale","status":"True","lastTransitionTime":"2026-01-01T00:00:00Z","reason":"R"}]"#;
        let annotations = json!({"own": "1", CURRENT_METRICS: current, CONDITIONS: conditions});
        assert_eq!(object["metadata"]["annotations"], annotations);
        let annotated = take(&mut object);
        assert_eq!(Value::Array(annotated.current_metrics.unwrap()), status["currentMetrics"]);
        assert_eq!(annotated.conditions.as_ref(), status.get("conditions"));
        assert_eq!(object["metadata"]["annotations"], json!({"own": "1"}));
    }

    #[test]
    fn the_behavior_has_the_names_of_go() {
        let behavior = json!({"scaleUp": {"selectPolicy": "Max", "stabilizationWindowSeconds": 0,
            "policies": [{"type": "Pods", "value": 4, "periodSeconds": 15}]}});
        let shown = r#"{"ScaleUp":{"StabilizationWindowSeconds":0,"SelectPolicy":"Max","Policies":[{"Type":"Pods","Value":4,"PeriodSeconds":15}],"Tolerance":null},"ScaleDown":null}"#;
        assert_eq!(behavior_text(&behavior), shown);
        assert_eq!(behavior_of_v2(&serde_json::from_str(shown).unwrap()), behavior);
    }
}
