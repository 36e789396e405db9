//! Type checks of expressions, before there is any value. PURE.
//!
//! Follows `github.com/google/cel-go/checker` including its messages, but accepts every expression whose types are not
//! known for certain: it reports undeclared names, and operands and arguments of wrong types.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Arc, LazyLock};

use cel::Program;
use cel::common::ast::{
    CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, LiteralValue, SelectExpr, SourceInfo, StructExpr,
};

use super::types::CelType;
use crate::go_regex::go_regex_error;

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
}

/// The supported functions: `name receiver arguments result`, with `-` for no receiver or no arguments, and `T` for the
/// element type of the receiver.
const FUNCTIONS: &str = "
size - string int|size - bytes int|size - list int|size - map int|size string - int|size bytes - int|size list - int|size map - int
string - dyn string|int - dyn int|uint - dyn uint|double - dyn double|bool - dyn bool|bytes - dyn bytes|dyn - dyn dyn|type - dyn type
duration - string duration|duration - duration duration|timestamp - string timestamp|timestamp - timestamp timestamp|timestamp - int timestamp
startsWith string string bool|endsWith string string bool|contains string string bool|matches string string bool|matches - string,string bool
charAt string int string|indexOf string string int|indexOf string string,int int|lastIndexOf string string int|lastIndexOf string string,int int
lowerAscii string - string|upperAscii string - string|trim string - string|reverse string - string
replace string string,string string|replace string string,string,int string|split string string list(string)|split string string,int list(string)
substring string int string|substring string int,int string|join list - string|join list string string|format string list string|strings.quote - string string
find string string string|findAll string string list(string)|findAll string string,int list(string)
isSorted list - bool|sum list - T|min list - T|max list - T|indexOf list dyn int|lastIndexOf list dyn int
slice list int,int list|flatten list - list|flatten list int list|distinct list - list|reverse list - list|sort list - list|lists.range - int list(int)
sets.contains - list,list bool|sets.intersects - list,list bool|sets.equivalent - list,list bool
getFullYear timestamp - int|getMonth timestamp - int|getDate timestamp - int|getDayOfMonth timestamp - int|getDayOfWeek timestamp - int|getDayOfYear timestamp - int
getHours timestamp - int|getMinutes timestamp - int|getSeconds timestamp - int|getMilliseconds timestamp - int
getFullYear timestamp string int|getMonth timestamp string int|getDate timestamp string int|getHours timestamp string int|getMinutes timestamp string int
getHours duration - int|getMinutes duration - int|getSeconds duration - int|getMilliseconds duration - int
hasValue optional - bool|value optional - T|orValue optional dyn T|or optional dyn dyn|optional.of - dyn dyn|optional.none - - dyn|optional.ofNonZeroValue - dyn dyn
url - string kubernetes.URL|isURL - string bool|getScheme kubernetes.URL - string|getHost kubernetes.URL - string|getHostname kubernetes.URL - string
getPort kubernetes.URL - string|getEscapedPath kubernetes.URL - string
quantity - string kubernetes.Quantity|isQuantity - string bool|sign kubernetes.Quantity - int|isInteger kubernetes.Quantity - bool
asInteger kubernetes.Quantity - int|asApproximateFloat kubernetes.Quantity - double|isGreaterThan kubernetes.Quantity kubernetes.Quantity bool
isLessThan kubernetes.Quantity kubernetes.Quantity bool|compareTo kubernetes.Quantity kubernetes.Quantity int
add kubernetes.Quantity kubernetes.Quantity kubernetes.Quantity|add kubernetes.Quantity int kubernetes.Quantity
sub kubernetes.Quantity kubernetes.Quantity kubernetes.Quantity|sub kubernetes.Quantity int kubernetes.Quantity
ip - string net.IP|isIP - string bool|family net.IP - int|cidr - string net.CIDR|isCIDR - string bool|containsIP net.CIDR dyn bool
ip.isCanonical - string bool|isUnspecified net.IP - bool|isLoopback net.IP - bool|isLinkLocalMulticast net.IP - bool
isLinkLocalUnicast net.IP - bool|isGlobalUnicast net.IP - bool|ip net.CIDR - net.IP|containsCIDR net.CIDR dyn bool
masked net.CIDR - net.CIDR|prefixLength net.CIDR - int
semver - string kubernetes.Semver|semver - string,bool kubernetes.Semver|isSemver - string bool|isSemver - string,bool bool
isGreaterThan kubernetes.Semver kubernetes.Semver bool|isLessThan kubernetes.Semver kubernetes.Semver bool
compareTo kubernetes.Semver kubernetes.Semver int|major kubernetes.Semver - int|minor kubernetes.Semver - int|patch kubernetes.Semver - int
path kubernetes.authorization.Authorizer string kubernetes.authorization.PathCheck
group kubernetes.authorization.Authorizer string kubernetes.authorization.GroupCheck
serviceAccount kubernetes.authorization.Authorizer string,string kubernetes.authorization.Authorizer
resource kubernetes.authorization.GroupCheck string kubernetes.authorization.ResourceCheck
subresource kubernetes.authorization.ResourceCheck string kubernetes.authorization.ResourceCheck
namespace kubernetes.authorization.ResourceCheck string kubernetes.authorization.ResourceCheck
name kubernetes.authorization.ResourceCheck string kubernetes.authorization.ResourceCheck
fieldSelector kubernetes.authorization.ResourceCheck string kubernetes.authorization.ResourceCheck
labelSelector kubernetes.authorization.ResourceCheck string kubernetes.authorization.ResourceCheck
check kubernetes.authorization.PathCheck string kubernetes.authorization.Decision
check kubernetes.authorization.ResourceCheck string kubernetes.authorization.Decision
allowed kubernetes.authorization.Decision - bool|reason kubernetes.authorization.Decision - string
errored kubernetes.authorization.Decision - bool|error kubernetes.authorization.Decision - string
jsonpatch.escapeKey - string string
getQuery kubernetes.URL - map(string,list(string))|format.named - string optional(kubernetes.NamedFormat)
validate kubernetes.NamedFormat string optional(list(string))
format.dns1123Label - - kubernetes.NamedFormat|format.dns1123Subdomain - - kubernetes.NamedFormat|format.dns1035Label - - kubernetes.NamedFormat
format.dns1123LabelPrefix - - kubernetes.NamedFormat|format.dns1123SubdomainPrefix - - kubernetes.NamedFormat
format.dns1035LabelPrefix - - kubernetes.NamedFormat|format.qualifiedName - - kubernetes.NamedFormat|format.labelValue - - kubernetes.NamedFormat
format.uri - - kubernetes.NamedFormat|format.uuid - - kubernetes.NamedFormat|format.byte - - kubernetes.NamedFormat
format.date - - kubernetes.NamedFormat|format.datetime - - kubernetes.NamedFormat
";

