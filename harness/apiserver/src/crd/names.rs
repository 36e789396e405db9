//! Accepted names and conditions of a definition. Follows `pkg/controller/status/naming_controller.go` and
//! `pkg/controller/apiapproval/apiapproval_controller.go` in `staging/src/k8s.io/apiextensions-apiserver` of Kubernetes
//! 1.36. PURE.

use jiff::Timestamp;

use super::ca_bundle;
use super::text_fields::text;
use crate::json::{Map, Value, json};
use crate::metadata;
use crate::registry::conditions;
use crate::registry::time::rfc3339;

const INITIAL_NAMES: &str = "the initial names have been accepted";

/// Returns true if the definition has the condition `Established`.
pub(super) fn is_established(definition: &Value) -> bool {
    conditions::is_true(&definition["status"], "Established")
}

/// Returns true if the definition has the condition `NamesAccepted`.
pub(super) fn are_accepted(definition: &Value) -> bool {
    conditions::is_true(&definition["status"], "NamesAccepted")
}

/// Sort key of versions in discovery's order: releases, then betas, then alphas, newest first; other names last.
pub(super) fn version_rank(version: &str) -> (u8, i64, i64, String) {
    let parsed = version.strip_prefix('v').and_then(|rest| {
        let digits = rest.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(rest.len());
        let major: i64 = rest[..digits].parse().ok()?;
        let (class, minor) = match &rest[digits..] {
            "" => (0, 0),
            tail => match (tail.strip_prefix("beta"), tail.strip_prefix("alpha")) {
                (Some(minor), _) => (1, minor.parse::<i64>().ok()?),
                (None, Some(minor)) => (2, minor.parse::<i64>().ok()?),
                (None, None) => return None,
            },
        };
        Some((class, -major, -minor, String::new()))
    });
    parsed.unwrap_or_else(|| (3, 0, 0, version.to_owned()))
}

/// Computes the status of a definition; `rivals` are the accepted names of the other definitions of its group.
pub(super) fn status(definition: &Value, rivals: &[Value], now: Timestamp) -> Value {
    let (accepted, conflict) = accept_names(definition, rivals);
    let mut conditions: Vec<Value> =
        definition.pointer("/status/conditions").and_then(Value::as_array).cloned().unwrap_or_default();
    let was_established = is_established(definition);
    let now = rfc3339(now);
    match &conflict {
        Some((reason, message)) => conditions::set(&mut conditions, "NamesAccepted", "False", reason, message, &now),
        None => conditions::set(&mut conditions, "NamesAccepted", "True", "NoConflicts", "no conflicts found", &now),
    }
    let (established, reason, message) = match &conflict {
        None if was_established => ("True", "InitialNamesAccepted", INITIAL_NAMES),
        None if ca_bundle::error_in(definition).is_some() => {
            ("False", "InvalidCABundle", "The conversion webhook CABundle is invalid")
        }
        None => ("True", "InitialNamesAccepted", INITIAL_NAMES),
        Some(_) => ("False", "NotAccepted", "not all names are accepted"),
    };
    // Once established, a definition is served, also if its names are lost.
    if conflict.is_none() || !was_established {
        conditions::set(&mut conditions, "Established", established, reason, message, &now);
    }
    if let Some((status, reason, message)) = approval_condition(definition) {
        conditions::set(&mut conditions, "KubernetesAPIApprovalPolicyConformant", status, reason, &message, &now);
    }
    json!({
        "conditions": conditions,
        "acceptedNames": accepted,
        "storedVersions": definition.pointer("/status/storedVersions").cloned().unwrap_or_else(|| json!([])),
    })
}

/// Returns status, reason and message of the approval condition; `None` outside protected groups.
fn approval_condition(definition: &Value) -> Option<(&'static str, &'static str, String)> {
    if !super::definition_strategy::is_protected(text(&definition["spec"], "group")) {
        return None;
    }
    let given = metadata::annotation(definition, "api-approved.kubernetes.io")?;
    if given.starts_with("unapproved") {
        return Some(("False", "UnapprovedAnnotation", format!("not approved: {given:?}")));
    }
    Some(("True", "ApprovedAnnotation", format!("approved in {given}")))
}

type NameConflict = (&'static str, String);

/// A name's field, the reason of its conflict, and the check for another definition that has the name.
type NameCheck<'a> = (&'static str, &'static str, &'a dyn Fn(&str) -> bool);

