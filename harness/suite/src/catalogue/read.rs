//! Reads `catalogue.yaml` and `NOT-COVERED.md` strictly.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use plumbline::fixture::Problems;
use plumbline::fixture::ReleaseRange;
use plumbline::fixture::decode::Cursor;
use plumbline::fixture::error::{Fail, Problem};
use plumbline::fixture::schema::{self, Record, may, must};

use super::{CatalogueEntry, Section};
use crate::strict::{self, words};

/// The catalogue's file name, below the fixtures folder.
pub const FILE: &str = "catalogue.yaml";

/// The name of the file that lists uncovered ids with reasons, below the fixtures folder.
pub const EXCLUSIONS: &str = "NOT-COVERED.md";

const RECORD: Record = Record {
    name: "catalogue",
    doc: "Known behaviours of the controllers.",
    fields: &[must("sections", "list of sections", "The sections, in the order of the table.")],
};

const SECTION: Record = Record {
    name: "section",
    doc: "A section of the catalogue.",
    fields: &[
        must("title", "text", "The heading."),
        must("source", "text", "The upstream source."),
        may("rules", "map: id to text, or to a rule with releases", "The rules."),
        may("bugs", "list of bugs", "Upstream bugs."),
        may("bounds", "list of bounds", "The cases at the boundary of a rule, and beyond it."),
    ],
};

const RULE: Record = Record {
    name: "rule",
    doc: "A rule that does not hold in every release of Kubernetes.",
    fields: &[must("what", "text", "Description in one line."), schema::SINCE, schema::UNTIL],
};

const BUG: Record = Record {
    name: "bug",
    doc: "An upstream bug, past or present.",
    fields: &[
        must("id", "`#number` or `project#number`", "The issue."),
        may("also", "list of the same", "Duplicates, fixes, discussions."),
        must("what", "text", "Description in one line."),
        may("rules", "list of ids", "The rules whose fixtures cover it."),
        schema::SINCE,
        schema::UNTIL,
    ],
};

const BOUND: Record = Record {
    name: "bound",
    doc: "The cases that cover the boundary of a rule.",
    fields: &[
        must("rule", "id", "A rule of this section."),
        must("at", "case, or list of cases", "Cases at the boundary, where the rule still applies."),
        must("beyond", "case, or list of cases", "Cases beyond the boundary, where it no longer applies."),
    ],
};

/// An id that is not covered, and the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exclusion {
    /// The id.
    pub id: String,
    /// The reason.
    pub reason: String,
}

/// The contents of both files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Catalogue {
    /// The sections of the catalogue.
    pub sections: Vec<Section>,
    /// The ids that are not covered.
    pub exclusions: Vec<Exclusion>,
}

impl Catalogue {
    /// Reads both files below the fixtures folder `root`.
    ///
    /// # Errors
    ///
    /// All problems, with their lines.
    pub fn load(root: &Path) -> Result<Self, Problems> {
        let sections = strict::load(&root.join(FILE), read)?;
        let file = root.join(EXCLUSIONS);
        let text = fs::read_to_string(&file).map_err(|error| one(&file, 0, format!("unable to read: {error}")))?;
        Ok(Self { sections, exclusions: exclusions(&file, &text)? })
    }
}

fn one(file: &Path, line: u64, message: String) -> Problems {
    let file = file.to_owned();
    Problems(vec![Problem { file, line, column: 1, path: String::new(), row: None, message, hint: None }])
}

fn read(cursor: &Cursor<'_>) -> Option<Vec<Section>> {
    let list = cursor.record(&RECORD)?.get("sections")?;
    let sections: Vec<Section> = list.list().iter().filter_map(section).collect();
    let mut seen = BTreeSet::new();
    for entry in sections.iter().flat_map(|section| &section.entries) {
        for id in std::iter::once(&entry.id).chain(&entry.also) {
            if !seen.insert(id.as_str()) {
                list.fail(Fail::new(format!("`{id}` is listed twice")));
            }
        }
    }
    Some(sections)
}

