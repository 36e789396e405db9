//! Finds the mutants of a source file with syn, using the operators of cargo-mutants.

use std::ops::Range;

use syn::spanned::Spanned;
use syn::visit::{self, Visit};

/// A mutation of a file.
#[derive(Clone, Debug)]
pub(crate) struct Mutant {
    /// The operation, e.g. `replace < with ==`.
    pub(crate) what: String,
    /// The function that contains it.
    pub(crate) function: String,
    /// The line that contains it.
    pub(crate) line: usize,
    /// The change of the text.
    pub(crate) change: Change,
}

/// A change of a file's text. Ranges are byte ranges of the original.
#[derive(Clone, Debug)]
pub(crate) enum Change {
    /// Return `value` at the start of the function; `at` is the position after the opening brace.
    Return { at: usize, value: String },
    /// Compute `instead` in place of the expression.
    Replace { range: Range<usize>, instead: String },
    /// Skip the arm; `at` is the position after its pattern. `guard` is the range of the arm's own guard, if it has
    /// one.
    SkipArm { at: usize, guard: Option<Range<usize>> },
    /// Replace the guard with `value`.
    Guard { range: Range<usize>, value: bool },
    /// A handwritten edit: `before` and `after` are inserted around the original text.
    Around { range: Range<usize>, before: String, after: String },
}

/// Finds all mutants of `text`.
///
/// # Errors
///
/// If `text` is not valid Rust.
pub(crate) fn find(text: &str) -> Result<Vec<Mutant>, syn::Error> {
    let file = syn::parse_file(text)?;
    let mut finder = Finder { text, found: Vec::new(), names: Vec::new(), lets: 0 };
    finder.visit_file(&file);
    Ok(finder.found)
}

struct Finder<'a> {
    text: &'a str,
    found: Vec<Mutant>,
    names: Vec<String>,
    /// Number of enclosing `&&` that belong to a `let` chain, where they are not operators.
    lets: usize,
}

impl Finder<'_> {
    fn note(&mut self, line: usize, what: impl Into<String>, change: Change) {
        let function = self.names.join("::");
        self.found.push(Mutant { what: what.into(), function, line, change });
    }

    fn source(&self, spanned: &impl Spanned) -> String {
        self.text[spanned.span().byte_range()].to_owned()
    }

    fn function(&mut self, signature: &syn::Signature, block: &syn::Block) {
        self.names.push(signature.ident.to_string());
        if signature.constness.is_none() {
            let at = block.brace_token.span.open().byte_range().end;
            let line = signature.span().start().line;
            // An empty body cannot be replaced by an empty body.
            if !block.stmts.is_empty() {
                for value in values(&signature.output) {
                    let what = format!("replace the body with `{value}`");
                    self.note(line, what, Change::Return { at, value });
                }
            }
            visit::visit_block(self, block);
        }
        self.names.pop();
    }
}

fn is_test(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let path = attribute.path();
        path.is_ident("test") || path.is_ident("cfg") && quote(attribute).contains("test")
    })
}

fn quote(attribute: &syn::Attribute) -> String {
    match &attribute.meta {
        syn::Meta::List(list) => list.tokens.to_string(),
        syn::Meta::Path(_) | syn::Meta::NameValue(_) => String::new(),
    }
}

