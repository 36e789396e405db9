//! Merges flags, environment variables and the configuration file: flags win over variables, variables over the file.
//!
//! A setting of the file or the environment becomes the flag of the same name and is placed before the flags of the
//! command line, so that all three are parsed and validated by the same rules. Errors name the origin of the value.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::parser::ValueSource;
use clap::{ArgMatches, Command, CommandFactory as _, FromArgMatches as _};
use serde_json::Value;

use super::Args;

/// Prefix of the environment variables: `--kube-api-qps` is `PLUMBLINE_KUBE_API_QPS`.
pub const ENV_PREFIX: &str = "PLUMBLINE_";

/// Flags that can only be set on the command line.
const COMMAND_LINE_ONLY: [&str; 4] = ["config", "completions", "help", "version"];

/// Errors of reading the settings.
#[derive(Debug, thiserror::Error)]
pub enum LayerError {
    /// clap's error; also used for `--help` and `--version`.
    #[error(transparent)]
    Flags(#[from] clap::Error),
    /// The file of `--config` cannot be read.
    #[error("unable to read configuration file {}: {why}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The cause.
        why: String,
    },
    /// The file is not a valid configuration.
    #[error("configuration file {}: {why}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The problem, with the name of the setting.
        why: String,
    },
    /// A value is invalid for its flag.
    #[error("{origin}: {why}")]
    Value {
        /// The variable, or file and setting.
        origin: String,
        /// clap's message.
        why: String,
    },
}

/// A setting of the environment or the configuration file.
struct Setting {
    name: String,
    values: Vec<String>,
    origin: String,
}

/// Reads flags, environment and the configuration file they name.
///
/// # Errors
/// [`LayerError`]; also for `--help` and `--version`, whose text is the error.
pub fn parse(
    argv: impl IntoIterator<Item = OsString>,
    env: impl Fn(&str) -> Option<String>,
    read: impl Fn(&Path) -> std::io::Result<String>,
) -> Result<Args, LayerError> {
    let mut argv = argv.into_iter().map(with_dashes);
    let program = argv.next().unwrap_or_default();
    let flags: Vec<OsString> = argv.collect();
    let line = |settings: &[Setting]| {
        let settings = settings.iter().flat_map(Setting::flags).map(OsString::from);
        [program.clone()].into_iter().chain(settings).chain(flags.clone()).collect::<Vec<_>>()
    };
    let command = Args::command();
    let given = command.clone().try_get_matches_from(line(&[]))?;
    let names: Vec<String> = command.get_arguments().filter_map(|arg| arg.get_long()).map(str::to_owned).collect();
    let mut settings = from_env(&names, &env);
    let named = given.get_one::<PathBuf>("config").cloned();
    if let Some(path) = named.or_else(|| env(&variable("config")).map(PathBuf::from)) {
        let text = read(&path).map_err(|error| LayerError::Read { path: path.clone(), why: error.to_string() })?;
        let file = from_file(&path, &text, &names)?;
        let new = |setting: &Setting| settings.iter().all(|other| other.name != setting.name);
        let file: Vec<Setting> = file.into_iter().filter(new).collect();
        settings.extend(file);
    }
    settings.retain(|setting| !on_command_line(&command, &given, &setting.name));
    for setting in &settings {
        setting.check(&command)?;
    }
    let matches = command.try_get_matches_from(line(&settings))?;
    Ok(Args::from_arg_matches(&matches)?)
}

fn on_command_line(command: &Command, given: &ArgMatches, name: &str) -> bool {
    let id = command.get_arguments().find(|arg| arg.get_long() == Some(name)).map(|arg| arg.get_id().as_str());
    id.is_some_and(|id| given.value_source(id) == Some(ValueSource::CommandLine))
}

/// Replaces underscores in flag names by dashes, as upstream does: `--leader_elect` is `--leader-elect`.
fn with_dashes(argument: OsString) -> OsString {
    let Some((name, value)) = argument.to_str().and_then(|text| text.strip_prefix("--")).map(|flag| {
        let end = flag.find('=').unwrap_or(flag.len());
        flag.split_at(end)
    }) else {
        return argument;
    };
    format!("--{}{value}", name.replace('_', "-")).into()
}

fn variable(name: &str) -> String {
    format!("{ENV_PREFIX}{}", name.replace('-', "_").to_uppercase())
}

fn from_env(names: &[String], env: impl Fn(&str) -> Option<String>) -> Vec<Setting> {
    let names = names.iter().filter(|name| !COMMAND_LINE_ONLY.contains(&name.as_str()));
    let settings = names.filter_map(|name| {
        let variable = variable(name);
        let value = env(&variable)?;
        Some(Setting { name: name.clone(), values: vec![value], origin: format!("environment variable {variable}") })
    });
    settings.collect()
}

fn from_file(path: &Path, text: &str, names: &[String]) -> Result<Vec<Setting>, LayerError> {
    let wrong = |why: String| LayerError::File { path: path.to_owned(), why };
    let value: Value = serde_saphyr::from_str(text).map_err(|error| wrong(error.without_snippet().to_string()))?;
    let entries = match value {
        Value::Object(entries) => entries,
        Value::Null => return Ok(Vec::new()),
        _ => return Err(wrong("expected settings such as `kube-api-qps: 50`, one per line".to_owned())),
    };
    let mut settings = Vec::new();
    for (name, value) in entries {
        if !names.contains(&name) || COMMAND_LINE_ONLY.contains(&name.as_str()) {
            return Err(wrong(format!("unknown setting {name:?}; settings are named like the flags, see --help")));
        }
        let values = match value {
            Value::Array(values) => values.iter().map(scalar).collect::<Option<Vec<String>>>(),
            value => scalar(&value).map(|value| vec![value]),
        };
        let values = values.ok_or_else(|| wrong(format!("{name}: expected a value or a list of values")))?;
        let origin = format!("configuration file {}, {name}", path.display());
        settings.push(Setting { name, values, origin });
    }
    Ok(settings)
}

fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(flag) => Some(flag.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

impl Setting {
    fn flags(&self) -> Vec<String> {
        self.values.iter().map(|value| format!("--{}={value}", self.name)).collect()
    }

    /// Checks that the flag accepts the values.
    fn check(&self, command: &Command) -> Result<(), LayerError> {
        let line = [command.get_name().to_owned()].into_iter().chain(self.flags());
        let Err(error) = command.clone().try_get_matches_from(line) else { return Ok(()) };
        let text = error.to_string();
        let first = text.split("\n\n").next().unwrap_or_default().trim_start_matches("error: ").trim();
        Err(LayerError::Value { origin: self.origin.clone(), why: first.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use rstest::rstest;

    use super::*;

    fn parse_with(flags: &[&str], env: &[(&str, &str)], file: &str) -> Result<Args, LayerError> {
        let env: BTreeMap<String, String> = env.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        let argv = ["plumbline-controllers"].iter().chain(flags).map(OsString::from);
        let read = |path: &Path| match path.to_str() {
            Some("/c.yaml") => Ok(file.to_owned()),
            _ => Err(std::io::Error::from(std::io::ErrorKind::NotFound)),
        };
        parse(argv, |name| env.get(name).cloned(), read)
    }

    #[rstest]
    #[case::default(&[], &[], "", 20.0)]
    #[case::file(&["--config=/c.yaml"], &[], "kube-api-qps: 50", 50.0)]
    #[case::file_named_by_the_environment(&[], &[("PLUMBLINE_CONFIG", "/c.yaml")], "kube-api-qps: 50", 50.0)]
    #[case::environment_over_file(&["--config=/c.yaml"], &[("PLUMBLINE_KUBE_API_QPS", "7")], "kube-api-qps: 50", 7.0)]
    #[case::flag_over_both(
        &["--config=/c.yaml", "--kube-api-qps=9"], &[("PLUMBLINE_KUBE_API_QPS", "7")], "kube-api-qps: 50", 9.0
    )]
    #[case::last_flag_wins(&["--kube-api-qps=9", "--kube-api-qps=10"], &[], "", 10.0)]
    #[case::underscores(&["--kube_api_qps=9"], &[], "", 9.0)]
    #[case::negative(&["--config=/c.yaml"], &[], "kube-api-qps: -1", -1.0)]
    fn the_nearest_wins(#[case] flags: &[&str], #[case] env: &[(&str, &str)], #[case] file: &str, #[case] qps: f64) {
        assert_eq!(parse_with(flags, env, file).unwrap().kube_api_qps.to_bits(), qps.to_bits());
    }

    #[rstest]
    #[case::file(&["--config=/c.yaml"], "controllers: ['*', -ttl]", "* -ttl")]
    #[case::one_string(&["--config=/c.yaml"], "controllers: '*,-ttl'", "* -ttl")]
    #[case::flags_replace_the_file(&["--config=/c.yaml", "--controllers=podgc"], "controllers: ['*', -ttl]", "podgc")]
    #[case::flags_add_up_as_upstream(&["--controllers=*", "--controllers=-ttl"], "", "* -ttl")]
    fn lists(#[case] flags: &[&str], #[case] file: &str, #[case] expected: &str) {
        assert_eq!(parse_with(flags, &[], file).unwrap().controllers.join(" "), expected);
    }

    #[rstest]
    #[case::no_file(&["--config=/x.yaml"], &[], "", "unable to read configuration file /x.yaml: entity not found")]
    #[case::unknown(
        &["--config=/c.yaml"], &[], "kube-api-qpz: 1",
        "configuration file /c.yaml: unknown setting \"kube-api-qpz\"; settings are named like the flags, see --help"
    )]
    #[case::not_in_a_file(
        &["--config=/c.yaml"], &[], "config: /d.yaml",
        "configuration file /c.yaml: unknown setting \"config\"; settings are named like the flags, see --help"
    )]
    #[case::no_mapping(
        &["--config=/c.yaml"], &[], "- a", "configuration file /c.yaml: expected settings such as `kube-api-qps: \
            50`, one per line"
    )]
    #[case::nested(
        &["--config=/c.yaml"], &[], "kube-api-qps: {a: 1}",
        "configuration file /c.yaml: kube-api-qps: expected a value or a list of values"
    )]
    #[case::value_of_file(
        &["--config=/c.yaml"], &[], "secure-port: 99999",
        "configuration file /c.yaml, secure-port: invalid value '99999' for '--secure-port <PORT>': 99999 is not in \
            0..=65535"
    )]
    #[case::value_of_environment(
        &[], &[("PLUMBLINE_LEADER_ELECT_RETRY_PERIOD", "2")], "",
        "environment variable PLUMBLINE_LEADER_ELECT_RETRY_PERIOD: invalid value '2' for \
         '--leader-elect-retry-period <DURATION>': missing unit in duration \"2\": write 2s for seconds"
    )]
    fn refused(#[case] flags: &[&str], #[case] env: &[(&str, &str)], #[case] file: &str, #[case] message: &str) {
        assert_eq!(parse_with(flags, env, file).unwrap_err().to_string(), message);
    }

    #[test]
    fn duplicate_settings_are_refused() {
        let error = parse_with(&["--config=/c.yaml"], &[], "v: 1\nv: 2").unwrap_err().to_string();
        assert!(error.contains("duplicate"), "{error}");
    }
}
