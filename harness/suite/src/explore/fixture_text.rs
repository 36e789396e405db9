//! Writes a finding as a fixture that reads as if written by hand. Pure.

use std::fmt::Write as _;
use std::time::Duration;

use plumbline::explore::disturbance::{ALL_REQUESTS, Disturbance, FLAKY_NAME, FLAKY_TIME, across, clock_step};
use plumbline::explore::point::{FaultPoint, Site};
use plumbline::fixture::time_text;
use serde_json::{Map, Value, json};

/// Fields of a fixture in the recommended order.
const ORDER: [&str; 13] = [
    "promise",
    "rule",
    "level",
    "feature",
    "controllers",
    "flags",
    "source",
    "about",
    "waive",
    "given",
    "steps",
    "allow",
    "expect",
];

/// Returns the faults of requests in the words of fixtures; none for watch faults.
#[must_use]
pub fn faults(disturbance: Disturbance, point: &FaultPoint, restart_after: Duration) -> Vec<Value> {
    if disturbance == Disturbance::Flaky {
        let refused = disturbance.inject(point, restart_after).faults;
        let on = &point.pattern().text;
        let refusal = |nth: u32| json!({ "name": FLAKY_NAME, "on": on, "reply": 500, "nth": nth, "count": 1 });
        return refused.iter().map(|fault| refusal(fault.nth)).collect();
    }
    fault(disturbance, point, restart_after).into_iter().collect()
}

fn fault(disturbance: Disturbance, point: &FaultPoint, restart_after: Duration) -> Option<Value> {
    let (word, value) = match disturbance {
        Disturbance::CrashBefore => ("crash", json!("before")),
        Disturbance::CrashAfter => ("crash", json!("after")),
        Disturbance::Drop => ("drop", json!("before")),
        Disturbance::LostReply => ("drop", json!("after")),
        Disturbance::AppliedTimeout => ("timeout", json!("after")),
        Disturbance::Reply(429) => ("reply", json!({ "code": 429, "retryAfter": 2 })),
        Disturbance::Reply(code) => ("reply", json!(code)),
        Disturbance::Slow(by) | Disturbance::LateReply(by) => ("delay", json!(format!("{by}s"))),
        Disturbance::SlowAcross | Disturbance::LateAcross => ("delay", json!(time_text::seconds(across(point)))),
        Disturbance::Touch => ("delay", json!("2s")),
        Disturbance::HandOver if point.site != Site::Event => ("delay", json!("2s")),
        _ => return None,
    };
    let mut fault = Map::new();
    fault.insert("on".to_owned(), json!(point.pattern().text));
    fault.insert(word.to_owned(), value);
    if matches!(disturbance, Disturbance::LateReply(_) | Disturbance::LateAcross) {
        fault.insert("applied".to_owned(), json!(true));
    }
    if word == "crash" && !restart_after.is_zero() {
        fault.insert("restart".to_owned(), json!(time_text::seconds(restart_after)));
    }
    if point.occurrence > 1 {
        fault.insert("nth".to_owned(), json!(point.occurrence));
    }
    fault.insert("count".to_owned(), json!(1));
    Some(Value::Object(fault))
}

/// Returns the steps of a watch fault, or of another client's write, in the words of fixtures, with their times.
#[must_use]
pub fn steps(disturbance: Disturbance, point: &FaultPoint) -> Vec<(Duration, Value)> {
    let name = &point.target.resource.plural;
    let watch = |words: &str| json!({ "watch": format!("{words} {name}") });
    let before = point.at.saturating_sub(Duration::from_millis(1));
    let after = |seconds: u16| point.at + Duration::from_secs(u64::from(seconds));
    let several = |steps: &[Value]| json!({ "do": steps });
    match disturbance {
        Disturbance::Touch => {
            let touch = json!({ "annotations": { plumbline::explore::disturbance::TOUCH: "1" } });
            let object = point.target.object().to_string();
            vec![(after(1), json!({ "update": { object: { "metadata": touch } } }))]
        }
        Disturbance::Flaky => vec![(point.at + FLAKY_TIME, json!({ "heal": FLAKY_NAME }))],
        Disturbance::Pages => vec![(before, watch("pages"))],
        Disturbance::Partition(minutes) => {
            let fault = json!({ "fault": { "name": "partition", "on": ALL_REQUESTS, "drop": "before" } });
            let until = point.at + Duration::from_mins(u64::from(minutes));
            vec![(before, several(&[fault, json!({ "watch": "drop" })])), (until, json!({ "heal": "partition" }))]
        }
        Disturbance::ClockAhead(by) => vec![(clock_step(point), json!({ "clock": format!("+{by}m") }))],
        Disturbance::ClockBack(by) => vec![(clock_step(point), json!({ "clock": format!("-{by}m") }))],
        Disturbance::Hold(by) => vec![(before, watch("hold")), (after(by), watch("release"))],
        Disturbance::Last => vec![(before, watch("hold")), (point.at + Duration::from_millis(1), watch("release"))],
        Disturbance::HandOver => {
            let after = if point.site == Site::Event { point.at + Duration::from_millis(1) } else { after(1) };
            vec![(after, several(&[json!({ "controllers": "stop" }), json!({ "controllers": "start" })]))]
        }
        Disturbance::Coalesce(by) => vec![(before, watch("hold")), (after(by), watch("coalesce"))],
        Disturbance::Relist(by) => {
            let lose = several(&[json!({ "compact": "now" }), watch("drop"), watch("release")]);
            vec![(before, watch("hold")), (after(by), lose)]
        }
        Disturbance::CloseWatch => {
            vec![(before, watch("hold")), (after(1), several(&[watch("drop"), watch("release")]))]
        }
        Disturbance::StaleRestart(by) => vec![
            (before, several(&[watch("hold"), watch("stale")])),
            (after(1), json!({ "controllers": "restart" })),
            (after(by), several(&[watch("fresh"), watch("release")])),
        ],
        _ => Vec::new(),
    }
}

