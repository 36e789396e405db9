//! `/healthz`, `/livez` and `/readyz` with their checks, in kube-apiserver's format. PURE.

use std::fmt::Write as _;

use crate::runtime::diagnostics::Check;

/// A response: status code and text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HealthReply {
    /// 200 or 500; 404 for an unknown check.
    pub status: u16,
    /// Plain text.
    pub text: String,
}

/// Returns the response of the endpoint `name` (`healthz` …) with `query`, from all its `checks`.
///
/// Reasons are withheld because the endpoint is not authenticated; they are in the log and at the path of the single
/// check.
pub fn all(name: &str, query: &str, checks: &[Check]) -> HealthReply {
    let parameters: Vec<(&str, &str)> =
        query.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, ""))).collect();
    let mut excluded: Vec<&str> =
        parameters.iter().filter(|(key, _)| *key == "exclude").map(|(_, value)| *value).collect();
    excluded.sort_unstable();
    excluded.dedup();
    let mut text = String::new();
    let mut failed = false;
    for check in checks {
        // Writing to a String cannot fail.
        let _ = if excluded.contains(&check.name) {
            excluded.retain(|name| *name != check.name);
            writeln!(text, "[+]{} excluded: ok", check.name)
        } else if check.problem.is_some() {
            failed = true;
            writeln!(text, "[-]{} failed: reason withheld", check.name)
        } else {
            writeln!(text, "[+]{} ok", check.name)
        };
    }
    if !excluded.is_empty() {
        let names: Vec<String> = excluded.iter().map(|name| format!("{name:?}")).collect();
        let _ = writeln!(text, "warn: some health checks cannot be excluded: no matches for {}", names.join(","));
    }
    if failed {
        return HealthReply { status: 500, text: format!("{text}{name} check failed\n") };
    }
    if parameters.iter().any(|(key, _)| *key == "verbose") {
        return HealthReply { status: 200, text: format!("{text}{name} check passed\n") };
    }
    HealthReply { status: 200, text: "ok".to_owned() }
}

/// Returns the response of the single check `name`, with its reason.
pub fn one(name: &str, checks: &[Check]) -> HealthReply {
    match checks.iter().find(|check| check.name == name).map(|check| &check.problem) {
        Some(None) => HealthReply { status: 200, text: "ok".to_owned() },
        Some(Some(why)) => HealthReply { status: 500, text: format!("internal server error: {why}\n") },
        None => HealthReply { status: 404, text: "404 page not found\n".to_owned() },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    fn checks(broken: bool) -> [Check; 2] {
        [Check::new("ping", None), Check::new("queues", broken.then(|| "stuck".to_owned()))]
    }

    #[rstest]
    #[case::short("", false, 200, "ok")]
    #[case::verbose("verbose", false, 200, "[+]ping ok\n[+]queues ok\nhealthz check passed\n")]
    #[case::verbose_with_value("verbose=1", false, 200, "[+]ping ok\n[+]queues ok\nhealthz check passed\n")]
    #[case::failure_is_verbose("", true, 500, "[+]ping ok\n[-]queues failed: reason withheld\nhealthz check failed\n")]
    #[case::excluded("exclude=queues", true, 200, "ok")]
    #[case::excluded_verbose(
        "exclude=queues&verbose",
        true,
        200,
        "[+]ping ok\n[+]queues excluded: ok\nhealthz check passed\n"
    )]
    #[case::unknown(
        "verbose&exclude=x&exclude=a",
        false,
        200,
        "[+]ping ok\n[+]queues ok\nwarn: some health checks cannot be excluded: no matches for \"a\",\"x\"\nhealthz \
            check passed\n"
    )]
    fn endpoints(#[case] query: &str, #[case] broken: bool, #[case] status: u16, #[case] text: &str) {
        assert_eq!(all("healthz", query, &checks(broken)), HealthReply { status, text: text.to_owned() });
    }

    #[rstest]
    #[case("ping", 200, "ok")]
    #[case("queues", 500, "internal server error: stuck\n")]
    #[case("x", 404, "404 page not found\n")]
    fn single_checks(#[case] name: &str, #[case] status: u16, #[case] text: &str) {
        assert_eq!(one(name, &checks(true)), HealthReply { status, text: text.to_owned() });
    }
}