/// The type of the variable `authorizer`.
pub(crate) const AUTHORIZER: CelType = CelType::Other("kubernetes.authorization.Authorizer");
/// The type of `authorizer.requestResource`.
const RESOURCE_CHECK: CelType = CelType::Other("kubernetes.authorization.ResourceCheck");
/// The type of an apply configuration.
pub(crate) const OBJECT: CelType = CelType::Other("Object");
/// The type of an operation of a JSON patch.
pub(crate) const JSON_PATCH: CelType = CelType::Other("JSONPatch");

/// Names of types, which are values themselves.
const TYPES: [&str; 12] =
    ["bool", "bytes", "double", "duration", "int", "list", "map", "null_type", "string", "timestamp", "type", "uint"];

#[derive(Debug)]
struct Overload {
    receiver: Option<CelType>,
    arguments: Vec<CelType>,
    result: &'static str,
}

static OVERLOADS: LazyLock<BTreeMap<&'static str, Vec<Overload>>> = LazyLock::new(|| {
    let mut overloads: BTreeMap<&'static str, Vec<Overload>> = BTreeMap::new();
    for entry in FUNCTIONS.split(['|', '\n']).filter(|entry| !entry.is_empty()) {
        let mut words = entry.split(' ');
        let (Some(name), Some(receiver), Some(arguments), Some(result)) =
            (words.next(), words.next(), words.next(), words.next())
        else {
            continue;
        };
        let receiver = (receiver != "-").then(|| named(receiver));
        let arguments = arguments.split(',').filter(|argument| *argument != "-").map(named).collect();
        overloads.entry(name).or_default().push(Overload { receiver, arguments, result });
    }
    overloads
});

