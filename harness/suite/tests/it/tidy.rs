//! The repository's own rules. Rules that clippy can check are left to clippy.

use std::collections::BTreeSet;
use std::fs;

use plumbline_suite::snapshot;

use super::source_files::{repository, rust_sources};
use super::support::all_fixtures;

const FILE_LINES: usize = 800;
/// Length of functions, in lines, that few exceed.
const FUNCTION_LINES: usize = 70;
/// Length that no function exceeds.
const FUNCTION_LINES_MAX: usize = 90;
/// Of this number of functions, one may be longer than usual.
const ONE_LONG_IN: usize = 500;

/// Files that exceed the limit, each with its maximum length. The list only gets shorter.
const LONG_FILES: &[(&str, usize)] = &[];

/// The crate root of the API server.
const API_SERVER_ROOT: &str = "harness/apiserver/src/lib.rs";

/// Public names in the crate root of the API server.
const API_SERVER_NAMES: &[&str] = &[
    "AdmissionPlugin",
    "ApiRequest",
    "ApiServer",
    "ApiServerBuilder",
    "ApiServerConfig",
    "AuditLog",
    "CertificateAuthority",
    "ClientUsers",
    "HistoryLimits",
    "KubernetesVersion",
    "RecordMode",
    "Reply",
    "ReplyBody",
    "ReportedVersion",
    "ResourceId",
    "SeedError",
    "Status",
    "StoredObject",
    "UnknownVersion",
    "api_services",
    "bootstrap",
    "certificate_signer",
    "clock",
    "compaction",
    "endpoint_mirroring",
    "endpoints",
    "event_ttl",
    "events",
    "faults",
    "garbage_collector",
    "json",
    "kubelet",
    "listener",
    "metrics",
    "node_lifecycle",
    "pod_autoscaler",
    "policy_status",
    "proxy",
    "quota_usage",
    "record",
    "request",
    "service",
    "service_accounts",
    "status",
    "usage_metrics",
    "volumes",
    "workloads",
];

/// Files of the test kit, each with its documented names. All other modules of the kit are hidden.
const KIT_NAMES: [(&str, &[&str]); 3] = [
    ("harness/kit/src/lib.rs", &["Error", "Result", "apiserver", "time", "world"]),
    ("harness/kit/src/time.rs", &["time_of_day"]),
    (
        "harness/kit/src/world/mod.rs",
        &[
            "Error",
            "ExploreSummary",
            "Explorer",
            "FaultHandle",
            "Result",
            "Rule",
            "Simulation",
            "TaskOutput",
            "TranscriptView",
            "World",
            "WorldBuilder",
            "WorldService",
            "hours",
            "minutes",
            "seconds",
        ],
    ),
];

/// Banned expressions, and their replacements.
const BANNED: [(&str, &str); 7] = [
    ("#[ignore", "skip the test with a reason"),
    ("#[should_panic", "catch the panic and check its message"),
    ("#[allow(", "#[expect(…, reason = \"…\")]"),
    ("#![allow(", "#![expect(…, reason = \"…\")]"),
    ("todo!(", "finish it"),
    ("unimplemented!(", "finish it"),
    ("dbg!(", "tracing"),
];

/// Fails if there are `offences`.
fn none(rule: &str, offences: &[String]) {
    assert!(offences.is_empty(), "{rule}:\n  {}", offences.join("\n  "));
}

#[test]
fn files_say_what_they_are() {
    // A module's tests are in a file next to it and need no introduction.
    let is_part = |path: &str| path.ends_with("/tests.rs") || path.matches('/').count() > 2 && path.contains("/tests/");
    let sources = rust_sources().into_iter().filter(|source| !is_part(&source.path));
    let bare = sources.filter(|source| !source.text.starts_with("//!") && !source.text.starts_with("#!"));
    none("a file begins with `//!` and says what it is for", &bare.map(|source| source.path).collect::<Vec<_>>());
}

/// A module with submodules is `name/mod.rs`, never `name.rs` beside `name/`.
#[test]
fn modules_with_submodules_have_one_form() {
    let sources = rust_sources();
    let folders: Vec<&str> = sources.iter().filter_map(|source| Some(source.path.rsplit_once('/')?.0)).collect();
    let is_beside = |path: &str| path.contains("/src/") && folders.contains(&path.trim_end_matches(".rs"));
    let offences = sources.iter().map(|source| source.path.clone()).filter(|path| is_beside(path)).collect::<Vec<_>>();
    none("a module with submodules is `name/mod.rs`", &offences);
}

