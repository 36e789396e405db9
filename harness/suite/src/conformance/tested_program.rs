//! Checks that the program of a report is one of the implementation's, as far as a report shows it. PURE but for
//! [`OwnPrograms`].
//!
//! A report is not signed: an author who edits it can make it name another program. What can be checked are the command
//! line, the digest of the program and the user agents that the server saw.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::OnceLock;

use super::implementation::{Implementation, OWN_PROJECT};
use super::report::TestedSubject;
use crate::digest;
use crate::subject::command;

/// Most clients in a report: a program may draw names for them.
const MAX_CLIENTS: usize = 20;

/// Digests of the programs of this repository. The files are large, so they are read when a report asks for them, once.
#[derive(Debug)]
pub struct OwnPrograms(OnceLock<BTreeSet<String>>);

impl OwnPrograms {
    /// Returns the running program and the controllers beside it, as far as they are there.
    #[must_use]
    pub const fn at_hand() -> Self {
        Self(OnceLock::new())
    }

    fn digests(&self) -> &BTreeSet<String> {
        self.0.get_or_init(|| {
            let Ok(this) = std::env::current_exe() else { return BTreeSet::new() };
            let files = [this.with_file_name(OWN_PROJECT), this];
            files.iter().filter_map(|file| digest::file(file).ok()).collect()
        })
    }
}

/// No programs.
impl Default for OwnPrograms {
    fn default() -> Self {
        Self(BTreeSet::new().into())
    }
}

/// Returns the fields that contradict the implementation's description, with the reasons.
#[must_use]
pub fn problems(
    implementation: &Implementation,
    subject: &TestedSubject,
    own: &OwnPrograms,
) -> Vec<(&'static str, String)> {
    let mut problems = Vec::new();
    if subject.kind != command::KIND {
        return problems;
    }
    let project = &implementation.project;
    let words = shell_words::split(&subject.what).unwrap_or_default();
    if let Some(program) = &implementation.program
        && !names(&words, program)
    {
        problems.push(("subject.what", format!("does not run {program}, the program that {project} describes")));
    }
    let is_own_client = |client: &&String| client.split('/').next() == Some(OWN_PROJECT);
    if implementation.is_own() {
        if !subject.clients.is_empty() && !subject.clients.iter().any(|client| is_own_client(&client)) {
            let clients = subject.clients.join(", ");
            problems.push(("subject.clients", format!("are {clients}: these are not the controllers of {project}")));
        }
        return problems;
    }
    let instead = format!("Plumbline's own controllers were tested, not those of {project}");
    if starts(&words, OWN_PROJECT) {
        problems.push(("subject.what", format!("runs {OWN_PROJECT}: {instead}")));
    }
    if subject.digest.iter().chain(subject.files.values()).any(|digest| own.digests().contains(digest)) {
        problems.push(("subject.digest", format!("is that of a program of this installation: {instead}")));
    }
    if let Some(client) = subject.clients.iter().find(is_own_client) {
        let fork = "the clients of a fork need a name of their own";
        problems.push(("subject.clients", format!("names {client}: {instead}; {fork}")));
    }
    problems
}

/// Returns what no report shows about its subject; `None` if there is nothing.
#[must_use]
pub fn not_shown(implementation: &Implementation, subject: &TestedSubject) -> Option<String> {
    let project = &implementation.project;
    if subject.kind != command::KIND {
        return None;
    }
    let digest = subject.digest.as_deref().unwrap_or("no digest");
    let clients = match subject.clients.as_slice() {
        [] => "the names of its clients were not recorded".to_owned(),
        names => format!("its clients called themselves {}", names.join(", ")),
    };
    Some(format!(
        "not shown by a report, which has no signature: that {} ({digest}) is of {project}; {clients}",
        subject.name
    ))
}

/// Adds the names of clients to those of a report: product and version, in order.
pub fn add_clients(subject: &mut TestedSubject, clients: &BTreeSet<String>) {
    for client in clients {
        if let Err(place) = subject.clients.binary_search(client)
            && subject.clients.len() < MAX_CLIENTS
        {
            subject.clients.insert(place, client.clone());
        }
    }
}

/// Returns the words of a command line, and those of the scripts in them (`sh -c '…'`).
fn parts(words: &[String]) -> Vec<&str> {
    let parts = words.iter().flat_map(|word| word.split([' ', '\t', '\n', ';', '&', '|', '(', ')']));
    parts.filter(|part| !part.is_empty()).collect()
}

/// Returns true if a command line names this file, also as the value of a flag.
fn names(words: &[String], file: &str) -> bool {
    parts(words).iter().flat_map(|part| part.split('=')).any(|part| file_name(part) == Some(file))
}

/// Returns true if a command line may start this file: flags and their values are left out.
fn starts(words: &[String], file: &str) -> bool {
    let parts = parts(words);
    let is_value = |index: usize| {
        let flag = index.checked_sub(1).map_or("", |before| parts[before]);
        flag.len() > 2 && flag.starts_with("--") && !flag.contains('=')
    };
    let is_program =
        |(index, part): (usize, &&str)| !part.starts_with('-') && !is_value(index) && file_name(part) == Some(file);
    parts.iter().enumerate().any(is_program)
}

