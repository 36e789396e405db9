//! Renders one source text that contains all mutants of a file, each behind a switch.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::find::{Change, Mutant};

/// Path of the function that returns true if a mutant is switched on.
const ON: &str = "crate::schemata::on";

/// A source text with its mutants.
#[derive(Debug, Default)]
pub(crate) struct Rendered {
    /// The text.
    pub(crate) text: String,
    /// Byte range of each mutant's text: compiler errors in that range belong to the mutant.
    pub(crate) places: BTreeMap<usize, Range<usize>>,
}

/// The mutations at one place of the original.
enum Node<'a> {
    /// Mutants of one expression.
    Expr { range: Range<usize>, instead: Vec<(usize, &'a str)> },
    /// Early returns of one function.
    Return { at: usize, values: Vec<(usize, &'a str)> },
    /// A guard that can be replaced with true or false, and an arm that can be skipped.
    Guard { range: Range<usize>, skip: Option<usize>, values: Vec<(usize, bool)> },
    /// An arm without a guard that can be skipped.
    Skip { at: usize, id: usize },
    /// A handwritten edit around the original text.
    Around { range: Range<usize>, id: usize, before: &'a str, after: &'a str },
}

impl Node<'_> {
    fn range(&self) -> Range<usize> {
        match self {
            Self::Expr { range, .. } | Self::Guard { range, .. } | Self::Around { range, .. } => range.clone(),
            Self::Return { at, .. } | Self::Skip { at, .. } => *at..*at,
        }
    }
}

/// Inserts `mutants` (with their numbers) into `text`.
pub(crate) fn render<'a>(text: &str, mutants: impl IntoIterator<Item = (usize, &'a Mutant)>) -> Rendered {
    let mut nodes: BTreeMap<(usize, usize, usize), Node<'a>> = BTreeMap::new();
    for (id, mutant) in mutants {
        add(&mut nodes, id, &mutant.change);
    }
    // Outer nodes before inner ones: by start, then the longer one, then handwritten edits, then a guard before the
    // expression with the same range.
    let mut nodes: Vec<Node<'_>> = nodes.into_values().collect();
    nodes.sort_by_key(|node| {
        let inner = match node {
            Node::Around { .. } => 0,
            Node::Return { .. } | Node::Skip { .. } | Node::Guard { .. } => 1,
            Node::Expr { .. } => 2,
        };
        (node.range().start, std::cmp::Reverse(node.range().end), inner)
    });
    let mut out = Rendered::default();
    piece(text, 0..text.len(), &nodes, &mut out);
    out
}

fn add<'a>(nodes: &mut BTreeMap<(usize, usize, usize), Node<'a>>, id: usize, change: &'a Change) {
    match change {
        Change::Replace { range, instead } => {
            let node = || Node::Expr { range: range.clone(), instead: Vec::new() };
            if let Node::Expr { instead: all, .. } = nodes.entry((range.start, range.end, 0)).or_insert_with(node) {
                all.push((id, instead));
            }
        }
        Change::Return { at, value } => {
            let node = || Node::Return { at: *at, values: Vec::new() };
            if let Node::Return { values, .. } = nodes.entry((*at, *at, 1)).or_insert_with(node) {
                values.push((id, value));
            }
        }
        Change::SkipArm { at, guard: None } => {
            nodes.insert((*at, *at, 2), Node::Skip { at: *at, id });
        }
        Change::SkipArm { guard: Some(range), .. } => {
            if let Node::Guard { skip, .. } = guard(nodes, range) {
                *skip = Some(id);
            }
        }
        Change::Around { range, before, after } => {
            nodes.insert((range.start, range.end, 4 + id), Node::Around { range: range.clone(), id, before, after });
        }
        Change::Guard { range, value } => {
            if let Node::Guard { values, .. } = guard(nodes, range) {
                values.push((id, *value));
            }
        }
    }
}

fn guard<'m, 'a>(nodes: &'m mut BTreeMap<(usize, usize, usize), Node<'a>>, range: &Range<usize>) -> &'m mut Node<'a> {
    let node = || Node::Guard { range: range.clone(), skip: None, values: Vec::new() };
    nodes.entry((range.start, range.end, 3)).or_insert_with(node)
}

/// Writes `range` of `text` with `nodes`, all of which lie inside it.
fn piece(text: &str, range: Range<usize>, nodes: &[Node<'_>], out: &mut Rendered) {
    let mut at = range.start;
    let mut rest = nodes;
    while let Some((node, after)) = rest.split_first() {
        let own = node.range();
        out.text.push_str(&text[at..own.start]);
        let inner = after.iter().take_while(|other| other.range().start < own.end).count();
        let crosses = |other: &Node<'_>| other.range().end > own.end;
        assert!(!after[..inner].iter().any(crosses), "an edit by hand cuts an expression: {}", &text[own]);
        let own = node.range();
        let (inner, after) = after.split_at(inner);
        one(text, node, inner, out);
        at = own.end;
        rest = after;
    }
    out.text.push_str(&text[at..range.end]);
}

fn one(text: &str, node: &Node<'_>, inner: &[Node<'_>], out: &mut Rendered) {
    match node {
        Node::Return { values, .. } => {
            for (id, value) in values {
                switch(out, *id, &format!(" if {ON}({id}) {{ return "), value, "; }");
            }
        }
        Node::Around { range, id, before, after } => {
            let start = out.text.len();
            out.text.push_str(before);
            piece(text, range.clone(), inner, out);
            out.text.push_str(after);
            // Only the inserted text belongs to this mutant; the original text belongs to the nested ones.
            out.places.insert(*id, start..start + before.len());
        }
        Node::Skip { id, .. } => switch(out, *id, " if ", &format!("!{ON}({id})"), ""),
        Node::Expr { range, instead } => {
            out.text.push('(');
            for (id, instead) in instead {
                switch(out, *id, &format!("if {ON}({id}) {{ "), instead, " } else ");
            }
            out.text.push_str("{ ");
            piece(text, range.clone(), inner, out);
            out.text.push_str(" })");
        }
        Node::Guard { range, skip, values } => {
            if let Some(id) = skip {
                switch(out, *id, "", &format!("!{ON}({id})"), " && ");
            }
            out.text.push('(');
            for (id, value) in values {
                let (text, joint) = if *value { ("", " || ") } else { ("!", " && ") };
                switch(out, *id, "", &format!("{text}{ON}({id})"), joint);
            }
            out.text.push('(');
            piece(text, range.clone(), inner, out);
            out.text.push_str("))");
        }
    }
}

fn switch(out: &mut Rendered, id: usize, before: &str, instead: &str, after: &str) {
    out.text.push_str(before);
    let start = out.text.len();
    out.text.push_str(instead);
    out.places.insert(id, start..out.text.len());
    out.text.push_str(after);
}
