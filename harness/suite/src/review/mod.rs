//! Reviews the changes of snapshots between two commits: equal changes are one group, each with promise and rules.
//!
//! ```text
//! git ─► history (snapshots of both commits) ─► changes, by fixture ─► groups ─► text, Markdown, HTML
//! ```
//!
//! Two changes are equal if they remove and add the same lines, apart from times and numbers. [`render`] has the
//! outputs, [`run`] what a run sees now.

pub mod history;
pub mod render;
pub mod run;

use std::collections::BTreeMap;

use similar::{ChangeTag, TextDiff};

/// Number of equal lines around a difference.
const CONTEXT: usize = 2;

/// The kind of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ChangeKind {
    /// The transcript differs.
    Changed,
    /// The snapshot is new.
    New,
    /// The snapshot is gone.
    Removed,
    /// The snapshot has another path; its transcript may differ as well.
    Renamed,
    /// A version of the snapshot is no text.
    Unreadable,
}

impl ChangeKind {
    /// Returns the word for headings.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Changed => "changed",
            Self::New => "new",
            Self::Removed => "removed",
            Self::Renamed => "renamed",
            Self::Unreadable => "unreadable",
        }
    }
}

/// The change of one fixture's transcript, or of another snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotChange {
    /// The fixture `podgc/orphaned[row]`, or the path of a snapshot that is not about a fixture.
    pub id: String,
    /// The kind.
    pub kind: ChangeKind,
    /// The former id of a renamed one.
    pub former: Option<String>,
    /// The transcript before; empty for a new one.
    pub before: String,
    /// The transcript after; empty for a removed one.
    pub after: String,
    /// The fixture's promise.
    pub promise: String,
    /// The fixture's rules.
    pub rules: Vec<String>,
    /// True if the fixture's file changed as well.
    pub is_fixture_changed: bool,
}

/// A line of a difference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiffLine {
    /// `-`, `+` or a blank.
    pub sign: char,
    /// The line.
    pub text: String,
}

impl SnapshotChange {
    /// Returns the difference, with a few equal lines around it. Parts that are left out are a line `…`.
    #[must_use]
    pub fn lines(&self) -> Vec<DiffLine> {
        let diff = TextDiff::from_lines(&self.before, &self.after);
        let mut out = Vec::new();
        for (index, group) in diff.grouped_ops(CONTEXT).iter().enumerate() {
            if index > 0 {
                out.push(DiffLine { sign: ' ', text: "…".to_owned() });
            }
            for change in group.iter().flat_map(|operation| diff.iter_changes(operation)) {
                let sign = match change.tag() {
                    ChangeTag::Delete => '-',
                    ChangeTag::Insert => '+',
                    ChangeTag::Equal => ' ',
                };
                out.push(DiffLine { sign, text: change.value().trim_end_matches('\n').to_owned() });
            }
        }
        out
    }

    /// Returns the changed lines without times and numbers.
    fn form(&self) -> (ChangeKind, String) {
        let changed = self.lines().into_iter().filter(|line| line.sign != ' ');
        let forms: Vec<String> = changed.map(|line| format!("{}{}", line.sign, general(&line.text))).collect();
        (self.kind, forms.join("\n"))
    }
}

/// Replaces runs of digits, with the decimals of times, by `N`.
fn general(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut in_number = false;
    for letter in text.split_whitespace().collect::<Vec<_>>().join(" ").chars() {
        let is_part = letter.is_ascii_digit() || (in_number && letter == '.');
        if is_part && !in_number {
            out.push('N');
        } else if !is_part {
            out.push(letter);
        }
        in_number = is_part;
    }
    out
}

/// Equal changes of several fixtures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangeGroup {
    /// The changes, ordered by id; at least one.
    pub changes: Vec<SnapshotChange>,
}

impl ChangeGroup {
    /// Returns the first change, which is shown for the group.
    #[must_use]
    pub fn first(&self) -> &SnapshotChange {
        &self.changes[0]
    }

    /// Describes the group: `the same change in 37 fixtures`, or the fixture's name.
    #[must_use]
    pub fn title(&self) -> String {
        let first = self.first();
        let word = first.kind.word();
        match (self.changes.len(), &first.former) {
            (1, Some(former)) => format!("{word}: {former} → {}", first.id),
            (1, None) => format!("{word}: {}", first.id),
            (count, _) if first.kind == ChangeKind::Changed => format!("the same change in {count} fixtures"),
            (count, _) => format!("{word}: {count} fixtures alike"),
        }
    }

    /// Returns all rules of the group's fixtures, ordered.
    #[must_use]
    pub fn rules(&self) -> Vec<&str> {
        let mut rules: Vec<&str> =
            self.changes.iter().flat_map(|change| change.rules.iter().map(String::as_str)).collect();
        rules.sort_unstable();
        rules.dedup();
        rules
    }

    /// Returns the number of fixtures whose files changed as well.
    #[must_use]
    pub fn changed_fixtures(&self) -> usize {
        self.changes.iter().filter(|change| change.is_fixture_changed).count()
    }
}

/// Groups changes, those of transcripts first, the largest group first.
#[must_use]
pub fn groups(changes: Vec<SnapshotChange>) -> Vec<ChangeGroup> {
    let mut by_form: BTreeMap<(ChangeKind, String), Vec<SnapshotChange>> = BTreeMap::new();
    for change in changes {
        by_form.entry(change.form()).or_default().push(change);
    }
    let mut groups: Vec<ChangeGroup> = by_form
        .into_values()
        .map(|mut changes| {
            changes.sort_by(|a, b| a.id.cmp(&b.id));
            ChangeGroup { changes }
        })
        .collect();
    groups.sort_by(|a, b| {
        let key = |group: &ChangeGroup| (group.first().kind, std::cmp::Reverse(group.changes.len()));
        key(a).cmp(&key(b)).then_with(|| a.first().id.cmp(&b.first().id))
    });
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(id: &str, before: &str, after: &str) -> SnapshotChange {
        SnapshotChange {
            id: id.to_owned(),
            kind: ChangeKind::Changed,
            former: None,
            before: before.to_owned(),
            after: after.to_owned(),
            promise: String::new(),
            rules: vec!["BR-1".to_owned()],
            is_fixture_changed: false,
        }
    }

    #[test]
    fn changes_are_equal_apart_from_times_and_numbers() {
        let groups = groups(vec![
            change("ttl/z", "t=+5s  PATCH nodes/n1 200\n", "t=+5s  PATCH nodes/n1 409\n"),
            change("ttl/b", "a\nt=+5s  PATCH nodes/n1 200\nb\n", "a\nb\n"),
            change("ttl/a", "t=+40.5s PATCH nodes/n12 200\n", ""),
        ]);
        let titles: Vec<String> = groups.iter().map(ChangeGroup::title).collect();
        assert_eq!(titles, ["the same change in 2 fixtures", "changed: ttl/z"]);
        assert_eq!(groups[0].first().id, "ttl/a");
        assert_eq!(groups[0].rules(), ["BR-1"]);
        let lines: Vec<String> =
            groups[1].first().lines().iter().map(|line| format!("{}{}", line.sign, line.text)).collect();
        assert_eq!(lines, ["-t=+5s  PATCH nodes/n1 200", "+t=+5s  PATCH nodes/n1 409"]);
    }
}
