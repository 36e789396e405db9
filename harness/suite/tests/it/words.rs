//! The repository's rules for names and words: types are nouns, documentation is plain, lines are at most 120 columns.

use super::source_files::{SourceFile, files_below, repository, rust_sources};

/// Widest line of a document or a comment, in characters.
const COLUMNS: usize = 120;

/// Participles, prepositions and pronouns that say nothing about what a type is.
const NO_TYPE_NAMES: [&str; 62] = [
    "About",
    "Armed",
    "At",
    "Asked",
    "Begun",
    "Behind",
    "Both",
    "Bound",
    "Charged",
    "Checked",
    "Compacted",
    "Computed",
    "Cut",
    "Decoded",
    "Deed",
    "Deleted",
    "Done",
    "Elsewhere",
    "Ended",
    "Followed",
    "Found",
    "Gated",
    "Gathered",
    "Given",
    "Held",
    "Judged",
    "Kept",
    "Known",
    "Left",
    "Listed",
    "Lost",
    "Made",
    "Merged",
    "Negotiated",
    "Old",
    "On",
    "One",
    "Others",
    "Own",
    "Partial",
    "Past",
    "Patched",
    "Placed",
    "Planned",
    "Planted",
    "Read",
    "Recent",
    "Said",
    "Seen",
    "Shown",
    "Stopped",
    "Taken",
    "Told",
    "Took",
    "Touched",
    "Tried",
    "Typed",
    "Unstalled",
    "Waited",
    "What",
    "Whole",
    "Written",
];

/// Openings of documentation that describe a thing by a question instead of naming it.
const NO_OPENINGS: [&str; 10] =
    ["What", "Whether", "How", "Who", "Whoever", "Whatever", "Where", "When", "Which", "Why"];

/// Words that a reader stumbles over.
const NO_WORDS: [&str; 10] =
    ["nobody", "whoever", "whatever", "anew", "thereof", "told", "meanwhile", "stands", "talk", "trouble"];

/// Applies `rule` to every line of `documents`, with the line before it, and fails with all offences.
fn check(documents: &[SourceFile], what: &str, rule: impl Fn(&str, &str) -> Option<String>) {
    let mut offences = Vec::new();
    for document in documents {
        let mut before = "";
        for (index, line) in document.text.lines().enumerate() {
            offences.extend(rule(before, line).map(|why| format!("{}:{}: {why}", document.path, index + 1)));
            before = line.trim();
        }
    }
    assert!(offences.is_empty(), "{what}:\n  {}", offences.join("\n  "));
}

/// The name of the type that a line defines.
fn type_name(line: &str) -> Option<&str> {
    let mut words = line.split_whitespace().filter(|word| !word.starts_with("pub") && *word != "crate)");
    let keyword = words.next()?;
    matches!(keyword, "struct" | "enum" | "trait" | "union" | "type").then_some(())?;
    words.next()?.split(|c: char| !c.is_alphanumeric()).next()
}

/// The text of a comment line, without its marks.
fn comment(line: &str) -> Option<&str> {
    let line = line.trim_start();
    ["//! ", "/// ", "// "].iter().find_map(|mark| line.strip_prefix(mark))
}

#[test]
fn types_are_nouns() {
    check(&rust_sources(), "a type is a noun of the field", |_, line| {
        let name = type_name(line)?;
        NO_TYPE_NAMES.contains(&name).then(|| format!("type {name}"))
    });
}

#[test]
fn documentation_names_the_thing_or_says_what_it_does() {
    check(&rust_sources(), "documentation opens with a verb or the thing's name", |before, line| {
        let line = line.trim_start();
        let is_doc = |line: &str| line.starts_with("///") || line.starts_with("//!");
        let opens = is_doc(line) && (!is_doc(before) || before.len() == 3);
        let first = comment(line)?.split_whitespace().next()?;
        (opens && NO_OPENINGS.contains(&first)).then(|| line.to_owned())
    });
}

#[test]
fn comments_are_plain() {
    check(&rust_sources(), "comments use plain technical English", |_, line| {
        // Parts of words with hyphens count, too: comments cite ids of fixtures in quotes.
        let word = odd_word(&prose(comment(line)?).replace('-', " "))?;
        Some(format!("`{word}` in {line:?}"))
    });
}

/// Returns the text without quoted names and texts, which are not ours.
fn prose(text: &str) -> String {
    text.split('`').step_by(2).collect()
}

/// Returns a word that a reader stumbles over, in a name or a text of a line of code. Ids of fixtures and other words
/// with hyphens keep theirs.
fn odd_word(line: &str) -> Option<String> {
    let words = line.split(|c: char| !c.is_alphanumeric() && !"_-/'".contains(c)).filter(|word| !word.contains('-'));
    let mut parts = words.flat_map(|word| word.split(['_', '/'])).map(str::to_lowercase);
    parts.find(|part| NO_WORDS.contains(&part.as_str()))
}

#[test]
fn names_and_messages_are_plain() {
    let sources: Vec<_> = rust_sources().into_iter().filter(|file| !file.path.ends_with("it/words.rs")).collect();
    check(&sources, "names and messages use plain technical English", |_, line| {
        odd_word(line).map(|word| format!("`{word}` in {line:?}"))
    });
}

