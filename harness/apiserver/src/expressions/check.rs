//! Type checks of expressions, before there is any value. PURE.
//!
//! Follows `github.com/google/cel-go/checker` including its messages, but accepts every expression whose types are not
//! known for certain: it reports undeclared names, and operands and arguments of wrong types.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::Arc;

use cel::common::ast::{
    CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, LiteralValue, SelectExpr, SourceInfo, StructExpr,
};

use super::macros::MAP_INSERT;
use super::overloads::{OVERLOADS, Overload, named, type_named};
use super::program::Program;
use super::types::{CelType, escape_reserved};
use super::validators;
use crate::go_regex::GoRegexError;

/// The outcome of a type check.
#[derive(Debug)]
pub(crate) struct CheckResult {
    /// Type of the expression's value.
    pub(crate) ty: CelType,
    /// Errors in the order of the source.
    pub(crate) errors: Vec<String>,
    /// `true` if `oldSelf` occurs.
    pub(crate) uses_old: bool,
    /// The type of each part, by identifier.
    pub(crate) types: BTreeMap<u64, CelType>,
    /// The error of a regular expression that upstream compiles with the expression.
    pub(super) pattern: Option<GoRegexError>,
}

/// The type of the variable `authorizer`.
pub(crate) const AUTHORIZER: CelType = CelType::Other("kubernetes.authorization.Authorizer");
/// The type of `authorizer.requestResource`.
const RESOURCE_CHECK: CelType = CelType::Other("kubernetes.authorization.ResourceCheck");
/// The type of an apply configuration.
pub(crate) const OBJECT: CelType = CelType::Other("Object");
/// The type of an operation of a JSON patch.
pub(crate) const JSON_PATCH: CelType = CelType::Other("JSONPatch");

/// The fields of an operation of a JSON patch that are texts: `JSONPatchType` in
/// `staging/src/k8s.io/apiserver/pkg/cel/mutation/jsonpatch.go`.
const JSON_PATCH_TEXTS: [&str; 3] = ["from", "op", "path"];

/// Names of types, which are values themselves.
const TYPES: [&str; 11] =
    ["bool", "bytes", "double", "int", "list", "map", "null_type", "optional_type", "string", "type", "uint"];

/// Returns the name of a type if a selection is one that is not an identifier: those that cel-go's `stdlib/standard.go`
/// and the libraries `ip.go` and `cidr.go` in `staging/src/k8s.io/apiserver/pkg/cel/library` declare.
pub(super) fn qualified_type(select: &SelectExpr, is_variable: impl Fn(&str) -> bool) -> Option<&'static str> {
    let is = |expression: &IdedExpr, wanted: &str| matches!(&expression.expr, Expr::Ident(name) if name == wanted && !is_variable(name));
    let is_in = |namespace: &str| match &select.operand.expr {
        Expr::Select(inner) if inner.field == "protobuf" && !inner.test => is(&inner.operand, namespace),
        _ => is(&select.operand, namespace),
    };
    match select.field.as_str() {
        _ if select.test => None,
        "Duration" if is_in("google") => Some("google.protobuf.Duration"),
        "Timestamp" if is_in("google") => Some("google.protobuf.Timestamp"),
        "IP" if is_in("net") => Some("net.IP"),
        "CIDR" if is_in("net") => Some("net.CIDR"),
        _ => None,
    }
}

/// Checks a program whose variables are `self`, of type `own`, and `oldSelf`, if `old` is given.
pub(crate) fn check(program: &Program, own: &CelType, old: Option<&CelType>) -> CheckResult {
    let mut scope = vec![("self".to_owned(), own.clone())];
    scope.extend(old.map(|old| ("oldSelf".to_owned(), old.clone())));
    check_in(program, scope)
}

/// Checks a program with these variables.
pub(crate) fn check_in(program: &Program, scope: Vec<(String, CelType)>) -> CheckResult {
    check_with_patches(program, scope, false)
}

