//! The expressions of admission: match conditions, policies and what they may refer to. Follows
//! `staging/src/k8s.io/apiserver/pkg/admission/plugin/cel` of Kubernetes 1.36.

use std::collections::BTreeMap;
use std::sync::Arc;

use cel::common::ast::{EntryExpr, Expr, IdedExpr};

use super::check::{AUTHORIZER, JSON_PATCH, OBJECT, check_with_patches};
use super::compile_error::CompileError;
use super::compile_error::NO_THREAD;
use super::evaluate::{EvaluationError, LAZY, LazyFields, VariableError, VariableFault, evaluate_with};
use super::parse::{Expression, parse};
use super::shared::SharedValue;
use super::types::CelType;
use super::{describe, library};

/// Most variables that are evaluated for each other.
const MAX_NESTING: usize = 50;

/// The variables that an expression may use.
#[derive(Clone, Debug, Default)]
pub(crate) struct AdmissionVariables {
    /// `params`.
    pub params: bool,
    /// `authorizer`.
    pub authorizer: bool,
    /// Apply configurations and JSON patches may be made.
    pub patches: bool,
    /// The fields of `variables`, for policies.
    pub fields: Option<BTreeMap<String, CelType>>,
    /// The type of `object` and `oldObject`; of any type if it is not known.
    pub object: Option<CelType>,
    /// The type of `params`, likewise.
    pub params_type: Option<CelType>,
}

impl AdmissionVariables {
    fn scope(&self) -> Vec<(String, CelType)> {
        let any = |ty: &Option<CelType>| ty.clone().unwrap_or(CelType::Dyn);
        let mut scope = vec![
            ("object".to_owned(), any(&self.object)),
            ("oldObject".to_owned(), any(&self.object)),
            ("request".to_owned(), request_type()),
            ("namespaceObject".to_owned(), namespace_type()),
        ];
        if self.params {
            scope.push(("params".to_owned(), any(&self.params_type)));
        }
        if self.authorizer {
            scope.push(("authorizer".to_owned(), AUTHORIZER));
        }
        if let Some(fields) = &self.fields {
            scope.push((LAZY.to_owned(), CelType::Object(Arc::new(fields.clone()))));
        }
        scope
    }
}

fn object<const N: usize>(fields: [(&str, CelType); N]) -> CelType {
    CelType::Object(Arc::new(fields.map(|(name, ty)| (name.to_owned(), ty)).into()))
}

fn text_map(values: CelType) -> CelType {
    CelType::Map(Box::new(CelType::Text), Box::new(values))
}

fn request_type() -> CelType {
    let text = || CelType::Text;
    let kind = || object([("group", text()), ("version", text()), ("kind", text())]);
    let resource = || object([("group", text()), ("version", text()), ("resource", text())]);
    let user =
        object([("username", text()), ("uid", text()), ("groups", text().list()), ("extra", text_map(text().list()))]);
    object([
        ("kind", kind()),
        ("resource", resource()),
        ("subResource", text()),
        ("requestKind", kind()),
        ("requestResource", resource()),
        ("requestSubResource", text()),
        ("name", text()),
        ("namespace", text()),
        ("operation", text()),
        ("userInfo", user),
        ("dryRun", CelType::Bool),
        ("options", CelType::Dyn),
    ])
}

fn namespace_type() -> CelType {
    let text = || CelType::Text;
    let time = || CelType::Timestamp;
    let condition = object([
        ("status", text()),
        ("type", text()),
        ("lastTransitionTime", time()),
        ("message", text()),
        ("reason", text()),
    ]);
    let metadata = object([
        ("name", text()),
        ("generateName", text()),
        ("namespace", text()),
        ("labels", text_map(text())),
        ("annotations", text_map(text())),
        ("UID", text()),
        ("creationTimestamp", time()),
        ("deletionGracePeriodSeconds", CelType::Int),
        ("deletionTimestamp", time()),
        ("generation", CelType::Int),
        ("resourceVersion", text()),
        ("finalizers", text().list()),
    ]);
    object([
        ("metadata", metadata),
        ("spec", object([("finalizers", text().list())])),
        ("status", object([("conditions", condition.list()), ("phase", text())])),
    ])
}

