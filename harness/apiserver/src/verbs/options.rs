//! Query parameters, parsed and validated. Follows `v1/validation/validation.go` and
//! `internalversion/validation/validation.go` in `staging/src/k8s.io/apimachinery/pkg/apis/meta` of Kubernetes 1.36.

use crate::field::{BadValue, Error, ErrorList, Path};
use crate::json::{Value, json};
use crate::kinds::Kind;
use crate::request::Query;
use crate::schema::FieldValidation;
use crate::selectors::{FieldSelector, LabelSelector, Selection};
use crate::status::Status;

const META_GROUP: &str = "meta.k8s.io";

/// The values of `resourceVersionMatch`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum VersionMatch {
    Exact,
    NotOlderThan,
}

/// Parameters of lists and watches.
#[derive(Clone, Debug, Default)]
pub(crate) struct ListOptions {
    pub(crate) selection: Selection,
    pub(crate) watch: bool,
    pub(crate) bookmarks: bool,
    pub(crate) resource_version: String,
    pub(crate) version_match: Option<VersionMatch>,
    pub(crate) timeout_seconds: Option<i64>,
    pub(crate) limit: i64,
    pub(crate) continue_token: String,
    pub(crate) send_initial_events: Option<bool>,
}

impl ListOptions {
    /// Parses and validates the parameters of a list or watch of `kind`; a `name` from the path selects that object.
    pub(crate) fn parse(query: &Query, kind: &Kind, name: &str, force_watch: bool) -> Result<Self, Status> {
        let text = |name: &str| query.get(name).unwrap_or_default().to_owned();
        let mut options = Self {
            watch: query.flag("watch").unwrap_or(false) || force_watch,
            bookmarks: query.flag("allowWatchBookmarks").unwrap_or(false),
            resource_version: text("resourceVersion"),
            version_match: None,
            timeout_seconds: query.number("timeoutSeconds")?,
            limit: query.number("limit")?.unwrap_or(0),
            continue_token: text("continue"),
            send_initial_events: query.flag("sendInitialEvents"),
            selection: Selection::default(),
        };
        let labels = LabelSelector::parse(&text("labelSelector")).map_err(Status::bad_request)?;
        let mut fields = FieldSelector::parse(&text("fieldSelector")).map_err(Status::bad_request)?;
        let version_match = text("resourceVersionMatch");
        let errors = options.check(&version_match);
        if !errors.is_empty() {
            return Err(Status::invalid(META_GROUP, "ListOptions", "", &errors));
        }
        options.version_match = match version_match.as_str() {
            "Exact" => Some(VersionMatch::Exact),
            "NotOlderThan" => Some(VersionMatch::NotOlderThan),
            _ => None,
        };
        fields.check(kind).map_err(Status::bad_request)?;
        if !name.is_empty() {
            if fields.is_empty() {
                fields = FieldSelector::for_name(name);
            } else if fields.exact("metadata.name") != Some(name) {
                return Err(Status::bad_request("fieldSelector metadata.name doesn't match requested name"));
            }
        }
        options.selection = Selection { labels, fields };
        Ok(options)
    }

