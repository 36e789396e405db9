//! Unified diffs with the matching algorithm of Python's difflib, which upstream uses through
//! `github.com/pmezard/go-difflib` (`staging/src/k8s.io/apimachinery/pkg/util/diff/diff.go`). Other algorithms
//! produce different diffs of the same length.

use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Number of context lines around a change.
const CONTEXT: usize = 3;

/// Minimum number of lines at which lines that make up more than 1 % of the text do not anchor a match.
const POPULARITY_FROM: usize = 200;

#[derive(Clone, Copy)]
struct MatchingBlock {
    a: usize,
    b: usize,
    size: usize,
}

#[derive(Clone, Copy)]
struct OpCode {
    equal: bool,
    a: (usize, usize),
    b: (usize, usize),
}

/// Returns the unified diff of `a` and `b` without file names.
pub(in crate::registry) fn unified(a: &[String], b: &[String]) -> String {
    let mut out = String::new();
    for group in grouped_opcodes(&changes(a, b)) {
        let (Some(first), Some(last)) = (group.first(), group.last()) else { continue };
        let from = range(first.a.0, last.a.1);
        let to = range(first.b.0, last.b.1);
        // Writing to a `String` does not fail.
        let _ = writeln!(out, "@@ -{from} +{to} @@");
        for change in &group {
            if change.equal {
                lines(&mut out, ' ', &a[change.a.0..change.a.1]);
            } else {
                lines(&mut out, '-', &a[change.a.0..change.a.1]);
                lines(&mut out, '+', &b[change.b.0..change.b.1]);
            }
        }
    }
    out
}

fn lines(out: &mut String, mark: char, lines: &[String]) {
    for line in lines {
        out.push(mark);
        out.push_str(line);
        out.push('\n');
    }
}

fn range(start: usize, stop: usize) -> String {
    match stop - start {
        0 => format!("{start},0"),
        1 => (start + 1).to_string(),
        length => format!("{},{length}", start + 1),
    }
}

fn changes(a: &[String], b: &[String]) -> Vec<OpCode> {
    let mut out = Vec::new();
    let mut i = 0;
    let mut j = 0;
    for block in blocks(a, b) {
        if i < block.a || j < block.b {
            out.push(OpCode { equal: false, a: (i, block.a), b: (j, block.b) });
        }
        i = block.a + block.size;
        j = block.b + block.size;
        if block.size > 0 {
            out.push(OpCode { equal: true, a: (block.a, i), b: (block.b, j) });
        }
    }
    out
}

/// Returns the matching blocks in order, with adjacent ones joined and an empty one at the end.
fn blocks(a: &[String], b: &[String]) -> Vec<MatchingBlock> {
    let places = line_indexes(b);
    let mut found = Vec::new();
    let mut open = vec![(0, a.len(), 0, b.len())];
    while let Some((a_low, a_high, b_low, b_high)) = open.pop() {
        let block = find_longest_match(a, b, &places, (a_low, a_high), (b_low, b_high));
        if block.size == 0 {
            continue;
        }
        found.push(block);
        open.push((a_low, block.a, b_low, block.b));
        open.push((block.a + block.size, a_high, block.b + block.size, b_high));
    }
    found.sort_by_key(|block| (block.a, block.b));
    let mut joined: Vec<MatchingBlock> = Vec::new();
    for block in found {
        match joined.last_mut() {
            Some(last) if last.a + last.size == block.a && last.b + last.size == block.b => last.size += block.size,
            _ => joined.push(block),
        }
    }
    joined.push(MatchingBlock { a: a.len(), b: b.len(), size: 0 });
    joined
}

fn line_indexes(b: &[String]) -> BTreeMap<&str, Vec<usize>> {
    let mut places: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (j, line) in b.iter().enumerate() {
        places.entry(line).or_default().push(j);
    }
    if b.len() >= POPULARITY_FROM {
        let most = b.len() / 100 + 1;
        places.retain(|_, at| at.len() <= most);
    }
    places
}

fn find_longest_match(
    a: &[String],
    b: &[String],
    places: &BTreeMap<&str, Vec<usize>>,
    (a_low, a_high): (usize, usize),
    (b_low, b_high): (usize, usize),
) -> MatchingBlock {
    let mut best = MatchingBlock { a: a_low, b: b_low, size: 0 };
    let mut lengths: BTreeMap<usize, usize> = BTreeMap::new();
    for (i, line) in a.iter().enumerate().take(a_high).skip(a_low) {
        let mut next = BTreeMap::new();
        for &j in places.get(line.as_str()).into_iter().flatten() {
            if j < b_low {
                continue;
            }
            if j >= b_high {
                break;
            }
            let size = j.checked_sub(1).and_then(|j| lengths.get(&j)).copied().unwrap_or(0) + 1;
            next.insert(j, size);
            if size > best.size {
                best = MatchingBlock { a: i + 1 - size, b: j + 1 - size, size };
            }
        }
        lengths = next;
    }
    while best.a > a_low && best.b > b_low && a[best.a - 1] == b[best.b - 1] {
        best = MatchingBlock { a: best.a - 1, b: best.b - 1, size: best.size + 1 };
    }
    while best.a + best.size < a_high && best.b + best.size < b_high && a[best.a + best.size] == b[best.b + best.size] {
        best.size += 1;
    }
    best
}

/// Groups changes with their context; distant changes are in separate groups.
fn grouped_opcodes(changes: &[OpCode]) -> Vec<Vec<OpCode>> {
    let mut changes = changes.to_vec();
    if let Some(first) = changes.first_mut().filter(|c| c.equal) {
        first.a.0 = first.a.0.max(first.a.1.saturating_sub(CONTEXT));
        first.b.0 = first.b.0.max(first.b.1.saturating_sub(CONTEXT));
    }
    if let Some(last) = changes.last_mut().filter(|c| c.equal) {
        last.a.1 = last.a.1.min(last.a.0 + CONTEXT);
        last.b.1 = last.b.1.min(last.b.0 + CONTEXT);
    }
    let mut groups = Vec::new();
    let mut group: Vec<OpCode> = Vec::new();
    for change in changes {
        let mut rest = change;
        if change.equal && change.a.1 - change.a.0 > 2 * CONTEXT {
            let a = change.a.0 + CONTEXT;
            let b = change.b.0 + CONTEXT;
            group.push(OpCode { equal: true, a: (change.a.0, a), b: (change.b.0, b) });
            groups.push(std::mem::take(&mut group));
            rest.a.0 = change.a.1 - CONTEXT;
            rest.b.0 = change.b.1 - CONTEXT;
        }
        group.push(rest);
    }
    if group.iter().any(|c| !c.equal) {
        groups.push(group);
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(lines: &str) -> Vec<String> {
        lines.chars().map(String::from).collect()
    }

    #[test]
    fn nothing_changed_shows_nothing() {
        assert_eq!(unified(&text("abc"), &text("abc")), "");
    }

    #[test]
    fn a_change_has_three_lines_around_it() {
        let expected = "@@ -3,7 +3,7 @@\n c\n d\n e\n-f\n+X\n g\n h\n i\n";
        assert_eq!(unified(&text("abcdefghijk"), &text("abcdeXghijk")), expected);
    }

    #[test]
    fn far_changes_are_apart_and_additions_have_empty_ranges() {
        let diff = unified(&text("abcdefghijklmnop"), &text("Xabcdefghijklmno"));
        assert_eq!(diff, "@@ -1,3 +1,4 @@\n+X\n a\n b\n c\n@@ -13,4 +14,3 @@\n m\n n\n o\n-p\n");
    }
}