/// The types that an expression may evaluate to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReturnType {
    /// Any type: a variable.
    Any,
    /// A boolean: a condition or validation.
    Bool,
    /// A text: a message.
    Text,
    /// A text or null: an audit annotation.
    TextOrNull,
    /// `Object{…}`.
    Object,
    /// A list of `JSONPatch{…}`.
    JsonPatches,
}

impl ReturnType {
    fn takes(self, ty: &CelType) -> bool {
        match self {
            Self::Any => true,
            Self::Bool => *ty == CelType::Bool,
            Self::Text => *ty == CelType::Text,
            Self::TextOrNull => matches!(ty, CelType::Text | CelType::Null),
            Self::Object => *ty == OBJECT,
            Self::JsonPatches => *ty == JSON_PATCH.list(),
        }
    }

    fn wanted(self) -> &'static str {
        match self {
            Self::Any => "any",
            Self::Bool => "must evaluate to bool",
            Self::Text => "must evaluate to string",
            Self::TextOrNull => "must evaluate to one of [string null_type]",
            Self::Object => "must evaluate to Object",
            Self::JsonPatches => "must evaluate to list(JSONPatch)",
        }
    }
}

/// Reasons why an expression of admission has no value, in upstream's words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ExpressionError {
    /// The expression is not compiled.
    #[error("compilation error: {0}")]
    Compilation(CompileError),
    /// The expression is too deep for the stack, and there is no larger one.
    #[error("{NO_THREAD}")]
    NoThread,
    /// The evaluation failed.
    #[error("expression '{expression}' resulted in error: {why}")]
    Evaluation {
        /// The expression.
        expression: String,
        /// The error of CEL.
        why: String,
    },
}

/// An expression that was compiled, or the reason why it cannot be.
#[derive(Debug)]
pub(crate) struct AdmissionExpression {
    /// The source.
    pub(crate) source: String,
    /// The type of its value.
    pub(crate) ty: CelType,
    /// The error of a message whose type does not fit the field that it is the value of.
    pub(crate) misnamed: Option<String>,
    program: Result<Expression, CompileError>,
}

impl AdmissionExpression {
    /// Compiles an expression.
    pub(crate) fn compile(source: &str, variables: &AdmissionVariables, returns: ReturnType) -> Self {
        let (program, ty) = match compile(source, variables, returns) {
            Ok((program, ty)) => (Ok(program), ty),
            Err(why) => (Err(why), CelType::Dyn),
        };
        let misnamed = program.as_ref().ok().filter(|_| variables.patches);
        let misnamed =
            misnamed.and_then(|program| program.walk(|program| misnamed_type(program.expression()))).flatten();
        Self { source: source.to_owned(), ty, misnamed, program }
    }

    /// Returns the reason why the expression cannot be compiled.
    pub(crate) fn error(&self) -> Option<&CompileError> {
        self.program.as_ref().err()
    }
}

/// Returns the error of a message such as `Object.spec{}` in another field than `spec` of `Object`.
fn misnamed_type(expression: &IdedExpr) -> Option<String> {
    let Expr::Struct(literal) = &expression.expr else { return None };
    literal.entries.iter().find_map(|entry| {
        let EntryExpr::StructField(field) = &entry.expr else { return None };
        let expected = format!("{}.{}", literal.type_name.trim_start_matches('.'), field.field);
        let values = match &field.value.expr {
            Expr::List(list) => list.elements.as_slice(),
            _ => std::slice::from_ref(&field.value),
        };
        values.iter().find_map(|value| match &value.expr {
            Expr::Struct(inner) if inner.type_name.trim_start_matches('.') != expected => Some(format!(
                "type mismatch: unexpected type name {:?}, expected {expected:?}, which matches field name path from root Object type",
                inner.type_name.trim_start_matches('.')
            )),
            _ => misnamed_type(value),
        })
    })
}

fn compile(
    source: &str,
    variables: &AdmissionVariables,
    returns: ReturnType,
) -> Result<(Expression, CelType), CompileError> {
    let expression = parse(source)?;
    let scope = variables.scope();
    let checked = expression.walk(|program| check_with_patches(program, scope, variables.patches));
    let checked = checked.ok_or(CompileError::NoThread)?.valid()?;
    // An unknown type is not exactly the one that is wanted: cel-go calls it dyn and refuses it.
    if !returns.takes(&checked.ty) {
        return Err(CompileError::ReturnType { wanted: returns.wanted(), got: checked.ty.declared() });
    }
    Ok((expression, checked.ty))
}

