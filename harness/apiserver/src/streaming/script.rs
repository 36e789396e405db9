//! PURE: the script of the annotation `plumbline.dev/exec`: what each command of a container writes.
//!
//! ```text
//! $ ls /data
//! a.txt
//! $ sh -c "exit 3"
//! ! no such thing
//! ? 3
//! $ /bin/sh
//! < echo hello
//! hello
//! < exit
//! $ cat
//! <<
//! $ *
//! some other command
//! ```
//!
//! `$ COMMAND` begins a command, whose words are compared without quotes; `*` is any text, and the first command
//! that fits is taken. Its lines go to stdout, with these exceptions:
//!
//! | line | means |
//! |---|---|
//! | `! TEXT` | a line of stderr |
//! | `? CODE` | the command ends with this exit code; 0 at its end |
//! | `< TEXT` | waits for a line of stdin like this; another line, or the end of stdin, ends the command |
//! | `<<` | copies stdin to stdout until it ends |
//! | `+5s LINE` | one of these lines, or of stdout, so long after the start of the command |
//! | `> TEXT` | a line of stdout that would otherwise mean something |
//! | `>- TEXT` | stdout without the end of the line |
//! | `>= BASE64` | bytes of stdout |
//!
//! Lines above the first command belong to `$ *` at the end. Blank lines before a command mean nothing.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;

use crate::container_log::delayed;
use crate::glob::glob;

/// The next action of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// Writes a line to stdout.
    Stdout(String),
    /// Writes bytes to stdout.
    Bytes(Vec<u8>),
    /// Writes a line to stderr.
    Stderr(String),
    /// Waits for a line of stdin that fits.
    Expect(String),
    /// Copies stdin to stdout.
    Copy,
    /// Ends with this code.
    Exit(i32),
}

/// A line of the script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ScriptStep {
    /// Earliest time after the start of the command.
    pub(super) after: Duration,
    pub(super) action: Action,
}

/// Returns the steps of a command; `None` if the script does not have it.
pub(super) fn steps_of(script: &str, words: &[String]) -> Option<Vec<ScriptStep>> {
    let wanted = normalized(&words.join(" "));
    let mut found: Option<Vec<&str>> = None;
    let mut is_taken = false;
    let mut others = Vec::new();
    let mut is_first = true;
    for line in script.lines() {
        if let Some(pattern) = line.strip_prefix('$').filter(|rest| rest.is_empty() || rest.starts_with(' ')) {
            is_taken = found.is_none() && glob(&normalized(pattern), &wanted);
            if is_taken {
                found = Some(Vec::new());
            }
            is_first = false;
        } else if is_first {
            others.push(line);
        } else if let (Some(lines), true) = (&mut found, is_taken) {
            lines.push(line);
        }
    }
    let has_others = others.iter().any(|line| !line.trim().is_empty());
    let mut lines = found.or(has_others.then_some(others))?;
    while lines.last().is_some_and(|line| line.trim().is_empty()) {
        lines.pop();
    }
    Some(lines.into_iter().map(step).collect())
}

fn step(line: &str) -> ScriptStep {
    let (after, line) = delayed(line).unwrap_or((Duration::ZERO, line));
    let after_mark = |mark: &str| {
        let rest = line.strip_prefix(mark)?;
        if rest.is_empty() { Some("") } else { rest.strip_prefix(' ') }
    };
    let stdout = || Action::Stdout(line.to_owned());
    let action = if line.trim_end() == "<<" {
        Action::Copy
    } else if let Some(text) = after_mark("!") {
        Action::Stderr(text.to_owned())
    } else if let Some(text) = after_mark("<") {
        Action::Expect(normalized(text))
    } else if let Some(text) = after_mark(">-") {
        Action::Bytes(text.as_bytes().to_vec())
    } else if let Some(bytes) = after_mark(">=").and_then(|text| BASE64.decode(text.trim()).ok()) {
        Action::Bytes(bytes)
    } else if let Some(text) = after_mark(">") {
        Action::Stdout(text.to_owned())
    } else if let Some(code) = after_mark("?") {
        code.trim().parse().map_or_else(|_| stdout(), Action::Exit)
    } else {
        stdout()
    };
    ScriptStep { after, action }
}

