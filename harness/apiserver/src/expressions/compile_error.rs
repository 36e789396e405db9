//! Errors of expressions that cannot be compiled, in the words of `staging/src/k8s.io/apiserver/pkg/cel/environment`.

use super::NO_THREAD;
use super::parse::ParseError;

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
    /// The value has another type than the one that is wanted.
    #[error("{wanted} but got {got}")]
    ReturnType {
        /// Says what is wanted.
        wanted: &'static str,
        /// The type.
        got: String,
    },
}