/// The values of one request, and the variables of a policy.
#[derive(Debug)]
pub(crate) struct Activation<'a> {
    values: Vec<(&'static str, SharedValue)>,
    fields: LazyVariables<'a>,
}

/// The cost of the expressions exceeds their budget.
#[derive(Debug, Clone, Copy, thiserror::Error)]
#[error("validation failed due to running out of cost budget, no further validation rules will be run")]
pub(crate) struct BudgetExceeded;

impl<'a> Activation<'a> {
    /// Creates an activation from the values and the named expressions of a policy.
    pub(crate) fn new(
        values: Vec<(&'static str, SharedValue)>,
        variables: &'a [(String, AdmissionExpression)],
    ) -> Self {
        let fields = LazyVariables { variables, values: values.clone(), known: BTreeMap::new(), nesting: 0, spent: 0 };
        Self { values, fields }
    }

    /// Evaluates an expression and takes its cost from the budget. The inner error is the expression's own.
    pub(crate) fn evaluate(
        &mut self,
        expression: &AdmissionExpression,
        budget: &mut u64,
    ) -> Result<Result<SharedValue, ExpressionError>, BudgetExceeded> {
        let program = match &expression.program {
            Ok(program) => program,
            Err(error) => return Ok(Err(ExpressionError::Compilation(error.clone()))),
        };
        let values = self.values.clone();
        let fields = &mut self.fields;
        let walked = program.walk(move |program| {
            let values = values.iter().map(|(name, value)| (*name, value.clone())).collect();
            let (value, cost) = evaluate_with(program, &library::ENV, values, Some(&mut *fields));
            (value, cost.saturating_add(std::mem::take(&mut fields.spent)))
        });
        let Some((value, cost)) = walked else { return Ok(Err(ExpressionError::NoThread)) };
        *budget = budget.checked_sub(cost).ok_or(BudgetExceeded)?;
        Ok(value.map_err(|error| ExpressionError::Evaluation {
            expression: expression.source.clone(),
            why: text_of(&error),
        }))
    }
}

fn text_of(error: &EvaluationError) -> String {
    match error {
        EvaluationError::Limit => "operation cancelled: actual cost limit exceeded".to_owned(),
        EvaluationError::Failed(error) => describe(error),
    }
}

/// The variables of a policy, evaluated when they are first read.
#[derive(Debug)]
struct LazyVariables<'a> {
    variables: &'a [(String, AdmissionExpression)],
    values: Vec<(&'static str, SharedValue)>,
    known: BTreeMap<String, Result<SharedValue, VariableError>>,
    /// Number of variables that are being evaluated, each for the one before.
    nesting: usize,
    /// Cost of the variables that were evaluated since it was last taken.
    spent: u64,
}

impl LazyVariables<'_> {
    fn compute(&mut self, name: &str) -> Option<Result<SharedValue, VariableError>> {
        let failed = |why| VariableError { name: name.to_owned(), why };
        let variables = self.variables;
        // Of variables with one name, the last counts.
        let (_, expression) = variables.iter().rev().find(|(known, _)| known == name)?;
        let program = match &expression.program {
            Ok(program) => program,
            Err(error) => return Some(Err(failed(VariableFault::Compilation(error.clone())))),
        };
        if self.nesting > MAX_NESTING {
            return Some(Err(failed(VariableFault::Nesting)));
        }
        // Of two variables of one name, the second can refer to the first, which is not kept.
        self.known.insert(name.to_owned(), Err(failed(VariableFault::Recursion)));
        self.nesting += 1;
        let values = self.values.iter().map(|(name, value)| (*name, value.clone())).collect();
        let walked = program.walk(|program| evaluate_with(program, &library::ENV, values, Some(&mut *self)));
        self.nesting -= 1;
        let Some((value, cost)) = walked else { return Some(Err(failed(VariableFault::NoThread))) };
        self.spent = self.spent.saturating_add(cost);
        Some(value.map_err(|error| failed(VariableFault::Evaluation(text_of(&error)))))
    }
}

impl LazyFields for LazyVariables<'_> {
    fn field(&mut self, name: &str) -> Option<Result<SharedValue, VariableError>> {
        if let Some(known) = self.known.get(name) {
            return Some(known.clone());
        }
        let value = self.compute(name)?;
        self.known.insert(name.to_owned(), value.clone());
        Some(value)
    }
}
