//! The repository's rules for names: variables and functions follow their types, a type's name has one meaning in its
//! crate, and a number's name has one value.

use std::collections::{BTreeMap, BTreeSet};

use super::source_files::{SourceFile, rust_sources};

/// Figures of speech, and what the thing is called.
const NO_NAMES: [(&str, &str); 7] = [
    ("arena", "test_bed"),
    ("door", "gate"),
    ("doors", "gates"),
    ("held", "the type's name, or what keeps it"),
    ("nobodys", "unowned"),
    ("somebody", "the type's name"),
    ("stuff", "the type's name"),
];

/// Types of one name that mean the same: features of the package choose one of them.
const ONE_MEANING: [&str; 1] = ["IdleConnections"];

/// Returns the names of variables and functions that a line defines.
fn defined_names(line: &str) -> Vec<&str> {
    let code = line.trim_start();
    if code.starts_with("//") {
        return Vec::new();
    }
    let mut names = Vec::new();
    for keyword in ["let ", "fn ", "for "] {
        for (at, _) in code.match_indices(keyword) {
            let is_word =
                code[..at].chars().next_back().is_none_or(|before| !before.is_alphanumeric() && before != '_');
            let pattern = code[at + keyword.len()..].split(['=', ';']).next().unwrap_or_default();
            let pattern = pattern.split(" in ").next().unwrap_or_default();
            let pattern = if keyword == "fn " { pattern.split(['(', '<']).next().unwrap_or_default() } else { pattern };
            if is_word {
                names.extend(pattern.split(|letter: char| !letter.is_alphanumeric() && letter != '_'));
            }
        }
    }
    names
}

#[test]
fn variables_and_functions_are_named_as_their_types() {
    let mut offences = Vec::new();
    for source in rust_sources().into_iter().filter(|source| !source.path.ends_with("it/names.rs")) {
        for (index, line) in source.text.lines().enumerate() {
            for name in defined_names(line) {
                let bad = NO_NAMES.iter().find(|(bad, _)| *bad == name);
                offences.extend(bad.map(|(_, good)| format!("{}:{}: `{name}`: {good}", source.path, index + 1)));
            }
        }
    }
    assert!(offences.is_empty(), "names follow their types:\n  {}", offences.join("\n  "));
}

/// Returns the crate of a source file that is compiled without tests.
fn crate_of(path: &str) -> Option<&str> {
    let is_test = path.split(['/', '.']).any(|part| part == "tests");
    path.split_once("/src/").map(|(package, _)| package).filter(|_| !is_test)
}

/// Returns the items of a file at the left margin, outside of its tests, that begin with one of `keywords`: whether
/// others see them, and the text behind the keyword up to its end.
fn items<'a>(source: &'a SourceFile, keywords: &[&str]) -> Vec<(bool, &'a str)> {
    let code = source.text.split("\n#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let mut found = Vec::new();
    let mut start = 0;
    for line in code.split_inclusive('\n') {
        let item = line.strip_prefix("pub").map_or(line, |rest| match rest.strip_prefix('(') {
            Some(scope) => scope.split_once(") ").map_or(rest, |(_, item)| item),
            None => rest.trim_start(),
        });
        let behind = keywords.iter().find_map(|keyword| item.strip_prefix(keyword)?.strip_prefix(' '));
        if let Some(behind) = behind {
            let from = start + line.len() - behind.len();
            found.push((line.starts_with("pub"), &code[from..]));
        }
        start += line.len();
    }
    found
}

/// Returns the identifier at the beginning of a text.
fn ident(text: &str) -> &str {
    text.split(|letter: char| !letter.is_alphanumeric() && letter != '_').next().unwrap_or_default()
}

#[test]
fn the_name_of_a_type_has_one_meaning_in_its_crate() {
    let mut places: BTreeMap<(String, String), Vec<String>> = BTreeMap::new();
    for source in rust_sources() {
        let Some(package) = crate_of(&source.path) else { continue };
        for (_, text) in items(&source, &["struct", "enum", "trait", "union", "type"]) {
            let name = ident(text).to_owned();
            places.entry((package.to_owned(), name)).or_default().push(source.path.clone());
        }
    }
    assert!(places.len() > 1_000, "the search is broken: {} types", places.len());
    let twice = places.iter().filter(|((_, name), files)| files.len() > 1 && !ONE_MEANING.contains(&name.as_str()));
    let offences: Vec<String> =
        twice.map(|((package, name), files)| format!("{package}: {name} in {}", files.join(", "))).collect();
    assert!(offences.is_empty(), "a type's name has one meaning:\n  {}", offences.join("\n  "));
}

/// A constant that is a number or a length of time.
struct NumberConstant {
    name: String,
    value: String,
    is_seen: bool,
    path: String,
}

/// Returns the numbers that a file defines at its left margin.
fn numbers(source: &SourceFile) -> Vec<NumberConstant> {
    let number = |(is_seen, text): (bool, &str)| {
        let (name, rest) = text.split_once(": ")?;
        let (ty, rest) = rest.split_once(" =")?;
        let is_number = ["Duration", "SignedDuration", "i32", "i64", "u16", "u32", "u64", "u8", "usize", "f64"]
            .contains(&ty.trim_start_matches("std::time::"));
        let value = rest.split_once(';')?.0.split_whitespace().collect::<Vec<_>>().join(" ");
        let path = source.path.clone();
        (is_number && name != "_").then(|| NumberConstant { name: name.to_owned(), value, is_seen, path })
    };
    items(source, &["const"]).into_iter().filter_map(number).collect()
}

/// Returns the names with more than one value, with the places.
fn ambiguous<'a>(constants: impl Iterator<Item = (String, &'a NumberConstant)>) -> Vec<String> {
    let mut values: BTreeMap<String, BTreeSet<(&str, &str)>> = BTreeMap::new();
    for (name, constant) in constants {
        values.entry(name).or_default().insert((constant.value.as_str(), constant.path.as_str()));
    }
    let several =
        values.iter().filter(|(_, values)| values.iter().map(|(value, _)| value).collect::<BTreeSet<_>>().len() > 1);
    several
        .map(|(name, values)| {
            let values: Vec<String> = values.iter().map(|(value, path)| format!("{value} in {path}")).collect();
            format!("{name}: {}", values.join(", "))
        })
        .collect()
}

