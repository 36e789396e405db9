//! Conformance profiles: `fixtures/profiles.yaml`.

use std::collections::BTreeSet;
use std::path::Path;

use plumbline::fixture::decode::Cursor;
use plumbline::fixture::error::Fail;
use plumbline::fixture::pattern::glob;
use plumbline::fixture::schema::{Record, must};
use plumbline::fixture::{Controller, Fixture, Problems};

use super::idle;
use crate::strict::{self, words};

/// The file below the fixtures folder.
pub const FILE: &str = "profiles.yaml";

/// The union of all profiles.
pub const ALL: &str = "all";

/// Schema of the file.
const RECORD: Record = Record {
    name: "profiles",
    doc: "The conformance profiles.",
    fields: &[must("profiles", "list of profiles", "One entry per profile.")],
};

/// Schema of an entry.
const PROFILE: Record = Record {
    name: "profile",
    doc: "A set of fixtures to conform to.",
    fields: &[
        must("name", "text", "Its name in `--profile`."),
        must("about", "text", "A one-sentence description."),
        must("fixtures", "list of globs", "Ids of its fixtures."),
    ],
};

/// A profile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profile {
    /// Its name.
    pub name: String,
    /// A one-sentence description.
    pub about: String,
    /// Globs over fixture ids.
    pub fixtures: Vec<String>,
}

/// All profiles, and what a program passes that does nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profiles {
    /// The profiles, in the order of the file.
    pub list: Vec<Profile>,
    /// Ids of the fixtures that a program passes that does nothing; see [`idle`].
    pub idle: BTreeSet<String>,
}

impl Profiles {
    /// Reads the profiles below `root` and checks them against its `fixtures`. A suite of before 0.3 has no list of
    /// what a program passes that does nothing.
    ///
    /// # Errors
    ///
    /// Returns every problem with its line, including globs that match no fixture.
    pub fn load(root: &Path, fixtures: &[Fixture]) -> Result<Self, Problems> {
        let profiles = strict::load(&root.join(FILE), |cursor| read(cursor, fixtures))?;
        let idle = root.join(idle::FILE);
        let idle = if idle.is_file() { idle::load(&idle)? } else { BTreeSet::new() };
        Ok(Self { idle, ..profiles })
    }

    /// Parses `text`; `file` is used in messages.
    ///
    /// # Errors
    ///
    /// The same as for [`Profiles::load`].
    pub fn parse(file: &Path, text: &str, fixtures: &[Fixture]) -> Result<Self, Problems> {
        strict::parse(file, text, |cursor| read(cursor, fixtures))
    }

    /// Returns true if there is a profile with this name.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        name == ALL || self.list.iter().any(|profile| profile.name == name)
    }

    /// Returns the names, [`ALL`] last.
    #[must_use]
    pub fn names(&self) -> Vec<&str> {
        self.list.iter().map(|profile| profile.name.as_str()).chain([ALL]).collect()
    }

    /// Returns true if a program passes the fixture that does nothing.
    #[must_use]
    pub fn is_passed_idly(&self, id: &str) -> bool {
        self.idle.contains(id)
    }

    /// Returns the profiles that contain a fixture.
    #[must_use]
    pub fn of(&self, id: &str) -> Vec<String> {
        let has = |profile: &&Profile| profile.fixtures.iter().any(|pattern| glob(pattern, id));
        self.list.iter().filter(has).map(|profile| profile.name.clone()).collect()
    }

    /// Returns the controllers that a fixture needs besides those that its profiles are named after, sorted. None if
    /// its profiles have other names.
    #[must_use]
    pub fn other_controllers(&self, fixture: &Fixture) -> Vec<String> {
        let own: BTreeSet<Controller> =
            self.of(&fixture.id).iter().filter_map(|name| Controller::parse(name)).collect();
        if own.is_empty() {
            return Vec::new();
        }
        let needed: BTreeSet<Controller> = fixture.controllers.iter().copied().collect();
        let mut names: Vec<String> = needed.difference(&own).map(ToString::to_string).collect();
        names.sort();
        names
    }

    /// Returns true if the named profile contains the fixture.
    #[must_use]
    pub fn selects(&self, name: &str, id: &str) -> bool {
        let of = self.of(id);
        if name == ALL { !of.is_empty() } else { of.iter().any(|profile| profile == name) }
    }
}

