//! The client of a guest's clock.

use std::io::{self, BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::protocol::{Order, Reading, Reply, TIME_SOCKET};

/// Reasons why the clock of a guest cannot be read or moved.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClockError {
    /// This program is not traced.
    #[error("{TIME_SOCKET} is not set: this program is not traced")]
    NotTraced,
    /// The time socket cannot be reached.
    #[error("the time socket {}: {source}", path.display())]
    Connect {
        /// Its path.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// The connection has failed.
    #[error("the time socket: {0}")]
    Connection(#[from] io::Error),
    /// The guest has ended.
    #[error("the guest has ended")]
    Ended,
    /// The order was refused.
    #[error("the clock refuses the order: {0}")]
    Refused(String),
    /// The reply is none of the protocol.
    #[error("the clock replies {line:?}: {source}")]
    Reply {
        /// The reply.
        line: String,
        /// The error in it.
        source: serde_json::Error,
    },
}

/// Returns the path of the time socket of this process.
pub(crate) fn path_from_env() -> Result<PathBuf, ClockError> {
    std::env::var_os(TIME_SOCKET).map(PathBuf::from).ok_or(ClockError::NotTraced)
}

/// Reads a line of the server; an empty one is its end.
pub(crate) fn parse(line: String) -> Result<Reading, ClockError> {
    if line.is_empty() {
        return Err(ClockError::Ended);
    }
    match serde_json::from_str(&line) {
        Ok(Reply::Reading(reading)) => Ok(reading),
        Ok(Reply::Error { error }) => Err(ClockError::Refused(error)),
        Err(source) => Err(ClockError::Reply { line, source }),
    }
}

/// A connection to the clock of a guest, from another thread or process, or from a traced program.
///
/// ```no_run
/// let mut clock = plumbline_guest::Clock::from_env()?;
/// clock.advance(std::time::Duration::from_secs(3600))?;
/// # Ok::<(), plumbline_guest::ClockError>(())
/// ```
#[derive(Debug)]
pub struct Clock {
    stream: BufReader<UnixStream>,
}

impl Clock {
    /// Connects to the time socket at `path`.
    pub fn connect(path: impl AsRef<Path>) -> Result<Self, ClockError> {
        let path = path.as_ref();
        let stream = UnixStream::connect(path);
        let stream = stream.map_err(|source| ClockError::Connect { path: path.to_owned(), source })?;
        Ok(Self { stream: BufReader::new(stream) })
    }

    /// Connects to the time socket that `PLUMBLINE_TIME_SOCKET` names, as it does in traced programs.
    pub fn from_env() -> Result<Self, ClockError> {
        Self::connect(path_from_env()?)
    }

    /// Reads the clock.
    pub fn now(&mut self) -> Result<Reading, ClockError> {
        self.order(Order::Now)
    }

    /// Lets `length` of virtual time pass. Returns when it is over and all that was due has been done.
    pub fn advance(&mut self, length: Duration) -> Result<Reading, ClockError> {
        self.order(Order::Advance(length))
    }

    /// Waits until all programs rest and nothing is due. Time does not move.
    pub fn settle(&mut self) -> Result<Reading, ClockError> {
        self.order(Order::Settle)
    }

    /// Lets time flow whenever all programs rest.
    pub fn auto(&mut self) -> Result<Reading, ClockError> {
        self.order(Order::Auto)
    }

    /// Lets time pass only by orders to advance.
    pub fn manual(&mut self) -> Result<Reading, ClockError> {
        self.order(Order::Manual)
    }

    /// Sends an order and reads its reply.
    pub fn order(&mut self, order: Order) -> Result<Reading, ClockError> {
        self.stream.get_mut().write_all(format!("{order}\n").as_bytes())?;
        self.read()
    }

    /// Returns the moments to which time moves, one by one, until the guest ends.
    pub fn events(mut self) -> Result<impl Iterator<Item = Result<Reading, ClockError>>, ClockError> {
        self.order(Order::Events)?;
        Ok(std::iter::from_fn(move || match self.read() {
            Err(ClockError::Ended) => None,
            reading => Some(reading),
        }))
    }

    fn read(&mut self) -> Result<Reading, ClockError> {
        let mut line = String::new();
        self.stream.read_line(&mut line)?;
        parse(line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_are_readings_or_errors() {
        let reading = parse(r#"{"now":"2030-01-01T00:00:00Z","elapsed_ns":7,"next_ns":null}"#.to_owned());
        assert_eq!(reading.expect("a reading").elapsed_ns, 7);
        assert!(matches!(parse(String::new()), Err(ClockError::Ended)));
        let refused = parse(r#"{"error":"unknown order"}"#.to_owned()).expect_err("an error");
        assert_eq!(refused.to_string(), "the clock refuses the order: unknown order");
        assert!(matches!(parse("nonsense".to_owned()), Err(ClockError::Reply { .. })));
        let missing = Clock::connect("/nonexistent/time.sock").expect_err("no socket");
        assert!(missing.to_string().starts_with("the time socket /nonexistent/time.sock: No such file"), "{missing}");
    }
}
