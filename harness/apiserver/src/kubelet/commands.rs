//! Commands of containers whose run time and exit code are plain: `sleep`, `true`, `false`, `exit`, those that only
//! write something, such as `echo`, and the `pause` of Kubernetes' images, alone or as a shell script of such commands.
//! Pure. Kubernetes' own tests of jobs use them, see `test/e2e/framework/job/fixtures.go`.

use std::time::Duration;

use crate::json::Value;

/// Longest script that is read, in bytes.
const SCRIPT_MAX: usize = 1024;

/// Commands that write something and end at once.
const WRITERS: [&str; 8] = ["echo", "printf", "date", "env", "hostname", "id", "pwd", "uname"];

/// The end of a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Exit {
    /// Time from the start until the end; `None` if it runs forever.
    pub(super) after: Option<Duration>,
    /// Exit code.
    pub(super) code: i64,
}

/// Returns the end of a container with a plain command; `None` for other commands.
pub(super) fn exit_of(container: &Value) -> Option<Exit> {
    let words = |field: &str| container[field].as_array().into_iter().flatten().filter_map(Value::as_str);
    let line: Vec<&str> = words("command").chain(words("args")).collect();
    match line.as_slice() {
        [shell, "-c", script] if is_shell(shell) && script.len() <= SCRIPT_MAX => exit_of_script(script),
        [] if is_pause(container["image"].as_str().unwrap_or_default()) => Some(Exit { after: None, code: 0 }),
        line => exit_of_command(line),
    }
}

fn is_shell(command: &str) -> bool {
    matches!(name(command), "sh" | "bash")
}

/// Returns true for the image `pause` of any registry and version, whose own command never ends.
fn is_pause(image: &str) -> bool {
    name(image).split([':', '@']).next() == Some("pause")
}

/// The end of the command before, after which a command of a script runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RunsAfter {
    Any,
    Success,
    Failure,
}

/// Returns the end of a sequence of plain commands. One that is skipped may be any.
fn exit_of_script(script: &str) -> Option<Exit> {
    let mut total = Duration::ZERO;
    let mut code = 0;
    for (after, words) in commands(script)? {
        if (after == RunsAfter::Success && code != 0) || (after == RunsAfter::Failure && code == 0) {
            continue;
        }
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        if words == ["exit"] {
            break;
        }
        let end = exit_of_command(&words)?;
        let Some(ran) = end.after else { return Some(end) };
        total = total.saturating_add(ran);
        code = end.code;
        if words[0] == "exit" {
            break;
        }
    }
    Some(Exit { after: Some(total), code })
}

/// Splits a script into commands and their words. `None` if it has more than sequences and quotes: pipes, other
/// commands inside of one, background jobs, control flow.
fn commands(script: &str) -> Option<Vec<(RunsAfter, Vec<String>)>> {
    let mut all = Vec::new();
    let mut after = RunsAfter::Any;
    let mut words: Vec<String> = Vec::new();
    let mut word: Option<String> = None;
    let mut letters = script.chars().peekable();
    while let Some(letter) = letters.next() {
        let next = match letter {
            ';' | '\n' => RunsAfter::Any,
            '&' if letters.next_if_eq(&'&').is_some() => RunsAfter::Success,
            '|' if letters.next_if_eq(&'|').is_some() => RunsAfter::Failure,
            '&' | '|' | '`' | '(' | '{' => return None,
            '\'' | '"' => {
                let word = word.get_or_insert_default();
                loop {
                    match letters.next()? {
                        end if end == letter => break,
                        '`' if letter == '"' => return None,
                        '$' if letter == '"' && letters.peek() == Some(&'(') => return None,
                        '\\' if letter == '"' => word.push(letters.next()?),
                        other => word.push(other),
                    }
                }
                continue;
            }
            '\\' => {
                word.get_or_insert_default().push(letters.next()?);
                continue;
            }
            '>' => {
                let word = word.get_or_insert_default();
                word.push('>');
                word.extend(letters.next_if_eq(&'&'));
                continue;
            }
            blank if blank.is_whitespace() => {
                words.extend(word.take());
                continue;
            }
            other => {
                word.get_or_insert_default().push(other);
                continue;
            }
        };
        words.extend(word.take());
        if !words.is_empty() {
            all.push((after, std::mem::take(&mut words)));
        }
        after = next;
    }
    words.extend(word);
    if !words.is_empty() {
        all.push((after, words));
    }
    Some(all)
}

