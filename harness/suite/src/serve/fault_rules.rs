//! Fault rules of served worlds: in the words of fixtures, or field by field.

use std::cell::LazyCell;
use std::fmt;

use plumbline::faults::{served_rule, set_watch_fault};
use plumbline::fixture::error::Fail;
use plumbline::fixture::pattern::Resources;
use plumbline::fixture::yaml::{self, Node, Position, Tree};
use plumbline::fixture::{WatchFault, words};
use plumbline::world::served_resources;
use plumbline_apiserver::ApiServer;
use plumbline_apiserver::faults::{FaultRule, FaultRuleError, FaultRuleSpec};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// The namespace of a pattern that names none: any, because the clients of a served world have namespaces of their own.
const NAMESPACE: &str = "*";

/// A fault rule as requests and files write it.
#[derive(Clone, Debug)]
pub enum ServedFault {
    /// A fault of requests in the words of fixtures, as YAML: `POST pods/* 500`, or a map with `on`.
    Words(String),
    /// A fault of lists and watches in the words of fixtures: `hold pods`.
    Watch(String),
    /// A rule field by field.
    Fields(Box<FaultRuleSpec>),
}

impl<'de> Deserialize<'de> for ServedFault {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Value::deserialize(deserializer)? {
            Value::String(text) => Ok(Self::Words(text)),
            Value::Object(fields) if fields.contains_key("verdict") => serde_json::from_value(Value::Object(fields))
                .map(|rule| Self::Fields(Box::new(rule)))
                .map_err(D::Error::custom),
            Value::Object(fields) if fields.contains_key("watch") => match fields["watch"].as_str() {
                Some(text) if fields.len() == 1 => Ok(Self::Watch(text.to_owned())),
                _ => {
                    Err(D::Error::custom("a rule with `watch` has nothing else, and a text there: {watch: hold pods}"))
                }
            },
            fields @ Value::Object(_) => Ok(Self::Words(fields.to_string())),
            other => Err(D::Error::custom(format!(
                "expected a text such as `POST pods/* 500` or a map such as {{on: POST pods/*, delay: 5s}}, not {other}"
            ))),
        }
    }
}

impl fmt::Display for ServedFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Words(text) | Self::Watch(text) => f.write_str(text),
            Self::Fields(rule) => f.write_str(rule.name.as_deref().unwrap_or("without a name")),
        }
    }
}

/// A fault rule that a server cannot have.
#[derive(Debug, thiserror::Error)]
#[error("rule {number} ({rule}): {error}")]
pub struct UnfitRule {
    /// Its number, from 1.
    pub number: usize,
    /// Its text, or its name.
    pub rule: String,
    /// The reason.
    pub error: UnfitReason,
}

