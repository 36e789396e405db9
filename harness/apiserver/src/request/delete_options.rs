//! The options of deletions. Follows `v1/validation/validation.go` in
//! `staging/src/k8s.io/apimachinery/pkg/apis/meta` of Kubernetes 1.36.

use super::Query;
use crate::field_errors::{BadValue, ErrorList, FieldError, Path};
use crate::json::{Value, json};
use crate::status::Status;

pub(crate) const META_GROUP: &str = "meta.k8s.io";

/// The option that deletes objects which cannot be read. Objects here always can be, so only its type counts.
const IGNORE_READ_ERRORS: &str = "ignoreStoreReadErrorWithClusterBreakingPotential";

pub(crate) fn check_dry_run(values: &[&str], errors: &mut ErrorList) {
    if values.iter().any(|value| *value != "All") {
        let list = BadValue::from(json!(values));
        errors.push(FieldError::not_supported(&Path::new("dryRun"), list, &["All"]));
    }
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
            let found = match value {
                Value::Number(number) if wanted.starts_with("int") => format!("number {number}"),
                other => other.json_type().to_owned(),
            };
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
        if let Some(value) = field(IGNORE_READ_ERRORS).filter(|value| value.as_bool().is_none()) {
            return Err(wrong(IGNORE_READ_ERRORS, value, "bool"));
        }
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

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(json!({"propagationPolicy": "Orphan", "orphanDependents": true}), "DeleteOptions.meta.k8s.io \"\" is invalid: propagationPolicy: Invalid value: \"Orphan\": orphanDependents and deletionPropagation cannot be both set")]
    #[case(json!({"gracePeriodSeconds": "x"}), "json: cannot unmarshal string into Go struct field DeleteOptions.gracePeriodSeconds of type int64")]
    #[case(json!({"gracePeriodSeconds": 1.5}), "json: cannot unmarshal number 1.5 into Go struct field DeleteOptions.gracePeriodSeconds of type int64")]
    #[case(json!({"propagationPolicy": 5}), "json: cannot unmarshal number into Go struct field DeleteOptions.propagationPolicy of type v1.DeletionPropagation")]
    #[case(json!({"ignoreStoreReadErrorWithClusterBreakingPotential": "x"}), "json: cannot unmarshal string into Go struct field DeleteOptions.ignoreStoreReadErrorWithClusterBreakingPotential of type bool")]
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
