//! Long lines on a terminal: wrapped at spaces, so that ids and paths stay whole.

use std::io::{self, Write};

use textwrap::{Options, WordSeparator, WordSplitter, WrapAlgorithm};

/// Begin of lines that are copied as a whole: commands and addresses.
const WHOLE: [&str; 2] = ["more: ", "page: "];
/// Indent of a continued line, in addition to that of the line.
const CONTINUED: usize = 4;
/// Minimum width: narrower terminals get lines of this width.
const NARROW: usize = 40;

/// Wraps an output that is a terminal; one of unknown width stays as it is.
pub(super) fn to_terminal(out: Box<dyn Write>) -> Box<dyn Write> {
    match terminal_size::terminal_size() {
        Some((width, _)) => Box::new(LineWrapper::new(out, usize::from(width.0))),
        None => out,
    }
}

/// Wraps what is written to a terminal.
struct LineWrapper<W: Write> {
    out: W,
    width: usize,
    /// The line so far.
    line: Vec<u8>,
}

impl<W: Write> LineWrapper<W> {
    /// Creates a wrapper for a terminal of this width.
    fn new(out: W, width: usize) -> Self {
        Self { out, width: width.max(NARROW), line: Vec::new() }
    }

    fn end_line(&mut self) -> io::Result<()> {
        let line = std::mem::take(&mut self.line);
        let text = String::from_utf8_lossy(&line);
        for part in wrapped(&text, self.width) {
            writeln!(self.out, "{part}")?;
        }
        Ok(())
    }
}

impl<W: Write> Write for LineWrapper<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        for byte in bytes {
            if *byte == b'\n' {
                self.end_line()?;
            } else {
                self.line.push(*byte);
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.write_all(&std::mem::take(&mut self.line))?;
        self.out.flush()
    }
}

/// Returns the lines of a line: it is broken at spaces, and words are never broken.
fn wrapped(line: &str, width: usize) -> Vec<String> {
    let text = line.trim_start();
    if textwrap::core::display_width(line) <= width || WHOLE.iter().any(|begin| text.starts_with(begin)) {
        return vec![line.to_owned()];
    }
    let indent = line.len() - text.len();
    let first = " ".repeat(indent);
    let next = " ".repeat((indent + CONTINUED).min(width / 2));
    let options = Options::new(width)
        .initial_indent(&first)
        .subsequent_indent(&next)
        .break_words(false)
        .word_separator(WordSeparator::AsciiSpace)
        .word_splitter(WordSplitter::NoHyphenation)
        .wrap_algorithm(WrapAlgorithm::FirstFit);
    textwrap::wrap(text, options).into_iter().map(std::borrow::Cow::into_owned).collect()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::short("FAIL podgc/a", &["FAIL podgc/a"])]
    #[case::words(
        "  ✗ eventually exists: pods/a, exists: pods/b, exists: pods/c",
        &["  ✗ eventually exists: pods/a, exists:", "      pods/b, exists: pods/c"]
    )]
    #[case::id(
        "FAIL disruption/a-very-long-name-of-a-fixture-that-fits-no-line (x.yaml)",
        &["FAIL", "    disruption/a-very-long-name-of-a-fixture-that-fits-no-line", "    (x.yaml)"]
    )]
    #[case::command(
        "  more: plumbline explain podgc/orphaned-quarantine --command './me {server}'",
        &["  more: plumbline explain podgc/orphaned-quarantine --command './me {server}'"]
    )]
    #[case::colour("\x1b[1;31mFAIL\x1b[0m podgc/orphaned-quarantine-40s.y", &["\x1b[1;31mFAIL\x1b[0m podgc/orphaned-quarantine-40s.y"])]
    fn lines_break_at_spaces(#[case] line: &str, #[case] expected: &[&str]) {
        let mut out = Vec::new();
        let mut wrapper = LineWrapper::new(&mut out, 40);
        write!(wrapper, "{line}\n\nend").expect("memory");
        wrapper.flush().expect("memory");
        drop(wrapper);
        let text = String::from_utf8(out).expect("UTF-8");
        assert_eq!(text, format!("{}\n\nend", expected.join("\n")));
    }
}