impl<'ast> Visit<'ast> for Finder<'_> {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if !is_test(&item.attrs) {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_const(&mut self, _: &'ast syn::ItemConst) {}
    fn visit_impl_item_const(&mut self, _: &'ast syn::ImplItemConst) {}
    fn visit_item_static(&mut self, _: &'ast syn::ItemStatic) {}
    fn visit_pat(&mut self, _: &'ast syn::Pat) {}
    fn visit_type(&mut self, _: &'ast syn::Type) {}

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        if is_test(&item.attrs) {
            return;
        }
        // Skips traits that could be derived and those that only format text: they decide nothing.
        let of = item.trait_.as_ref().and_then(|(_, path, _)| path.segments.last().map(|last| last.ident.to_string()));
        if of.is_some_and(|name| matches!(name.as_str(), "Default" | "Debug")) {
            return;
        }
        self.names.push(self.source(&item.self_ty));
        visit::visit_item_impl(self, item);
        self.names.pop();
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        if !is_test(&item.attrs) {
            self.function(&item.sig, &item.block);
        }
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        if !is_test(&item.attrs) {
            self.function(&item.sig, &item.block);
        }
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        if let Some(block) = &item.default {
            self.function(&item.sig, block);
        }
    }

    fn visit_expr_binary(&mut self, expr: &'ast syn::ExprBinary) {
        let range = expr.span().byte_range();
        let chain = has_let(expr);
        if !chain {
            let line = expr.op.span().start().line;
            let left = self.source(&expr.left);
            let right = self.source(&expr.right);
            for other in others(&expr.op) {
                let what = format!("replace `{}` with `{other}`", self.source(&expr.op));
                let instead = format!("{left} {other} {right}");
                self.note(line, what, Change::Replace { range: range.clone(), instead });
            }
        }
        self.lets += usize::from(chain);
        visit::visit_expr_binary(self, expr);
        self.lets -= usize::from(chain);
    }

    fn visit_expr_unary(&mut self, expr: &'ast syn::ExprUnary) {
        if matches!(expr.op, syn::UnOp::Not(_) | syn::UnOp::Neg(_)) {
            let what = format!("delete `{}`", self.source(&expr.op));
            let change = Change::Replace { range: expr.span().byte_range(), instead: self.source(&expr.expr) };
            self.note(expr.span().start().line, what, change);
        }
        visit::visit_expr_unary(self, expr);
    }

    fn visit_expr_match(&mut self, expr: &'ast syn::ExprMatch) {
        let catches_all = |arm: &syn::Arm| matches!(arm.pat, syn::Pat::Wild(_)) && arm.guard.is_none();
        let has_rest = expr.arms.iter().any(catches_all);
        for arm in &expr.arms {
            let line = arm.pat.span().start().line;
            let guard = arm.guard.as_ref().map(|(_, guard)| guard);
            let lets = guard.is_some_and(|guard| matches!(&**guard, syn::Expr::Let(_)) || is_chain(guard));
            if has_rest && !catches_all(arm) && !lets {
                let what = format!("delete the arm `{}`", one_line(&self.source(&arm.pat)));
                let at = arm.pat.span().byte_range().end;
                let guard = guard.map(|guard| guard.span().byte_range());
                self.note(line, what, Change::SkipArm { at, guard });
            }
            if let Some(guard) = guard.filter(|_| !lets) {
                for value in [true, false] {
                    let what = format!("replace the guard `{}` with `{value}`", one_line(&self.source(guard)));
                    self.note(line, what, Change::Guard { range: guard.span().byte_range(), value });
                }
            }
        }
        visit::visit_expr_match(self, expr);
    }

    fn visit_expr_struct(&mut self, expr: &'ast syn::ExprStruct) {
        // A field that is left out takes its value from the rest expression.
        if let Some(rest) = &expr.rest {
            let rest = self.source(rest);
            for field in expr.fields.iter().filter(|field| field.colon_token.is_some()) {
                let what = format!("leave the field `{}` to the rest", self.source(&field.member));
                let instead = format!("({rest}).{}.clone()", self.source(&field.member));
                let range = field.expr.span().byte_range();
                self.note(field.span().start().line, what, Change::Replace { range, instead });
            }
        }
        visit::visit_expr_struct(self, expr);
    }
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn has_let(expr: &syn::ExprBinary) -> bool {
    let side = |side: &syn::Expr| matches!(side, syn::Expr::Let(_)) || is_chain(side);
    matches!(expr.op, syn::BinOp::And(_)) && (side(&expr.left) || side(&expr.right))
}

fn is_chain(expr: &syn::Expr) -> bool {
    matches!(expr, syn::Expr::Binary(binary) if has_let(binary))
}

/// Returns the replacements for an operator.
fn others(operator: &syn::BinOp) -> &'static [&'static str] {
    use syn::BinOp as B;
    match operator {
        B::Eq(_) => &["!="],
        B::Ne(_) => &["=="],
        B::And(_) => &["||"],
        B::Or(_) => &["&&"],
        B::Lt(_) => &["==", ">", "<="],
        B::Gt(_) => &["==", "<", ">="],
        B::Le(_) => &[">", "<"],
        B::Ge(_) => &["<", ">"],
        B::Add(_) => &["-", "*"],
        B::Sub(_) | B::Mul(_) => &["+", "/"],
        B::Div(_) => &["%", "*"],
        B::Rem(_) => &["/", "+"],
        B::Shl(_) => &[">>"],
        B::Shr(_) => &["<<"],
        B::BitAnd(_) => &["|", "^"],
        B::BitOr(_) => &["&", "^"],
        B::BitXor(_) => &["|", "&"],
        B::AddAssign(_) => &["-=", "*="],
        B::SubAssign(_) | B::MulAssign(_) => &["+=", "/="],
        _ => &[],
    }
}

/// Returns replacement values for a function's return type.
fn values(output: &syn::ReturnType) -> Vec<String> {
    match output {
        syn::ReturnType::Default => vec!["()".to_owned()],
        syn::ReturnType::Type(_, of) => values_of(of),
    }
}

fn values_of(of: &syn::Type) -> Vec<String> {
    let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
    match of {
        syn::Type::Tuple(tuple) if tuple.elems.is_empty() => texts(&["()"]),
        syn::Type::Tuple(tuple) => tuple_values(tuple),
        syn::Type::Never(_) | syn::Type::ImplTrait(_) => Vec::new(),
        syn::Type::Reference(reference) => match &*reference.elem {
            syn::Type::Path(path) if path.path.is_ident("str") => texts(&["\"\"", "\"xyzzy\""]),
            _ => Vec::new(),
        },
        syn::Type::Path(path) => path.path.segments.last().map(path_values).unwrap_or_default(),
        _ => texts(&["Default::default()"]),
    }
}

/// Returns all combinations of the values of a tuple's elements.
fn tuple_values(tuple: &syn::TypeTuple) -> Vec<String> {
    let mut all = vec![String::new()];
    for part in &tuple.elems {
        let values = values_of(part);
        all = all.iter().flat_map(|head| values.iter().map(move |value| format!("{head}{value}, "))).collect();
    }
    all.into_iter().map(|parts| format!("({parts})")).collect()
}

fn path_values(segment: &syn::PathSegment) -> Vec<String> {
    let name = segment.ident.to_string();
    let inner = match &segment.arguments {
        syn::PathArguments::AngleBracketed(arguments) => arguments.args.iter().find_map(|argument| match argument {
            syn::GenericArgument::Type(of) => Some(values_of(of)),
            _ => None,
        }),
        syn::PathArguments::None | syn::PathArguments::Parenthesized(_) => None,
    };
    let inner = inner.unwrap_or_default();
    let wrapped = |head: &str, tail: &str| inner.iter().map(|value| format!("{head}{value}{tail}")).collect::<Vec<_>>();
    match name.as_str() {
        "bool" => vec!["true".to_owned(), "false".to_owned()],
        "i8" | "i16" | "i32" | "i64" | "i128" | "isize" => ["0", "1", "-1"].map(str::to_owned).into(),
        "u8" | "u16" | "u32" | "u64" | "u128" | "usize" => ["0", "1"].map(str::to_owned).into(),
        "String" => vec!["String::new()".to_owned(), "\"xyzzy\".to_owned()".to_owned()],
        "Option" => std::iter::once("None".to_owned()).chain(wrapped("Some(", ")")).collect(),
        "Vec" => std::iter::once("Vec::new()".to_owned()).chain(wrapped("vec![", "]")).collect(),
        "Result" => wrapped("Ok(", ")"),
        "Arc" => wrapped("std::sync::Arc::new(", ")"),
        "Ordering" => ["Less", "Equal", "Greater"].map(|way| format!("std::cmp::Ordering::{way}")).into(),
        _ => vec!["Default::default()".to_owned()],
    }
}