/// A reason for which a server cannot have a rule.
#[derive(Debug, thiserror::Error)]
pub enum UnfitReason {
    /// A field has a value that makes no sense.
    #[error(transparent)]
    Field(#[from] FaultRuleError),
    /// Words that are unknown or do not go together.
    #[error(transparent)]
    Words(#[from] Fail),
}

/// A file that is no list of fault rules.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {}, column {}: {what}", at.line, at.column)]
pub struct UnreadableRules {
    /// The place of the error.
    at: Position,
    /// The error, and what to write instead.
    what: String,
}

/// Reads a file of fault rules.
///
/// # Errors
///
/// Returns the place of the first error, and what to write instead.
pub fn read_rules(text: &str) -> Result<Vec<ServedFault>, UnreadableRules> {
    let at_fault = |at: Position, fail: &Fail| UnreadableRules { at, what: fail.to_string() };
    let root = yaml::parse(text).map_err(|error| at_fault(error.at, &error.fail))?;
    let Tree::List(rules) = &root.tree else {
        let fail = Fail::new(format!("expected a list of fault rules, found {}", root.describe()));
        return Err(at_fault(root.at, &fail.hint("begin each rule with a dash: `- POST pods/* 500`")));
    };
    let rule = |(index, node): (usize, &Node)| {
        serde_json::from_value(node.to_value())
            .map_err(|error| at_fault(node.at, &Fail::new(format!("fault rule {}: {error}", index + 1))))
    };
    rules.iter().enumerate().map(rule).collect()
}

/// A change of a server's faults.
enum FaultChange {
    Arm(FaultRule),
    Watch(WatchFault),
}

/// Applies rules to a server, after those that are armed; none if one of them is refused.
///
/// # Errors
///
/// Returns the first rule that the server cannot have, and the reason.
pub(super) fn arm(server: &ApiServer, rules: &[ServedFault]) -> Result<(), UnfitRule> {
    let resources = LazyCell::new(|| served_resources(server));
    let mut changes = Vec::new();
    for (index, rule) in rules.iter().enumerate() {
        let unfit = |error| UnfitRule { number: index + 1, rule: rule.to_string(), error };
        changes.push(change(server, rule, &resources).map_err(unfit)?);
    }
    for change in changes {
        match change {
            FaultChange::Arm(rule) => server.faults().arm(rule),
            FaultChange::Watch(fault) => {
                set_watch_fault(server.faults(), server.revision(), &fault);
            }
        }
    }
    Ok(())
}

/// `resources` is evaluated for words alone: they name resources, and definitions add some.
fn change(
    server: &ApiServer,
    rule: &ServedFault,
    resources: &LazyCell<Resources, impl FnOnce() -> Resources>,
) -> Result<FaultChange, UnfitReason> {
    Ok(match rule {
        ServedFault::Fields(rule) => {
            rule.check()?;
            FaultChange::Arm(FaultRuleSpec::clone(rule).into())
        }
        ServedFault::Watch(text) => FaultChange::Watch(words::watch_fault(text, NAMESPACE, resources)?),
        ServedFault::Words(text) => {
            let fault = words::fault(text, NAMESPACE, resources)?;
            FaultChange::Arm(served_rule(&fault, server.clock())?)
        }
    })
}

#[cfg(test)]
mod tests {
    use http::Method;
    use plumbline::time::run_virtual;
    use plumbline_apiserver::ApiRequest;
    use rstest::rstest;

    use super::*;

    fn rules(text: &str) -> Result<Vec<ServedFault>, String> {
        read_rules(text).map_err(|error| error.to_string())
    }

    /// The same rule has the same effect in words and field by field.
    #[rstest]
    #[case::text("- LIST pods 503")]
    #[case::map("- { on: READ pods, reply: 503, count: 2 }")]
    #[case::fields("- { on: { verbs: [list], resource: pods }, count: 2, verdict: { reply: { code: 503 } } }")]
    #[case::of_a_client("- { on: reader LIST pods, reply: 503, count: 2 }")]
    fn a_rule_meets_its_requests(#[case] text: &str) {
        let rules = rules(text).expect("rules");
        let codes = run_virtual(async {
            let server = ApiServer::builder().build();
            arm(&server, &rules).expect("a fit rule");
            let mut codes = Vec::new();
            for path in ["/api/v1/pods", "/api/v1/nodes", "/api/v1/pods"] {
                let mut request = ApiRequest::new(Method::GET, path);
                request.headers.insert(http::header::USER_AGENT, http::HeaderValue::from_static("reader"));
                codes.push(server.handle(request).await.status);
            }
            codes
        });
        assert_eq!(codes.expect("an end"), [503, 200, 503]);
    }

    #[rstest]
    #[case("- { on: { verbs: [list] } }", "rule 1")]
    #[case("- POST pods/a 500\n- POST podz/a 500", "rule 2 (POST podz/a 500): `podz` is not a resource (did you mean")]
    #[case("- { on: POST pods/a, crash: after }", "`crash` ends controllers that the harness has started")]
    #[case("- { watch: hold podz }", "`podz` is not a resource")]
    #[case("- { on: POST pods/a, reply: 500, often: 3 }", "often")]
    #[case("- { nth: 0, verdict: pass }", "rule 1 (without a name): nth: counts from 1")]
    fn an_unfit_rule_is_refused(#[case] text: &str, #[case] why: &str) {
        let rules = rules(text).expect("rules");
        let error = run_virtual(async { arm(&ApiServer::builder().build(), &rules).expect_err("unfit").to_string() });
        let error = error.expect("an end");
        assert!(error.contains(why), "{error}");
    }

    #[rstest]
    #[case("- 5", "expected a text such as `POST pods/* 500`")]
    #[case("- { watch: hold pods, count: 1 }", "a rule with `watch` has nothing else")]
    #[case("- { verdict: pass, unknown: 1 }", "unknown field")]
    #[case(
        "rules:\n- POST pods/* 500",
        "line 1, column 1: expected a list of fault rules, found a map (begin each rule"
    )]
    #[case("- POST pods/* 500\n- 5", "line 2, column 3: fault rule 2: expected a text")]
    #[case("- { on: \"x\n", "line ")]
    fn other_forms_are_refused(#[case] text: &str, #[case] why: &str) {
        let error = rules(text).expect_err("no rules");
        assert!(error.contains(why) && !error.contains('\n'), "{error}");
    }

    /// The document of the control API describes the words that fixtures have, but for those of crashes.
    #[test]
    fn the_document_has_the_words_of_faults() {
        let document: Value = serde_json::from_str(include_str!("openapi.json")).expect("JSON");
        let described = document["components"]["schemas"]["FaultWords"]["properties"].as_object().expect("properties");
        let mut described: Vec<&str> = described.keys().map(String::as_str).collect();
        let fields = plumbline::fixture::schema::FAULT.fields.iter().map(|field| field.name);
        let mut words: Vec<&str> = fields.filter(|word| !["crash", "restart"].contains(word)).collect();
        described.sort_unstable();
        words.sort_unstable();
        assert_eq!(described, words);
    }
}