/// `{{ARGS}}` in a recipe is pasted into the shell's command line, which splits quoted arguments.
#[test]
fn recipes_hand_their_arguments_on_word_by_word() {
    let recipes = fs::read_to_string(repository().join("Justfile")).expect("a Justfile");
    assert!(recipes.lines().any(|line| line == "set positional-arguments"));
    let pasted = recipes.lines().filter(|line| line.contains("{{")).map(str::to_owned).collect::<Vec<_>>();
    none("a recipe says \"$@\"", &pasted);
}

#[test]
fn banned_words_are_not_used() {
    let mut offences = Vec::new();
    // mutants/src/build.rs holds the text of a generated module, which has to allow all lints.
    let exempt = ["harness/suite/tests/it/tidy.rs", "harness/mutants/src/build.rs"];
    for source in rust_sources().iter().filter(|source| !exempt.contains(&source.path.as_str())) {
        for (index, line) in source.text.lines().enumerate() {
            let code = line.split("//").next().unwrap_or_default();
            for (word, instead) in BANNED.iter().filter(|(word, _)| code.contains(word)) {
                offences.push(format!("{}:{}: {word} → {instead}", source.path, index + 1));
            }
        }
    }
    none("banned", &offences);
}

#[test]
fn pure_files_stay_pure() {
    let banned = ["kube::", "tokio::", "tracing::", "std::fs", "std::net", "std::time::SystemTime", "runtime::clock"];
    let mut offences = Vec::new();
    let mut pure = 0;
    for source in rust_sources() {
        // The first paragraph of the module's documentation decides.
        let docs: Vec<&str> = source.text.lines().take_while(|line| line.starts_with("//! ")).collect();
        if !docs.iter().any(|line| line.contains("PURE") || line.contains("Pure:") || line.contains("Pure.")) {
            continue;
        }
        pure += 1;
        for (index, line) in source.text.lines().enumerate() {
            let imports = line.trim_start().strip_prefix("use ").or_else(|| line.trim_start().strip_prefix("pub use "));
            let code = imports.unwrap_or_default();
            if let Some(word) =
                banned.iter().find(|word| code.starts_with(**word) || code.contains(&format!("::{word}")))
            {
                offences.push(format!("{}:{}: {word}", source.path, index + 1));
            }
        }
    }
    assert!(pure >= 8, "only {pure} files call themselves PURE: the search is broken");
    none("files that call themselves PURE import no I/O, no runtime, no clock", &offences);
}

#[test]
fn the_judge_shares_no_code_with_the_judged() {
    let crates = ["harness/apiserver/", "harness/kit/", "harness/loadtest/", "harness/suite/src/", "harness/xtask/"];
    let sources = rust_sources();
    let offences = sources.iter().filter(|source| {
        crates.iter().any(|name| source.path.starts_with(name))
            && source.path != "harness/suite/src/subject/in_process.rs"
            && source
                .text
                .lines()
                .any(|line| !line.trim_start().starts_with("//") && line.contains("plumbline_controllers"))
    });
    let offences: Vec<String> = offences.map(|source| source.path.clone()).collect();
    none("only subject/in_process.rs imports the controllers", &offences);
}

/// Its public API is what the README, the examples and the harness need.
#[test]
fn the_api_server_has_no_other_public_names() {
    let root = fs::read_to_string(repository().join(API_SERVER_ROOT)).expect("a readable file");
    let docs: Vec<&str> = root.lines().filter(|line| line.starts_with("//!")).collect();
    let names = documented_names(&root);
    let bare = names.iter().filter(|name| !docs.iter().any(|line| line.contains(&format!("`{name}`"))));
    let bare = bare.map(|name| format!("{name} is not in the table of the crate's documentation"));
    let offences: Vec<String> = changes(&names, API_SERVER_NAMES).into_iter().chain(bare).collect();
    none("the API server's public names are listed and documented", &offences);
}

/// The documented API of the test kit is a world and what its signatures mention.
#[test]
fn the_test_kit_documents_no_other_names() {
    let mut offences = Vec::new();
    for (file, listed) in KIT_NAMES {
        let text = fs::read_to_string(repository().join(file)).expect("a readable file");
        offences
            .extend(changes(&documented_names(&text), listed).into_iter().map(|change| format!("{file}: {change}")));
    }
    none("the test kit's documented names are listed", &offences);
}

