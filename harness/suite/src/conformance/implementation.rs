//! The description of a tested implementation: the file of `--implementation`.

use std::path::Path;

use plumbline::fixture::Problems;
use plumbline::fixture::decode::{Cursor, Fields};
use plumbline::fixture::error::Fail;
use plumbline::fixture::pattern::glob;
use plumbline::fixture::schema::{Record, may, must};
use plumbline::fixture::vocabulary::FEATURES;
use serde::{Deserialize, Serialize};

use crate::strict::{self, words};

/// Schema of the file.
pub const RECORD: Record = Record {
    name: "implementation",
    doc: "The tested implementation and the features it declares.",
    fields: &[
        must("organization", "text", "Organization that develops it."),
        must("project", "letters, digits, `-`, `_`, `.`", "Its name, also used for its file of known deviations."),
        must("url", "http:// or https://", "Home page or repository."),
        must("version", "text", "The tested version."),
        must("contacts", "list of texts", "Contacts: names, addresses, URLs."),
        may("program", "file name", "Its program or script. A command line that does not name it is refused."),
        may("features", "list of features or globs such as `podgc.*`", "Declared features of level `extended`."),
    ],
};

/// An implementation, as described by its authors.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Implementation {
    /// The organization that develops it.
    pub organization: String,
    /// Its name.
    pub project: String,
    /// Its home page or repository.
    pub url: String,
    /// The tested version.
    pub version: String,
    /// Contacts; never empty.
    pub contacts: Vec<String>,
    /// The file name of its program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
    /// Declared features of level `extended`, as globs.
    pub features: Vec<String>,
}

/// The project whose controllers the subject `in-process` is: those of this repository.
pub(super) const OWN_PROJECT: &str = "plumbline-controllers";

impl Implementation {
    /// Returns true if it describes the controllers of this repository, the only ones that can run in process.
    #[must_use]
    pub fn is_own(&self) -> bool {
        self.project == OWN_PROJECT && self.url == env!("CARGO_PKG_REPOSITORY")
    }

    /// Reads the file.
    ///
    /// # Errors
    ///
    /// Returns every problem, with line and field.
    pub fn load(file: &Path) -> Result<Self, Problems> {
        strict::load(file, read)
    }

    /// Parses `text`; `file` is used in messages.
    ///
    /// # Errors
    ///
    /// Returns every problem, with line and field.
    pub fn parse(file: &Path, text: &str) -> Result<Self, Problems> {
        strict::parse(file, text, read)
    }

    /// Returns the problems that parsing would have rejected, as field and message. For reports that were read back.
    #[must_use]
    pub fn problems(&self) -> Vec<(String, String)> {
        let mut problems = Vec::new();
        let mut note = |field: &str, result: Result<(), Fail>| {
            if let Err(fail) = result {
                problems.push((field.to_owned(), fail.to_string()));
            }
        };
        note("organization", filled(&self.organization));
        note("project", project(&self.project));
        note("url", url(&self.url));
        note("version", filled(&self.version));
        note("contacts", if self.contacts.is_empty() { Err(Fail::new("is empty")) } else { Ok(()) });
        for (index, contact) in self.contacts.iter().enumerate() {
            note(&format!("contacts[{index}]"), filled(contact));
        }
        if let Some(name) = &self.program {
            note("program", program(name));
        }
        for (index, name) in self.features.iter().enumerate() {
            note(&format!("features[{index}]"), feature(name));
        }
        problems
    }
}

fn read(cursor: &Cursor<'_>) -> Option<Implementation> {
    let fields = cursor.record(&RECORD)?;
    let checked = |name: &str, check: fn(&str) -> Result<(), Fail>| {
        let text = words(&fields, name)?;
        fields.get(name)?.take(check(&text))?;
        Some(text)
    };
    let organization = words(&fields, "organization");
    let project = checked("project", project);
    let url = checked("url", url);
    let version = words(&fields, "version");
    let contacts = list(&fields, "contacts", filled);
    if contacts.is_empty() && fields.has("contacts") {
        fields.get("contacts")?.fail(Fail::new("is empty").hint("name at least one person or address"));
    }
    let program = if fields.has("program") { Some(checked("program", program)?) } else { None };
    let features = list(&fields, "features", feature);
    Some(Implementation {
        organization: organization?,
        project: project?,
        url: url?,
        version: version?,
        contacts,
        program,
        features,
    })
}

/// Reads a list of distinct texts, each of which passes `check`.
fn list(fields: &Fields<'_>, name: &str, check: fn(&str) -> Result<(), Fail>) -> Vec<String> {
    let mut texts: Vec<String> = Vec::new();
    for cursor in fields.get(name).map(|cursor| cursor.list()).unwrap_or_default() {
        let Some(text) = cursor.words() else { continue };
        if texts.contains(&text) {
            cursor.fail(Fail::new(format!("`{text}` is listed twice")));
        } else if cursor.take(check(&text)).is_some() {
            texts.push(text);
        }
    }
    texts
}

fn filled(text: &str) -> Result<(), Fail> {
    if text.trim().is_empty() { Err(Fail::new("is empty")) } else { Ok(()) }
}

