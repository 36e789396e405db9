//! The packages depend on each other in one direction. The top-level modules of each crate do not import each other in
//! circles, nor do more than two parts of a module.
//!
//! The graph is read from the sources: `use` declarations and inline paths that begin with `crate::` or `super::`.
//! Tests do not count. Inherent methods that another module implements are not imports, and not seen.

use std::collections::{BTreeMap, BTreeSet};

use super::source_files::{SourceFile, files_below, repository};

/// The source folders of the crates.
const CRATES: [&str; 8] = [
    "controllers/src",
    "harness/apiserver/src",
    "harness/guest/src",
    "harness/kit/src",
    "harness/loadtest/src",
    "harness/mutants/src",
    "harness/suite/src",
    "harness/xtask/src",
];

/// Parts of a module may import each other in pairs.
const PAIR: usize = 2;

/// The packages of the workspace, each with those of them that it may depend on; tests may depend on more.
const PACKAGES: [(&str, &[&str]); 9] = [
    ("controllers", &[]),
    ("harness/apiserver", &[]),
    ("harness/entropy", &[]),
    ("harness/guest", &[]),
    ("harness/kit", &["plumbline-apiserver"]),
    ("harness/loadtest", &["plumbline", "plumbline-apiserver", "plumbline-suite"]),
    ("harness/mutants", &[]),
    ("harness/suite", &["plumbline", "plumbline-apiserver", "plumbline-controllers", "plumbline-guest"]),
    ("harness/xtask", &["plumbline", "plumbline-apiserver", "plumbline-suite"]),
];

/// A source file of a crate; its path is below the source folder.
struct Source(SourceFile);

impl Source {
    /// Returns the path of the module; empty for the root of the crate.
    fn module(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.0.path.trim_end_matches(".rs").split('/').collect();
        names.pop_if(|last| ["mod", "lib", "main"].contains(last));
        names
    }

    /// Returns the module directly below `root` to which the file belongs, if it lies below `root`.
    fn below(&self, root: &[&str]) -> Option<&str> {
        let module = self.module();
        let is_below = module.iter().zip(root).all(|(own, other)| own == other);
        module.get(root.len()).copied().filter(|_| is_below)
    }

    /// Returns the code without comments and without the items of tests.
    fn code(&self) -> String {
        self.code_without(is_of_tests)
    }

    /// Returns the code without comments and without the items under an attribute that `is_left_out` names.
    fn code_without(&self, is_left_out: impl Fn(&str) -> bool) -> String {
        let mut code = String::new();
        self.lines(is_left_out, |line| {
            code.push_str(line.split_once("//").map_or(line, |(code, _)| code));
            code.push('\n');
        });
        code
    }

    /// Returns the paths of the modules that are declared for tests only.
    fn test_modules(&self) -> Vec<Vec<&str>> {
        let items = self.lines(is_of_tests, |_| {});
        let names = items.into_iter().filter_map(|item| item.strip_prefix("mod ")?.strip_suffix(';'));
        names.map(|name| self.module().into_iter().chain([name]).collect()).collect()
    }