    fn check(&self, version_match: &str) -> ErrorList {
        let mut errors = ErrorList::new();
        let path = Path::new("resourceVersionMatch");
        let known: &[&str] = if self.watch { &["NotOlderThan"] } else { &["Exact", "NotOlderThan", ""] };
        if self.watch {
            if self.send_initial_events.is_some() && version_match != "NotOlderThan" {
                errors.forbidden(&path, "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan");
            }
            if self.send_initial_events.is_none() && !version_match.is_empty() {
                let detail = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided";
                errors.forbidden(&path, detail);
            }
        } else if !version_match.is_empty() && self.resource_version.is_empty() {
            errors.forbidden(&path, "resourceVersionMatch is forbidden unless resourceVersion is provided");
        }
        if !version_match.is_empty() {
            let with_continue = !self.continue_token.is_empty();
            if with_continue && !self.watch {
                errors.forbidden(&path, "resourceVersionMatch is forbidden when continue is provided");
            }
            if !known.contains(&version_match) {
                errors.not_supported(&path, version_match, known);
            }
        }
        if self.watch && !self.continue_token.is_empty() {
            errors.forbidden(&path, "resourceVersionMatch is forbidden when continue is provided");
        }
        if !self.watch {
            if version_match == "Exact" && self.resource_version == "0" {
                let detail = "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"";
                errors.forbidden(&path, detail);
            }
            if self.send_initial_events.is_some() {
                errors.forbidden(&Path::new("sendInitialEvents"), "sendInitialEvents is forbidden for list");
            }
        }
        errors
    }
}

/// Parameters of creates, updates and patches.
#[derive(Clone, Debug, Default)]
pub(crate) struct WriteOptions {
    pub(crate) dry_run: bool,
    pub(crate) field_manager: String,
    pub(crate) field_validation: FieldValidation,
    pub(crate) force: Option<bool>,
}

impl WriteOptions {
    /// Parses and validates the parameters. `kind` is the name of the options in errors (`CreateOptions`, …). `apply`
    /// is true for server-side apply, and `None` if the request is not a patch.
    pub(crate) fn parse(query: &Query, kind: &str, apply: Option<bool>) -> Result<Self, Status> {
        let dry_run: Vec<_> = query.all("dryRun").collect();
        let manager = query.get("fieldManager").unwrap_or_default();
        let validation = query.get("fieldValidation").unwrap_or_default();
        let force = if apply.is_some() { query.flag("force") } else { None };
        let mut errors = ErrorList::new();
        match apply {
            Some(true) if manager.is_empty() => {
                errors.required(&Path::new("fieldManager"), "is required for apply patch");
            }
            Some(false) if force.is_some() => {
                errors.forbidden(&Path::new("force"), "may not be specified for non-apply patch");
            }
            _ => {}
        }
        check_manager(manager, &mut errors);
        check_dry_run(&dry_run, &mut errors);
        let field_validation = match validation {
            "" | "Warn" => FieldValidation::Warn,
            "Strict" => FieldValidation::Strict,
            "Ignore" => FieldValidation::Ignore,
            other => {
                errors.not_supported(&Path::new("fieldValidation"), other, &["", "Ignore", "Strict", "Warn"]);
                FieldValidation::Warn
            }
        };
        if !errors.is_empty() {
            return Err(Status::invalid(META_GROUP, kind, "", &errors));
        }
        Ok(Self { dry_run: !dry_run.is_empty(), field_manager: manager.to_owned(), field_validation, force })
    }
}

/// Longest name of a field manager in bytes.
const MANAGER_MAX: usize = 128;

fn check_manager(manager: &str, errors: &mut ErrorList) {
    let path = Path::new("fieldManager");
    if manager.len() > MANAGER_MAX {
        errors.too_long(&path, MANAGER_MAX);
    }
    for (at, c) in manager.char_indices().filter(|(_, c)| !is_print(*c)) {
        let shown = if c.is_control() { String::new() } else { format!(" '{c}'") };
        let detail = format!("invalid character U+{:04X}{shown} (at position {at})", u32::from(c));
        errors.invalid(&path, manager, detail);
    }
}

fn is_print(c: char) -> bool {
    c == ' ' || !(c.is_control() || c.is_whitespace())
}

fn check_dry_run(values: &[&str], errors: &mut ErrorList) {
    if values.iter().any(|value| *value != "All") {
        let list = BadValue::from(json!(values));
        errors.push(Error::not_supported(&Path::new("dryRun"), list, &["All"]));
    }
}

