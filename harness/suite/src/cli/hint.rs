//! The command line to suggest after a failure: `explain` with the flags of the run.

use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Args as _, Command};

use super::environment::CommandArgs;
use super::explain::ExplainArgs;

/// Flags of `explain` that select neither the subject nor its cluster nor fixtures.
const NOT_REPEATED: [&str; 6] = ["fixture_limit", "format", "jobs", "logs", "output", "retries"];

/// Returns those of the given flags that `explain` needs to run the same subject on the same fixtures, quoted for a
/// shell.
pub(super) fn explain_flags(given: &ArgMatches) -> String {
    flags(given, |_| true)
}

/// Returns those of [`explain_flags`] that are not about a command, for the subject of `compare` that is none.
pub(super) fn flags_about_no_command(given: &ArgMatches) -> String {
    let about = CommandArgs::augment_args(Command::new("about"));
    flags(given, |id| !about.get_arguments().any(|argument| argument.get_id() == id))
}

fn flags(given: &ArgMatches, is_wanted: impl Fn(&str) -> bool) -> String {
    let explain = ExplainArgs::augment_args(Command::new("explain"));
    let words: Vec<String> = explain
        .get_arguments()
        .filter(|argument| !NOT_REPEATED.contains(&argument.get_id().as_str()))
        .filter(|argument| is_wanted(argument.get_id().as_str()))
        .flat_map(|argument| words(argument, given))
        .collect();
    words.join(" ")
}

/// Returns a flag as it was given on the command line; nothing if it was not, or has no name.
fn words(argument: &Arg, given: &ArgMatches) -> Vec<String> {
    let id = argument.get_id().as_str();
    let (Some(name), Ok(true)) = (argument.get_long(), given.try_contains_id(id)) else { return Vec::new() };
    if given.value_source(id) != Some(ValueSource::CommandLine) {
        return Vec::new();
    }
    if matches!(argument.get_action(), ArgAction::SetTrue) {
        return vec![format!("--{name}")];
    }
    let values = given.get_raw(id).into_iter().flatten().map(|value| value.to_string_lossy().into_owned());
    let flag = |value: String| {
        let quoted = shell_words::quote(&value);
        if value.starts_with('-') { format!("--{name}={quoted}") } else { format!("--{name} {quoted}") }
    };
    match argument.get_value_delimiter() {
        Some(delimiter) => vec![flag(values.collect::<Vec<_>>().join(&delimiter.to_string()))],
        None => values.map(flag).collect(),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;
    use rstest::rstest;

    use super::*;
    use crate::cli::Cli;

    #[rstest]
    #[case::nothing("run ttl", "")]
    #[case::without_a_verb("--fixtures fx ttl", "--fixtures fx")]
    #[case::not_about_the_subject("run -j 4 --logs x --retries 2 --format json --fail-fast ttl/a --suite ttl", "")]
    #[case::command(
        "run --command 'python3 me.py {kubeconfig}' --subject-controllers ttl,podgc ttl",
        "--command 'python3 me.py {kubeconfig}' --subject-controllers ttl,podgc"
    )]
    #[case::repeated(
        "run --command me --command-env A=1 --command-env 'B=2 3' --agent ttl=^me/ --http",
        "--command me --command-env A=1 --command-env 'B=2 3' --agent 'ttl=^me/' --http"
    )]
    #[case::cluster(
        "run --cluster envtest --envtest-apiserver-arg=--v=4 --tolerance 2s --wall-clock",
        "--cluster envtest --envtest-apiserver-arg=--v=4 --tolerance 2s --wall-clock"
    )]
    #[case::urls(
        "conform --implementation me.yaml --command me --metrics-url 'https://127.0.0.1:{port}/metrics' --out x",
        "--command me --metrics-url 'https://127.0.0.1:{port}/metrics'"
    )]
    fn flags_of_a_run_for_explain(#[case] given: &str, #[case] expected: &str) {
        let parse = |line: &str| {
            let words = shell_words::split(line).expect("words");
            Cli::command().try_get_matches_from([vec!["plumbline".to_owned()], words].concat()).expect("good flags")
        };
        let flags = |matches: &ArgMatches| explain_flags(matches.subcommand().map_or(matches, |(_, of_verb)| of_verb));
        let matches = parse(given);
        assert_eq!(sorted(&flags(&matches)), sorted(expected));
        // `explain` accepts them, and they mean the same there.
        let again = parse(&format!("explain ttl/a {expected}"));
        assert_eq!(flags(&again), flags(&matches));
    }

    #[test]
    fn flags_of_a_comparison_for_explain() {
        let line = "compare in-process ./me --fixtures fx --http --companion ttl=other --metrics-url x --a-flags= ttl";
        let given =
            Cli::command().try_get_matches_from(["plumbline"].into_iter().chain(line.split(' '))).expect("good");
        let (_, given) = given.subcommand().expect("a verb");
        assert_eq!(sorted(&flags_about_no_command(given)), sorted("--fixtures fx --http"));
        assert_eq!(sorted(&explain_flags(given)), sorted("--fixtures fx --http --companion ttl=other --metrics-url x"));
    }

    fn sorted(line: &str) -> Vec<String> {
        let mut words = shell_words::split(line).expect("words");
        words.sort();
        words
    }
}