    /// Passes the lines that are under no attribute that `is_left_out` names to `each`; returns the first lines of the
    /// other items. The code is formatted: an item ends with a semicolon, or with a brace below its first letter.
    fn lines<'a>(&'a self, is_left_out: impl Fn(&str) -> bool, mut each: impl FnMut(&'a str)) -> Vec<&'a str> {
        let mut items = Vec::new();
        let mut lines = self.0.text.lines();
        while let Some(line) = lines.next() {
            if !is_left_out(line.trim()) {
                each(line);
                continue;
            }
            let end = format!("{}}}", &line[..line.len() - line.trim_start().len()]);
            let Some(item) = lines.by_ref().find(|line| !line.trim_start().starts_with("#[")) else { break };
            items.push(item.trim());
            if !item.ends_with([';', '}']) {
                _ = lines.by_ref().find(|line| line.strip_prefix(&end).is_some_and(|rest| ["", ";"].contains(&rest)));
            }
        }
        items
    }
}

/// Returns true for an attribute whose item is compiled with tests only.
fn is_of_tests(attribute: &str) -> bool {
    attribute == "#[cfg(test)]" || attribute.starts_with("#[cfg(all(test, ")
}

/// Returns the files of a crate that are compiled without tests.
fn sources_of(name: &str) -> Vec<Source> {
    let of_code = |file: &SourceFile| !file.path.split(['/', '.']).any(|part| part == "tests");
    files_below(&repository().join(name), "rs").into_iter().filter(of_code).map(Source).collect()
}

/// The modules that each module imports, with the file of the first import.
type Graph = BTreeMap<String, BTreeMap<String, String>>;

/// Builds the graph of the modules directly below `root`, the path of a module; empty for the root of the crate.
fn graph(sources: &[Source], root: &[&str]) -> Graph {
    let modules: BTreeSet<&str> = sources.iter().filter_map(|source| source.below(root)).collect();
    let exports: BTreeMap<String, String> =
        sources.iter().filter(|source| source.module() == root).flat_map(|source| exports(&source.code())).collect();
    let tests: BTreeSet<Vec<&str>> = sources.iter().flat_map(Source::test_modules).collect();
    let mut graph: Graph = modules.iter().map(|module| ((*module).to_owned(), BTreeMap::new())).collect();
    for source in sources.iter().filter(|source| !tests.contains(&source.module())) {
        let module = source.module();
        let Some(own) = source.below(root) else { continue };
        for name in names_below(root, &source.code(), module.len()) {
            let target = exports.get(&name).cloned().unwrap_or(name);
            if modules.contains(target.as_str()) && target != own {
                graph.entry(own.to_owned()).or_default().entry(target).or_insert_with(|| source.0.path.clone());
            }
        }
    }
    graph
}

/// Returns the names that a module imports from its own modules, with the module of each; its parts see them, too.
fn exports(code: &str) -> Vec<(String, String)> {
    let declarations = code.split("use ").skip(1).filter_map(|rest| rest.split_once(';'));
    let paths = declarations.filter_map(|(path, _)| path.trim_start_matches("self::").split_once("::"));
    let paths = paths.filter(|(module, _)| !["crate", "super", "std"].contains(module));
    paths.flat_map(|(module, rest)| names(rest).into_iter().map(|name| (name, module.to_owned()))).collect()
}

/// Returns the names directly below `root` in the paths of a file whose module is `depth` levels deep.
fn names_below(root: &[&str], code: &str, depth: usize) -> Vec<String> {
    let own = format!("crate::{}", root.iter().flat_map(|module| [*module, "::"]).collect::<String>());
    let mut found = Vec::new();
    for (at, _) in code.match_indices("crate::").chain(code.match_indices("super::")) {
        if !begins_import(&code[..at]) {
            continue;
        }
        let mut rest = &code[at..];
        let mut levels = 0;
        while let Some(parent) = rest.strip_prefix("super::") {
            (rest, levels) = (parent, levels + 1);
        }
        let is_relative = levels > 0 && levels + root.len() == depth;
        if let Some(below) = rest.strip_prefix(&own).or(is_relative.then_some(rest)) {
            found.extend(names(below));
        }
    }
    found
}

/// Returns true if a path after this code is one of its own, and no scope of visibility (`pub(in crate::a)`).
fn begins_import(before: &str) -> bool {
    let is_within = before.ends_with(|letter: char| letter.is_alphanumeric() || letter == '_' || letter == ':');
    !is_within && !before.ends_with("pub(in ")
}

/// Returns the first name of a path, or of each path in a group.
fn names(path: &str) -> Vec<String> {
    match path.strip_prefix('{') {
        Some(group) => parts(group).into_iter().map(|part| ident(part).to_owned()).collect(),
        None => vec![ident(path).to_owned()],
    }
}

/// Returns the identifier at the beginning of a text.
fn ident(text: &str) -> &str {
    let end = text.find(|letter: char| !(letter.is_alphanumeric() || letter == '_')).unwrap_or(text.len());
    &text[..end]
}

/// Returns the parts of a group of paths whose opening brace is cut off.
fn parts(group: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut nested = 0_usize;
    let mut start = 0;
    for (at, letter) in group.char_indices() {
        match letter {
            '{' => nested += 1,
            '}' if nested > 0 => nested -= 1,
            ',' | '}' if nested == 0 => {
                // A comma may be the last.
                parts.extend(Some(group[start..at].trim()).filter(|part| !part.is_empty()));
                start = at + 1;
                if letter == '}' {
                    break;
                }
            }
            _ => {}
        }
    }
    parts
}

/// Returns a path, or each path of its groups, as names.
fn paths(text: &str) -> Vec<Vec<&str>> {
    let mut path = Vec::new();
    let mut rest = text;
    loop {
        if let Some(group) = rest.strip_prefix('{') {
            let below = parts(group).into_iter().flat_map(paths);
            return below.map(|below| path.iter().copied().chain(below).collect()).collect();
        }
        let name = ident(rest);
        path.extend((!name.is_empty()).then_some(name));
        match rest[name.len()..].strip_prefix("::") {
            Some(next) if !name.is_empty() => rest = next,
            _ => return vec![path],
        }
    }
}

/// Builds the graph of the files of a module. A path is one to the deepest file on it.
fn file_graph(sources: &[Source], top: &str) -> Graph {
    let tests: BTreeSet<Vec<&str>> = sources.iter().flat_map(Source::test_modules).collect();
    let inside: Vec<&Source> = sources
        .iter()
        .filter(|source| source.module().first() == Some(&top) && !tests.contains(&source.module()))
        .collect();
    let files: BTreeSet<Vec<&str>> = inside.iter().map(|source| source.module()).collect();
    let mut graph = Graph::new();
    for source in &inside {
        let module = source.module();
        let imports = graph.entry(module.join("::")).or_default();
        let code = source.code();
        for path in absolute_paths(&code, &module, &files) {
            let file = (1..=path.len()).rev().find(|length| files.contains(&path[..*length]));
            let Some(target) = file.map(|length| &path[..length]).filter(|target| *target != module) else { continue };
            imports.entry(target.join("::")).or_insert_with(|| source.0.path.clone());
        }
    }
    graph
}

/// Returns the paths in the code of a module, from the root of the crate: those that begin with `crate::`, `super::` or
/// `self::`, and those that begin with a module below it.
fn absolute_paths<'c>(code: &'c str, module: &[&'c str], files: &BTreeSet<Vec<&'c str>>) -> Vec<Vec<&'c str>> {
    let below: Vec<&str> = files
        .iter()
        .filter_map(|file| file.strip_prefix(module)?.first().copied())
        .collect::<BTreeSet<_>>()
        .into_iter()
        .collect();
    let mut found = Vec::new();
    for first in ["crate", "super", "self"].into_iter().chain(below) {
        for (at, _) in code.match_indices(&format!("{first}::")) {
            if !begins_import(&code[..at]) {
                continue;
            }
            for path in paths(&code[at..]) {
                let levels = path.iter().take_while(|name| **name == "super").count();
                let root = match first {
                    "crate" => &[],
                    _ => &module[..module.len().saturating_sub(levels)],
                };
                let skipped = if first == "super" { levels } else { usize::from(["crate", "self"].contains(&first)) };
                found.push(root.iter().copied().chain(path.into_iter().skip(skipped)).collect());
            }
        }
    }
    found
}

