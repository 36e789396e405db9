//! Columns of resource quotas: used and hard amounts, for requests and for limits. Follows `printResourceQuota` in
//! `pkg/printers/internalversion/printers.go` of Kubernetes 1.36. PURE.

use super::column::{AGE, CellSource, Column, Description, NAME};
use crate::json::{Key, Value, json};

/// The columns of `resourcequotas`.
pub(super) const RESOURCE_QUOTAS: &[Column] = &[
    NAME,
    Column::string(
        "Request",
        Description::Text("Request represents a minimum amount of cpu/memory that a container may consume."),
        CellSource::Custom(|quota, _| json!(format_usage(quota, false))),
    ),
    Column::string(
        "Limit",
        Description::Text(
            "Limits control the maximum amount of cpu/memory that a container may use independent of contention on the node.",
        ),
        CellSource::Custom(|quota, _| json!(format_usage(quota, true))),
    ),
    AGE,
];

/// Formats `name: used/hard` for resources whose name begins with `limits.`, or for the others, sorted by name.
fn format_usage(quota: &Value, limits: bool) -> String {
    let amount = |field: &str, name: &str| quota["status"][field][name].as_str().unwrap_or("0").to_owned();
    let hard = quota["status"]["hard"].as_object();
    let mut names: Vec<&Key> =
        hard.into_iter().flatten().map(|(name, _)| name).filter(|name| name.starts_with("limits.") == limits).collect();
    names.sort();
    let shown: Vec<String> =
        names.into_iter().map(|name| format!("{name}: {}/{}", amount("used", name), amount("hard", name))).collect();
    shown.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_and_limits_are_apart() {
        let quota = json!({"status": {"hard": {"pods": "2", "limits.cpu": "1", "cpu": "3"}, "used": {"pods": "1"}}});
        assert_eq!(format_usage(&quota, false), "cpu: 0/3, pods: 1/2");
        assert_eq!(format_usage(&quota, true), "limits.cpu: 0/1");
        assert_eq!(format_usage(&json!({}), false), "");
    }
}