/// Returns the field manager: the parameter, or the user agent up to the first `/`.
pub(crate) fn manager_or_user_agent(manager: &str, user_agent: &str) -> String {
    if !manager.is_empty() {
        return manager.to_owned();
    }
    let mut name = String::new();
    for c in user_agent.split('/').next().unwrap_or_default().chars().filter(|c| is_print(*c)) {
        if name.len() + c.len_utf8() > MANAGER_MAX {
            break;
        }
        name.push(c);
    }
    name
}

/// The fate of dependents of a deleted object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Propagation {
    /// The owner reference is removed; they stay.
    Orphan,
    /// They are deleted after their owner.
    Background,
    /// They are deleted before their owner.
    Foreground,
}

/// Parameters of deletions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeleteOptions {
    /// Seconds until the object is removed; `None` means the default of the kind.
    pub grace_period_seconds: Option<i64>,
    /// Delete only an object with this UID.
    pub uid: Option<String>,
    /// Delete only an object at this resourceVersion.
    pub resource_version: Option<String>,
    /// Deprecated predecessor of `propagation`.
    pub orphan_dependents: Option<bool>,
    /// The fate of dependents.
    pub propagation: Option<Propagation>,
    /// Run all checks, change nothing.
    pub dry_run: bool,
}

impl DeleteOptions {
    /// Parses the query of a DELETE without a body, including preconditions.
    pub(crate) fn from_query(query: &Query) -> Result<Self, Status> {
        let given = |name: &str| query.get(name).filter(|text| !text.is_empty()).map(str::to_owned);
        let mut options = Self {
            grace_period_seconds: query.number("gracePeriodSeconds")?,
            orphan_dependents: query.flag("orphanDependents"),
            uid: given("uid"),
            resource_version: given("resourceVersion"),
            ..Self::default()
        };
        let dry_run: Vec<_> = query.all("dryRun").collect();
        options.check(query.get("propagationPolicy"), &dry_run)?;
        Ok(options)
    }

    /// Parses the body of a DELETE, or the `deleteOptions` of an eviction.
    ///
    /// # Errors
    ///
    /// 400 if a field has a wrong type, 422 if a value is not allowed.
    pub fn from_body(body: &Value) -> Result<Self, Status> {
        let wrong = |name: &str, value: &Value, wanted: &str| {
            let found = go_type(value);
            Status::bad_request(format!(
                "json: cannot unmarshal {found} into Go struct field DeleteOptions.{name} of type {wanted}"
            ))
        };
        let field = |name: &str| body.get(name).filter(|value| !value.is_null());
        let text = |parent: &Value, name: &str, path: &str, wanted: &str| match parent.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.to_string())),
            Some(other) => Err(wrong(path, other, wanted)),
        };
        let mut options = Self::default();
        if let Some(value) = field("gracePeriodSeconds") {
            let seconds = value.as_i64().ok_or_else(|| wrong("gracePeriodSeconds", value, "int64"))?;
            options.grace_period_seconds = Some(seconds);
        }
        if let Some(value) = field("orphanDependents") {
            options.orphan_dependents = Some(value.as_bool().ok_or_else(|| wrong("orphanDependents", value, "bool"))?);
        }
        if let Some(value) = field("preconditions") {
            if !value.is_object() {
                return Err(wrong("preconditions", value, "v1.Preconditions"));
            }
            options.uid = text(value, "uid", "preconditions.uid", "types.UID")?;
            options.resource_version = text(value, "resourceVersion", "preconditions.resourceVersion", "string")?;
        }
        let dry_run: Vec<&str> = match field("dryRun") {
            None => Vec::new(),
            Some(Value::Array(values)) => values.iter().map(|value| value.as_str().unwrap_or_default()).collect(),
            Some(other) => return Err(wrong("dryRun", other, "[]string")),
        };
        let propagation = text(body, "propagationPolicy", "propagationPolicy", "v1.DeletionPropagation")?;
        options.check(propagation.as_deref(), &dry_run)?;
        Ok(options)
    }

    fn check(&mut self, propagation: Option<&str>, dry_run: &[&str]) -> Result<(), Status> {
        let mut errors = ErrorList::new();
        let path = Path::new("propagationPolicy");
        if let (Some(policy), Some(_)) = (propagation, self.orphan_dependents) {
            errors.invalid(&path, policy, "orphanDependents and deletionPropagation cannot be both set");
        }
        self.propagation = match propagation {
            None => None,
            Some("Foreground") => Some(Propagation::Foreground),
            Some("Background") => Some(Propagation::Background),
            Some("Orphan") => Some(Propagation::Orphan),
            Some(other) => {
                errors.not_supported(&path, other, &["Foreground", "Background", "Orphan", "nil"]);
                None
            }
        };
        check_dry_run(dry_run, &mut errors);
        self.dry_run = !dry_run.is_empty();
        if errors.is_empty() { Ok(()) } else { Err(Status::invalid(META_GROUP, "DeleteOptions", "", &errors)) }
    }
}