/// Returns the modules that `from` imports directly or indirectly.
fn reachable<'a>(graph: &'a Graph, from: &'a str) -> BTreeSet<&'a str> {
    let mut found = BTreeSet::new();
    let mut open = vec![from];
    while let Some(module) = open.pop() {
        for next in graph.get(module).into_iter().flat_map(BTreeMap::keys) {
            if found.insert(next.as_str()) {
                open.push(next);
            }
        }
    }
    found
}

/// Returns the strongly connected components of more than one module.
fn circles(graph: &Graph) -> BTreeSet<Vec<&str>> {
    let reach: BTreeMap<&str, BTreeSet<&str>> =
        graph.keys().map(|module| (module.as_str(), reachable(graph, module))).collect();
    let circle = |module: &&str| -> Vec<&str> {
        let mutual = reach[module].iter().filter(|other| reach[*other].contains(module));
        mutual.copied().collect()
    };
    reach.keys().map(circle).filter(|circle| circle.len() > 1).collect()
}

/// Returns the imports within a circle, one line each.
fn imports(graph: &Graph, circle: &[&str]) -> String {
    let within = |module: &&str| -> Vec<String> {
        let inner = graph[*module].iter().filter(|(target, _)| circle.contains(&target.as_str()));
        inner.map(|(target, file)| format!("\n    {module} → {target} ({file})")).collect()
    };
    circle.iter().flat_map(within).collect::<Vec<_>>().concat()
}