fn section(cursor: &Cursor<'_>) -> Option<Section> {
    let fields = cursor.record(&SECTION)?;
    let mut entries = Vec::new();
    if let Some(rules) = fields.get("rules") {
        entries.extend(rules.entries().iter().filter_map(|(_, id, cursor)| rule(id, cursor)));
    }
    if let Some(bugs) = fields.get("bugs") {
        entries.extend(bugs.list().iter().filter_map(bug));
    }
    for (cursor, rule, at, beyond) in fields.get("bounds").iter().flat_map(Cursor::list).filter_map(bound) {
        match entries.iter_mut().find(|entry| entry.id == rule) {
            Some(entry) => (entry.at, entry.beyond) = (at, beyond),
            None => cursor.fail(Fail::new(format!("`{rule}` is not listed in this section"))),
        }
    }
    if entries.is_empty() {
        cursor.fail(Fail::new("the section has no entries").hint("add `rules` or `bugs`"));
    }
    Some(Section { title: words(&fields, "title")?, source: words(&fields, "source")?, entries })
}

fn rule(id: &str, cursor: &Cursor<'_>) -> Option<CatalogueEntry> {
    let (what, releases) = if cursor.is_map() {
        let fields = cursor.record(&RULE)?;
        let releases = fields.releases();
        if releases.is_unlimited() {
            cursor.fail(Fail::new(format!("`{id}` has neither `since` nor `until`")).hint("write the text alone"));
        }
        (words(&fields, "what")?, releases)
    } else {
        (cursor.words()?, ReleaseRange::default())
    };
    Some(CatalogueEntry { id: id.to_owned(), what, releases, ..CatalogueEntry::default() })
}

fn bound(cursor: Cursor<'_>) -> Option<(Cursor<'_>, String, Vec<String>, Vec<String>)> {
    let fields = cursor.record(&BOUND)?;
    let rule = words(&fields, "rule")?;
    let at = fields.text_list("at");
    let beyond = fields.text_list("beyond");
    Some((cursor, rule, at, beyond))
}

fn bug(cursor: &Cursor<'_>) -> Option<CatalogueEntry> {
    let fields = cursor.record(&BUG)?;
    let id = words(&fields, "id")?;
    let what = words(&fields, "what")?;
    if !id.contains('#') {
        cursor.fail(Fail::new(format!("`{id}` is not an issue")).hint("write it like `#82149`"));
    }
    Some(CatalogueEntry {
        id,
        also: fields.text_list("also"),
        what,
        rules: fields.text_list("rules"),
        releases: fields.releases(),
        ..CatalogueEntry::default()
    })
}

/// Reads the rows of the tables in a Markdown file: the id in the first column (with or without backquotes), the reason
/// in the second.
///
/// # Errors
///
/// A row without a reason, or a duplicate id.
pub fn exclusions(file: &Path, text: &str) -> Result<Vec<Exclusion>, Problems> {
    let mut found: Vec<Exclusion> = Vec::new();
    for (line, number) in text.lines().zip(1..) {
        let Some(row) = line.strip_prefix('|') else { continue };
        let mut cells = row.split('|').map(str::trim);
        let id = cells.next().unwrap_or_default();
        let reason = cells.next().unwrap_or_default();
        let id = id.trim_matches('`');
        if id == "id" || id.starts_with("--") {
            continue;
        }
        if reason.split_whitespace().count() < 3 {
            return Err(one(file, number, format!("`{id}` has no reason: write a sentence into the second column")));
        }
        if found.iter().any(|other| other.id == id) {
            return Err(one(file, number, format!("`{id}` is listed twice")));
        }
        found.push(Exclusion { id: id.to_owned(), reason: reason.to_owned() });
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[test]
    fn a_table_is_read_row_by_row() {
        let text = "# Head\n\ntext | more\n\n| id | reason |\n| --- | --- |\n| `D-001` | no box sees it |\n| #12 | it is slow only |\n";
        let found = exclusions(Path::new("x.md"), text).expect("a good table");
        let pairs: Vec<_> = found.iter().map(|exclusion| (exclusion.id.as_str(), exclusion.reason.as_str())).collect();
        assert_eq!(pairs, [("D-001", "no box sees it"), ("#12", "it is slow only")]);
    }

    #[rstest]
    #[case("| `D-001` | because |\n", "x.md:1:1: `D-001` has no reason: write a sentence into the second column")]
    #[case("| a | one two three |\n| a | one two three |\n", "x.md:2:1: `a` is listed twice")]
    fn a_bad_row_is_reported(#[case] text: &str, #[case] expected: &str) {
        let problems = exclusions(Path::new("x.md"), text).expect_err("a bad table");
        assert!(problems.to_string().contains(expected), "{problems}");
    }
}