/// Returns the name that Go's JSON decoder uses for the type of a value.
pub(crate) fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::json::json;

    #[rstest]
    #[case("kubectl/v1.36.0 (linux/amd64)", "kubectl")]
    #[case("Mozilla", "Mozilla")]
    #[case("a\u{7}b/c", "ab")]
    #[case("", "")]
    fn managers_come_from_user_agents(#[case] user_agent: &str, #[case] manager: &str) {
        assert_eq!(manager_or_user_agent("", user_agent), manager);
        assert_eq!(manager_or_user_agent("mine", user_agent), "mine");
    }

    #[rstest]
    #[case(
        "dryRun=foo",
        "CreateOptions.meta.k8s.io \"\" is invalid: dryRun: Unsupported value: [\"foo\"]: supported values: \"All\""
    )]
    #[case(
        "fieldValidation=foo",
        "CreateOptions.meta.k8s.io \"\" is invalid: fieldValidation: Unsupported value: \"foo\": supported values: \"\", \"Ignore\", \"Strict\", \"Warn\""
    )]
    #[case(
        "fieldManager=a%07b",
        "CreateOptions.meta.k8s.io \"\" is invalid: fieldManager: Invalid value: \"a\\ab\": invalid character U+0007 (at position 1)"
    )]
    fn write_options_are_checked(#[case] query: &str, #[case] message: &str) {
        let error = WriteOptions::parse(&Query::parse(query), "CreateOptions", None).unwrap_err();
        assert_eq!((error.code, error.message.as_str()), (422, message));
    }

    #[rstest]
    #[case(json!({"propagationPolicy": "Orphan", "orphanDependents": true}), "DeleteOptions.meta.k8s.io \"\" is invalid: propagationPolicy: Invalid value: \"Orphan\": orphanDependents and deletionPropagation cannot be both set")]
    #[case(json!({"gracePeriodSeconds": "x"}), "json: cannot unmarshal string into Go struct field DeleteOptions.gracePeriodSeconds of type int64")]
    #[case(json!({"dryRun": ["Foo"]}), "DeleteOptions.meta.k8s.io \"\" is invalid: dryRun: Unsupported value: [\"Foo\"]: supported values: \"All\"")]
    fn delete_options_are_checked(#[case] body: Value, #[case] message: &str) {
        assert_eq!(DeleteOptions::from_body(&body).unwrap_err().message, message);
    }

    #[test]
    fn delete_options_are_read() {
        let body =
            json!({"gracePeriodSeconds": 0, "preconditions": {"uid": "u", "resourceVersion": "7"}, "dryRun": ["All"]});
        let options = DeleteOptions::from_body(&body).unwrap();
        assert_eq!(options.grace_period_seconds, Some(0));
        assert_eq!((options.uid.as_deref(), options.resource_version.as_deref()), (Some("u"), Some("7")));
        assert!(options.dry_run);
    }
}
