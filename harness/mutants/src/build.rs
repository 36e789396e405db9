//! The copy of the repository that contains every mutant, and its build.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde::Deserialize;
use serde_json::Value;

use crate::Failure;
use crate::edits::Bug;
use crate::find::{self, Mutant};
use crate::render::render;

/// The crates that can hold mutants.
const CRATES: [&str; 2] = ["controllers", "harness/apiserver"];

/// Source of the `schemata` module that is added to [`CRATES`]: it tells which mutant is on.
const SCHEMATA: &str = "//! The mutant that is switched on: the number in `PLUMBLINE_MUTANT`.
#![allow(missing_docs, clippy::all, clippy::pedantic)]
static ON: std::sync::OnceLock<u32> = std::sync::OnceLock::new();
pub fn on(id: u32) -> bool {
    *ON.get_or_init(|| std::env::var(\"PLUMBLINE_MUTANT\").ok().and_then(|id| id.parse().ok()).unwrap_or(0)) == id
}
";

/// The part that the copy adds to the release profile of the repository.
const PROFILE: &str = "
[profile.release.package.plumbline-controllers]
overflow-checks = true
";

/// The configuration: `.cargo/mutants.toml`, which cargo-mutants reads too, and `harness/mutants/survivors.toml`.
#[derive(Debug, Deserialize)]
pub(crate) struct Config {
    examine_globs: Vec<String>,
    #[serde(default)]
    exclude_globs: Vec<String>,
    #[serde(skip)]
    survivors: Vec<Survivor>,
}

#[derive(Debug, Deserialize)]
struct Survivors {
    #[serde(default)]
    survivor: Vec<Survivor>,
}

/// A mutant that no fixture can catch.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Survivor {
    /// Its name without the line; `*` matches any text.
    pub(crate) name: String,
    /// The reason.
    pub(crate) reason: String,
}

impl Config {
    /// Reads both files.
    pub(crate) fn load(repository: &Path) -> Result<Self, Failure> {
        let mut config: Self = toml::from_str(&fs::read_to_string(repository.join(".cargo/mutants.toml"))?)?;
        let survivors = fs::read_to_string(repository.join("harness/mutants/survivors.toml")).unwrap_or_default();
        config.survivors = toml::from_str::<Survivors>(&survivors)?.survivor;
        Ok(config)
    }

    /// Returns the reason why a mutant of this name may survive.
    pub(crate) fn reason(&self, name: &str) -> Option<&str> {
        self.survivors.iter().find(|known| matches(&known.name, name)).map(|known| known.reason.as_str())
    }

    fn examines(&self, path: &str) -> bool {
        let any = |globs: &[String]| globs.iter().any(|glob| matches(glob, path));
        any(&self.examine_globs) && !any(&self.exclude_globs)
    }
}

/// Returns true if `text` matches `glob`; `*` matches any text, including `/`.
fn matches(glob: &str, text: &str) -> bool {
    match glob.split_once('*') {
        None => glob == text,
        Some((head, tail)) => {
            let tail = tail.trim_start_matches('*').trim_start_matches('/');
            text.strip_prefix(head).is_some_and(|rest| {
                (0..=rest.len()).filter(|at| rest.is_char_boundary(*at)).any(|at| matches(tail, &rest[at..]))
            })
        }
    }
}

/// Prefix of the names of bugs.
pub(crate) const BUG: &str = "bug ";
/// Prefix of the names of semantic mutants.
pub(crate) const SEMANTIC: &str = "semantic ";
/// Prefix of the names of mutants that were written without a look at the fixtures.
pub(crate) const FRESH: &str = "fresh ";

/// A mutant or bug that can be switched on.
#[derive(Clone, Debug)]
pub(crate) struct Subject {
    /// Its number, from 1.
    pub(crate) id: usize,
    /// Its name: file, function, operation, and an index if several mutants have the same name.
    pub(crate) name: String,
    /// Its location: `file:line`.
    pub(crate) place: String,
}

/// All subjects, and the files that hold them.
#[derive(Default)]
pub(crate) struct Tree {
    /// In order of their numbers, from 1.
    pub(crate) subjects: Vec<Subject>,
    files: BTreeMap<String, Source>,
}

struct Source {
    text: String,
    mutants: Vec<(usize, Mutant)>,
}

/// The result of a build.
pub(crate) struct Built {
    /// The program.
    pub(crate) program: PathBuf,
    /// The subjects that compile.
    pub(crate) subjects: Vec<Subject>,
    /// Number of subjects that do not compile.
    pub(crate) unviable: usize,
}

impl Tree {
    /// Finds the mutants of the files that the configuration selects.
    pub(crate) fn of_mutants(repository: &Path, config: &Config) -> Result<Self, Failure> {
        let mut tree = Self { subjects: Vec::new(), files: BTreeMap::new() };
        for path in tracked(repository)?.into_iter().filter(|path| config.examines(path)) {
            let text = fs::read_to_string(repository.join(&path))?;
            let found = find::find(&text).map_err(|error| format!("{path}: {error}"))?;
            let mut seen = BTreeMap::new();
            let mut mutants = Vec::new();
            for mutant in found {
                let id = tree.subjects.len() + 1;
                let plain = format!("{path}: {}: {}", mutant.function, mutant.what);
                let number: &mut usize = seen.entry(plain.clone()).or_default();
                *number += 1;
                let name = if *number == 1 { plain } else { format!("{plain} ({number})") };
                tree.subjects.push(Subject { id, name, place: format!("{path}:{}", mutant.line) });
                mutants.push((id, mutant));
            }
            tree.files.insert(path, Source { text, mutants });
        }
        Ok(tree)
    }

    /// Adds handwritten bugs, with `prefix` before their names.
    pub(crate) fn add(&mut self, repository: &Path, prefix: &str, bugs: &[Bug]) -> Result<(), Failure> {
        for bug in bugs {
            // A sample leaves gaps.
            let id = self.subjects.iter().map(|subject| subject.id).max().unwrap_or_default() + 1;
            let place = bug.edits.first().map(|edit| edit.file.clone()).unwrap_or_default();
            let name = format!("{prefix}{}: {}", bug.id, bug.symptom);
            self.subjects.push(Subject { id, name, place });
            for edit in &bug.edits {
                if !self.files.contains_key(&edit.file) {
                    let text = fs::read_to_string(repository.join(&edit.file))?;
                    self.files.insert(edit.file.clone(), Source { text, mutants: Vec::new() });
                }
                let Some(source) = self.files.get_mut(&edit.file) else { continue };
                let change = edit.change(id, &source.text).map_err(|error| format!("{}: {error}", bug.id))?;
                let mutant = Mutant { what: bug.symptom.clone(), function: String::new(), line: 0, change };
                source.mutants.push((id, mutant));
            }
        }
        Ok(())
    }

    /// Keeps `number` subjects: of those that `is_known` accepts the ones with the smallest hash of `seed` and name.
    pub(crate) fn sample(&mut self, number: usize, seed: u64, is_known: impl Fn(&Subject) -> bool) {
        let hash = |subject: &Subject| {
            let mut hasher = DefaultHasher::new();
            (seed, &subject.name).hash(&mut hasher);
            hasher.finish()
        };
        let known = self.subjects.iter().filter(|subject| is_known(subject));
        let mut chosen: Vec<(u64, usize)> = known.map(|subject| (hash(subject), subject.id)).collect();
        chosen.sort_unstable();
        let kept: BTreeSet<usize> = chosen.into_iter().take(number).map(|(_, id)| id).collect();
        self.subjects.retain(|subject| kept.contains(&subject.id));
        for source in self.files.values_mut() {
            source.mutants.retain(|(id, _)| kept.contains(id));
        }
    }

    /// Copies the repository, inserts the subjects, leaves out those that do not compile, and builds.
    pub(crate) fn build(mut self, repository: &Path, work: &Path) -> Result<Built, Failure> {
        let copy = work.join("tree");
        self.copy(repository, &copy)?;
        let mut unviable = BTreeSet::new();
        loop {
            let places = self.write(&copy, &unviable)?;
            let errors = compile(&copy, work)?;
            if errors.is_empty() {
                break;
            }
            let found = blame(&errors, &places);
            if found.is_empty() {
                return Err(
                    format!("the copy does not compile, and no mutant is to blame:\n{}", errors.join("\n")).into()
                );
            }
            let mut blamed = self.subjects.iter().filter(|subject| found.contains(&subject.id));
            let bug = blamed.clone().find(|subject| subject.name.starts_with(BUG));
            if let Some(bug) = bug {
                return Err(format!("{} does not compile:\n{}", bug.name, errors.join("\n")).into());
            }
            let by_hand = |name: &str| name.starts_with(SEMANTIC) || name.starts_with(FRESH);
            if let Some(subject) = blamed.find(|subject| by_hand(&subject.name)) {
                eprintln!("{} does not compile: {}", subject.name, errors.first().map_or("", String::as_str));
            }
            eprintln!("{} mutants do not compile", found.len());
            unviable.extend(found);
        }
        self.subjects.retain(|subject| !unviable.contains(&subject.id));
        let program = work.join("build/release/plumbline");
        Ok(Built { program, subjects: self.subjects, unviable: unviable.len() })
    }

    fn copy(&self, repository: &Path, copy: &Path) -> Result<(), Failure> {
        for path in tracked(repository)? {
            let from = repository.join(&path);
            if let Ok(target) = fs::read_link(&from) {
                link(&target, &copy.join(&path))?;
                continue;
            }
            // A deleted file is still tracked until the deletion is committed.
            let Ok(mut text) = fs::read(&from) else { continue };
            if path == "Cargo.toml" {
                text.extend(PROFILE.bytes());
            }
            if CRATES.iter().any(|folder| path == format!("{folder}/src/lib.rs")) {
                text.extend(b"\npub mod schemata;\n");
            }
            if !self.files.contains_key(&path) {
                put(&copy.join(&path), &text)?;
            }
        }
        CRATES.iter().try_for_each(|folder| put(&copy.join(folder).join("src/schemata.rs"), SCHEMATA.as_bytes()))
    }

    /// Writes the files that contain mutants and returns the mutants' positions.
    fn write(
        &self,
        copy: &Path,
        unviable: &BTreeSet<usize>,
    ) -> Result<BTreeMap<String, BTreeMap<usize, Range<usize>>>, Failure> {
        let mut places = BTreeMap::new();
        for (path, source) in &self.files {
            let viable = source.mutants.iter().filter(|(id, _)| !unviable.contains(id));
            let rendered = render(&source.text, viable.map(|(id, mutant)| (*id, mutant)));
            put(&copy.join(path), rendered.text.as_bytes())?;
            places.insert(path.clone(), rendered.places);
        }
        Ok(places)
    }
}

/// Writes a file unless it already has this content, so that cargo does not recompile unchanged files.
fn put(path: &Path, text: &[u8]) -> Result<(), Failure> {
    if fs::read(path).is_ok_and(|old| old == text) {
        return Ok(());
    }
    fs::create_dir_all(path.parent().unwrap_or(Path::new("/")))?;
    Ok(fs::write(path, text)?)
}

/// Makes a symbolic link, such as that of a package to the fixtures.
fn link(target: &Path, path: &Path) -> Result<(), Failure> {
    if fs::read_link(path).is_ok_and(|old| old == target) {
        return Ok(());
    }
    fs::create_dir_all(path.parent().unwrap_or(Path::new("/")))?;
    Ok(std::os::unix::fs::symlink(target, path)?)
}

/// Hashes everything that can change an outcome: sources, fixtures and handwritten bugs.
pub(crate) fn stamp(repository: &Path) -> Result<u64, Failure> {
    let mut hasher = DefaultHasher::new();
    let own = ["bugs", "semantic", "fresh", "fresh2", "fresh3", "fresh4", "fresh5"]
        .map(|name| format!("harness/mutants/{name}.toml"));
    let own = own.into_iter().chain([".cargo/mutants.toml".to_owned()]);
    let decides = |path: &String| {
        ["controllers/src/", "harness/kit/src/", "harness/suite/src/", "harness/apiserver/src/", "fixtures/", "Cargo"]
            .iter()
            .any(|head| path.starts_with(head))
    };
    for path in tracked(repository)?.into_iter().filter(decides).chain(own) {
        let Ok(text) = fs::read(repository.join(&path)) else { continue };
        (path, text).hash(&mut hasher);
    }
    Ok(hasher.finish())
}

fn tracked(repository: &Path) -> Result<Vec<String>, Failure> {
    let output =
        Command::new("git").current_dir(repository).args(["ls-files", "-co", "--exclude-standard"]).output()?;
    let paths = String::from_utf8(output.stdout)?;
    // The copy is a workspace, so it has the package of this program, too, but not its lists of mutants.
    let is_list = |path: &str| {
        path.strip_prefix("harness/mutants/").is_some_and(|file| file != "Cargo.toml" && !file.starts_with("src/"))
    };
    Ok(paths.lines().filter(|path| !is_list(path)).map(str::to_owned).collect())
}

fn cargo(copy: &Path, work: &Path, args: &[&str]) -> Command {
    // Set by cargo itself when it runs this program.
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(copy).args(args).env("CARGO_TARGET_DIR", work.join("build")).env("CARGO_INCREMENTAL", "1");
    command
}

/// Builds the program; returns the compiler's errors, one JSON document each.
fn compile(copy: &Path, work: &Path) -> Result<Vec<String>, Failure> {
    let args =
        ["build", "--release", "--locked", "-p", "plumbline-suite", "--bin", "plumbline", "--message-format=json"];
    let output = cargo(copy, work, &args).stderr(Stdio::inherit()).output()?;
    let lines = String::from_utf8(output.stdout)?;
    let error = |line: &&str| serde_json::from_str::<Value>(line).is_ok_and(|it| it["message"]["level"] == "error");
    let errors: Vec<String> = lines.lines().filter(error).map(str::to_owned).collect();
    if errors.is_empty() && !output.status.success() {
        return Err("cargo build failed without a word about the code".into());
    }
    Ok(errors)
}

/// Returns the mutants whose text contains the position of a compiler error.
fn blame(errors: &[String], places: &BTreeMap<String, BTreeMap<usize, Range<usize>>>) -> BTreeSet<usize> {
    let mut found = BTreeSet::new();
    for error in errors {
        let Ok(error) = serde_json::from_str::<Value>(error) else { continue };
        for span in error["message"]["spans"].as_array().into_iter().flatten() {
            let file = span["file_name"].as_str().unwrap_or_default();
            let begin = span["byte_start"].as_u64().unwrap_or_default() as usize;
            let Some((_, places)) = places.iter().find(|(path, _)| file.ends_with(path.as_str())) else { continue };
            found.extend(places.iter().filter(|(_, place)| place.contains(&begin)).map(|(id, _)| *id));
        }
    }
    found
}
