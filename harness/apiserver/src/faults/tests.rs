//! Tests of [`super`].

use serde_json::json;

use super::*;

fn get_pod(name: &str) -> RecordedRequest {
    RecordedRequest {
        verb: "get".into(),
        resource: "pods".into(),
        name: Some(name.into()),
        ..RecordedRequest::default()
    }
}

fn rule(spec: serde_json::Value) -> FaultRule {
    serde_json::from_value::<FaultRuleSpec>(spec).unwrap().into()
}

#[test]
fn the_first_due_rule_decides() {
    let faults = Faults::new(0);
    faults.arm(rule(
        json!({"on": {"verbs": ["get"]}, "nth": 2, "count": 1, "verdict": {"reply": {"code": 429, "retryAfter": 3}}}),
    ));
    faults.arm(rule(json!({"name": "rest", "on": {"name": "b"}, "verdict": "gone"})));
    let judge = |name: &str| faults.judge(&get_pod(name), &Origin::client("user", "")).describe();
    assert_eq!(judge("a"), "pass");
    assert_eq!(judge("b"), "reply 429 TooManyRequests");
    assert_eq!(judge("b"), "gone");
    assert_eq!((faults.hits("rest"), faults.clear(Some("rest"))), (1, 1));
    assert_eq!(judge("b"), "pass");
}

#[test]
fn outages_break_everything() {
    let faults = Faults::new(0);
    faults.set_outage(true);
    assert_eq!(faults.judge(&get_pod("a"), &Origin::client("user", "")).describe(), "drop");
    faults.set_outage(false);
    assert_eq!(faults.judge(&get_pod("a"), &Origin::client("user", "")).describe(), "pass");
}

#[test]
fn unknown_fields_are_errors() {
    let error = serde_json::from_value::<FaultRuleSpec>(json!({"on": {"verb": "get"}, "verdict": "pass"})).unwrap_err();
    assert!(error.to_string().contains("unknown field `verb`"), "{error}");
}

#[test]
fn chances_are_seeded() {
    let outcomes = |seed| {
        let faults = Faults::new(seed);
        faults.arm(rule(json!({"percent": 50, "verdict": {"drop": {}}})));
        (0..32)
            .map(|_| faults.judge(&get_pod("a"), &Origin::client("user", "")).describe() == "drop")
            .collect::<Vec<_>>()
    };
    assert_eq!(outcomes(1), outcomes(1));
    assert_ne!(outcomes(1), outcomes(2));
}