/// Returns the differences between the public names of a file and their list.
fn changes(names: &BTreeSet<String>, listed: &[&str]) -> Vec<String> {
    let listed: BTreeSet<String> = listed.iter().map(|name| (*name).to_owned()).collect();
    let added = names.difference(&listed).map(|name| format!("{name} is new: keep it private or list it"));
    let gone = listed.difference(names).map(|name| format!("{name} is not public: strike it"));
    added.chain(gone).collect()
}

/// Returns the names of the public items at the top level of a file, without those that are hidden from the
/// documentation. The file is formatted: such an item begins in the first column.
fn documented_names(text: &str) -> BTreeSet<String> {
    const KINDS: [&str; 11] =
        ["pub", "mod", "use", "fn", "async", "const", "static", "struct", "enum", "trait", "type"];
    let mut names = BTreeSet::new();
    let mut is_hidden = false;
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if !line.starts_with("pub ") {
            // Attributes and comments stand between `#[doc(hidden)]` and its item.
            is_hidden = line == "#[doc(hidden)]" || is_hidden && line.starts_with(['#', '/']);
            continue;
        }
        let mut item = line.to_owned();
        while line.starts_with("pub use ") && !item.ends_with(';') {
            item.push_str(lines.next().unwrap_or(";"));
        }
        if std::mem::take(&mut is_hidden) {
            continue;
        }
        if let Some(path) = item.strip_prefix("pub use ") {
            // `module::{Name, Other as New}`: the last word of each part is the name.
            let parts = path.split_once('{').map_or(path, |(_, parts)| parts).split(',');
            let name =
                |part: &str| part.rsplit([':', ' ']).next().map(|name| name.trim_end_matches(['}', ';']).to_owned());
            names.extend(parts.filter_map(|part| name(part.trim())).filter(|name| !name.is_empty()));
        } else {
            let words = item.split(|letter: char| !letter.is_alphanumeric() && letter != '_');
            names.extend(words.into_iter().find(|word| !KINDS.contains(word)).map(str::to_owned));
        }
    }
    names
}

#[test]
fn the_search_for_public_names_works() {
    let text = "pub mod a;\n#[doc(hidden)]\n#[derive(Debug)]\npub struct Hidden;\npub(crate) mod b;\npub use c::{\n    D,\n    \
                e::F as G,\n};\npub use h::I;\npub const fn j() {\n    pub fn k() {}\n}\n#[doc(hidden)]\npub use l::M;\npub trait N {}\n";
    let names: Vec<String> = documented_names(text).into_iter().collect();
    assert_eq!(names, ["D", "G", "I", "N", "a", "j"]);
}

#[test]
fn files_are_not_too_long() {
    let mut offences = Vec::new();
    let mut listed: BTreeSet<String> = LONG_FILES.iter().map(|(path, _)| (*path).to_owned()).collect();
    for source in rust_sources() {
        let lines = source.text.lines().count();
        let limit = LONG_FILES.iter().find(|(path, _)| *path == source.path).map(|(_, limit)| *limit);
        if lines > limit.unwrap_or(FILE_LINES) {
            offences.push(format!("{}: {lines} lines", source.path));
        }
        if lines > FILE_LINES {
            listed.remove(&source.path);
        }
    }
    offences.extend(listed.into_iter().map(|path| format!("{path} is short enough now: strike it from LONG_FILES")));
    none(&format!("files have at most {FILE_LINES} lines"), &offences);
}

#[test]
fn functions_are_not_too_long() {
    let mut count = 0;
    let mut long = Vec::new();
    let mut offences = Vec::new();
    for source in rust_sources() {
        for (name, line, length) in functions(&source.text) {
            count += 1;
            let shown = format!("{}:{line}: {name} has {length} lines", source.path);
            if length > FUNCTION_LINES_MAX {
                offences.push(shown);
            } else if length > FUNCTION_LINES {
                long.push(shown);
            }
        }
    }
    none(&format!("functions have at most {FUNCTION_LINES_MAX} lines"), &offences);
    if long.len() > count / ONE_LONG_IN {
        let share = format!("at most one of {ONE_LONG_IN} functions has more than {FUNCTION_LINES} lines");
        none(&share, &long);
    }
}

/// Name, first line and number of lines of each function. The code is formatted, so a function ends with a closing
/// brace in the column of its first letter.
fn functions(text: &str) -> Vec<(String, usize, usize)> {
    let lines: Vec<&str> = text.lines().collect();
    let mut functions = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        let indent = line.len() - line.trim_start().len();
        let Some(name) = function_name(line.trim_start()) else { continue };
        if line.ends_with('}') || line.ends_with(';') {
            continue;
        }
        let end = format!("{}}}", " ".repeat(indent));
        if let Some(length) = lines[index..].iter().position(|line| *line == end) {
            functions.push((name, index + 1, length + 1));
        }
    }
    functions
}

