//! Reads the snapshots of two commits from git, and those that a run saw differently from the work tree.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::{fs, io};

use plumbline::fixture::{Fixture, parse};

use super::{ChangeKind, SnapshotChange};
use crate::git::{self, GitError, git};

/// The two commits to compare.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommitRange {
    /// Hash of the commit before.
    pub base: String,
    /// Hash of the commit after.
    pub head: String,
}

impl CommitRange {
    /// Finds the commits of `BASE..HEAD` or `BASE`. The base is the last commit that both have in common. Without a
    /// text, the range is from `main` to the current commit.
    ///
    /// # Errors
    ///
    /// Returns an error if a commit is unknown.
    pub fn find(folder: &Path, text: Option<&str>) -> Result<Self, GitError> {
        let (base, head) = match text.map(|text| text.split_once("..").unwrap_or((text, "HEAD"))) {
            Some((base, head)) => (base, head.trim_start_matches('.')),
            None => ("main", "HEAD"),
        };
        let head = if head.is_empty() { "HEAD" } else { head };
        let hash = |arguments: &[&str]| git::line(folder, arguments);
        let head = hash(&["rev-parse", "--verify", "--end-of-options", &format!("{head}^{{commit}}")])?;
        let base = hash(&["rev-parse", "--verify", "--end-of-options", &format!("{base}^{{commit}}")])?;
        Ok(Self { base: hash(&["merge-base", &base, &head])?, head })
    }
}

/// A file that differs between the commits.
struct FileChange {
    kind: ChangeKind,
    /// Paths before and after.
    before: String,
    after: String,
}

/// Returns the changes of all snapshots of the repository at `folder`.
///
/// # Errors
///
/// Returns an error if git fails.
pub fn changes(folder: &Path, range: &CommitRange) -> Result<Vec<SnapshotChange>, GitError> {
    let listed = git(folder, &["diff", "--name-status", "-z", "-M", &range.base, &range.head, "--", ":/*.snap"], None)?;
    let fixtures = git(folder, &["diff", "--name-only", "-z", &range.base, &range.head, "--", ":/fixtures/"], None)?;
    let fixtures: BTreeSet<String> = words(&fixtures).into_iter().collect();
    let mut out = Vec::new();
    for file in files(&listed) {
        let read = |commit: &str, path: &str, is_there: bool| -> Result<Option<String>, GitError> {
            if !is_there {
                return Ok(Some(String::new()));
            }
            Ok(String::from_utf8(git(folder, &["show", &format!("{commit}:{path}")], None)?).ok())
        };
        let before = read(&range.base, &file.before, file.kind != ChangeKind::New)?;
        let after = read(&range.head, &file.after, file.kind != ChangeKind::Removed)?;
        let about = FixtureText::read(folder, range, &file.after, &fixtures);
        out.extend(of_file(&file, before, after, &about));
    }
    Ok(out)
}

/// Returns what a run saw differently: the files `*.snap.new` below `folder`, next to the snapshots that they would
/// replace.
///
/// # Errors
///
/// Returns an error if a folder cannot be read.
pub fn pending(folder: &Path) -> io::Result<Vec<SnapshotChange>> {
    let mut folders = vec![folder.to_owned()];
    let mut out = Vec::new();
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(&next)? {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if path.is_dir() && !["target", ".git"].contains(&name.as_str()) {
                folders.push(path);
            } else if name.ends_with(".snap.new") {
                out.extend(pending_file(folder, &path));
            }
        }
    }
    Ok(out)
}

fn pending_file(folder: &Path, path: &Path) -> Vec<SnapshotChange> {
    let text = String::from_utf8(fs::read(path).unwrap_or_default()).ok();
    seen(folder, &path.with_extension(""), text)
}

/// Returns what differs from an accepted snapshot below `folder`, which may not exist, in the text that a run would put
/// in its place.
pub(super) fn seen(folder: &Path, accepted: &Path, text: Option<String>) -> Vec<SnapshotChange> {
    let name = accepted.strip_prefix(folder).unwrap_or(accepted).display().to_string();
    let about = stem(&name).map(|stem| (format!("fixtures/{stem}.yaml"), stem));
    let about =
        about.map(|(file, stem)| FixtureText::parse(&file, stem, &fs::read(folder.join(&file)).unwrap_or_default()));
    let kind = if accepted.is_file() { ChangeKind::Changed } else { ChangeKind::New };
    let before = String::from_utf8(fs::read(accepted).unwrap_or_default()).ok();
    let file = FileChange { kind, before: name.clone(), after: name };
    of_file(&file, before, text, &about.unwrap_or_default())
}

