//! The log of a guarded process: what it writes to its two outputs, up to a size.

use std::fs::File;
use std::io::Write;

/// The beginning of the guard's own lines.
pub(super) const GUARD_SAYS: &str = "guard: ";

/// The origin of a piece of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Output {
    Stdout,
    Stderr,
    Guard,
}

/// A log with a size limit.
pub(super) struct LimitedLog<W = File> {
    file: W,
    left: u64,
    /// The output whose last piece ended within a line.
    open_line: Option<Output>,
}

impl<W: Write> LimitedLog<W> {
    pub(super) const fn new(file: W, limit: u64) -> Self {
        Self { file, left: limit, open_line: None }
    }

    /// Appends a piece of an output. It begins a line if the last piece was another output's: a program may write a
    /// line and its end in two pieces.
    pub(super) fn write(&mut self, of: Output, bytes: &[u8]) {
        let Some(last) = bytes.last().filter(|_| self.left > 0) else { return };
        let is_cut = self.open_line.is_some_and(|open| open != of);
        let length = bytes.len() as u64 + u64::from(is_cut);
        // A full disk must not stop the process that logs here.
        if length > self.left {
            let end = if self.open_line.is_some() { "\n" } else { "" };
            let _ = writeln!(self.file, "{end}{GUARD_SAYS}log truncated: size limit reached");
            self.left = 0;
            return;
        }
        if is_cut {
            let _ = self.file.write_all(b"\n");
        }
        let _ = self.file.write_all(bytes);
        self.left -= length;
        self.open_line = (*last != b'\n').then_some(of);
    }
}

#[cfg(test)]
mod tests {
    use super::Output::{Stderr, Stdout};
    use super::*;

    fn log(limit: u64, pieces: &[(Output, &str)]) -> String {
        let mut log = LimitedLog::new(Vec::new(), limit);
        for (of, text) in pieces {
            log.write(*of, text.as_bytes());
        }
        String::from_utf8(log.file).expect("text")
    }

    #[test]
    fn a_line_of_one_output_is_not_continued_by_the_other() {
        assert_eq!(log(99, &[(Stderr, "a"), (Stdout, "ready\n"), (Stderr, "\n")]), "a\nready\n\n");
        assert_eq!(log(99, &[(Stderr, "a"), (Stderr, "b\n"), (Stdout, "c\n")]), "ab\nc\n");
        assert_eq!(log(99, &[(Stdout, ""), (Stderr, "a\n")]), "a\n");
    }

    #[test]
    fn what_is_too_long_is_cut() {
        let text = log(5, &[(Stdout, "1234"), (Stderr, "5"), (Stdout, "6")]);
        assert_eq!(text, format!("1234\n{GUARD_SAYS}log truncated: size limit reached\n"));
    }
}