/// Returns the modules that have parts, by path; the first is the root of the crate.
fn parents(sources: &[Source]) -> BTreeSet<Vec<&str>> {
    sources
        .iter()
        .flat_map(|source| (0..source.module().len()).map(|depth| source.module()[..depth].to_vec()))
        .collect()
}

#[test]
fn modules_do_not_import_each_other_in_circles() {
    let mut offences = Vec::new();
    for name in CRATES {
        let sources = sources_of(name);
        let mut edges = 0;
        for root in parents(&sources) {
            let place = root.iter().fold(name.to_owned(), |place, module| format!("{place}/{module}"));
            let graph = graph(&sources, &root);
            edges += graph.values().map(BTreeMap::len).sum::<usize>();
            let longest = if root.is_empty() { 1 } else { PAIR };
            let found: BTreeSet<Vec<&str>> =
                circles(&graph).into_iter().filter(|circle| circle.len() > longest).collect();
            for circle in found {
                offences.push(format!("{place}: {}{}", circle.join(", "), imports(&graph, &circle)));
            }
        }
        assert!(edges >= 2, "{name}: the search is broken");
    }
    assert!(offences.is_empty(), "modules import each other in circles:\n  {}", offences.join("\n  "));
}

#[test]
fn files_of_a_module_import_each_other_in_pairs_at_most() {
    let mut offences = Vec::new();
    let mut edges = 0;
    for name in CRATES {
        let sources = sources_of(name);
        let modules: BTreeSet<&str> = sources.iter().filter_map(|source| source.module().first().copied()).collect();
        for module in modules {
            let graph = file_graph(&sources, module);
            edges += graph.values().map(BTreeMap::len).sum::<usize>();
            for circle in circles(&graph).into_iter().filter(|circle| circle.len() > PAIR) {
                offences.push(format!("{name}: {}{}", circle.join(", "), imports(&graph, &circle)));
            }
        }
    }
    assert!(edges > 200, "{edges} imports: the search is broken");
    assert!(offences.is_empty(), "files import each other in circles:\n  {}", offences.join("\n  "));
}

#[test]
fn circles_of_files_are_found() {
    let files = sample(&[
        ("lib.rs", "pub mod a;\n"),
        ("a/mod.rs", "mod b;\nmod c;\nmod d;\nfn f() { b::g() }\n"),
        ("a/b.rs", "use super::{\n    c::{X, Y},\n    d,\n};\n"),
        ("a/c.rs", "use crate::a::Z;\nuse crate::other::b;\n"),
        ("a/d.rs", "use super::c::X;\n"),
        ("a/e.rs", "pub(in crate::a) fn f() {}\n#[cfg(all(test, unix))]\nmod tests {\n    use super::super::b;\n}\n"),
    ]);
    let graph = file_graph(&files, "a");
    assert_eq!(graph["a::e"].keys().count(), 0);
    assert_eq!(circles(&graph), BTreeSet::from([vec!["a", "a::b", "a::c", "a::d"]]));
    assert_eq!(graph["a::b"].keys().collect::<Vec<_>>(), ["a::c", "a::d"]);
    assert_eq!(graph["a::c"].keys().collect::<Vec<_>>(), ["a"]);
}

