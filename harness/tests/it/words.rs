//! The repository's rules for names and words: types are nouns, documentation is plain, lines are at most 120 columns.

use std::fs;
use std::path::Path;

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
const NO_OPENINGS: [&str; 8] = ["What", "Whether", "How", "Who", "Whoever", "Whatever", "Where", "When"];

/// Words that a reader stumbles over.
const NO_WORDS: [&str; 10] =
    ["nobody", "whoever", "whatever", "anew", "thereof", "told", "meanwhile", "stands", "talk", "trouble"];

/// A text file of the repository: path from the root, text.
struct Document {
    path: String,
    text: String,
}

/// The files below the root whose names end in `extension`, in order of their paths.
fn documents(extension: &str) -> Vec<Document> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("");
    let mut folders = vec![root.clone()];
    let mut documents = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a readable folder") {
            let path = entry.expect("a readable entry").path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if path.is_dir() && name != "target" && name != ".git" {
                folders.push(path);
            } else if path.extension().is_some_and(|found| found == extension) {
                let text = fs::read_to_string(&path).expect("a readable file");
                let path = path.strip_prefix(&root).expect("below the root").display().to_string();
                documents.push(Document { path, text });
            }
        }
    }
    documents.sort_by(|a, b| a.path.cmp(&b.path));
    documents
}

/// Applies `rule` to every line of `documents`, with the line before it, and fails with all offences.
fn check(documents: &[Document], what: &str, rule: impl Fn(&str, &str) -> Option<String>) {
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

/// The Rust sources.
fn sources() -> Vec<Document> {
    let sources = documents("rs");
    assert!(sources.len() > 400, "the search is broken: {} files", sources.len());
    sources
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
    check(&sources(), "a type is a noun of the field", |_, line| {
        let name = type_name(line)?;
        NO_TYPE_NAMES.contains(&name).then(|| format!("type {name}"))
    });
}

#[test]
fn documentation_names_the_thing_or_says_what_it_does() {
    check(&sources(), "documentation opens with a verb or the thing's name", |before, line| {
        let line = line.trim_start();
        let is_doc = |line: &str| line.starts_with("///") || line.starts_with("//!");
        let opens = is_doc(line) && (!is_doc(before) || before.len() == 3);
        let first = comment(line)?.split_whitespace().next()?;
        (opens && NO_OPENINGS.contains(&first)).then(|| line.to_owned())
    });
}

#[test]
fn comments_are_plain() {
    check(&sources(), "comments use plain technical English", |_, line| {
        let text = comment(line)?.to_lowercase();
        // Quoted names and texts are not ours.
        let prose: String = text.split('`').step_by(2).collect();
        let word = prose.split(|c: char| !c.is_alphanumeric() && c != '\'').find(|word| NO_WORDS.contains(word))?;
        Some(format!("`{word}` in {line:?}"))
    });
}

#[test]
fn comments_and_documents_are_at_most_120_columns_wide() {
    let too_wide = |line: &str| {
        let columns = line.chars().count();
        (columns > COLUMNS && !line.contains("://")).then(|| format!("{columns} columns"))
    };
    check(&sources(), "comments are wrapped", |_, line| comment(line).and_then(|_| too_wide(line)));
    // A row of a table is one line.
    check(&documents("md"), "documents are wrapped", |_, line| too_wide(line).filter(|_| !line.starts_with('|')));
}

/// The point of the API server is to agree with upstream: each of its files says with which part.
#[test]
fn files_of_the_api_server_name_their_part_of_upstream() {
    let folder = "harness/apiserver/src/";
    let docs = |document: &Document| {
        document.text.lines().take_while(|line| line.starts_with("//!")).collect::<Vec<_>>().join("\n")
    };
    let named = |text: &str| {
        ["pkg/", ".go", "k8s.io/", "staging/", "apimachinery", "client-go", "kube-openapi", "cel-go"]
            .iter()
            .any(|part| text.contains(part))
    };
    let sources = sources();
    let files: Vec<&Document> = sources.iter().filter(|source| source.path.starts_with(folder)).collect();
    let with = files.iter().filter(|source| named(&docs(source))).count();
    assert!(with * 20 >= files.len() * 13, "only {with} of {} files name a Go package or file", files.len());
}

#[test]
fn the_rules_can_fail() {
    assert_eq!(type_name("pub(crate) struct Held<'a> {"), Some("Held"));
    assert_eq!(type_name("    enum Kept {"), Some("Kept"));
    assert_eq!(type_name("let struct_name = 1;"), None);
    assert_eq!(comment("    /// What a store holds."), Some("What a store holds."));
    let document = Document { path: "a.rs".to_owned(), text: "// nobody\n".to_owned() };
    let caught = std::panic::catch_unwind(|| {
        check(&[document], "plain", |_, line| line.contains("nobody").then(|| line.to_owned()));
    });
    assert!(caught.is_err());
}