/// Like [`check_in`]; with `patches`, the expression may make apply configurations and JSON patches.
pub(crate) fn check_with_patches(program: &Program, scope: Vec<(String, CelType)>, patches: bool) -> CheckResult {
    let mut checker = Checker {
        source: program.source_info(),
        scope,
        patches,
        errors: Vec::new(),
        uses_old: false,
        types: BTreeMap::new(),
        negative: BTreeSet::new(),
    };
    let ty = checker.expression(program.expression()).substituted();
    let mut pattern = None;
    if checker.errors.is_empty() {
        let validated = validators::validate(program.expression(), &checker.types);
        for (id, message) in validated.errors {
            checker.error(id, &message);
        }
        pattern = validated.pattern;
    }
    let Checker { mut errors, uses_old, types, .. } = checker;
    errors.sort_by_key(|(offset, _)| *offset);
    let types = types.into_iter().map(|(id, ty)| (id, ty.substituted())).collect();
    CheckResult { ty, errors: errors.into_iter().map(|(_, text)| text).collect(), uses_old, types, pattern }
}

struct Checker<'a> {
    source: &'a SourceInfo,
    scope: Vec<(String, CelType)>,
    patches: bool,
    errors: Vec<(usize, String)>,
    uses_old: bool,
    types: BTreeMap<u64, CelType>,
    /// The literals of negative numbers, which begin with their sign.
    negative: BTreeSet<u64>,
}