fn named(name: &'static str) -> CelType {
    match name {
        "string" => CelType::Text,
        "bytes" => CelType::Bytes,
        "int" => CelType::Int,
        "uint" => CelType::Uint,
        "double" => CelType::Double,
        "bool" => CelType::Bool,
        "timestamp" => CelType::Timestamp,
        "duration" => CelType::Duration,
        "type" => CelType::Type,
        "list" => CelType::Dyn.list(),
        "list(string)" => CelType::Text.list(),
        "list(int)" => CelType::Int.list(),
        "map" => CelType::Map(Box::new(CelType::Dyn), Box::new(CelType::Dyn)),
        "optional" => CelType::Dyn.optional(),
        "optional(list(string))" => CelType::Text.list().optional(),
        "optional(kubernetes.NamedFormat)" => CelType::Other("kubernetes.NamedFormat").optional(),
        "map(string,list(string))" => CelType::Map(Box::new(CelType::Text), Box::new(CelType::Text.list())),
        "dyn" => CelType::Dyn,
        other => CelType::Other(other),
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
    };
    let ty = checker.expression(program.expression());
    let Checker { mut errors, uses_old, types, .. } = checker;
    errors.sort_by_key(|(offset, _)| *offset);
    CheckResult { ty, errors: errors.into_iter().map(|(_, text)| text).collect(), uses_old, types }
}

struct Checker<'a> {
    source: &'a SourceInfo,
    scope: Vec<(String, CelType)>,
    patches: bool,
    errors: Vec<(usize, String)>,
    uses_old: bool,
    types: BTreeMap<u64, CelType>,
}

