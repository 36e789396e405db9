//! Verbs that a misspelt word is near to.

use clap::{Command, CommandFactory as _};
use plumbline::fixture::error::nearest;

use super::command_line::Cli;
use super::error::CliError;

/// Returns the error for a first word that is a verb but for one letter: it would select fixtures whose ids have it.
pub(super) fn misspelt_verb(word: &str) -> Option<CliError> {
    let program = Cli::command();
    let verb = nearest(word, program.get_subcommands().map(Command::get_name))?;
    (strsim::osa_distance(word, verb) == 1).then(|| {
        CliError::Usage(format!(
            "`{word}` is not a verb (did you mean `plumbline {verb}`?); for the fixtures with it in their ids: \
             plumbline run {word}"
        ))
    })
}

/// Returns the error for a first word that selects no fixture and is near a verb; otherwise `error` itself.
pub(super) fn verb_instead(error: CliError, first_word: Option<&str>) -> CliError {
    match error {
        CliError::IdleFilter { first: Some(word), message } if Some(word.as_str()) == first_word => {
            let program = Cli::command();
            let verbs = program.get_subcommands().map(Command::get_name);
            match nearest(&word, verbs) {
                Some(verb) => CliError::Usage(format!(
                    "`{word}` is not a verb and selects no fixture (did you mean `plumbline {verb}`?); see `plumbline --help`"
                )),
                None => CliError::IdleFilter { first: Some(word), message },
            }
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::transposed(
        "explian",
        Some("explian"),
        "`explian` is not a verb and selects no fixture (did you mean `plumbline explain`?)"
    )]
    #[case::short("lst", Some("lst"), "did you mean `plumbline list`?")]
    #[case::later_word("explian", Some("ttl"), "selects none")]
    #[case::no_verb("nonsense", Some("nonsense"), "selects none")]
    fn misspelt_verbs(#[case] word: &str, #[case] first_word: Option<&str>, #[case] expected: &str) {
        let error = CliError::IdleFilter { first: Some(word.to_owned()), message: "selects none".to_owned() };
        let (CliError::Usage(described) | CliError::IdleFilter { message: described, .. }) =
            verb_instead(error, first_word)
        else {
            panic!("another kind of error");
        };
        assert!(described.contains(expected), "{described}");
    }
}