impl Checker<'_> {
    fn error(&mut self, id: u64, message: &str) -> CelType {
        // The parser counts bytes.
        let start = self.source.offset_for(id).map_or(0, |(start, _)| start as usize);
        let mut offset = self.source.source.get(..start).map_or(start, |before| before.chars().count());
        if self.negative.contains(&id) {
            let before: Vec<char> = self.source.source.chars().take(offset).collect();
            offset = before.iter().rposition(|c| *c == '-').unwrap_or(offset);
        }
        self.errors.push((offset, format_error(&self.source.source, offset, message)));
        CelType::Dyn
    }

    fn expression(&mut self, expression: &IdedExpr) -> CelType {
        let ty = self.type_of(expression);
        self.types.insert(expression.id, ty.clone());
        ty
    }

    fn type_of(&mut self, expression: &IdedExpr) -> CelType {
        let is_negative = match &expression.expr {
            Expr::Literal(LiteralValue::Int(number)) => *number.inner() < 0,
            Expr::Literal(LiteralValue::Double(number)) => *number.inner() < 0.0,
            _ => false,
        };
        if is_negative {
            self.negative.insert(expression.id);
        }
        match &expression.expr {
            Expr::Literal(literal) => match literal {
                LiteralValue::Boolean(_) => CelType::Bool,
                LiteralValue::Bytes(_) => CelType::Bytes,
                LiteralValue::Double(_) => CelType::Double,
                LiteralValue::Int(_) => CelType::Int,
                LiteralValue::Null => CelType::Null,
                LiteralValue::String(_) => CelType::Text,
                LiteralValue::UInt(_) => CelType::Uint,
            },
            Expr::Ident(name) => self.variable(expression.id, name),
            Expr::Select(select) => self.select(expression.id, select),
            Expr::Call(call) => self.call(expression.id, call),
            Expr::Comprehension(comprehension) => self.comprehension(comprehension),
            Expr::List(list) => {
                let optional = &list.optional_indices;
                let elements = list.elements.iter().enumerate();
                let types: Vec<CelType> = elements
                    .map(|(index, element)| {
                        let ty = self.expression(element);
                        self.content(element.id, ty, optional.contains(&index))
                    })
                    .collect();
                common_type(&types).list()
            }
            Expr::Map(map) => {
                let mut keys = Vec::new();
                let mut values = Vec::new();
                for entry in &map.entries {
                    if let EntryExpr::MapEntry(entry) = &entry.expr {
                        keys.push(self.expression(&entry.key));
                        let ty = self.expression(&entry.value);
                        values.push(self.content(entry.value.id, ty, entry.optional));
                    }
                }
                CelType::Map(Box::new(common_type(&keys)), Box::new(common_type(&values)))
            }
            Expr::Struct(literal) => self.message(expression.id, literal),
            Expr::Unspecified => CelType::Dyn,
        }
    }

    /// Checks a message: `Object{…}`, `Object.spec{…}` and `JSONPatch{…}`, where patches are expected.
    fn message(&mut self, id: u64, literal: &StructExpr) -> CelType {
        let name = literal.type_name.trim_start_matches('.');
        let known = self.patches && (name == "JSONPatch" || name.split('.').next() == Some("Object"));
        if !known {
            return self.error(id, &format!("undeclared reference to '{name}' (in container '')"));
        }
        for entry in &literal.entries {
            let EntryExpr::StructField(field) = &entry.expr else { continue };
            let given = self.expression(&field.value);
            let given = self.content(field.value.id, given, field.optional);
            // The fields of apply configurations are of any type: `mutation/dynamic/objects.go`.
            let field = &*field.field;
            let is_text = name == "JSONPatch" && JSON_PATCH_TEXTS.contains(&field);
            // Fields that do not exist have a type without a name, which only unknown types fit.
            let is_missing = name == "JSONPatch" && !is_text && field != "value";
            let fits = if is_text { CelType::Text.takes(&given) } else { !is_missing || given == CelType::Dyn };
            if !fits {
                let wanted = if is_text { CelType::Text.to_string() } else { String::new() };
                let why = format!("expected type of field '{field}' is '{wanted}' but provided type is '{given}'");
                self.error(entry.id, &why);
            }
        }
        match name {
            "JSONPatch" => JSON_PATCH,
            "Object" => OBJECT,
            _ => CelType::Object(Arc::default()),
        }
    }

    /// Returns the type of a part of a literal; those like `[?a]` are given as optional values.
    fn content(&mut self, id: u64, given: CelType, optional: bool) -> CelType {
        if optional && !matches!(given, CelType::Optional(_) | CelType::Dyn | CelType::Free) {
            let why = format!("expected type '{}' but found '{given}'", given.clone().optional());
            self.error(id, &why);
        }
        given.content(optional)
    }

    fn variable(&mut self, id: u64, name: &str) -> CelType {
        self.uses_old |= name == "oldSelf";
        if let Some((_, ty)) = self.scope.iter().rev().find(|(known, _)| known == name) {
            return ty.clone();
        }
        if let Some(name) = TYPES.into_iter().find(|known| *known == name) {
            return CelType::Type(Box::new(type_named(name)));
        }
        self.error(id, &format!("undeclared reference to '{name}' (in container '')"))
    }

    fn select(&mut self, id: u64, select: &SelectExpr) -> CelType {
        if let Some(name) = qualified_type(select, |name| self.scope.iter().any(|(known, _)| known == name)) {
            return CelType::Type(Box::new(type_named(name)));
        }
        let operand = self.expression(&select.operand);
        let found = self.field(id, &operand, &select.field);
        if select.test { CelType::Bool } else { found }
    }

    fn field(&mut self, id: u64, operand: &CelType, name: &str) -> CelType {
        match operand {
            // `FindStructFieldType` of `staging/src/k8s.io/apiserver/pkg/cel/types.go`.
            CelType::Object(fields) => match fields.get(name).or_else(|| fields.get(&escape_reserved(name)?)) {
                Some(field) => field.clone(),
                None => self.error(id, &format!("undefined field '{name}'")),
            },
            CelType::Map(_, value) => value.substituted(),
            CelType::Optional(inner) => self.field(id, inner, name).optional(),
            CelType::Dyn | CelType::Free => CelType::Dyn,
            authorizer if *authorizer == AUTHORIZER && name == "requestResource" => RESOURCE_CHECK,
            other => {
                let message = format!("type '{other}' does not support field selection");
                self.error(id, &message)
            }
        }
    }

    fn call(&mut self, id: u64, call: &CallExpr) -> CelType {
        let name = call.func_name.as_str();
        if let Some(target) = &call.target
            && let Expr::Ident(namespace) = &target.expr
            && !self.scope.iter().any(|(known, _)| known == namespace)
        {
            let qualified = format!("{namespace}.{name}");
            if OVERLOADS.contains_key(qualified.as_str()) {
                let arguments: Vec<CelType> = call.args.iter().map(|argument| self.expression(argument)).collect();
                return self.function(id, &qualified, None, &arguments);
            }
        }
        let receiver = call.target.as_ref().map(|target| self.expression(target));
        if name == "_?._" {
            return self.optional_field(id, call);
        }
        let arguments: Vec<CelType> = call.args.iter().map(|argument| self.expression(argument)).collect();
        if let "_&&_" | "_||_" = name {
            return self.logic(call, &arguments);
        }
        match operator(name, &arguments) {
            Some(Ok(ty)) => ty,
            Some(Err(())) => self.no_overload(id, name, None, &arguments),
            None => self.function(id, name, receiver.as_ref(), &arguments),
        }
    }

    /// Checks the operands of `&&` and `||`, each with an error of its own: `resolveOverload` of cel-go's checker.
    fn logic(&mut self, call: &CallExpr, operands: &[CelType]) -> CelType {
        let mut result = CelType::Bool;
        for (operand, ty) in call.args.iter().zip(operands).filter(|(_, ty)| !CelType::Bool.takes(ty)) {
            result = self.error(operand.id, &format!("expected type 'bool' but found '{ty}'"));
        }
        result
    }

    fn optional_field(&mut self, id: u64, call: &CallExpr) -> CelType {
        let [operand, field] = call.args.as_slice() else { return CelType::Dyn };
        let operand = self.expression(operand);
        let Expr::Literal(LiteralValue::String(field)) = &field.expr else { return CelType::Dyn };
        match self.field(id, &operand, field.inner()) {
            CelType::Optional(inner) => CelType::Optional(inner),
            other => other.optional(),
        }
    }

    fn function(&mut self, id: u64, name: &str, receiver: Option<&CelType>, arguments: &[CelType]) -> CelType {
        let Some(overloads) = OVERLOADS.get(name) else {
            return if name.starts_with('@') {
                receiver.cloned().unwrap_or(CelType::Dyn)
            } else {
                self.error(id, &format!("undeclared reference to '{name}' (in container '')"))
            };
        };
        match overloads.iter().find(|overload| accepts(name, overload, receiver, arguments)) {
            None => self.no_overload(id, name, receiver, arguments),
            Some(overload) => result_type(name, overload, receiver, arguments),
        }
    }

    fn no_overload(&mut self, id: u64, name: &str, receiver: Option<&CelType>, arguments: &[CelType]) -> CelType {
        let given = arguments.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        let receiver = receiver.map(|receiver| format!("{receiver}.")).unwrap_or_default();
        self.error(id, &format!("found no matching overload for '{name}' applied to '{receiver}({given})'"))
    }

    fn comprehension(&mut self, parts: &ComprehensionExpr) -> CelType {
        let (first, second) = match (self.expression(&parts.iter_range).substituted(), &parts.iter_var2) {
            (CelType::List(item), None) => (*item, CelType::Dyn),
            (CelType::List(item), Some(_)) => (CelType::Int, *item),
            (CelType::Map(key, value), _) => (*key, *value),
            (CelType::Dyn | CelType::Free, _) => (CelType::Dyn, CelType::Dyn),
            (other, _) => {
                let why = "cannot be range of a comprehension (must be list, map, or dynamic)";
                self.error(parts.iter_range.id, &format!("expression of type '{other}' {why}"));
                (CelType::Dyn, CelType::Dyn)
            }
        };
        let begin = self.expression(&parts.accu_init);
        let outer = self.scope.len();
        self.scope.push((parts.accu_var.clone(), begin.clone()));
        self.scope.push((parts.iter_var.clone(), first));
        self.scope.extend(parts.iter_var2.clone().map(|name| (name, second)));
        self.expression(&parts.loop_cond);
        let step = self.expression(&parts.loop_step);
        self.scope.truncate(outer + 1);
        // The step binds the type parameters of `[]` and `{}`.
        if begin != begin.substituted() && begin.takes(&step) {
            self.scope[outer].1 = begin.join(&step);
        }
        let result = self.expression(&parts.result);
        self.scope.truncate(outer);
        result
    }
}

