//! HTML reports: complete in one file, escaped, and working in a real browser.

mod browser;

use std::path::PathBuf;
use std::process::Output;

use self::browser::Browser;
use super::cli::{GOOD, folder, plumbline};
use super::skips::skip;

/// Its promise, note and labels contain markup, and it fails at 60 s.
const HOSTILE: &str = "\
promise: \"A pod <script>document.title='broken out'</script> lives </script><img src=x onerror=alert(1)> for ever.\"
rule: BR-24-03
level: core
feature: podgc.orphaned
given:
  nodes: [n1]
  pods: [{ name: a, node: n1, annotations: { x: \"</script><script>document.title='broken out'</script>\" } }]
steps:
- { at: 5s, delete: nodes/n1 }
- { until: 300s, consistently: { exists: pods/a }, note: \"<b>never</b>\" }
allow: [WRITE pods/a, WRITE pods/a/status]
";

/// Two hundred nodes with their first annotation, and a crash.
const MANY: &str = "\
promise: Every node gets its annotation.
rule: BR-24-03
level: core
feature: ttl.start-up
controllers: [ttl]
given: { nodes: [{ name: n1..n200 }] }
steps:
- { at: 5s, controllers: crash }
- { at: 9s, controllers: start }
- { at: 10s, expect: { exists: nodes/n1 } }
allow: [WRITE nodes/*]
";

/// Runs `arguments` on a folder with these fixtures.
fn run(test: &str, files: &[(&str, &str)], arguments: &[&str]) -> (PathBuf, Output) {
    let root = folder(test, files);
    let output = plumbline(&root, arguments);
    (root, output)
}

fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

const REPORT: [&str; 4] = ["--format", "html", "-o", "report.html"];

fn three() -> [(&'static str, &'static str); 3] {
    [("podgc/good.yaml", GOOD), ("podgc/hostile.yaml", HOSTILE), ("ttl/many.yaml", MANY)]
}

#[test]
fn a_page_is_complete_and_escaped() {
    let (root, output) = run("pages-escaped", &three(), &[&["run"], &REPORT[..]].concat());
    let stderr = errors(&output);
    assert_eq!(output.status.code(), Some(100), "{stderr}");
    assert!(stderr.contains("\n  page: report.html#podgc/hostile@60s\n"), "the anchor of the failure: {stderr}");
    let page = std::fs::read_to_string(root.join("report.html")).expect("a report");
    assert!(!page.contains("<script>document.title") && !page.contains("<img"), "markup of fixtures is escaped");
    assert!(page.contains("A pod &lt;script&gt;"), "it is shown as text");
    let policy = page.split("Content-Security-Policy\" content=\"").nth(1).expect("a policy");
    assert!(policy.starts_with("default-src 'none'; script-src 'sha256-"), "{}", &policy[..200]);
    // The heads of arrows are in the page itself.
    let others = page.replace("url(#head)", "");
    for address in ["src=\"", "http-equiv=\"refresh", "@import", "url("] {
        assert!(!others.contains(address), "{address} loads something");
    }
}

#[test]
fn a_former_report_is_compared() {
    let (root, output) = run("pages-since", &three(), &["run", "--format", "json", "-o", "before.json"]);
    assert_eq!(output.status.code(), Some(100), "{}", errors(&output));
    std::fs::write(root.join("fixtures/podgc/good.yaml"), GOOD.replace("80s", "30s")).expect("a writable file");
    let output = plumbline(&root, &[&["run", "--since", "before.json"], &REPORT[..]].concat());
    assert_eq!(output.status.code(), Some(100), "{}", errors(&output));
    let page = std::fs::read_to_string(root.join("report.html")).expect("a report");
    for part in ["</span> New failures</summary><ul class=\"ids\"><li><a href=\"#podgc/good\">", "Still failing"] {
        assert!(page.contains(part), "{part} is missing");
    }
    let other =
        std::fs::read_to_string(root.join("before.json")).expect("a report").replace("plumbline/v1", "plumbline/v0");
    std::fs::write(root.join("before.json"), other).expect("a writable file");
    let output = plumbline(&root, &[&["run", "--since", "before.json"], &REPORT[..]].concat());
    assert_eq!(output.status.code(), Some(2), "a report of another version");
    assert!(errors(&output).contains("--since before.json: it has apiVersion `plumbline/v0`"), "{}", errors(&output));
}

#[test]
fn a_page_works_in_a_browser() {
    let (root, _) = run("pages-browser", &three(), &[&["run"], &REPORT[..]].concat());
    let Some(mut browser) = Browser::start(&root.join("profile")) else {
        return skip("pages", "there is no chromium");
    };
    let page = format!("file://{}", root.join("report.html").display());
    browser.open(&page);
    filters_filter(&mut browser);
    browser.open(&format!("{page}#podgc/hostile@60s"));
    browser.wait("document.querySelector('aside.details h3') !== null");
    timeline_of_a_failure(&mut browser);
    browser.open(&format!("{page}#ttl/many"));
    browser.wait("document.querySelector('.timeline .mark') !== null");
    marks_of_many(&mut browser);
    assert_eq!(browser.problems(), Vec::<String>::new(), "errors on the console, or requests");
}

fn filters_filter(browser: &mut Browser) {
    let shown = "[...document.querySelectorAll('#groups tr[data-suite]')].filter((row) => row.offsetParent).length";
    assert_eq!(browser.evaluate("document.title"), "plumbline: in-process on embedded");
    let type_in = |id: &str, text: &str| {
        format!(
            "(() => {{ const input = document.getElementById('{id}'); input.value = '{text}'; \
             input.dispatchEvent(new Event('input', {{ bubbles: true }})); \
             return document.getElementById('shown').textContent; }})()"
        )
    };
    assert_eq!(browser.evaluate(&type_in("filter", "quarantine")), "Showing 1 of 3 fixtures.");
    assert_eq!(browser.evaluate(shown), 1);
    assert_eq!(browser.evaluate(&type_in("filter", "")), "Showing 3 of 3 fixtures.");
    assert_eq!(browser.evaluate(&type_in("outcome", "failed")), "Showing 1 of 3 fixtures.");
    assert_eq!(browser.evaluate(&type_in("grouping", "rule")), "Showing 1 of 3 fixtures.");
    assert_eq!(browser.evaluate("document.querySelector('#groups summary strong').textContent"), "BR-24-03");
}

fn timeline_of_a_failure(browser: &mut Browser) {
    assert_eq!(browser.evaluate("document.title"), "podgc/hostile", "markup does not run");
    let heading = "document.querySelector('aside.details h3').textContent";
    assert_eq!(browser.evaluate(heading), "PATCH pods/a/status", "the anchor selects the write at 60 s");
    let diff = browser.evaluate("document.querySelector('aside.details .diff').textContent");
    let diff = diff.as_str().expect("a text").to_owned();
    assert!(diff.contains("- ") && diff.contains("+   phase: Failed"), "{diff}");
    // DELETE node, delivery; GET node, PATCH, delivery, DELETE pod, two deliveries; GET node of the next cycle.
    let marks = "[...document.querySelectorAll('.marks .mark')].map((mark) => mark.getAttribute('aria-label'))";
    let marks = browser.evaluate(&format!("{marks}.filter((text) => text.startsWith('t=')).length"));
    assert_eq!(marks, 9);
    assert_eq!(browser.evaluate("document.querySelectorAll('.step.fail').length"), 1, "the window that was broken");
    let range = "(() => { window.view.setRange([0, 5000]); \
                 return [document.querySelectorAll('.events tbody tr').length, \
                 document.querySelectorAll('.mark.outside').length].join(); })()";
    assert_eq!(browser.evaluate(range), "2,7", "two events until 5 s, the others are faint");
    let key = "(() => { window.view.setRange(null); \
               const mark = document.querySelector('.mark[tabindex=\"0\"]'); mark.focus(); \
               mark.dispatchEvent(new KeyboardEvent('keydown', { key: 'ArrowLeft', bubbles: true })); \
               return document.activeElement !== mark && document.activeElement.classList.contains('mark'); })()";
    assert_eq!(browser.evaluate(key), true, "the keys move between marks");
}

fn marks_of_many(browser: &mut Browser) {
    let count = browser.evaluate("document.querySelector('.mark.write .count').textContent");
    assert_eq!(count, "×200", "like writes of an instant are one mark");
    assert_eq!(browser.evaluate("document.querySelectorAll('.band.crash').length"), 1);
    let title = browser.evaluate("document.querySelector('.band.crash title').textContent");
    assert_eq!(title, "5s to 9s: the controllers crash");
    assert_eq!(browser.evaluate("document.querySelector('.events-shown').textContent.includes(' of ')"), true);
}