impl Checker<'_> {
    fn error(&mut self, id: u64, message: &str) -> CelType {
        let offset = self.source.offset_for(id).map_or(0, |(start, _)| start as usize);
        self.errors.push((offset, format_error(&self.source.source, offset, message)));
        CelType::Dyn
    }

    fn expression(&mut self, expression: &IdedExpr) -> CelType {
        let ty = self.type_of(expression);
        self.types.insert(expression.id, ty.clone());
        ty
    }

    fn type_of(&mut self, expression: &IdedExpr) -> CelType {
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
                let types: Vec<CelType> = list.elements.iter().map(|element| self.expression(element)).collect();
                common_type(&types).list()
            }
            Expr::Map(map) => {
                let mut keys = Vec::new();
                let mut values = Vec::new();
                for entry in &map.entries {
                    if let EntryExpr::MapEntry(entry) = &entry.expr {
                        keys.push(self.expression(&entry.key));
                        values.push(self.expression(&entry.value));
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
        for entry in &literal.entries {
            if let EntryExpr::StructField(field) = &entry.expr {
                self.expression(&field.value);
            }
        }
        let name = literal.type_name.trim_start_matches('.');
        let known = self.patches && (name == "JSONPatch" || name.split('.').next() == Some("Object"));
        if !known {
            return self.error(id, &format!("undeclared reference to '{name}' (in container '')"));
        }
        match name {
            "JSONPatch" => JSON_PATCH,
            "Object" => OBJECT,
            _ => CelType::Object(Arc::default()),
        }
    }

    fn variable(&mut self, id: u64, name: &str) -> CelType {
        self.uses_old |= name == "oldSelf";
        if let Some((_, ty)) = self.scope.iter().rev().find(|(known, _)| known == name) {
            return ty.clone();
        }
        if TYPES.contains(&name) {
            return CelType::Type;
        }
        self.error(id, &format!("undeclared reference to '{name}' (in container '')"))
    }

    fn select(&mut self, id: u64, select: &SelectExpr) -> CelType {
        let operand = self.expression(&select.operand);
        let found = self.field(id, &operand, &select.field);
        if select.test { CelType::Bool } else { found }
    }

    fn field(&mut self, id: u64, operand: &CelType, name: &str) -> CelType {
        match operand {
            CelType::Object(fields) => match fields.get(name) {
                Some(field) => field.clone(),
                None => self.error(id, &format!("undefined field '{name}'")),
            },
            CelType::Map(_, value) => (**value).clone(),
            CelType::Optional(inner) => self.field(id, inner, name).optional(),
            CelType::Dyn => CelType::Dyn,
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
        if let ("matches", Some(pattern)) = (name, call.args.last())
            && let Expr::Literal(LiteralValue::String(text)) = &pattern.expr
            && go_regex_error(text.inner()).is_some()
        {
            self.error(pattern.id, "invalid matches argument");
        }
        match operator(name, &arguments) {
            Some(Ok(ty)) => ty,
            Some(Err(())) => self.no_overload(id, name, None, &arguments),
            None => self.function(id, name, receiver.as_ref(), &arguments),
        }
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
                CelType::Dyn
            } else {
                self.error(id, &format!("undeclared reference to '{name}' (in container '')"))
            };
        };
        let known = overloads.iter().find(|overload| {
            overload.receiver.is_some() == receiver.is_some()
                && overload.receiver.iter().zip(receiver).all(|(wanted, given)| wanted.takes(given))
                && overload.arguments.len() == arguments.len()
                && overload.arguments.iter().zip(arguments).all(|(wanted, given)| wanted.takes(given))
        });
        match known {
            None => self.no_overload(id, name, receiver, arguments),
            Some(overload) if overload.result == "T" => match receiver {
                Some(CelType::List(inner) | CelType::Optional(inner)) => (**inner).clone(),
                _ => CelType::Dyn,
            },
            Some(overload) if overload.result == "list" => receiver.cloned().unwrap_or_else(|| CelType::Dyn.list()),
            Some(_) if matches!(name, "optional.of" | "optional.ofNonZeroValue") => {
                arguments.first().cloned().unwrap_or(CelType::Dyn).optional()
            }
            Some(_) if name == "optional.none" => CelType::Dyn.optional(),
            Some(overload) => named(overload.result),
        }
    }

    fn no_overload(&mut self, id: u64, name: &str, receiver: Option<&CelType>, arguments: &[CelType]) -> CelType {
        let given = arguments.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        let receiver = receiver.map(|receiver| format!("{receiver}.")).unwrap_or_default();
        self.error(id, &format!("found no matching overload for '{name}' applied to '{receiver}({given})'"))
    }

    fn comprehension(&mut self, parts: &ComprehensionExpr) -> CelType {
        let (first, second) = match (self.expression(&parts.iter_range), &parts.iter_var2) {
            (CelType::List(item), None) => (*item, CelType::Dyn),
            (CelType::List(item), Some(_)) => (CelType::Int, *item),
            (CelType::Map(key, value), _) => (*key, *value),
            _ => (CelType::Dyn, CelType::Dyn),
        };
        let begin = self.expression(&parts.accu_init);
        let outer = self.scope.len();
        let any = begin == CelType::Dyn.list();
        self.scope.push((parts.accu_var.clone(), begin));
        self.scope.push((parts.iter_var.clone(), first));
        self.scope.extend(parts.iter_var2.clone().map(|name| (name, second)));
        self.expression(&parts.loop_cond);
        let step = self.expression(&parts.loop_step);
        self.scope.truncate(outer + 1);
        if any {
            self.scope[outer].1 = step;
        }
        let result = self.expression(&parts.result);
        self.scope.truncate(outer);
        result
    }
}

