//! Reports the run as one JSON document.

use std::io::{self, Write};

use super::{Event, Reporter};

/// Writes the [`super::RunReport`] when the run has ended.
#[derive(Debug)]
pub struct Json<W>(pub W);

impl<W: Write> Reporter for Json<W> {
    fn event(&mut self, event: Event<'_>) -> io::Result<()> {
        let Event::Ended(report) = event else { return Ok(()) };
        serde_json::to_writer_pretty(&mut self.0, report)?;
        writeln!(self.0)?;
        self.0.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::super::{RunReport, tests::canned};
    use super::*;

    #[test]
    fn what_is_written_can_be_read() {
        let report = canned();
        let mut out = Vec::new();
        Json(&mut out).event(Event::Ended(&report)).expect("memory can be written");
        let back: RunReport = serde_json::from_slice(&out).expect("our own document");
        assert_eq!(back, report);
        let text = String::from_utf8(out).expect("UTF-8");
        assert!(text.contains("\"apiVersion\": \"plumbline/v1\"") && text.contains("\"outcome\": \"fail\""), "{text}");
    }
}
