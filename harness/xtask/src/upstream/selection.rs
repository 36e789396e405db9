//! The choice of specs, and the known differences: two files of patterns with reasons, `specs.yaml` and
//! `differences.yaml` beside this one.

use std::time::Duration;

use plumbline_suite::duration::{DurationError, parse_duration};
use regex::Regex;
use serde::Deserialize;

use super::error::UpstreamError;
use super::spec::Spec;

const SPECS: &str = include_str!("specs.yaml");
const DIFFERENCES: &str = include_str!("differences.yaml");

/// A choice of specs.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rules {
    run: Vec<RunRule>,
    leave: Vec<Regex>,
    focus: Option<Regex>,
}

#[derive(Clone, Debug)]
struct RunRule {
    specs: Regex,
    limit: Option<Duration>,
}

/// A selected spec.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SelectedSpec {
    /// The spec.
    pub(crate) spec: Spec,
    /// Its time limit.
    pub(crate) limit: Duration,
}

/// The file `specs.yaml`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RulesFile {
    run: Vec<RunEntry>,
    leave: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RunEntry {
    specs: String,
    limit: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    specs: String,
    reason: String,
}

/// A problem of an entry in a file of rules.
#[derive(Debug, thiserror::Error)]
enum EntryError {
    #[error(transparent)]
    Pattern(#[from] regex::Error),
    #[error(transparent)]
    Limit(#[from] DurationError),
    #[error("{0}: no reason")]
    NoReason(String),
}

impl Rules {
    /// Returns the rules of the program.
    ///
    /// # Errors
    ///
    /// Returns an error if a pattern or limit of the file is invalid.
    pub(crate) fn carried() -> Result<Self, UpstreamError> {
        Self::parse(SPECS)
    }

    fn parse(text: &str) -> Result<Self, UpstreamError> {
        let invalid = |why: String| UpstreamError::Rules { file: "specs.yaml".to_owned(), why };
        let file: RulesFile = serde_saphyr::from_str(text).map_err(|error| invalid(error.to_string()))?;
        let run = file.run.iter().map(|entry| {
            let limit = entry.limit.as_deref().map(parse_duration).transpose()?;
            Ok(RunRule { specs: Regex::new(&entry.specs)?, limit })
        });
        let leave = file.leave.iter().map(|entry| {
            if entry.reason.is_empty() {
                return Err(EntryError::NoReason(entry.specs.clone()));
            }
            Ok(Regex::new(&entry.specs)?)
        });
        let wrong = |error: EntryError| invalid(error.to_string());
        Ok(Self {
            run: run.collect::<Result<_, _>>().map_err(wrong)?,
            leave: leave.collect::<Result<_, _>>().map_err(wrong)?,
            focus: None,
        })
    }

    /// Narrows the choice to specs with texts that match.
    #[must_use]
    pub(crate) fn focused(self, focus: Option<Regex>) -> Self {
        Self { focus, ..self }
    }

    /// Selects specs: those that a `run` rule matches and no `leave` rule.
    pub(super) fn select(&self, specs: Vec<Spec>, limit: Duration) -> Vec<SelectedSpec> {
        let wanted = |spec: &Spec| {
            let text = &spec.text;
            !self.leave.iter().any(|pattern| pattern.is_match(text))
                && self.focus.as_ref().is_none_or(|pattern| pattern.is_match(text))
        };
        let select = |spec: Spec| {
            // The longest limit of the rules that match.
            let rules: Vec<&RunRule> = self.run.iter().filter(|rule| rule.specs.is_match(&spec.text)).collect();
            let own = rules.iter().filter_map(|rule| rule.limit).max();
            (!rules.is_empty()).then(|| SelectedSpec { spec, limit: own.unwrap_or(limit).max(limit) })
        };
        specs.into_iter().filter(wanted).filter_map(select).collect()
    }
}

/// A known difference between `plumbline serve` and a real cluster.
#[derive(Clone, Debug)]
pub(crate) struct Difference {
    pattern: Regex,
    /// The reason.
    pub(crate) reason: String,
}

impl Difference {
    /// Returns the known differences of the program, for a server with the real kube-controller-manager or with our
    /// own loops.
    ///
    /// # Errors
    ///
    /// Returns an error if the file is invalid.
    pub(crate) fn carried(real_controllers: bool) -> Result<Vec<Self>, UpstreamError> {
        Self::parse(DIFFERENCES, real_controllers)
    }

    fn parse(text: &str, real_controllers: bool) -> Result<Vec<Self>, UpstreamError> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct DifferencesFile {
            server: Vec<Entry>,
            loops: Vec<Entry>,
        }
        let invalid = |why: String| UpstreamError::Rules { file: "differences.yaml".to_owned(), why };
        let file: DifferencesFile = serde_saphyr::from_str(text).map_err(|error| invalid(error.to_string()))?;
        let loops = file.loops.into_iter().filter(|_| !real_controllers);
        let entries = file.server.into_iter().chain(loops);
        let known = entries.map(|Entry { specs, reason }| Ok(Self { pattern: Regex::new(&specs)?, reason }));
        known.collect::<Result<_, regex::Error>>().map_err(|error| invalid(error.to_string()))
    }

    /// Returns true if it is about the spec.
    #[must_use]
    pub(crate) fn covers(&self, spec: &Spec) -> bool {
        self.pattern.is_match(&spec.text)
    }

    /// The specs that it is about.
    #[must_use]
    pub(crate) fn specs(&self) -> &str {
        self.pattern.as_str()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    fn spec(text: &str) -> Spec {
        Spec { text: text.to_owned(), suite: "apps".to_owned(), conformance: false, serial: false }
    }

    #[test]
    fn specs_match_a_rule_and_none_that_leaves_them_out() {
        let text = "run:\n- {specs: 'sig-apps'}\n- {specs: slow, limit: 5m}\nleave:\n- {specs: exec, reason: needs a container}\n";
        let rules = Rules::parse(text).expect("valid rules");
        let specs = ["[sig-apps] a", "[sig-apps] slow", "[sig-apps] exec", "[sig-node] b"].map(spec).to_vec();
        let limit = Duration::from_mins(1);
        let chosen = |rules: &Rules| -> Vec<(String, u64)> {
            let selected = rules.select(specs.clone(), limit);
            selected.into_iter().map(|selected| (selected.spec.text, selected.limit.as_secs())).collect()
        };
        assert_eq!(chosen(&rules), [("[sig-apps] a".to_owned(), 60), ("[sig-apps] slow".to_owned(), 300)]);
        let focused = rules.focused(Some(Regex::new("slow").expect("a pattern")));
        assert_eq!(chosen(&focused), [("[sig-apps] slow".to_owned(), 300)]);
    }

    #[rstest]
    #[case::pattern("run:\n- {specs: '('}\nleave: []\n")]
    #[case::limit("run:\n- {specs: a, limit: soon}\nleave: []\n")]
    #[case::reason("run: []\nleave:\n- {specs: a, reason: ''}\n")]
    #[case::field("run:\n- {spec: a}\nleave: []\n")]
    fn invalid_rules_are_refused(#[case] text: &str) {
        let error = Rules::parse(text).expect_err("invalid");
        assert!(error.to_string().starts_with("specs.yaml: "), "{error}");
    }

    #[test]
    fn the_carried_files_are_valid() {
        Rules::carried().expect("valid rules");
        let all = Difference::carried(false);
        let server = Difference::carried(true);
        assert!(all.expect("valid").len() >= server.expect("valid").len());
    }

    #[test]
    fn differences_of_the_loops_do_not_excuse_the_real_controllers() {
        let text = "server:\n- {specs: a, reason: r}\nloops:\n- {specs: b, reason: s}\n";
        let known = |real| -> Vec<String> {
            let known = Difference::parse(text, real).expect("valid");
            known.iter().map(|known| known.specs().to_owned()).collect()
        };
        assert_eq!((known(true), known(false)), (vec!["a".to_owned()], vec!["a".to_owned(), "b".to_owned()]));
        assert!(Difference::parse(text, true).expect("valid")[0].covers(&spec("xax")));
    }
}