fn exit_of_command(words: &[&str]) -> Option<Exit> {
    let ends = |code| Some(Exit { after: Some(Duration::ZERO), code });
    match words {
        ["pause"] => Some(Exit { after: None, code: 0 }),
        ["exit"] => ends(0),
        ["exit", code] => ends(code.parse::<u8>().ok()?.into()),
        [command, ..] if matches!(name(command), ":" | "true") => ends(0),
        [command, ..] if name(command) == "false" => ends(1),
        [command, ..] if WRITERS.contains(&name(command)) => ends(0),
        [command, "infinity" | "inf"] if name(command) == "sleep" => Some(Exit { after: None, code: 0 }),
        [command, time] if name(command) == "sleep" => Some(Exit { after: Some(sleep_time(time)?), code: 0 }),
        _ => None,
    }
}

fn sleep_time(text: &str) -> Option<Duration> {
    let (number, unit) = match text.char_indices().next_back()? {
        (at, 'm') => (&text[..at], 60),
        (at, 'h') => (&text[..at], 3600),
        (at, 'd') => (&text[..at], 86400),
        (at, 's') => (&text[..at], 1),
        _ => (text, 1),
    };
    Some(Duration::from_secs(number.parse::<u64>().ok()?.saturating_mul(unit)))
}

fn name(path: &str) -> &str {
    path.rsplit_once('/').map_or(path, |(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::json;
    use rstest::rstest;

    #[rstest]
    #[case(json!({"args": ["pause"]}), Some((None, 0)))]
    #[case(json!({"image": "registry.k8s.io/pause:3.10.2"}), Some((None, 0)))]
    #[case(json!({"image": "registry.k8s.io/pause@sha256:0a", "command": ["true"]}), Some((Some(0), 0)))]
    #[case(json!({"image": "registry.k8s.io/pauses"}), None)]
    #[case(json!({"command": ["sleep", "300"]}), Some((Some(300), 0)))]
    #[case(json!({"command": ["/bin/sleep"], "args": ["2m"]}), Some((Some(120), 0)))]
    #[case(json!({"command": ["sleep", "infinity"]}), Some((None, 0)))]
    #[case(json!({"command": ["/bin/false"]}), Some((Some(0), 1)))]
    #[case(json!({"command": ["/bin/sh", "-c", "exit 1"]}), Some((Some(0), 1)))]
    #[case(json!({"command": ["/bin/sh", "-c", "sleep 3; exit 2; sleep 9"]}), Some((Some(3), 2)))]
    #[case(json!({"command": ["sh", "-c", "sleep 1 && true\n"]}), Some((Some(1), 0)))]
    #[case(json!({"command": ["sh", "-c", "false && sleep 10"]}), Some((Some(0), 1)))]
    #[case(json!({"command": ["sh", "-c", "false || sleep 10"]}), Some((Some(10), 0)))]
    #[case(json!({"command": ["sh", "-c", "false; exit"]}), Some((Some(0), 1)))]
    #[case(json!({"command": ["bash"], "args": ["-c", "echo \"Hello world!\" && sleep 5 && exit 42"]}), Some((Some(5), 42)))]
    #[case(json!({"command": ["sh", "-c", "echo 'a; b && c' > /dev/termination-log; exit 3"]}), Some((Some(0), 3)))]
    #[case(json!({"command": ["echo", "hi"]}), Some((Some(0), 0)))]
    #[case(json!({"command": ["sh", "-c", "echo failed >&2; exit 1"]}), Some((Some(0), 1)))]
    #[case::skipped(json!({"command": ["sh", "-c", "true || ./run.sh"]}), Some((Some(0), 0)))]
    #[case::unknown(json!({"command": ["sh", "-c", "./run.sh; exit 1"]}), None)]
    #[case::pipe(json!({"command": ["sh", "-c", "echo a | ./run.sh"]}), None)]
    #[case::inner(json!({"command": ["sh", "-c", "echo \"$(./run.sh)\""]}), None)]
    #[case::loops(json!({"command": ["sh", "-c", "while true; do sleep 1; done"]}), None)]
    #[case::open_quote(json!({"command": ["sh", "-c", "echo 'a"]}), None)]
    #[case::background(json!({"command": ["sh", "-c", "sleep 9 & exit 1"]}), None)]
    #[case::code(json!({"command": ["sh", "-c", "exit 300"]}), None)]
    #[case::unit(json!({"command": ["sleep", "é"]}), None)]
    #[case::none(json!({"image": "i"}), None)]
    fn commands_have_an_end(#[case] container: Value, #[case] expected: Option<(Option<u64>, i64)>) {
        let end = exit_of(&container).map(|end| (end.after.map(|after| after.as_secs()), end.code));
        assert_eq!(end, expected);
    }
}
