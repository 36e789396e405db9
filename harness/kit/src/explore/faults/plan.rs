//! Fault plans: a fixture with faults at points of its run, and the token that repeats it. Pure.

use std::fmt;
use std::str::FromStr;

use super::kinds::{Disturbance, FaultTrait};
use super::point::FaultPoint;

/// A fixture and the faults to inject into its run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FaultPlan {
    /// The fixture's id.
    pub fixture: String,
    /// The faults, in order of their points.
    pub faults: Vec<(Disturbance, FaultPoint)>,
}

impl FaultPlan {
    /// Creates a plan without faults.
    #[must_use]
    pub fn calm(fixture: &str) -> Self {
        Self { fixture: fixture.to_owned(), faults: Vec::new() }
    }

    /// Returns true if one of the faults has the property.
    #[must_use]
    pub fn has(&self, property: FaultTrait) -> bool {
        self.faults.iter().any(|(disturbance, _)| disturbance.is(property))
    }

    /// Returns the plan's token.
    #[must_use]
    pub fn token(&self) -> Token {
        let faults = self.faults.iter().map(|(disturbance, point)| (*disturbance, point.to_string())).collect();
        Token { fixture: self.fixture.clone(), faults }
    }
}

impl fmt::Display for FaultPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.token().fmt(f)
    }
}

/// A plan as one line of text: `podgc/orphaned-quarantine-40s:crash-after@PATCH:pods/a/status#1`. Several faults are
/// separated by commas; a run without faults is `FIXTURE:none`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token {
    /// The fixture's id.
    pub fixture: String,
    /// Each fault with the text of its point.
    pub faults: Vec<(Disturbance, String)>,
}

impl Token {
    /// Returns the faults without the fixture: `crash-after@PATCH:pods/a/status#1`.
    #[must_use]
    pub fn faults_text(&self) -> String {
        if self.faults.is_empty() {
            return NONE.to_owned();
        }
        let faults: Vec<String> = self.faults.iter().map(|(fault, point)| format!("{fault}@{point}")).collect();
        faults.join(",")
    }
}

/// The text of a plan without faults.
const NONE: &str = "none";

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.fixture, self.faults_text())
    }
}

/// A text that is not a token.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a plan: {why}; write it like podgc/orphaned-quarantine-40s:crash-after@PATCH:pods/a/status#1")]
pub struct TokenError {
    text: String,
    why: String,
}

impl FromStr for Token {
    type Err = TokenError;

    fn from_str(text: &str) -> Result<Self, TokenError> {
        let fail = |why: String| TokenError { text: text.to_owned(), why };
        let (fixture, faults) = text.split_once(':').ok_or_else(|| fail("it has no `:`".to_owned()))?;
        if !fixture.contains('/') {
            return Err(fail(format!("`{fixture}` is not the id of a fixture")));
        }
        let fault = |part: &str| {
            let (name, point) = part.split_once('@').ok_or_else(|| fail(format!("`{part}` has no `@`")))?;
            let disturbance = Disturbance::parse(name).ok_or_else(|| {
                let known: Vec<&str> = Disturbance::of_programs().map(Disturbance::name).collect();
                fail(format!("`{name}` is not a fault (known: {})", known.join(", ")))
            })?;
            let numbered = point.rsplit_once('#').is_some_and(|(_, number)| number.parse::<u32>().is_ok_and(|n| n > 0));
            if !numbered || !point.contains(':') {
                return Err(fail(format!("`{point}` is not a point such as `PATCH:pods/a/status#1`")));
            }
            Ok((disturbance, point.to_owned()))
        };
        let faults =
            if faults == NONE { Vec::new() } else { faults.split(',').map(fault).collect::<Result<_, _>>()? };
        Ok(Self { fixture: fixture.to_owned(), faults })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::a_crash("podgc/orphaned-quarantine-40s:crash-after@PATCH:pods/a/status#1")]
    #[case::two("faults/x[a+b]:hold-30s@EVENT:nodes/n1#2,409@PUT:other:pdb/x/status#10")]
    #[case::none("ttl/grow:none")]
    #[case::a_beginning("ttl/grow~2:500@PATCH:nodes/n1#1")]
    fn tokens_keep_their_text(#[case] text: &str) {
        assert_eq!(text.parse::<Token>().map(|token| token.to_string()).as_deref(), Ok(text));
    }

    #[rstest]
    #[case("podgc", "it has no `:`")]
    #[case("podgc:none", "not the id of a fixture")]
    #[case("podgc/a:boom@GET:nodes/n1#1", "`boom` is not a fault (known: 409, ")]
    #[case("podgc/a:500@GET:nodes/n1", "not a point such as")]
    #[case("podgc/a:500@GET:nodes/n1#0", "not a point such as")]
    #[case("podgc/a:500", "has no `@`")]
    fn bad_tokens_are_explained(#[case] text: &str, #[case] why: &str) {
        let error = text.parse::<Token>().expect_err(text).to_string();
        assert!(error.contains(why), "{error}");
    }

    proptest! {
        #[test]
        fn what_is_printed_can_be_parsed(
            fixture in "[a-z-]{1,12}/[a-z0-9-]{1,20}(\\[[a-z0-9%.+_=-]{1,8}\\])?",
            faults in prop::collection::vec(
                (prop::sample::select(Disturbance::all().collect::<Vec<_>>()), "(GET|LIST|EVENT):([a-z]{1,5}:|\\*:)?[a-z]{1,9}/[a-z0-9.-]{1,9}", 1_u32..),
                0..4,
            ),
        ) {
            let faults = faults.into_iter().map(|(fault, point, number)| (fault, format!("{point}#{number}")));
            let token = Token { fixture, faults: faults.collect() };
            prop_assert_eq!(token.to_string().parse::<Token>(), Ok(token));
        }

        #[test]
        fn no_text_panics(text in ".{0,60}") {
            let _ = text.parse::<Token>();
        }
    }
}