/// Returns the type that all take, or that of any value: `joinTypes` of cel-go.
fn common_type(types: &[CelType]) -> CelType {
    types.iter().fold(CelType::Free, |joined, ty| if joined.takes(ty) { joined.join(ty) } else { CelType::Dyn })
}

/// Returns true if a function can be called with these types in this form.
fn accepts(name: &str, overload: &Overload, receiver: Option<&CelType>, arguments: &[CelType]) -> bool {
    let element = match receiver {
        Some(CelType::List(inner) | CelType::Optional(inner)) => inner,
        _ => &CelType::Dyn,
    };
    let takes = |wanted: &CelType, given: &CelType| match wanted {
        CelType::Free => element.takes(given),
        wanted => wanted.takes(given),
    };
    overload.receiver.is_some() == receiver.is_some()
        && overload.receiver.iter().zip(receiver).all(|(wanted, given)| wanted.takes(given))
        && overload.arguments.len() == arguments.len()
        && overload.arguments.iter().zip(arguments).all(|(wanted, given)| takes(wanted, given))
        && has_elements_for(name, receiver)
}

/// Returns true if a list has elements that a function can add or compare: `listsLibraryDecls` in
/// `staging/src/k8s.io/apiserver/pkg/cel/library/lists.go`.
fn has_elements_for(name: &str, receiver: Option<&CelType>) -> bool {
    let Some(CelType::List(element)) = receiver else { return true };
    let any = matches!(**element, CelType::Dyn | CelType::Free);
    match name {
        "sum" => any || element.is_number() || **element == CelType::Duration,
        "min" | "max" | "isSorted" | "sort" => any || is_ordered(element),
        _ => true,
    }
}