/// Returns true if a line of stdin is what the script waits for.
pub(super) fn is_expected(pattern: &str, line: &str) -> bool {
    glob(pattern, &normalized(line))
}

/// Returns a text without quotes, its words separated by one blank.
fn normalized(text: &str) -> String {
    text.replace(['\'', '"'], "").split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;

    use super::Action::{Bytes, Copy, Exit, Expect, Stderr, Stdout};
    use super::*;

    const SCRIPT: &str = "\n\n$ ls /\nbin\n\n\n$ sh -c 'exit 3'\n! oh\n+2s ? 3\n$ sh -c *\nfirst\n\nthird\n$ cat\n<<\n$ sh\n< echo  \"a\"\n> ! a\n$ sh -c never\nx";

    fn actions(script: &str, command: &str) -> Option<Vec<Action>> {
        let words: Vec<String> = command.split('|').map(str::to_owned).collect();
        Some(steps_of(script, &words)?.into_iter().map(|step| step.action).collect())
    }

    #[rstest]
    #[case::words("ls|/", Some(vec![Stdout("bin".to_owned())]))]
    #[case::one_word("ls /", Some(vec![Stdout("bin".to_owned())]))]
    #[case::quotes("sh|-c|exit 3", Some(vec![Stderr("oh".to_owned()), Exit(3)]))]
    #[case::any_text("sh|-c|never", Some(vec![Stdout("first".to_owned()), Stdout(String::new()), Stdout("third".to_owned())]))]
    #[case::stdin("cat", Some(vec![Copy]))]
    #[case::dialogue("sh", Some(vec![Expect("echo a".to_owned()), Stdout("! a".to_owned())]))]
    #[case::unknown("rm", None)]
    #[case::part("ls|/bin", None)]
    #[case::empty("", None)]
    fn commands(#[case] command: &str, #[case] expected: Option<Vec<Action>>) {
        assert_eq!(actions(SCRIPT, command), expected);
    }

    #[rstest]
    #[case::lines_alone("a\nb", Some(vec![Stdout("a".to_owned()), Stdout("b".to_owned())]))]
    #[case::last("a\n$ ls\nb", Some(vec![Stdout("b".to_owned())]))]
    #[case::empty("", None)]
    #[case::empty_command("$ ls", Some(vec![]))]
    #[case::no_code("$ ls\n? x\n?", Some(vec![Stdout("? x".to_owned()), Stdout("?".to_owned())]))]
    #[case::bytes("$ ls\n>- a b\n>= YQA=\n>= ?", Some(vec![Bytes(b"a b".to_vec()), Bytes(b"a\0".to_vec()), Stdout(">= ?".to_owned())]))]
    #[case::no_mark("$ ls\n!x\n$HOME\n<x", Some(vec![Stdout("!x".to_owned()), Stdout("$HOME".to_owned()), Stdout("<x".to_owned())]))]
    fn scripts(#[case] script: &str, #[case] expected: Option<Vec<Action>>) {
        assert_eq!(actions(script, "ls"), expected);
    }

    #[test]
    fn times() {
        let steps = steps_of("$ a\nx\n+2s ? 3\n+1m <<", &["a".to_owned()]).expect("a command");
        let times: Vec<u64> = steps.iter().map(|step| step.after.as_secs()).collect();
        assert_eq!(times, [0, 2, 60]);
    }

    proptest! {
        #[test]
        fn any_text_is_a_script(script in "[$!?<>+ *\"a-c\\n0-9s]{0,60}", command in "[a-c*$ ]{0,9}") {
            let _ = steps_of(&script, &[command]);
        }
    }
}
