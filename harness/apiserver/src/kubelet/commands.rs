//! Commands of containers whose run time and exit code are plain: `sleep`, `true`, `false`, `exit`, and the `pause` of
//! Kubernetes' images, alone or as a shell script of such commands. Pure. Kubernetes' own tests of jobs use them, see
//! `test/e2e/framework/job/fixtures.go`.

use std::time::Duration;

use crate::json::Value;

/// Longest script that is read, in bytes.
const SCRIPT_MAX: usize = 1024;

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
        [shell, "-c", script] if matches!(name(shell), "sh" | "bash") && script.len() <= SCRIPT_MAX => {
            exit_of_script(script)
        }
        [] if is_pause(container["image"].as_str().unwrap_or_default()) => Some(Exit { after: None, code: 0 }),
        line => exit_of_command(line),
    }
}

/// Returns true for the image `pause` of any registry and version, whose own command never ends.
fn is_pause(image: &str) -> bool {
    name(image).split([':', '@']).next() == Some("pause")
}

/// Returns the end of a sequence of plain commands.
fn exit_of_script(script: &str) -> Option<Exit> {
    let mut end = Exit { after: Some(Duration::ZERO), code: 0 };
    for part in script.replace("&&", "\0").split(['\0', ';', '\n']) {
        let words: Vec<&str> = part.split_whitespace().collect();
        if words.is_empty() {
            continue;
        }
        let next = exit_of_command(&words)?;
        end.code = next.code;
        match (end.after, next.after) {
            (Some(before), Some(after)) => end.after = Some(before.saturating_add(after)),
            _ => return Some(Exit { after: None, code: 0 }),
        }
        if words[0] == "exit" {
            break;
        }
    }
    Some(end)
}

fn exit_of_command(words: &[&str]) -> Option<Exit> {
    let ends = |code| Some(Exit { after: Some(Duration::ZERO), code });
    match words {
        ["pause"] => Some(Exit { after: None, code: 0 }),
        ["exit"] => ends(0),
        ["exit", code] => ends(code.parse::<u8>().ok()?.into()),
        [command] if name(command) == "true" => ends(0),
        [command] if name(command) == "false" => ends(1),
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
    #[case::unknown(json!({"command": ["sh", "-c", "./run.sh; exit 1"]}), None)]
    #[case::code(json!({"command": ["sh", "-c", "exit 300"]}), None)]
    #[case::unit(json!({"command": ["sleep", "é"]}), None)]
    #[case::none(json!({"image": "i"}), None)]
    fn commands_have_an_end(#[case] container: Value, #[case] expected: Option<(Option<u64>, i64)>) {
        let end = exit_of(&container).map(|end| (end.after.map(|after| after.as_secs()), end.code));
        assert_eq!(end, expected);
    }
}