/// Returns true if values of a type can be compared with each other.
fn is_ordered(ty: &CelType) -> bool {
    ty.is_number()
        || matches!(
            ty,
            CelType::Text | CelType::Bytes | CelType::Bool | CelType::Timestamp | CelType::Duration | CelType::Dyn
        )
}

/// Returns the type of a function's result.
fn result_type(name: &str, overload: &Overload, receiver: Option<&CelType>, arguments: &[CelType]) -> CelType {
    let first = || arguments.first().cloned().unwrap_or(CelType::Dyn);
    let inner = |ty: Option<&CelType>| match ty {
        Some(CelType::List(inner) | CelType::Optional(inner)) => (**inner).clone(),
        _ => CelType::Dyn,
    };
    match (name, overload.result) {
        ("type", _) => CelType::Type(Box::new(first())),
        ("orValue", _) => inner(receiver).join(&first()).substituted(),
        ("or", _) => receiver.map_or(CelType::Dyn.optional(), |receiver| receiver.join(&first())),
        ("optional.of" | "optional.ofNonZeroValue", _) => first().optional(),
        ("optional.none", _) => CelType::Free.optional(),
        ("first" | "last", _) => inner(receiver).optional(),
        ("unwrapOpt", _) => inner(Some(&inner(receiver))).list(),
        ("optional.unwrap", _) => inner(Some(&inner(arguments.first()))).list(),
        ("flatten", "T") if receiver.is_some_and(|receiver| inner(Some(receiver)) == CelType::Dyn) => {
            CelType::Dyn.list()
        }
        (_, "T") => inner(receiver).substituted(),
        (_, "same") => receiver.cloned().unwrap_or(CelType::Dyn),
        (_, result) => named(result),
    }
}

