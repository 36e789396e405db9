//! Label selectors: matching, validation, and Go's text formats.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::go;
use super::labels::Labels;

/// `metav1.LabelSelector`
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LabelSelector {
    /// Requirements that must all hold.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub match_expressions: Vec<LabelSelectorRequirement>,
    /// Each entry is an `In` requirement with one value.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub match_labels: BTreeMap<String, String>,
}

/// `metav1.LabelSelectorRequirement`
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default)]
pub struct LabelSelectorRequirement {
    /// The label's key.
    pub key: String,
    /// `In`, `NotIn`, `Exists` or `DoesNotExist`.
    pub operator: String,
    /// The values of `In` and `NotIn`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<String>,
}

/// Formats as Go's `%v` formats a `*metav1.LabelSelector`: its generated `String()`.
impl fmt::Display for LabelSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("&LabelSelector{MatchLabels:map[string]string{")?;
        for (key, value) in &self.match_labels {
            write!(f, "{key}: {value},")?;
        }
        f.write_str("},MatchExpressions:[]LabelSelectorRequirement{")?;
        for LabelSelectorRequirement { key, operator, values } in &self.match_expressions {
            let values = values.join(" ");
            write!(f, "LabelSelectorRequirement{{Key:{key},Operator:{operator},Values:[{values}],}},")?;
        }
        f.write_str("},}")
    }
}

/// A validated selector.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Selector {
    /// All must hold; `None` matches nothing.
    requirements: Option<Vec<Requirement>>,
}

#[derive(Clone, Debug, Eq, PartialEq)]
struct Requirement {
    key: String,
    operator: Operator,
    values: Vec<String>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Operator {
    In,
    NotIn,
    Exists,
    DoesNotExist,
}

/// An invalid selector; `Display` is apimachinery's message.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{0}")]
pub struct SelectorError(String);

impl Selector {
    /// Validates `selector`. An absent selector matches nothing, an empty one matches everything.
    ///
    /// # Errors
    /// The first invalid requirement, in the order `matchLabels` (by key), `matchExpressions`.
    pub fn parse(selector: Option<&LabelSelector>) -> Result<Self, SelectorError> {
        let Some(selector) = selector else { return Ok(Self { requirements: None }) };
        let mut requirements = Vec::new();
        for (key, value) in &selector.match_labels {
            requirements.push(requirement(key, Operator::In, std::slice::from_ref(value))?);
        }
        for expression in &selector.match_expressions {
            let operator = match expression.operator.as_str() {
                "In" => Operator::In,
                "NotIn" => Operator::NotIn,
                "Exists" => Operator::Exists,
                "DoesNotExist" => Operator::DoesNotExist,
                other => {
                    let quoted = go::quote(other);
                    return Err(SelectorError(format!("{quoted} is not a valid label selector operator")));
                }
            };
            requirements.push(requirement(&expression.key, operator, &expression.values)?);
        }
        Ok(Self { requirements: Some(requirements) })
    }

    /// Returns true if the selector matches `labels`.
    pub fn matches(&self, labels: &Labels) -> bool {
        self.requirements.as_ref().is_some_and(|all| all.iter().all(|one| one.matches(labels)))
    }

    /// Returns a label, as key and possible values, that an object must have to be selected. Indexes use it.
    ///
    /// If there are several such requirements, returns the one with the fewest values; `None` if there is none.
    pub fn required_label(&self) -> Option<(&str, &[String])> {
        let pinning = self.requirements.iter().flatten().filter(|one| one.operator == Operator::In);
        pinning.min_by_key(|one| one.values.len()).map(|one| (one.key.as_str(), one.values.as_slice()))
    }