/// Returns the last part of a path, or the name of an image without its tag.
fn file_name(word: &str) -> Option<&str> {
    let name = Path::new(word).file_name()?.to_str()?;
    name.split(['@', ':']).next()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::conformance::report::tests::report;

    const DIGEST: &str = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

    /// Returns the fields with problems in a report of this command line, if the clients call themselves so.
    fn fields(what: &str, clients: &[&str], edit: impl FnOnce(&mut Implementation)) -> Vec<&'static str> {
        let mut report = report("podgc", Vec::new());
        report.implementation.program = None;
        edit(&mut report.implementation);
        what.clone_into(&mut report.subject.what);
        report.subject.clients = clients.iter().map(|client| (*client).to_owned()).collect();
        let found = problems(&report.implementation, &report.subject, &OwnPrograms::default());
        found.into_iter().map(|(field, _)| field).collect()
    }

    #[rstest]
    #[case::other("collector {flags}", &[])]
    #[case::by_name("plumbline-controllers {flags}", &["subject.what"])]
    #[case::by_path("/usr/bin/plumbline-controllers --leader-elect=false", &["subject.what"])]
    #[case::behind_another("timeout -k 5 60 ./plumbline-controllers", &["subject.what"])]
    #[case::in_a_script("sh -c 'exec plumbline-controllers; true'", &["subject.what"])]
    #[case::as_an_image("docker run ghcr.io/plumbline/plumbline-controllers:v0.2.0", &["subject.what"])]
    #[case::lease("collector --leader-elect-resource-name=plumbline-controllers", &[])]
    #[case::value_of_a_flag("collector --lease plumbline-controllers", &[])]
    #[case::longer_name("my-plumbline-controllers", &[])]
    fn our_own_program_is_known_by_its_name(#[case] what: &str, #[case] wrong: &[&str]) {
        assert_eq!(fields(what, &["collector/v1"], |_| ()), wrong);
        let own = |implementation: &mut Implementation| {
            OWN_PROJECT.clone_into(&mut implementation.project);
            env!("CARGO_PKG_REPOSITORY").clone_into(&mut implementation.url);
        };
        assert_eq!(fields(what, &["plumbline-controllers/0.2.0"], own), <[&str; 0]>::default(), "it may be");
    }

    /// A copy of the program under another name still has its digest and its user agents.
    #[test]
    fn our_own_program_is_known_by_digest_and_clients() {
        assert_eq!(fields("collector", &["plumbline-controllers/0.2.0"], |_| ()), ["subject.clients"]);
        assert_eq!(fields("collector", &["plumbline-controllers-2/1", "x"], |_| ()), <[&str; 0]>::default());
        let mut report = report("podgc", Vec::new());
        report.subject.digest = Some(DIGEST.to_owned());
        let own = OwnPrograms(BTreeSet::from([DIGEST.to_owned()]).into());
        let found = problems(&report.implementation, &report.subject, &own);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].1.contains("not those of collector"), "{found:?}");
        assert!(!OwnPrograms::at_hand().digests().is_empty());
    }

    #[test]
    fn a_foreign_program_is_not_ours() {
        let own = |implementation: &mut Implementation| {
            OWN_PROJECT.clone_into(&mut implementation.project);
            env!("CARGO_PKG_REPOSITORY").clone_into(&mut implementation.url);
        };
        assert_eq!(fields("kcm", &["kube-controller-manager/v1.36.0"], own), ["subject.clients"]);
        assert_eq!(fields("kcm", &[], own), <[&str; 0]>::default(), "earlier reports have no clients");
    }

    #[rstest]
    #[case::itself("./ttl.py {server}", true)]
    #[case::script("python3 x/ttl.py {server}", true)]
    #[case::value("java -jar=x/ttl.py", true)]
    #[case::other("python3 x/other.py", false)]
    #[case::part("python3 x/my-ttl.py", false)]
    fn the_described_program_runs(#[case] what: &str, #[case] runs: bool) {
        let found = fields(what, &[], |implementation| implementation.program = Some("ttl.py".to_owned()));
        assert_eq!(found.is_empty(), runs, "{found:?}");
    }

    #[test]
    fn clients_are_listed_once_and_in_order() {
        let mut subject = report("podgc", Vec::new()).subject;
        subject.clients.clear();
        let clients = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>();
        add_clients(&mut subject, &clients(&["b/1", "a/2"]));
        add_clients(&mut subject, &clients(&["b/1", "aa"]));
        assert_eq!(subject.clients, ["a/2", "aa", "b/1"]);
        let many: BTreeSet<String> = (0..100).map(|number| format!("c/{number}")).collect();
        add_clients(&mut subject, &many);
        assert_eq!(subject.clients.len(), MAX_CLIENTS);
    }
}