fn project(text: &str) -> Result<(), Fail> {
    let usual = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if !text.is_empty() && !text.starts_with('.') && text.chars().all(usual) {
        return Ok(());
    }
    Err(Fail::new(format!("`{text}` cannot be the name of a file")).hint("letters, digits, `-`, `_` and `.`"))
}

fn program(text: &str) -> Result<(), Fail> {
    if !text.is_empty() && !text.contains(|c: char| c == '/' || c == '=' || c.is_whitespace()) {
        return Ok(());
    }
    Err(Fail::new(format!("`{text}` is not the name of a file")).hint("like my-ttl or ttl.py, without its folder"))
}

fn url(text: &str) -> Result<(), Fail> {
    let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://")).unwrap_or_default();
    let usable = !rest.is_empty() && !rest.starts_with('/') && !text.contains(char::is_whitespace);
    if usable {
        Ok(())
    } else {
        Err(Fail::new(format!("`{text}` is not a URL")).hint("like https://example.org/project"))
    }
}

fn feature(pattern: &str) -> Result<(), Fail> {
    if is_feature(pattern) {
        return Ok(());
    }
    let known = FEATURES.iter().map(|(name, _)| *name);
    Err(Fail::new(format!("there is no feature `{pattern}`")).did_you_mean(pattern, known))
}

/// Returns true if a pattern matches at least one feature.
#[must_use]
pub fn is_feature(pattern: &str) -> bool {
    FEATURES.iter().any(|(name, _)| glob(pattern, name))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    const GOOD: &str = "\
organization: Example
project: pod-collector
url: https://example.org/pod-collector
version: v1.2.3
contacts: [ops@example.org]
features: [podgc.*, ttl.start-up]
";

    #[test]
    fn a_good_file_is_read() {
        let read = Implementation::parse(Path::new("me.yaml"), GOOD).expect("a good file");
        assert_eq!((read.organization.as_str(), read.project.as_str()), ("Example", "pod-collector"));
        assert_eq!((read.version.as_str(), read.contacts.len()), ("v1.2.3", 1));
        assert_eq!(read.features, ["podgc.*", "ttl.start-up"]);
        assert_eq!(read.problems(), []);
    }

    #[rstest]
    #[case::misspelt(
        "organization",
        "organisation",
        "me.yaml:1:1: organisation: unknown field `organisation` in implementation\n  hint: did you mean `organization`?"
    )]
    #[case::missing("version: v1.2.3\n", "", "`version` is missing")]
    #[case::empty("v1.2.3", "''", "me.yaml:4:10: version: expected a text that is not empty")]
    #[case::list("v1.2.3", "[1]", "me.yaml:4:10: version: ")]
    #[case::url("https://example.org/pod-collector", "example.org", "me.yaml:3:6: url: `example.org` is not a URL")]
    #[case::project("pod-collector\n", "../x\n", "me.yaml:2:10: project: `../x` cannot be the name of a file")]
    #[case::contacts("[ops@example.org]", "[]", "me.yaml:5:11: contacts: is empty")]
    #[case::contact("[ops@example.org]", "[a, a]", "me.yaml:5:15: contacts[1]: `a` is listed twice")]
    #[case::feature(
        "podgc.*",
        "podgc.orphan",
        "me.yaml:6:12: features[0]: there is no feature `podgc.orphan`\n  hint: did you mean `podgc.orphaned`?"
    )]
    #[case::program("version:", "program: bin/x\nversion:", "me.yaml:4:10: program: `bin/x` is not the name of a file")]
    #[case::yaml("organization: Example", "organization: [", "me.yaml:")]
    fn what_is_wrong_is_named(#[case] from: &str, #[case] to: &str, #[case] message: &str) {
        assert!(GOOD.contains(from));
        let text = GOOD.replacen(from, to, 1);
        let problems = Implementation::parse(Path::new("me.yaml"), &text).expect_err("a bad file").to_string();
        assert!(problems.contains(message), "{problems}");
    }

    #[rstest]
    #[case("organization", |i: &mut Implementation| i.organization.clear())]
    #[case("project", |i: &mut Implementation| "a/b".clone_into(&mut i.project))]
    #[case("url", |i: &mut Implementation| "ftp://x".clone_into(&mut i.url))]
    #[case("version", |i: &mut Implementation| " ".clone_into(&mut i.version))]
    #[case("contacts", |i: &mut Implementation| i.contacts.clear())]
    #[case("program", |i: &mut Implementation| i.program = Some("bin/x".to_owned()))]
    #[case("features[0]", |i: &mut Implementation| "x".clone_into(&mut i.features[0]))]
    fn what_no_file_says_is_a_problem(#[case] field: &str, #[case] change: fn(&mut Implementation)) {
        let mut claim = Implementation::parse(Path::new("me.yaml"), GOOD).expect("a good file");
        change(&mut claim);
        let fields: Vec<String> = claim.problems().into_iter().map(|(field, _)| field).collect();
        assert_eq!(fields, [field]);
    }
}
