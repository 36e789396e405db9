//! The program's name, its standard output and its messages.

use std::io::{self, StdoutLock, Write};

/// The name of the program in its messages.
pub(super) const PROGRAM: &str = "plumbline";

/// Writes the lines of a text to standard error, each with the name of the program.
pub(super) fn notify_all(text: &impl std::fmt::Display) {
    for line in text.to_string().lines() {
        notify(&format!("{PROGRAM}: {line}"));
    }
}

/// Standard output. Writing to a pipe that its reader has closed fails with [`StdoutClosed`], which ends the program
/// quietly.
pub struct Stdout(StdoutLock<'static>);

/// The reader of standard output has closed the pipe.
#[derive(Debug, thiserror::Error)]
#[error("standard output is closed")]
pub(super) struct StdoutClosed;

/// Locks standard output.
#[must_use]
pub fn stdout() -> Stdout {
    Stdout(io::stdout().lock())
}

fn mark_closed(error: io::Error) -> io::Error {
    if error.kind() == io::ErrorKind::BrokenPipe { io::Error::new(error.kind(), StdoutClosed) } else { error }
}

impl Write for Stdout {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes).map_err(mark_closed)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush().map_err(mark_closed)
    }
}

/// Writes a message to standard error, in one piece: another thread may write to the same file.
pub fn notify(text: &str) {
    // If standard error is closed, the message is lost.
    let _ = io::stderr().write_all(format!("{text}\n").as_bytes());
}
