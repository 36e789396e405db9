//! HTML reports: complete in one file, escaped, and working in a real browser.

mod axe;
mod browser;
mod five;
mod screenshot;

use std::path::PathBuf;
use std::process::Output;

use plumbline::transcript::{Actor, RecordedReply, RecordedRequest, Transcript};
use plumbline_suite::html::Html;
use plumbline_suite::report::{Event, JudgedRun, Reporter as _, RunReport};

use self::browser::Browser;
use self::screenshot::{PAGE, Picture, TOLERANCE};
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
    assert_eq!(browser.evaluate("document.title"), "Fixtures of in-process on embedded");
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
    let steps = "[...document.querySelectorAll('tr[data-from]')].filter((row) => !row.hidden).length";
    assert_eq!(browser.evaluate(steps), 2, "both steps begin until then");
    let steps = format!("(() => {{ window.view.setRange([6000, 7000]); return {steps}; }})()");
    assert_eq!(browser.evaluate(&steps), 1, "the deletion is over");
    let key = "(() => { window.view.setRange(null); \
               const mark = document.querySelector('.mark[tabindex=\"0\"]'); mark.focus(); \
               mark.dispatchEvent(new KeyboardEvent('keydown', { key: 'ArrowLeft', bubbles: true })); \
               return document.activeElement !== mark && document.activeElement.classList.contains('mark'); })()";
    assert_eq!(browser.evaluate(key), true, "the keys move between marks");
    keys_work(browser);
}

/// Enter opens a mark, Shift and an arrow select a range, Escape shows the whole run.
fn keys_work(browser: &mut Browser) {
    let press = |browser: &mut Browser, key: &str, modifiers: u32| {
        browser.press(key, modifiers);
        browser.evaluate("document.activeElement.getAttribute('aria-label')").as_str().unwrap_or_default().to_owned()
    };
    browser.evaluate("document.querySelector('.mark[tabindex=\"0\"]').focus()");
    let first = press(browser, "Home", 0);
    assert!(first.starts_with("t=+5s user DELETE nodes/n1"), "{first}");
    press(browser, "Enter", 0);
    assert_eq!(browser.evaluate("document.querySelector('aside.details h3').textContent"), "DELETE nodes/n1");
    press(browser, "ArrowRight", 8);
    assert_eq!(browser.evaluate("document.querySelector('.brush').hasAttribute('hidden')"), false);
    press(browser, "Escape", 0);
    assert_eq!(browser.evaluate("document.querySelector('.brush').hasAttribute('hidden')"), true);
}

fn marks_of_many(browser: &mut Browser) {
    let count = browser.evaluate("document.querySelector('.mark.write .count').textContent");
    assert_eq!(count, "×200", "like writes of an instant are one mark");
    assert_eq!(browser.evaluate("document.querySelectorAll('.band.crash').length"), 1);
    let title = browser.evaluate("document.querySelector('.band.crash title').textContent");
    assert_eq!(title, "5s to 9s: the controllers crash");
    assert_eq!(browser.evaluate("document.querySelector('.events-shown').textContent.includes(' of ')"), true);
}

/// Opens a page and waits until it is drawn.
fn open(browser: &mut Browser, address: &str) {
    browser.open(address);
    if address.contains('#') {
        browser.wait("document.querySelector('.timeline .mark') !== null");
    }
}

#[test]
fn pages_look_as_accepted() {
    let (root, pages) = five::pages("pages-screenshots");
    let Some(mut browser) = Browser::start(&root.join("profile")) else {
        return skip("pages", "there is no chromium");
    };
    browser.show_as(PAGE, "light");
    let mut problems = Vec::new();
    let mut pictures = Vec::new();
    for (name, address) in &pages {
        open(&mut browser, address);
        let screenshot = browser.screenshot();
        problems.extend(screenshot::compare(name, &screenshot, &root));
        pictures.push(Picture::read(&screenshot).cells());
    }
    assert_eq!(problems, Vec::<String>::new());
    // The comparison sees the difference between pages, and between light and dark.
    for (index, (name, address)) in pages.iter().enumerate() {
        let next = &pictures[(index + 1) % pictures.len()];
        let other = screenshot::accepted(name).difference(next);
        assert!(other > TOLERANCE, "{name} looks like the next page: {other:.2}");
        browser.show_as(PAGE, "dark");
        open(&mut browser, address);
        let dark = screenshot::accepted(name).difference(&Picture::read(&browser.screenshot()).cells());
        assert!(dark > TOLERANCE, "{name} has no dark form: {dark:.2}");
    }
}

