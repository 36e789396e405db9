//! CEL expressions of definitions and of admission: parsed, checked, and evaluated within limits.
//! See `staging/src/k8s.io/apiserver/pkg/cel`.
//!
//! The crate `cel` parses expressions and has the values and functions; field types, type checks, the evaluation with
//! its costs, and Kubernetes' libraries are here.
//!
//! - `admission`: the expressions of webhooks and policies
//! - `parse`, `check`, `overloads`, `validators`, `estimate`: an expression before there are values
//! - `evaluate`, `cost`: its evaluation; `authorizer`: the variable of that name
//! - `types`, `sizes`, `value`, `list_kind`: types and values by a schema; `convert`: values without one
//! - `device`: selectors of devices
//! - `library`, `macros`, `formats`, `semver`, `string_format`: Kubernetes' functions
//! - `shared`: values that copies share

pub(crate) mod admission;
mod authorizer;
mod check;
mod compile_error;
mod convert;
pub(crate) mod cost;
mod device;
pub(crate) mod estimate;
mod evaluate;
mod formats;
pub(crate) mod library;
mod list_kind;
mod macros;
mod overloads;
mod parse;
mod program;
mod semver;
mod shared;
pub(crate) mod sizes;
mod string_format;
mod types;
mod validators;
pub(crate) mod value;

use cel::{ExecutionError, Value as CelValue};

pub(crate) use authorizer::{AccessReviewer, authorizer};
pub(crate) use check::{CheckResult, check};
pub(crate) use compile_error::{CompileError, NO_THREAD};
pub(crate) use convert::{JsonError, from_json, to_json};
pub(crate) use device::device_selector_error;
pub(crate) use evaluate::{EvaluationError, evaluate};
pub(crate) use formats::{is_base64, is_date, is_date_time};
pub(crate) use parse::{Expression, parse};
pub(crate) use shared::SharedValue;
pub(crate) use types::{CelType, escape};

/// Returns the text of an error of an evaluation as cel-go has it.
pub(crate) fn describe(error: &ExecutionError) -> String {
    match error {
        ExecutionError::NoSuchKey(key) => format!("no such key: {key}"),
        ExecutionError::DivisionByZero(_) => "division by zero".to_owned(),
        ExecutionError::RemainderByZero(_) => "modulus by zero".to_owned(),
        ExecutionError::Overflow(..) => "integer overflow".to_owned(),
        ExecutionError::IndexOutOfBounds(CelValue::Int(index)) => format!("index out of bounds: {index}"),
        ExecutionError::FunctionError { message, .. } => message.clone(),
        ExecutionError::NoSuchOverload(_) | ExecutionError::UnsupportedBinaryOperator(..) => {
            "no such overload".to_owned()
        }
        other => other.to_string(),
    }
}