/// A number that other modules see has one value wherever its name is used so; one that a file keeps to itself, within
/// its folder. The files directly below the source folder of a crate have little in common.
#[test]
fn the_name_of_a_number_has_one_value() {
    let sources = rust_sources();
    let of_crates = sources.iter().filter(|source| crate_of(&source.path).is_some());
    let constants: Vec<NumberConstant> = of_crates.flat_map(numbers).collect();
    assert!(constants.len() > 300, "the search is broken: {} constants", constants.len());
    let seen = constants.iter().filter(|constant| constant.is_seen);
    let mut offences = ambiguous(seen.map(|constant| (constant.name.clone(), constant)));
    let in_folder = |constant: &NumberConstant| {
        let folder = constant.path.rsplit_once('/')?.0;
        (!folder.ends_with("/src")).then(|| format!("{folder}: {}", constant.name))
    };
    offences.extend(ambiguous(constants.iter().filter_map(|constant| Some((in_folder(constant)?, constant)))));
    assert!(offences.is_empty(), "a number's name has one value:\n  {}", offences.join("\n  "));
}

#[test]
fn the_rules_can_fail() {
    assert!(defined_names("    let (mut arena, other) = (1, 2);").contains(&"arena"));
    assert!(defined_names("pub(super) fn door(&self) -> ConnectionGate;").contains(&"door"));
    assert!(defined_names("for held in list(\"pending\") {").contains(&"held"));
    assert!(!defined_names("// let held = 1;").contains(&"held"));
    assert!(!defined_names("let lease = held.clone();").contains(&"held"));
    let text = "pub(super) struct A;\nstruct B {\n    struct_c: u8,\n}\npub const N: Duration = Duration::from_secs(\n    1\n);\n\
                const M: &str = \"\";\n#[cfg(test)]\nmod tests {\nstruct D;\n}\n";
    let source = SourceFile { path: "a/src/b/c.rs".to_owned(), text: text.to_owned() };
    let types: Vec<&str> = items(&source, &["struct"]).into_iter().map(|(_, text)| ident(text)).collect();
    assert_eq!(types, ["A", "B"]);
    let found = numbers(&source);
    assert!(found.len() == 1 && found[0].is_seen && found[0].value == "Duration::from_secs( 1 )", "{}", found[0].value);
    let other = NumberConstant { value: "2".to_owned(), ..numbers(&source).remove(0) };
    assert_eq!(ambiguous([("N".to_owned(), &found[0]), ("N".to_owned(), &other)].into_iter()).len(), 1);
    assert_eq!(crate_of("harness/kit/src/world/tests.rs"), None);
    assert_eq!(crate_of("harness/kit/src/world/mod.rs"), Some("harness/kit"));
}
