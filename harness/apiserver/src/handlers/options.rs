//! Query parameters, parsed and validated. Follows `v1/validation/validation.go` and
//! `internalversion/validation/validation.go` in `staging/src/k8s.io/apimachinery/pkg/apis/meta` of Kubernetes 1.36.

use crate::field_errors::{ErrorList, Path};
use crate::registry::Resource;
pub(crate) use crate::request::DeleteOptions;
use crate::request::Query;
use crate::request::delete_options::{META_GROUP, check_dry_run};
use crate::schema::FieldValidation;
use crate::selectors::{FieldSelector, LabelSelector, ListSelector, SelectorError};
use crate::status::Status;

/// The values of `resourceVersionMatch`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum VersionMatch {
    Exact,
    NotOlderThan,
}

fn bad_selector(error: SelectorError) -> Status {
    Status::bad_request(error.to_string())
}

/// Parameters of lists and watches.
#[derive(Clone, Debug, Default)]
pub(crate) struct ListOptions {
    pub(crate) selection: ListSelector,
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
    pub(crate) fn parse(query: &Query, kind: &Resource, name: &str, force_watch: bool) -> Result<Self, Status> {
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
            selection: ListSelector::default(),
        };
        let labels = LabelSelector::parse(&text("labelSelector")).map_err(bad_selector)?;
        let mut fields = FieldSelector::parse(&text("fieldSelector")).map_err(bad_selector)?;
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
        fields.check(kind).map_err(bad_selector)?;
        if !name.is_empty() {
            if fields.is_empty() {
                fields = FieldSelector::for_name(name);
            } else if fields.required_value("metadata.name") != Some(name) {
                return Err(Status::bad_request("fieldSelector metadata.name doesn't match requested name"));
            }
        }
        options.selection = ListSelector { labels, fields };
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
        // A watch from no version has `sendInitialEvents` and a match by default: `SetListOptionsDefaults`.
        let by_default = self.send_initial_events.is_none() && matches!(&*self.resource_version, "" | "0");
        if self.watch && !self.continue_token.is_empty() && (by_default || !version_match.is_empty()) {
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

/// Returns the field manager: the parameter, or the user agent up to the first `/`.
pub(crate) fn manager_or_user_agent(manager: &str, user_agent: &str) -> String {
    if !manager.is_empty() {
        return manager.to_owned();
    }
    if let Some(own) = user_agent.strip_prefix("plumbline/") {
        return manager_of_loop(own).to_owned();
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

/// Returns the manager of the writes of a loop: the program that runs its controller in a cluster.
fn manager_of_loop(name: &str) -> &str {
    match name {
        "apiservice-controller" => "kube-apiserver",
        "kubelet" | "local-path-provisioner" => name,
        _ => "kube-controller-manager",
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("kubectl/v1.36.0 (linux/amd64)", "kubectl")]
    #[case("Mozilla", "Mozilla")]
    #[case("a\u{7}b/c", "ab")]
    #[case("", "")]
    #[case("plumbline/apiservice-controller", "kube-apiserver")]
    #[case("plumbline/deployment-controller", "kube-controller-manager")]
    #[case("plumbline/kubelet", "kubelet")]
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
}