#[test]
fn packages_depend_on_each_other_in_one_direction() {
    let root = repository();
    let mut offences = Vec::new();
    for manifest in files_below(&root, "toml") {
        let Some(package) = manifest.path.strip_suffix("/Cargo.toml") else { continue };
        if !manifest.text.contains("\nversion.workspace = true\n") || package.starts_with("harness/examples/") {
            continue;
        }
        let Some((_, allowed)) = PACKAGES.iter().find(|(name, _)| *name == package) else {
            offences.push(format!("{package} is new: list what it may depend on"));
            continue;
        };
        let section = manifest.text.split("\n[dependencies]\n").nth(1).unwrap_or_default();
        let lines = section.lines().take_while(|line| !line.starts_with('['));
        let names = lines.filter_map(|line| line.split([' ', '.', '=']).next());
        let foreign = names.filter(|name| name.starts_with("plumbline") && !allowed.contains(name));
        offences.extend(foreign.map(|name| format!("{package} depends on {name}")));
    }
    assert!(offences.is_empty(), "packages depend on each other:\n  {}", offences.join("\n  "));
}

/// The features of an attribute such as `#[cfg(feature = "a")]`, of which any compiles the item below it.
fn features(attribute: &str) -> BTreeSet<&str> {
    let is_gate = attribute.starts_with("#[cfg(") && !attribute.contains("not(");
    attribute.split("feature = \"").skip(1).filter(|_| is_gate).filter_map(|rest| rest.split('"').next()).collect()
}

/// Returns the modules that are compiled with some features only, by path.
fn modules_of_features(sources: &[Source]) -> BTreeMap<Vec<&str>, BTreeSet<&str>> {
    let mut found = BTreeMap::new();
    for source in sources {
        let lines: Vec<&str> = source.0.text.lines().collect();
        for pair in lines.windows(2) {
            let declaration = pair[1].trim_start_matches("pub ").trim_start_matches("pub(crate) ");
            let name = declaration.strip_prefix("mod ").and_then(|rest| rest.strip_suffix(';'));
            let features = features(pair[0]);
            if let Some(name) = name.filter(|_| !features.is_empty()) {
                found.insert(source.module().into_iter().chain([name]).collect(), features);
            }
        }
    }
    found
}

/// Returns the imports of modules that other features compile than those of the importing file.
fn imports_without_the_feature(sources: &[Source]) -> Vec<String> {
    let gated = modules_of_features(sources);
    let tests: BTreeSet<Vec<&str>> = sources.iter().flat_map(Source::test_modules).collect();
    let mut offences = Vec::new();
    for source in sources.iter().filter(|source| !tests.contains(&source.module())) {
        let module = source.module();
        let own = (1..=module.len()).find_map(|depth| gated.get(&module[..depth]));
        let code =
            source.code_without(|line| is_of_tests(line) || line.starts_with("#[cfg(") && line.contains("feature ="));
        for name in names_below(&[], &code, module.len()) {
            let Some(features) = gated.get(&vec![name.as_str()]) else { continue };
            if !own.is_some_and(|own| own.is_subset(features)) {
                offences.push(format!("{}: crate::{name} is there with {features:?} only", source.0.path));
            }
        }
    }
    offences
}

/// The test build has all features, so it does not show this; users of the kit, for example, have no `listener`.
#[test]
fn modules_of_a_feature_are_imported_with_it_only() {
    for name in CRATES {
        let offences = imports_without_the_feature(&sources_of(name));
        assert!(offences.is_empty(), "{name}: put the import behind the feature:\n  {}", offences.join("\n  "));
    }
}

