//! Accessibility, checked by axe-core. Its script is taken from the Python package `axe-playwright-python`, which
//! `.ci/run` installs without its dependencies.

use std::process::Command;

use serde_json::Value;

use super::browser::Browser;

/// Prints the folder of the package without importing it.
const FIND: &str =
    "import importlib.util as u; print(u.find_spec('axe_playwright_python').submodule_search_locations[0])";

/// Returns axe's script; `None` if it is not installed.
pub(super) fn script() -> Option<String> {
    let python = std::env::var("PLUMBLINE_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let output = Command::new(python).args(["-c", FIND]).output().ok().filter(|output| output.status.success())?;
    let folder = String::from_utf8(output.stdout).ok()?;
    std::fs::read_to_string(format!("{}/axe.min.js", folder.trim())).ok()
}

/// Returns the serious and critical findings on the open page.
pub(super) fn findings(browser: &mut Browser, script: &str) -> Vec<String> {
    // The result of the script itself cannot be returned.
    browser.evaluate(&format!("{script}\n;true"));
    let found =
        browser.evaluate("axe.run(document, { resultTypes: ['violations'] }).then((result) => result.violations)");
    let found = found.as_array().expect("axe returns a list");
    let is_serious = |finding: &&Value| matches!(finding["impact"].as_str(), Some("serious" | "critical"));
    let text = |finding: &Value| {
        let places = finding["nodes"].as_array().into_iter().flatten().take(3);
        let places: Vec<String> = places.map(|node| format!("{} {}", node["html"], node["failureSummary"])).collect();
        format!("{}: {}: {}", finding["id"], finding["help"], places.join(" · "))
    };
    found.iter().filter(is_serious).map(text).collect()
}