#[test]
fn pages_are_accessible_and_fit_a_telephone() {
    let (root, pages) = five::pages("pages-axe");
    let Some(mut browser) = Browser::start(&root.join("profile")) else {
        return skip("pages", "there is no chromium");
    };
    let Some(script) = axe::script() else {
        return skip("pages", "there is no axe: pip install --no-deps axe-playwright-python");
    };
    let mut problems = Vec::new();
    // Colours do not depend on the size.
    for (colours, size) in [("light", PAGE), ("dark", (400, 800))] {
        browser.show_as(size, colours);
        for (name, address) in &pages {
            open(&mut browser, address);
            browser.evaluate("document.querySelectorAll('details').forEach((part) => { part.open = true; })");
            let found = axe::findings(&mut browser, &script);
            problems.extend(found.into_iter().map(|finding| format!("{name}, {colours}, {size:?}: {finding}")));
            let excess = "document.documentElement.scrollWidth - document.documentElement.clientWidth";
            let excess = browser.evaluate(excess);
            if excess != 0 {
                problems.push(format!("{name}, {size:?}: {excess} pixels too wide"));
            }
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

/// A fixture's failed run with so many entries.
fn long_run(entries: usize) -> JudgedRun {
    let transcript = Transcript::new();
    for number in 0..entries as u64 {
        let at = std::time::Duration::from_millis(number);
        let name = format!("a{}", number % 1000);
        let body = serde_json::json!({"metadata": {"name": name}, "status": {"message": "x".repeat(1000)}});
        let request = RecordedRequest {
            verb: "update".to_owned(),
            path: format!("/api/v1/namespaces/default/pods/{name}"),
            resource: "pods".to_owned(),
            namespace: Some("default".to_owned()),
            name: Some(name),
            body: Some(body.into()),
            ..RecordedRequest::default()
        };
        let seq = transcript.request(at, Actor::PodGc, request);
        transcript.reply(seq, RecordedReply::new(at, 200));
    }
    let failure = serde_json::json!({"message": "quiet", "line": 1, "expected": "x".repeat(100_000), "observed": "",
        "atMillis": 5, "excerpt": ""});
    let report = serde_json::json!({
        "id": "podgc/long", "suite": "podgc", "file": "fixtures/podgc/long.yaml", "promise": "A long run.",
        "rules": ["BR-24-03"], "level": "core", "feature": "podgc.orphaned", "outcome": "fail",
        "failures": vec![failure; 500], "log": vec!["warning"; 100_000], "virtualMillis": entries, "wallMicros": 1,
    });
    JudgedRun {
        report: serde_json::from_value(report).expect("a report"),
        transcript: String::new(),
        clients: std::collections::BTreeSet::new(),
        entries: transcript.entries(),
        deliveries: Vec::new(),
        initial: std::sync::Arc::default(),
        start: plumbline::time::epoch(),
        leeway: std::time::Duration::ZERO,
        load: plumbline_suite::load::RunLoad::default(),
        objects: Vec::new(),
    }
}

#[test]
fn a_hundred_thousand_entries_are_cut_and_open() {
    let root = folder("pages-long", &[("podgc/good.yaml", GOOD)]);
    let judged = long_run(100_000);
    let mut page = Vec::new();
    let mut html = Html::new(&mut page, "a long run", &[]);
    html.event(Event::Finished(&judged)).expect("memory");
    let report = RunReport::new("me", "fake", 1, vec![judged.report.clone()]);
    html.event(Event::Ended(&report)).expect("memory");
    drop(html);
    assert!(page.len() < 5_000_000, "{} bytes", page.len());
    let file = root.join("long.html");
    std::fs::write(&file, &page).expect("a writable folder");
    let Some(mut browser) = Browser::start(&root.join("profile")) else {
        return skip("pages", "there is no chromium");
    };
    open(&mut browser, &format!("file://{}#podgc/long", file.display()));
    let text = browser.evaluate("document.getElementById('fixture').textContent");
    let text = text.as_str().expect("a text");
    for part in [
        "Showing 2000 of 2000 events of 100000; the middle of the run is left out.",
        "Showing 100 of 500 failures.",
        "showing 20000 of 100000 characters",
        "showing 200 of 100000 lines",
        "The objects of ",
    ] {
        assert!(text.contains(part), "{part} is missing");
    }
    browser.open(&format!("file://{}#overview", file.display()));
    let overview = browser.evaluate("document.getElementById('overview').textContent");
    assert!(overview.as_str().is_some_and(|text| text.contains("Showing 10 of 500 failures.")), "{overview}");
    assert_eq!(browser.problems(), Vec::<String>::new(), "errors on the console, or requests");
}