/// Returns the type that all have, or that of any value.
fn common_type(types: &[CelType]) -> CelType {
    let first = types.first().cloned().unwrap_or(CelType::Dyn);
    if types.iter().all(|ty| *ty == first) { first } else { CelType::Dyn }
}

/// Returns the type of an operator's result, or `Err` for operands of wrong types; `None` if `name` is no operator.
fn operator(name: &str, arguments: &[CelType]) -> Option<Result<CelType, ()>> {
    let fits = |ok: bool, ty: CelType| Some(if ok { Ok(ty) } else { Err(()) });
    match (name, arguments) {
        ("_==_" | "_!=_", [a, b]) => fits(a.takes(b), CelType::Bool),
        ("_<_" | "_<=_" | "_>_" | "_>=_", [a, b]) => {
            let ordered = |ty: &CelType| {
                ty.is_number()
                    || matches!(
                        ty,
                        CelType::Text
                            | CelType::Bytes
                            | CelType::Bool
                            | CelType::Timestamp
                            | CelType::Duration
                            | CelType::Dyn
                    )
            };
            fits(ordered(a) && ordered(b) && (a.takes(b) || (a.is_number() && b.is_number())), CelType::Bool)
        }
        ("_&&_" | "_||_", [a, b]) => fits(CelType::Bool.takes(a) && CelType::Bool.takes(b), CelType::Bool),
        ("!_", [a]) => fits(CelType::Bool.takes(a), CelType::Bool),
        ("@not_strictly_false", _) => Some(Ok(CelType::Bool)),
        ("-_", [a]) => fits(matches!(a, CelType::Int | CelType::Double | CelType::Dyn), a.clone()),
        ("_?_:_", [condition, a, b]) => {
            let any = |ty: &CelType| *ty == CelType::Dyn.optional();
            let ty = match (a, b) {
                (a, b) if a == b => a.clone(),
                // `optional.none()` has the type of the other.
                (any_value, other @ CelType::Optional(_)) | (other @ CelType::Optional(_), any_value)
                    if any(any_value) =>
                {
                    other.clone()
                }
                _ => CelType::Dyn,
            };
            fits(CelType::Bool.takes(condition) && a.takes(b), ty)
        }
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
            let found = match list {
                CelType::List(element) => CelType::Int.takes(index).then(|| (**element).clone()),
                CelType::Map(key, value) => key.takes(index).then(|| (**value).clone()),
                CelType::Dyn | CelType::Optional(_) => Some(CelType::Dyn),
                _ => None,
            };
            let found = if name == "_[?_]" { found.map(CelType::optional) } else { found };
            Some(found.ok_or(()))
        }
        _ => None,
    }
}

fn arithmetic(name: &str, a: &CelType, b: &CelType) -> Option<CelType> {
    match (name, a, b) {
        (_, CelType::Dyn, other) | (_, other, CelType::Dyn) => Some(other.clone()),
        ("_+_", CelType::Text, CelType::Text) => Some(CelType::Text),
        ("_+_", CelType::Bytes, CelType::Bytes) => Some(CelType::Bytes),
        ("_+_", CelType::List(x), CelType::List(y)) if x.takes(y) => {
            Some(if **x == CelType::Dyn { b.clone() } else { a.clone() })
        }
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

/// Formats an error as cel-go does: line and column, the source line, and a caret under the column.
pub(crate) fn format_error(source: &str, offset: usize, message: &str) -> String {
    let before: String = source.chars().take(offset).collect();
    let line = before.matches('\n').count();
    let column = before.rsplit('\n').next().map_or(0, |text| text.chars().count());
    let mut text = format!("ERROR: <input>:{}:{}: {message}", line + 1, column + 1);
    if let Some(shown) = source.split('\n').nth(line) {
        let _ = write!(text, "\n | {shown}\n | {}^", ".".repeat(column));
    }
    text
}