/// Returns the type of an operator's result, or `Err` for operands of wrong types; `None` if `name` is no operator.
fn operator(name: &str, arguments: &[CelType]) -> Option<Result<CelType, ()>> {
    let fits = |ok: bool, ty: CelType| Some(if ok { Ok(ty) } else { Err(()) });
    match (name, arguments) {
        ("_==_" | "_!=_", [a, b]) => fits(a.takes(b), CelType::Bool),
        ("_<_" | "_<=_" | "_>_" | "_>=_", [a, b]) => {
            let comparable = a.takes(b) || (a.is_number() && b.is_number());
            fits(is_ordered(a) && is_ordered(b) && comparable, CelType::Bool)
        }
        ("!_", [a]) => fits(CelType::Bool.takes(a), CelType::Bool),
        ("@not_strictly_false", _) => Some(Ok(CelType::Bool)),
        ("-_", [a]) => fits(matches!(a, CelType::Int | CelType::Double | CelType::Dyn), a.clone()),
        ("_?_:_", [condition, a, b]) => fits(CelType::Bool.takes(condition) && a.takes(b), a.join(b)),
        (MAP_INSERT, [map, key, value]) => {
            let entry = CelType::Map(Box::new(key.clone()), Box::new(value.clone()));
            fits(map.takes(&entry), map.join(&entry))
        }
        (MAP_INSERT, [map, entries]) => fits(map.takes(entries), map.join(entries)),
        ("_+_" | "_-_" | "_*_" | "_/_" | "_%_", [a, b]) => match arithmetic(name, a, b) {
            Some(ty) => Some(Ok(ty)),
            None => Some(Err(())),
        },
        ("@in", [item, list]) => fits(
            match list {
                CelType::List(element) => element.takes(item),
                CelType::Map(key, _) => key.takes(item),
                other => *other == CelType::Dyn,
            },
            CelType::Bool,
        ),
        ("_[_]" | "_[?_]", [list, index]) => {
            let (list, optional) = match list {
                CelType::Optional(content) => (&**content, true),
                other => (other, name == "_[?_]"),
            };
            let found = match list {
                CelType::List(element) => CelType::Int.takes(index).then(|| element.substituted()),
                CelType::Map(key, value) => key.takes(index).then(|| value.substituted()),
                CelType::Dyn | CelType::Free => Some(CelType::Dyn),
                _ => None,
            };
            let found = if optional { found.map(CelType::optional) } else { found };
            Some(found.ok_or(()))
        }
        _ => None,
    }
}

fn arithmetic(name: &str, a: &CelType, b: &CelType) -> Option<CelType> {
    match (name, a, b) {
        // A timestamp or a duration.
        (_, CelType::Dyn, CelType::Duration | CelType::Timestamp)
        | (_, CelType::Duration | CelType::Timestamp, CelType::Dyn) => Some(CelType::Dyn),
        (_, CelType::Dyn, other) | (_, other, CelType::Dyn) => Some(other.clone()),
        ("_+_", CelType::Text, CelType::Text) => Some(CelType::Text),
        ("_+_", CelType::Bytes, CelType::Bytes) => Some(CelType::Bytes),
        ("_+_", CelType::List(x), CelType::List(y)) if x.takes(y) => Some(a.join(b)),
        ("_+_" | "_-_", CelType::Timestamp, CelType::Duration) | ("_+_", CelType::Duration, CelType::Timestamp) => {
            Some(CelType::Timestamp)
        }
        ("_+_" | "_-_", CelType::Duration, CelType::Duration) | ("_-_", CelType::Timestamp, CelType::Timestamp) => {
            Some(CelType::Duration)
        }
        ("_%_", CelType::Double, _) => None,
        (_, a, b) if a.is_number() && a == b => Some(a.clone()),
        _ => None,
    }
}