fn read(cursor: &Cursor<'_>, fixtures: &[Fixture]) -> Option<Profiles> {
    let list = cursor.record(&RECORD)?.get("profiles")?;
    let mut profiles: Vec<Profile> = Vec::new();
    for entry in list.list() {
        let Some(profile) = profile(&entry, fixtures) else { continue };
        if profile.name == ALL || profiles.iter().any(|other| other.name == profile.name) {
            entry.fail(Fail::new(format!("the name `{}` is taken", profile.name)));
        }
        profiles.push(profile);
    }
    if profiles.is_empty() {
        list.fail(Fail::new("there is no profile"));
    }
    Some(Profiles { list: profiles, idle: BTreeSet::new() })
}

fn profile(cursor: &Cursor<'_>, fixtures: &[Fixture]) -> Option<Profile> {
    let fields = cursor.record(&PROFILE)?;
    let name = words(&fields, "name");
    let about = words(&fields, "about");
    let mut globs = Vec::new();
    for pattern in fields.get("fixtures")?.list() {
        let Some(text) = pattern.words() else { continue };
        if !fixtures.iter().any(|fixture| glob(&text, &fixture.id)) {
            pattern.fail(Fail::new(format!("`{text}` matches no fixture")));
        }
        globs.push(text);
    }
    Some(Profile { name: name?, about: about?, fixtures: globs })
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::conformance::report::tests::fixture;

    const GOOD: &str = "\
profiles:
- name: podgc
  about: The collector.
  fixtures: [podgc/*]
- name: ttl
  about: The annotation.
  fixtures: [ttl/a, 'ttl/b*']
";

    fn suite() -> Vec<Fixture> {
        ["podgc/a", "podgc/b[x]", "ttl/a", "ttl/b", "api/c"].map(|id| fixture(id, "core")).into()
    }

    #[test]
    fn a_fixture_belongs_where_a_glob_says() {
        let profiles = Profiles::parse(Path::new("p.yaml"), GOOD, &suite()).expect("a good file");
        assert_eq!(profiles.names(), ["podgc", "ttl", "all"]);
        assert!(profiles.has("ttl") && profiles.has("all") && !profiles.has("api"));
        assert_eq!(profiles.of("podgc/b[x]"), ["podgc"]);
        assert_eq!(profiles.of("api/c"), <[&str; 0]>::default());
        assert!(profiles.selects("all", "ttl/a") && !profiles.selects("all", "api/c"));
        assert!(profiles.selects("ttl", "ttl/b") && !profiles.selects("ttl", "podgc/a"));
    }

    #[test]
    fn controllers_of_other_profiles_are_listed() {
        let profiles = Profiles::parse(Path::new("p.yaml"), GOOD, &suite()).expect("a good file");
        let with = |id: &str, controllers: &[Controller]| {
            profiles.other_controllers(&Fixture { controllers: controllers.to_vec(), ..fixture(id, "core") })
        };
        assert_eq!(with("podgc/a", &[Controller::PodGc]), <[&str; 0]>::default());
        assert_eq!(with("podgc/a", &[Controller::TaintEviction, Controller::PodGc]), ["taint-eviction"]);
        assert_eq!(with("api/c", &[Controller::PodGc]), <[&str; 0]>::default(), "it has no profile");
    }

    #[rstest]
    #[case("podgc/*", "pdogc/*", "p.yaml:4:14: profiles[0].fixtures[0]: `pdogc/*` matches no fixture")]
    #[case("name: ttl", "name: podgc", "p.yaml:5:3: profiles[1]: the name `podgc` is taken")]
    #[case("name: ttl", "name: all", "the name `all` is taken")]
    #[case("about: The collector.", "abuot: x", "did you mean `about`?")]
    #[case("profiles:", "profile:", "`profiles` is missing")]
    fn what_is_wrong_is_named(#[case] from: &str, #[case] to: &str, #[case] message: &str) {
        let text = GOOD.replacen(from, to, 1);
        let problems = Profiles::parse(Path::new("p.yaml"), &text, &suite()).expect_err("a bad file").to_string();
        assert!(problems.contains(message), "{problems}");
    }
}