fn function_name(line: &str) -> Option<String> {
    let mut words = line.split_whitespace();
    for word in words.by_ref() {
        match word {
            "fn" => break,
            "const" | "async" => {}
            word if word.starts_with("pub") => {}
            _ => return None,
        }
    }
    let name: String = words.next()?.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
    (!name.is_empty()).then_some(name)
}

#[test]
fn the_search_for_functions_works() {
    let text = "impl A {\n    pub(crate) async fn b(\n    ) {\n        x();\n    }\n}\nfn c() {}\nlet fn_d = 1;\n";
    assert_eq!(functions(text), [("b".to_owned(), 2, 4)]);
}

/// Returns the value behind a key of a table in TOML: a text in quotes, or one in three apostrophes on own lines.
fn toml_text(table: &str, key: &str) -> String {
    let (_, value) = table.split_once(&format!("\n{key} = ")).unwrap_or_else(|| panic!("{key} is missing in {table}"));
    match value.strip_prefix("'''\n") {
        Some(text) => text.split("'''").next().unwrap_or_default().to_owned(),
        // The escapes of a text in quotes are those of JSON.
        None => serde_json::from_str(value.lines().next().unwrap_or_default()).expect("a text in quotes"),
    }
}

/// The program in `harness/mutants` replaces texts of the controllers, each of which occurs once.
#[test]
fn edits_of_mutants_find_their_texts() {
    let mut offences = Vec::new();
    let mut edits = 0;
    for name in ["bugs", "semantic", "fresh", "fresh2", "fresh3", "fresh4"] {
        let file = repository().join(format!("harness/mutants/{name}.toml"));
        let text = fs::read_to_string(file).expect("a file of edits");
        for edit in text.split("\n[[bug.edits]]").skip(1) {
            edits += 1;
            let path = toml_text(edit, "file");
            let source = fs::read_to_string(repository().join(&path)).unwrap_or_default();
            let find = toml_text(edit, "find");
            let count = source.matches(&find).count();
            offences.extend((count != 1).then(|| format!("{name}.toml: {find:?} occurs {count} times in {path}")));
        }
    }
    assert!(edits > 80, "the search is broken: {edits} edits");
    none("an edit finds its text once", &offences);
}

#[test]
fn fixtures_and_snapshots_come_in_pairs() {
    let root = repository();
    let groups = snapshot::groups(all_fixtures().to_vec());
    let folder = root.join("snapshots");
    let orphans = snapshot::orphans(&folder, &groups).expect("a readable folder");
    let orphans = orphans.iter().map(|path| format!("{} has no fixture: delete it", path.display()));
    let missing = groups.iter().filter(|group| !snapshot::file(&folder, &group.stem).is_file());
    let missing =
        missing.map(|group| format!("{} has no snapshot: INSTA_UPDATE=always cargo test --test snapshots", group.stem));
    none("every fixture has a snapshot, every snapshot a fixture", &orphans.chain(missing).collect::<Vec<_>>());
}

/// Nightly runs build upstream's bugs; here it is only checked that each edit still has its place.
#[test]
fn written_bugs_have_their_places() {
    let text = fs::read_to_string(repository().join("harness/mutants/bugs.toml")).expect("the bugs");
    let edits: Vec<&str> = text.split("[[bug.edits]]\n").skip(1).collect();
    assert!(edits.len() >= 39, "{} edits", edits.len());
    let mut offences = Vec::new();
    for edit in edits {
        let edit = edit.split("\n[[").next().unwrap_or(edit);
        let value = |name: &str| {
            let line = edit.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(" = ")).expect(name);
            // Strings of TOML on one line are strings of JSON.
            serde_json::from_str::<String>(line).unwrap_or_else(|error| panic!("{line}: {error}"))
        };
        let file = value("file");
        let find = value("find");
        let places = fs::read_to_string(repository().join(&file)).unwrap_or_default().matches(&find).count();
        if places != 1 {
            offences.push(format!("{file} has {places} times: {find}"));
        }
        if !edit.split_once("\nreplace = ").is_some_and(|(_, replace)| replace.contains("$OLD")) {
            offences.push(format!("{file}: no $OLD in the replacement of: {find}"));
        }
    }
    none("the edits of harness/mutants/bugs.toml fit the files", &offences);
}