/// Formats a fixture. Lists of steps and faults have one item in a line.
#[must_use]
pub fn to_yaml(document: &Value) -> String {
    let mut text = String::from("# yaml-language-server: $schema=../fixture.schema.json\n");
    let empty = Map::new();
    let fields = document.as_object().unwrap_or(&empty);
    for name in ORDER {
        let Some(value) = fields.get(name) else { continue };
        match value {
            Value::Array(items) if name == "steps" => {
                let _ = writeln!(text, "{name}:");
                for item in items {
                    let _ = writeln!(text, "- {}", flow(item, &["at", "until", "by", "for"]));
                }
            }
            Value::Object(parts) if name == "given" => {
                let _ = writeln!(text, "{name}:");
                for (part, value) in parts {
                    let _ = writeln!(text, "  {part}: {}", flow(value, &["name", "on"]));
                }
            }
            value => {
                let _ = writeln!(text, "{name}: {}", flow(value, &[]));
            }
        }
    }
    text
}

/// Formats a value in one line; fields in `first` come first.
fn flow(value: &Value, first: &[&str]) -> String {
    match value {
        Value::String(text) => scalar(text),
        Value::Array(items) => {
            format!("[{}]", items.iter().map(|item| flow(item, first)).collect::<Vec<_>>().join(", "))
        }
        Value::Object(fields) if fields.is_empty() => "{}".to_owned(),
        Value::Object(fields) => {
            let rank = |name: &str| first.iter().position(|known| *known == name).unwrap_or(first.len());
            let mut fields: Vec<(&String, &Value)> = fields.iter().collect();
            fields.sort_by_key(|(name, _)| rank(name));
            let fields: Vec<String> =
                fields.into_iter().map(|(name, value)| format!("{}: {}", scalar(name), flow(value, first))).collect();
            format!("{{ {} }}", fields.join(", "))
        }
        plain => plain.to_string(),
    }
}

/// Quotes a text unless it is plain in every YAML.
fn scalar(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || " ./*-_".contains(c);
    let word = text.chars().next().is_some_and(|c| c.is_ascii_alphabetic())
        && text.chars().all(plain)
        && !text.ends_with(' ')
        && !["true", "false", "null", "yes", "no", "on", "off", "y", "n"].contains(&text.to_ascii_lowercase().as_str());
    // `on` is a field of faults, and a field is never read as a boolean here.
    if word || text == "on" { text.to_owned() } else { json!(text).to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fixtures_are_written_as_people_write_them() {
        let document = json!({
            "steps": [{ "delete": "nodes/n1", "at": "5s" }],
            "promise": "It: goes.",
            "given": { "faults": [{ "crash": "after", "on": "PATCH pods/a/status", "count": 1 }], "pods": ["a on n1"] },
            "expect": { "absent": "pods/a" },
        });
        assert_eq!(
            to_yaml(&document),
            "# yaml-language-server: $schema=../fixture.schema.json\n\
             promise: \"It: goes.\"\n\
             given:\n  faults: [{ on: PATCH pods/a/status, count: 1, crash: after }]\n  pods: [a on n1]\n\
             steps:\n- { at: \"5s\", delete: nodes/n1 }\n\
             expect: { absent: pods/a }\n"
        );
    }
}