#[test]
fn imports_without_the_feature_are_found() {
    const ROOT: &str = r#"
mod always;
#[cfg(feature = "a")]
mod one;
#[cfg(any(feature = "a", feature = "b"))]
pub mod both;
"#;
    const ALWAYS: &str = r#"
use crate::one::X;
#[cfg(feature = "a")]
use crate::both;
fn f() {
    #[cfg(feature = "a")]
    let x = match 1 {
        _ => crate::one::Y,
    };
    crate::both::g();
}
"#;
    let files = sample(&[
        ("lib.rs", ROOT),
        ("always.rs", ALWAYS),
        ("one.rs", "use crate::both::g;\n"),
        ("both.rs", "use crate::one::X;\n"),
    ]);
    let found = imports_without_the_feature(&files);
    let found: Vec<&str> = found.iter().filter_map(|line| line.split(" is there").next()).collect();
    assert_eq!(found, ["always.rs: crate::one", "always.rs: crate::both", "both.rs: crate::one"]);
}

/// The files of a crate, by path.
fn sample(files: &[(&str, &str)]) -> Vec<Source> {
    let file = |(path, text): &(&str, &str)| SourceFile { path: (*path).to_owned(), text: (*text).to_owned() };
    files.iter().map(|item| Source(file(item))).collect()
}

#[test]
fn circles_are_found_through_groups_inline_paths_and_exports() {
    let files = sample(&[
        ("lib.rs", "pub mod a;\npub use d::{Thing, other as d2};\n"),
        ("a.rs", "use crate::{\n    b::{X, Y},\n    e,\n};\n"),
        ("b/mod.rs", "mod c;\nuse super::e::Z;\n"),
        ("b/c.rs", "use super::super::Thing;\nuse super::own;\n"),
        ("d.rs", "fn f() -> u8 { crate::a::y() }\n"),
        ("e.rs", "use std::fmt;\n"),
    ]);
    let graph = graph(&files, &[]);
    assert_eq!(circles(&graph), BTreeSet::from([vec!["a", "b", "d"]]));
    assert_eq!(imports(&graph, &["a", "b"]), "\n    a → b (a.rs)");
    assert_eq!(graph["b"].keys().collect::<Vec<_>>(), ["d", "e"]);
}

#[test]
fn comments_tests_and_own_parts_are_no_imports() {
    let tests = "#[cfg(test)]\nmod facts;\n#[cfg(test)]\nmod tests {\n    use crate::b;\n}\n";
    let files = sample(&[
        ("a/mod.rs", &format!("//! See [`crate::b`].\n{tests}use crate::a::part; // crate::b\nuse super::c;\n")),
        ("a/part.rs", "use super::b;\nuse mycrate::b;\n"),
        ("a/facts.rs", "use crate::b;\n"),
        ("b.rs", "use super::a;\n"),
        ("c.rs", ""),
    ]);
    let graph = graph(&files, &[]);
    assert_eq!(circles(&graph), BTreeSet::new());
    assert_eq!(graph["a"].keys().collect::<Vec<_>>(), ["c"]);
    assert_eq!(graph["b"].len(), 1);
}

#[test]
fn circles_of_the_parts_of_a_module_are_found() {
    let files = sample(&[
        ("lib.rs", "mod m;\n"),
        ("m/mod.rs", "mod a;\nmod b;\nmod c;\nmod d;\nuse b::thing;\npub(crate) use c::Part;\n"),
        ("m/a.rs", "use super::thing;\nuse super::own;\n"),
        ("m/b/mod.rs", "mod e;\nuse crate::d;\n"),
        ("m/b/e.rs", "use super::super::{Part, d};\nuse super::own;\n"),
        ("m/c.rs", "fn f() { crate::m::a::g() }\n"),
        ("m/d.rs", "use crate::a;\nuse super::super::a;\n"),
    ]);
    assert!(parents(&files).contains(&vec!["m"]));
    let graph = graph(&files, &["m"]);
    assert_eq!(circles(&graph), BTreeSet::from([vec!["a", "b", "c"]]));
    assert_eq!(graph["b"].keys().collect::<Vec<_>>(), ["c", "d"]);
    assert!(graph["d"].is_empty());
}