    /// Returns true if the selector matches no labels at all.
    pub fn is_nothing(&self) -> bool {
        self.requirements.is_none()
    }
}

impl Requirement {
    fn matches(&self, labels: &Labels) -> bool {
        let value = labels.get(&self.key);
        let is_listed = || value.is_some_and(|value| self.values.iter().any(|one| *value == **one));
        match self.operator {
            Operator::In => is_listed(),
            Operator::NotIn => !is_listed(),
            Operator::Exists => value.is_some(),
            Operator::DoesNotExist => value.is_none(),
        }
    }
}

fn requirement(key: &str, operator: Operator, values: &[String]) -> Result<Requirement, SelectorError> {
    let mut errors = Vec::new();
    let causes = label_key_errors(key);
    if !causes.is_empty() {
        errors.push(format!("key: Invalid value: {}: {}", go::quote(key), causes.join("; ")));
    }
    let set_error = match operator {
        Operator::In | Operator::NotIn if values.is_empty() => {
            Some("for 'in', 'notin' operators, values set can't be empty")
        }
        Operator::Exists | Operator::DoesNotExist if !values.is_empty() => {
            Some("values set must be empty for exists and does not exist")
        }
        _ => None,
    };
    if let Some(error) = set_error {
        errors.push(format!("values: Invalid value: {}: {error}", go::json_strings(values)));
    }
    for (index, value) in values.iter().enumerate() {
        let causes = label_value_errors(value);
        if !causes.is_empty() {
            let value = go::quote(value);
            errors.push(format!("values[{index}][{key}]: Invalid value: {value}: {}", causes.join("; ")));
        }
    }
    match errors.as_slice() {
        [] => Ok(Requirement { key: key.to_owned(), operator, values: values.to_vec() }),
        [one] => Err(SelectorError(one.clone())),
        many => Err(SelectorError(format!("[{}]", many.join(", ")))),
    }
}

const NAME_LENGTH_MAX: usize = 63;
const PREFIX_LENGTH_MAX: usize = 253;
const NAME_RULE: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
    alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
    '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const PREFIX_RULE: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or \
    '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
    '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const VALUE_RULE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or \
    '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex \
    used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";

/// Returns the validation errors of a label key: an optional DNS prefix, `/`, and a name.
fn label_key_errors(key: &str) -> Vec<String> {
    let mut errors = Vec::new();
    let name = match key.split('/').collect::<Vec<_>>().as_slice() {
        [name] => *name,
        [prefix, name] => {
            if prefix.is_empty() {
                errors.push("prefix part must be non-empty".to_owned());
            } else {
                if prefix.len() > PREFIX_LENGTH_MAX {
                    errors.push(format!("prefix part must be no more than {PREFIX_LENGTH_MAX} bytes"));
                }
                if !prefix.split('.').all(is_dns_label) {
                    errors.push(format!("prefix part {PREFIX_RULE}"));
                }
            }
            *name
        }
        _ => {
            return vec![format!(
                "a valid label key {NAME_RULE} with an optional DNS subdomain prefix and '/' (e.g. \
                    'example.com/MyName')"
            )];
        }
    };
    if name.is_empty() {
        errors.push("name part must be non-empty".to_owned());
    } else if name.len() > NAME_LENGTH_MAX {
        errors.push(format!("name part must be no more than {NAME_LENGTH_MAX} bytes"));
    }
    if !is_label_name(name) {
        errors.push(format!("name part {NAME_RULE}"));
    }
    errors
}

fn label_value_errors(value: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if value.len() > NAME_LENGTH_MAX {
        errors.push(format!("must be no more than {NAME_LENGTH_MAX} bytes"));
    }
    if !value.is_empty() && !is_label_name(value) {
        errors.push(VALUE_RULE.to_owned());
    }
    errors
}

/// `([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]`
fn is_label_name(name: &str) -> bool {
    let bytes = name.as_bytes();
    let inner = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    bytes.iter().all(inner)
        && bytes.first().is_some_and(u8::is_ascii_alphanumeric)
        && bytes.last().is_some_and(u8::is_ascii_alphanumeric)
}

/// `[a-z0-9]([-a-z0-9]*[a-z0-9])?`
fn is_dns_label(label: &str) -> bool {
    let bytes = label.as_bytes();
    let edge = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    bytes.iter().all(|byte| edge(byte) || *byte == b'-')
        && bytes.first().is_some_and(edge)
        && bytes.last().is_some_and(edge)
}
