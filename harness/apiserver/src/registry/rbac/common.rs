//! Rules, subjects and columns that the kinds of the group share. See `pkg/apis/rbac/validation/validation.go`. PURE.

use crate::field_errors::{ErrorList, Path};
use crate::json::fields::{array_field, items_mut, object_mut, str_field, text_default};
use crate::json::{Map, Value, json};
use crate::printers::column::{CellSource, Column, Description};
use crate::printers::format::{items, text};
use crate::registry::checks;
use crate::registry::generic::{Generic, MetadataRules};
use crate::registry::names::{self, NameFormat};

/// The rules of roles and role bindings.
pub(super) const STRATEGY: Generic = Generic {
    create_on_update: true,
    names: NameFormat::PathSegment,
    updates: MetadataRules::ObjectFirst,
    ..Generic::NEW
};

/// Defaults of `RoleBinding` and `ClusterRoleBinding`.
pub(super) fn default_binding(map: &mut Map) {
    if let Some(role) = object_mut(map, "roleRef") {
        text_default(role, "apiGroup", "rbac.authorization.k8s.io");
    }
    for subject in items_mut(map, "subjects") {
        if subject.get("kind").is_some_and(|k| k == "User" || k == "Group") {
            text_default(subject, "apiGroup", "rbac.authorization.k8s.io");
        }
    }
}

const GROUP: &str = "rbac.authorization.k8s.io";

const SUBJECT_KINDS: [&str; 3] = ["ServiceAccount", "User", "Group"];

fn segment(text: &str) -> Vec<String> {
    names::path_segment(text, false)
}

/// Validates the rules of a role.
pub(super) fn rules(object: &Value, namespaced: bool, errors: &mut ErrorList) {
    let root = Path::new("rules");
    for (index, rule) in array_field(object, "rules").iter().enumerate() {
        let path = root.index(index);
        let given = |field: &str| !array_field(rule, field).is_empty();
        if !given("verbs") {
            errors.required(&path.child("verbs"), "verbs must contain at least one value");
        }
        if given("nonResourceURLs") {
            let path = path.child("nonResourceURLs");
            if namespaced {
                let why = "namespaced rules cannot apply to non-resource URLs";
                errors.invalid(&path, &rule["nonResourceURLs"], why);
            }
            if given("apiGroups") || given("resources") || given("resourceNames") {
                let why = "rules cannot apply to both regular resources and non-resource URLs";
                errors.invalid(&path, &rule["nonResourceURLs"], why);
            }
            continue;
        }
        if !given("apiGroups") {
            errors.required(&path.child("apiGroups"), "resource rules must supply at least one api group");
        }
        if !given("resources") {
            errors.required(&path.child("resources"), "resource rules must supply at least one resource");
        }
    }
}

/// Validates an update of a binding: the role stays (`pkg/apis/rbac/validation/validation.go`).
pub(super) fn role_stays(new: &Value, old: &Value) -> ErrorList {
    let mut errors = ErrorList::new();
    if new["roleRef"] != old["roleRef"] {
        let part = |field: &str| str_field(&new["roleRef"], field);
        // Go prints the internal type, whose fields have no JSON names.
        let role = json!({"APIGroup": part("apiGroup"), "Kind": part("kind"), "Name": part("name")});
        errors.invalid(&Path::new("roleRef"), role, "cannot change roleRef");
    }
    errors
}

/// Validates a binding.
pub(super) fn binding(object: &Value, namespaced: bool) -> ErrorList {
    let mut errors = ErrorList::new();
    let role = &object["roleRef"];
    let path = Path::new("roleRef");
    let group = str_field(role, "apiGroup");
    if group != GROUP {
        errors.not_supported(&path.child("apiGroup"), group, &[GROUP]);
    }
    let kinds: &[&str] = if namespaced { &["Role", "ClusterRole"] } else { &["ClusterRole"] };
    let kind = str_field(role, "kind");
    if !kinds.contains(&kind) {
        errors.not_supported(&path.child("kind"), kind, kinds);
    }
    checks::required_format(role, "name", segment, &path, &mut errors);
    let subjects = Path::new("subjects");
    for (index, one) in array_field(object, "subjects").iter().enumerate() {
        subject(one, namespaced, &subjects.index(index), &mut errors);
    }
    errors
}

fn subject(subject: &Value, namespaced: bool, path: &Path<'_>, errors: &mut ErrorList) {
    let text = |field: &str| str_field(subject, field);
    if text("name").is_empty() {
        errors.required(&path.child("name"), "");
    }
    let group = text("apiGroup");
    match text("kind") {
        "ServiceAccount" => {
            if !text("name").is_empty() {
                checks::format(text("name"), names::dns1123_subdomain, &path.child("name"), errors);
            }
            if !group.is_empty() {
                errors.not_supported(&path.child("apiGroup"), group, &[""]);
            }
            if !namespaced && text("namespace").is_empty() {
                errors.required(&path.child("namespace"), "");
            }
        }
        "User" | "Group" if group != GROUP => errors.not_supported(&path.child("apiGroup"), group, &[GROUP]),
        "User" | "Group" => {}
        kind => errors.not_supported(&path.child("kind"), kind, &SUBJECT_KINDS),
    }
}

/// The column `Role` of bindings; `kind` is their type.
pub(super) const fn role_column(kind: &'static str) -> Column {
    Column::string(
        "Role",
        Description::Field(kind, "roleRef"),
        CellSource::Custom(|binding, _| {
            json!(format!("{}/{}", text(binding, "/roleRef/kind"), text(binding, "/roleRef/name")))
        }),
    )
}

fn subjects(binding: &Value, kind: &str) -> String {
    let of_kind = items(binding, "/subjects").iter().filter(|subject| text(subject, "/kind") == kind);
    let names: Vec<String> = of_kind
        .map(|subject| match kind {
            "ServiceAccount" => format!("{}/{}", text(subject, "/namespace"), text(subject, "/name")),
            _ => text(subject, "/name").to_owned(),
        })
        .collect();
    names.join(", ")
}

/// The names of users.
pub(super) const USERS: CellSource = CellSource::Custom(|binding, _| json!(subjects(binding, "User")));

/// The names of groups.
pub(super) const GROUPS: CellSource = CellSource::Custom(|binding, _| json!(subjects(binding, "Group")));

/// The names of service accounts.
pub(super) const SERVICE_ACCOUNTS: CellSource =
    CellSource::Custom(|binding, _| json!(subjects(binding, "ServiceAccount")));
