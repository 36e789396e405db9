//! Advice about a program that does not start.

/// Returns what to do about a program that does not start for this reason.
pub(super) fn after_start(command: Option<&str>, why: &str) -> &'static str {
    let program = command.and_then(|command| shell_words::split(command).ok()?.into_iter().next());
    if program.is_some_and(|program| why.contains(&format!("unable to start {program}:"))) {
        "give --command the path of a program, or the name of one in PATH"
    } else if why.contains("ready") {
        "run its command line by hand; if it only needs more time, increase --ready-timeout"
    } else {
        "run its command line by hand"
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::missing("./nope -x", "ended by itself: unable to start ./nope: No such file", "the path of a program")]
    #[case::own_words("./me", "me exited with code 1: unable to start informers", "its command line by hand")]
    #[case::slow("./me", "me never became ready: after 60 s", "increase --ready-timeout")]
    fn the_advice_follows_from_the_reason(#[case] command: &str, #[case] why: &str, #[case] expected: &str) {
        let advice = after_start(Some(command), why);
        assert!(advice.contains(expected), "{advice}");
        assert_eq!(advice.contains("--ready-timeout"), why.contains("ready"), "{advice}");
    }
}