#[test]
fn documents_are_plain() {
    let documents: Vec<_> =
        files_below(&repository(), "md").into_iter().filter(|file| !file.path.contains("reports/")).collect();
    check(&documents, "documents use plain technical English", |_, line| {
        odd_word(&prose(line)).map(|word| format!("`{word}` in {line:?}"))
    });
}

#[test]
fn comments_and_documents_are_at_most_120_columns_wide() {
    let too_wide = |line: &str| {
        let columns = line.chars().count();
        (columns > COLUMNS && !line.contains("://")).then(|| format!("{columns} columns"))
    };
    check(&rust_sources(), "comments are wrapped", |_, line| comment(line).and_then(|_| too_wide(line)));
    // A row of a table is one line.
    check(&files_below(&repository(), "md"), "documents are wrapped", |_, line| {
        too_wide(line).filter(|_| !line.starts_with('|'))
    });
}

/// Words for parts of the harness, and the parts of paths of the API server where they mean something of Kubernetes.
const HARNESS_WORDS: [(&str, &[&str]); 9] = [
    ("harness", &[]),
    ("fixture", &[]),
    ("fixtures", &[]),
    ("explore", &[]),
    ("explored", &[]),
    ("subject", KINDS_WITH_SUBJECTS),
    ("subjects", KINDS_WITH_SUBJECTS),
    ("snapshot", &["/store/"]),
    ("snapshots", &["/store/"]),
];

/// Role bindings, flow schemas and certificates have subjects.
const KINDS_WITH_SUBJECTS: &[&str] =
    &["/bootstrap/", "/flow_control", "/listener/", "/printers/", "/rbac", "/registry/", "/schema/tables/", "/x509/"];

/// Returns a word of a line of the API server that names a part of the harness. Texts in quotes do not count.
fn harness_word(path: &str, line: &str) -> Option<&'static str> {
    let code: String = line.split('"').step_by(2).collect::<Vec<_>>().join(" ");
    let words = code.split(|c: char| !c.is_alphanumeric() && !"./".contains(c));
    let words: Vec<String> = words.map(|word| word.trim_matches(['.', '/']).to_lowercase()).collect();
    let named = HARNESS_WORDS.iter().find(|(word, places)| {
        words.iter().any(|found| found == word) && !places.iter().any(|place| path.contains(place))
    });
    named.map(|(word, _)| *word)
}

#[test]
fn the_api_server_does_not_know_the_harness() {
    let mut offences = Vec::new();
    let sources = rust_sources();
    let sources = sources.iter().filter(|source| source.path.starts_with("harness/apiserver/src/"));
    for source in sources {
        for (index, line) in source.text.lines().enumerate() {
            let word = harness_word(&source.path, line);
            offences.extend(word.map(|word| format!("{}:{}: `{word}` in {line:?}", source.path, index + 1)));
        }
    }
    assert!(offences.is_empty(), "the API server names no part of the harness:\n  {}", offences.join("\n  "));
}

/// The point of the API server is to agree with upstream: each of its files says with which part.
#[test]
fn files_of_the_api_server_name_their_part_of_upstream() {
    let folder = "harness/apiserver/src/";
    let docs = |document: &SourceFile| {
        document.text.lines().take_while(|line| line.starts_with("//!")).collect::<Vec<_>>().join("\n")
    };
    let named = |text: &str| {
        ["pkg/", ".go", "k8s.io/", "staging/", "apimachinery", "client-go", "kube-openapi", "cel-go"]
            .iter()
            .any(|part| text.contains(part))
    };
    let sources = rust_sources();
    let files: Vec<&SourceFile> = sources.iter().filter(|source| source.path.starts_with(folder)).collect();
    let with = files.iter().filter(|source| named(&docs(source))).count();
    assert!(with * 20 >= files.len() * 17, "only {with} of {} files name a Go package or file", files.len());
}

#[test]
fn the_rules_can_fail() {
    assert_eq!(type_name("pub(crate) struct Held<'a> {"), Some("Held"));
    assert_eq!(type_name("    enum Kept {"), Some("Kept"));
    assert_eq!(type_name("let struct_name = 1;"), None);
    assert_eq!(comment("    /// What a store holds."), Some("What a store holds."));
    assert_eq!(odd_word("fn a_gap_is_told() {"), Some("told".to_owned()));
    assert_eq!(odd_word("\"podgc/orphaned-restart-begins-anew\", // a node stands_by"), Some("stands".to_owned()));
    assert_eq!(odd_word("\"podgc/orphaned-restart-begins-anew\","), None);
    assert_eq!(harness_word("src/server.rs", "    pub subject_user: Option<String>,"), Some("subject"));
    assert_eq!(harness_word("src/clock.rs", "//! One clock for the harness."), Some("harness"));
    assert_eq!(harness_word("src/handlers/rbac.rs", "/// The subject of the binding."), None);
    assert_eq!(harness_word("src/kubelet.rs", "//! `job/fixtures.go`, {\"subjects\": []}"), None);
    let document = SourceFile { path: "a.rs".to_owned(), text: "// nobody\n".to_owned() };
    let caught = std::panic::catch_unwind(|| {
        check(&[document], "plain", |_, line| line.contains("nobody").then(|| line.to_owned()));
    });
    assert!(caught.is_err());
}