fn words(output: &[u8]) -> Vec<String> {
    let words = output.split(|byte| *byte == 0).filter(|word| !word.is_empty());
    words.map(|word| String::from_utf8_lossy(word).into_owned()).collect()
}

/// Reads the output of `git diff --name-status -z`.
fn files(output: &[u8]) -> Vec<FileChange> {
    let mut words = words(output).into_iter();
    let mut files = Vec::new();
    while let (Some(status), Some(path)) = (words.next(), words.next()) {
        let kind = match status.as_bytes().first() {
            Some(b'A') => ChangeKind::New,
            Some(b'D') => ChangeKind::Removed,
            Some(b'R' | b'C') => ChangeKind::Renamed,
            _ => ChangeKind::Changed,
        };
        let after = if kind == ChangeKind::Renamed { words.next() } else { None };
        files.push(FileChange { kind, after: after.unwrap_or_else(|| path.clone()), before: path });
    }
    files
}

/// A fixture's promise and rules.
#[derive(Default)]
struct FixtureText {
    promise: String,
    rules: Vec<String>,
    is_changed: bool,
}

impl FixtureText {
    /// Reads the fixture of a snapshot, at the later commit or else the earlier one.
    fn read(folder: &Path, range: &CommitRange, snapshot: &str, changed: &BTreeSet<String>) -> Self {
        let Some(stem) = stem(snapshot) else { return Self::default() };
        let path = format!("fixtures/{stem}.yaml");
        let show = |commit: &str| git(folder, &["show", &format!("{commit}:{path}")], None).ok();
        let text = show(&range.head).or_else(|| show(&range.base)).unwrap_or_default();
        Self { is_changed: changed.contains(&path), ..Self::parse(&path, stem, &text) }
    }

    fn parse(path: &str, stem: &str, text: &[u8]) -> Self {
        let suite = stem.split('/').next().unwrap_or_default();
        let (fixtures, _) = parse::read(Path::new(path), suite, &String::from_utf8_lossy(text));
        let first = fixtures.into_iter().next();
        let about = |one: Fixture| Self { promise: one.promise, rules: one.rules, is_changed: false };
        first.map(about).unwrap_or_default()
    }
}

/// Returns `podgc/a` for `snapshots/podgc/a.snap`.
fn stem(path: &str) -> Option<&str> {
    path.strip_prefix("snapshots/")?.strip_suffix(".snap").filter(|stem| stem.contains('/'))
}

/// Splits a snapshot into its rows; the key of a snapshot without rows is empty. The header is left out.
fn sections(text: &str) -> BTreeMap<String, String> {
    let content = text.strip_prefix("---\n").and_then(|rest| rest.split_once("\n---\n")).map_or(text, |(_, rest)| rest);
    let mut sections: BTreeMap<String, String> = BTreeMap::new();
    let mut row = String::new();
    for line in content.lines() {
        if let Some(name) = line.strip_prefix("## ") {
            name.clone_into(&mut row);
        } else {
            let section = sections.entry(row.clone()).or_default();
            section.push_str(line);
            section.push('\n');
        }
    }
    // A blank line separates sections.
    for section in sections.values_mut() {
        section.truncate(section.trim_end().len());
        section.push('\n');
    }
    sections
}

/// Returns the changes of a file, one for each row that differs.
fn of_file(
    file: &FileChange,
    before: Option<String>,
    after: Option<String>,
    about: &FixtureText,
) -> Vec<SnapshotChange> {
    let name = |path: &str, row: &str| {
        let stem = stem(path).unwrap_or(path);
        if row.is_empty() { stem.to_owned() } else { format!("{stem}[{row}]") }
    };
    let change = |row: &str, kind, before: String, after: String| SnapshotChange {
        id: name(&file.after, row),
        kind,
        former: (file.kind == ChangeKind::Renamed).then(|| name(&file.before, row)),
        before,
        after,
        promise: about.promise.clone(),
        rules: about.rules.clone(),
        is_fixture_changed: about.is_changed,
    };
    let (Some(before), Some(after)) = (before, after) else {
        return vec![change("", ChangeKind::Unreadable, String::new(), String::new())];
    };
    let mut old = sections(&before);
    let new = sections(&after);
    let mut out = Vec::new();
    for (row, text) in new {
        let former = old.remove(&row);
        let kind = if former.is_none() { ChangeKind::New } else { file.kind };
        let former = former.unwrap_or_default();
        if former != text || kind == ChangeKind::Renamed {
            out.push(change(&row, kind, former, text));
        }
    }
    out.extend(old.into_iter().map(|(row, text)| change(&row, ChangeKind::Removed, text, String::new())));
    out
}
