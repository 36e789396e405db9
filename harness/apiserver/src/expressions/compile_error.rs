//! Errors of expressions that cannot be compiled, in the words of `staging/src/k8s.io/apiserver/pkg/cel/environment`.

use super::check::CheckResult;
use super::parse::ParseError;
use crate::go_regex::GoRegexError;

/// Reasons why an expression cannot be compiled.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum CompileError {
    /// The text is no expression.
    #[error("compilation failed: {0}")]
    Parse(#[from] ParseError),
    /// The expression is too deep for the stack, and there is no larger one.
    #[error("compilation failed: {NO_THREAD}")]
    NoThread,
    /// Parts of the expression have the wrong types.
    #[error("compilation failed: {}", .0.join("\n"))]
    Types(Vec<String>),
    /// A regular expression is not valid.
    #[error("program instantiation failed: {0}")]
    Program(GoRegexError),
    /// The value has another type than the one that is wanted.
    #[error("{wanted} but got {got}")]
    ReturnType {
        /// Says what is wanted.
        wanted: &'static str,
        /// The type.
        got: String,
    },
}

impl CheckResult {
    /// Returns the result, or why the expression cannot be used.
    ///
    /// # Errors
    /// Types are wrong, or a regular expression is.
    pub(crate) fn valid(self) -> Result<Self, CompileError> {
        if !self.errors.is_empty() {
            return Err(CompileError::Types(self.errors));
        }
        self.pattern.clone().map_or(Ok(self), |error| Err(CompileError::Program(error)))
    }
}

/// The error of an expression that needs a thread.
pub(crate) const NO_THREAD: &str = "unable to start a thread that evaluates the expression";