/// Returns the names that the definition may use, and the last conflict.
fn accept_names(definition: &Value, rivals: &[Value]) -> (Value, Option<NameConflict>) {
    let wanted = &definition["spec"]["names"];
    let mut accepted: Map =
        definition.pointer("/status/acceptedNames").and_then(Value::as_object).cloned().unwrap_or_default();
    let mut conflict = None;
    let resources = ["plural", "singular"];
    let taken_resource = |name: &str| {
        !name.is_empty()
            && rivals.iter().any(|rival| {
                let short = rival["shortNames"].as_array().into_iter().flatten().any(|short| short == name);
                short || resources.iter().any(|field| text(rival, field) == name)
            })
    };
    let taken_kind =
        |name: &str| rivals.iter().any(|rival| text(rival, "kind") == name || text(rival, "listKind") == name);
    let in_use = |name: &str| format!("{name:?} is already in use");

    let rules: [NameCheck<'_>; 4] = [
        ("plural", "PluralConflict", &taken_resource),
        ("singular", "SingularConflict", &taken_resource),
        ("kind", "KindConflict", &taken_kind),
        ("listKind", "ListKindConflict", &taken_kind),
    ];
    for (index, (field, reason, taken)) in rules.into_iter().enumerate() {
        if index == 2 {
            conflict = accept_short_names(wanted, &mut accepted, &taken_resource).or(conflict);
        }
        let name = text(wanted, field);
        if accepted.get(field).and_then(Value::as_str) != Some(name) && taken(name) {
            conflict = Some((reason, in_use(name)));
        } else if !name.is_empty() {
            accepted.insert(field.to_owned(), json!(name));
        }
    }
    copy_list(wanted, &mut accepted, "categories");
    accepted.entry("plural").or_insert_with(|| json!(""));
    accepted.entry("kind").or_insert_with(|| json!(""));
    (Value::Object(accepted), conflict)
}

fn copy_list(wanted: &Value, accepted: &mut Map, field: &str) {
    match wanted.get(field).filter(|list| list.as_array().is_some_and(|list| !list.is_empty())) {
        Some(list) => accepted.insert(field.to_owned(), list.clone()),
        None => accepted.remove(field),
    };
}

fn accept_short_names(wanted: &Value, accepted: &mut Map, taken: &dyn Fn(&str) -> bool) -> Option<NameConflict> {
    let own = accepted.get("shortNames").cloned().unwrap_or_else(|| json!([]));
    let names = wanted.get("shortNames").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
    let conflicts: Vec<String> = names
        .filter(|name| !own.as_array().is_some_and(|own| own.iter().any(|short| short == name)) && taken(name))
        .map(|name| format!("{name:?} is already in use"))
        .collect();
    if conflicts.is_empty() {
        copy_list(wanted, accepted, "shortNames");
        return None;
    }
    let message = if conflicts.len() == 1 { conflicts.concat() } else { format!("[{}]", conflicts.join(", ")) };
    Some(("ShortNamesConflict", message))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crd::tests::widgets;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + seconds).unwrap()
    }

    #[test]
    fn names_without_rivals_are_accepted_once() {
        let mut definition = widgets();
        definition["status"] = status(&definition, &[], at(0));
        assert!(is_established(&definition));
        assert_eq!(definition["status"]["acceptedNames"], definition["spec"]["names"]);
        assert_eq!(status(&definition, &[], at(60)), definition["status"], "nothing changes later");
    }

    #[test]
    fn a_rival_keeps_its_names() {
        let mut first = widgets();
        first["status"] = status(&first, &[], at(0));
        let mut second = widgets();
        second["metadata"]["name"] = json!("wadgets.h6.example.com");
        second["spec"]["names"]["plural"] = json!("wadgets");
        let refused = status(&second, &[first["status"]["acceptedNames"].clone()], at(1));
        assert_eq!(refused["conditions"][0]["reason"], "ListKindConflict");
        assert_eq!(refused["conditions"][0]["message"], "\"WidgetList\" is already in use");
        assert_eq!(refused["conditions"][1]["status"], "False");
        assert_eq!(refused["acceptedNames"]["plural"], "wadgets");
        assert_eq!(refused["acceptedNames"]["kind"], "");
    }

    #[test]
    fn a_webhook_without_usable_certificates_is_not_established() {
        let mut definition = widgets();
        let bundle = |text: &str| json!({"strategy": "Webhook", "webhook": {"clientConfig": {"caBundle": text}}});
        definition["spec"]["conversion"] = bundle("aW52YWxpZA==");
        let found = status(&definition, &[], at(0));
        assert_eq!(found["conditions"][1]["status"], "False");
        assert_eq!(found["conditions"][1]["reason"], "InvalidCABundle");
        definition["status"] = found;
        definition["spec"]["conversion"] = json!({"strategy": "None"});
        definition["status"] = status(&definition, &[], at(1));
        assert!(is_established(&definition));
        definition["spec"]["conversion"] = bundle("aW52YWxpZA==");
        assert_eq!(status(&definition, &[], at(2)), definition["status"], "an established definition stays so");
    }

    #[test]
    fn versions_are_ranked() {
        let mut versions = ["v1beta1", "foo", "v2", "v1alpha1", "v1", "v11beta2", "v10"];
        versions.sort_by_key(|version| version_rank(version));
        assert_eq!(versions, ["v10", "v2", "v1", "v11beta2", "v1beta1", "v1alpha1", "foo"]);
    }
}