/// Longest line that is shown with an error: `maxSnippetLength` of cel-go's `common/error.go`.
const MAX_SNIPPET_BYTES: usize = 16_384;

/// Formats an error as cel-go does: line and column, the source line, and a caret under the column. Characters of more
/// than one byte count as wide: `ToDisplayString` of cel-go's `common/error.go`.
pub(crate) fn format_error(source: &str, offset: usize, message: &str) -> String {
    if source.is_empty() {
        return format!("ERROR: <input>:1:0: {message}");
    }
    let before: String = source.chars().take(offset).collect();
    let line = before.matches('\n').count();
    let before = before.rsplit('\n').next().unwrap_or_default();
    let column = before.chars().count();
    let mut text = format!("ERROR: <input>:{}:{}: {message}", line + 1, column + 1);
    if let Some(shown) = source.split('\n').nth(line).filter(|shown| shown.len() <= MAX_SNIPPET_BYTES) {
        let dots: String = before.chars().map(|c| if c.is_ascii() { '.' } else { '\u{ff0e}' }).collect();
        let is_wide = shown.chars().nth(column).is_some_and(|c| !c.is_ascii());
        let caret = if is_wide { '\u{ff3e}' } else { '^' };
        let _ = write!(text, "\n | {}\n | {dots}{caret}", shown.replace('\t', " "));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::parse::parse;
    use super::*;
    use rstest::rstest;

    fn checked(source: &str) -> CheckResult {
        let program = parse(source).expect("an expression").program;
        let fields = [("i", CelType::Int), ("s", CelType::Text), ("l", CelType::Text.list()), ("any", CelType::Dyn)];
        let own = CelType::Object(Arc::new(fields.map(|(name, ty)| (name.to_owned(), ty)).into()));
        let scope = vec![("self".to_owned(), own), ("object".to_owned(), CelType::Dyn)];
        check_with_patches(&program, scope, true)
    }

    /// The type parameter of an empty literal is bound to the type beside it.
    #[rstest]
    #[case("has(object.a) ? [] : [JSONPatch{op: 'add', path: '/a', value: {}}]", "list(JSONPatch)")]
    #[case("has(object.a) ? [JSONPatch{op: 'add'}] : []", "list(JSONPatch)")]
    #[case("has(object.a) ? {} : {'a': 1}", "map(string, int)")]
    #[case("has(object.a) ? [[]] : [[1]]", "list(list(int))")]
    #[case("has(object.a) ? optional.none() : optional.of([])", "optional_type(list(dyn))")]
    #[case("has(object.a) ? [dyn(1)] : [1]", "list(dyn)")]
    #[case("has(object.a) ? object.a : 1", "dyn")]
    #[case("[] + ['a'] + []", "list(string)")]
    #[case("[[], ['a']]", "list(list(string))")]
    #[case("[?optional.none(), 'a']", "list(string)")]
    #[case("[]", "list(dyn)")]
    #[case("optional.none().orValue(1)", "int")]
    #[case("optional.of([]).orValue(['a'])", "list(string)")]
    #[case("optional.none().or(optional.of(1))", "optional_type(int)")]
    #[case("self.l.map(x, {'a': x})", "list(map(string, string))")]
    #[case("self.l.filter(x, x == 'a')", "list(string)")]
    #[case("self.l.transformMap(i, v, v)", "map(int, string)")]
    #[case("self.l.transformMapEntry(i, v, {v: i})", "map(string, int)")]
    #[case("[[1]].flatten()", "list(int)")]
    #[case("self.l.first()", "optional_type(string)")]
    #[case("[optional.of(1)].unwrapOpt()", "list(int)")]
    #[case("optional.of(self.l)[0]", "optional_type(string)")]
    #[case("optional.of({'a': 1})[?'a']", "optional_type(int)")]
    #[case("'a' in [] && 'a' in {} && [] == ['a'] && {} == {'a': 1}", "bool")]
    #[case("[][0]", "dyn")]
    #[case("self.any - duration('1s')", "dyn")]
    fn types(#[case] source: &str, #[case] expected: &str) {
        let checked = checked(source);
        assert_eq!((checked.ty.to_string(), checked.errors), (expected.to_owned(), Vec::new()));
    }

    /// `checkCreateStruct`, `checkCreateList` and `checkCreateMap` in cel-go's `checker/checker.go`; the fields are
    /// those of `JSONPatchType` in `staging/src/k8s.io/apiserver/pkg/cel/mutation/jsonpatch.go`.
    #[rstest]
    #[case("JSONPatch{foo: 5}", "1:14: expected type of field 'foo' is '' but provided type is 'int'")]
    #[case("JSONPatch{foo: object.a}", "")]
    #[case("JSONPatch{op: 5}", "1:13: expected type of field 'op' is 'string' but provided type is 'int'")]
    #[case(
        "JSONPatch{path: ['a']}",
        "1:15: expected type of field 'path' is 'string' but provided type is 'list(string)'"
    )]
    #[case("JSONPatch{from: self.i}", "1:15: expected type of field 'from' is 'string' but provided type is 'int'")]
    #[case("JSONPatch{op: 'add', ?path: 'a'}", "1:29: expected type 'optional_type(string)' but found 'string'")]
    #[case("Object{?spec: 1}", "1:15: expected type 'optional_type(int)' but found 'int'")]
    #[case("[?1]", "1:3: expected type 'optional_type(int)' but found 'int'")]
    #[case("{?'a': 'b'}", "1:8: expected type 'optional_type(string)' but found 'string'")]
    #[case("JSONPatch{op: object.a, path: 'a' + self.s, value: 5}", "")]
    #[case("JSONPatch{op: 'add', ?path: optional.of('a'), ?value: object.a}", "")]
    #[case("Object{metadata: Object.spec{a: 1}}", "")]
    fn parts_of_literals(#[case] source: &str, #[case] expected: &str) {
        let errors = checked(source).errors;
        let first = errors.first().and_then(|error| error.lines().next()).unwrap_or_default();
        assert_eq!(first.trim_start_matches("ERROR: <input>:"), expected, "{errors:?}");
    }

    #[rstest]
    #[case("string(quantity('1'))", "'string' applied to '(kubernetes.Quantity)'")]
    #[case("string(url('/a'))", "'string' applied to '(kubernetes.URL)'")]
    #[case("string(semver('1.2.3'))", "'string' applied to '(kubernetes.Semver)'")]
    #[case("string([1])", "'string' applied to '(list(int))'")]
    #[case("int(true)", "'int' applied to '(bool)'")]
    #[case("'abc'.reverse()", "'reverse' applied to 'string.()'")]
    #[case("has(object.a) ? [1] : ['a']", "'_?_:_' applied to '(bool, list(int), list(string))'")]
    #[case("1 in ['a']", "'@in' applied to '(int, list(string))'")]
    #[case("['a'] + [1]", "'_+_' applied to '(list(string), list(int))'")]
    #[case("optional.of(1).orValue('a')", "'orValue' applied to 'optional_type(int).(string)'")]
    #[case("self.l.indexOf(1)", "'indexOf' applied to 'list(string).(int)'")]
    #[case("self.l.sum()", "'sum' applied to 'list(string).()'")]
    #[case("[[1]].max()", "'max' applied to 'list(list(int)).()'")]
    #[case("[1].join()", "'join' applied to 'list(int).()'")]
    #[case("cidr('10.0.0.0/8').containsIP(1)", "'containsIP' applied to 'net.CIDR.(int)'")]
    fn missing_overloads(#[case] source: &str, #[case] expected: &str) {
        let errors = checked(source).errors;
        assert_eq!(errors.len(), 1, "{errors:?}");
        assert!(errors[0].contains(&format!("found no matching overload for {expected}\n")), "{}", errors[0]);
    }
}
