//! The client of a guest's clock.

use std::io::{self, BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use crate::protocol::{Order, Reading, Reply, TIME_SOCKET};

/// A connection to the clock of a guest, from another thread or process, or from a traced program.
///
/// ```no_run
/// let mut clock = plumbline_guest::Clock::from_env()?;
/// clock.advance(std::time::Duration::from_secs(3600))?;
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Clock {
    stream: BufReader<UnixStream>,
}

impl Clock {
    /// Connects to the time socket at `path`.
    pub fn connect(path: impl AsRef<Path>) -> io::Result<Self> {
        Ok(Self { stream: BufReader::new(UnixStream::connect(path)?) })
    }

    /// Connects to the time socket that `PLUMBLINE_TIME_SOCKET` names, as it does in traced programs.
    pub fn from_env() -> io::Result<Self> {
        let path = std::env::var_os(TIME_SOCKET).ok_or_else(|| {
            io::Error::new(io::ErrorKind::NotFound, format!("{TIME_SOCKET} is not set: this program is not traced"))
        })?;
        Self::connect(path)
    }

    /// Reads the clock.
    pub fn now(&mut self) -> io::Result<Reading> {
        self.order(Order::Now)
    }

    /// Lets `length` of virtual time pass. Returns when it is over and all that was due has been done.
    pub fn advance(&mut self, length: Duration) -> io::Result<Reading> {
        self.order(Order::Advance(length))
    }

    /// Waits until all programs rest and nothing is due. Time does not move.
    pub fn settle(&mut self) -> io::Result<Reading> {
        self.order(Order::Settle)
    }

    /// Lets time flow whenever all programs rest.
    pub fn auto(&mut self) -> io::Result<Reading> {
        self.order(Order::Auto)
    }

    /// Lets time pass only by orders to advance.
    pub fn manual(&mut self) -> io::Result<Reading> {
        self.order(Order::Manual)
    }

    /// Sends an order and reads its reply.
    pub fn order(&mut self, order: Order) -> io::Result<Reading> {
        self.stream.get_mut().write_all(format!("{order}\n").as_bytes())?;
        self.read()?.ok_or_else(|| io::Error::new(io::ErrorKind::UnexpectedEof, "the guest has ended"))
    }

    /// Returns the moments to which time moves, one by one, until the guest ends.
    pub fn events(mut self) -> io::Result<impl Iterator<Item = io::Result<Reading>>> {
        self.order(Order::Events)?;
        Ok(std::iter::from_fn(move || self.read().transpose()))
    }

    fn read(&mut self) -> io::Result<Option<Reading>> {
        let mut line = String::new();
        if self.stream.read_line(&mut line)? == 0 {
            return Ok(None);
        }
        match serde_json::from_str(&line).map_err(io::Error::other)? {
            Reply::Reading(reading) => Ok(Some(reading)),
            Reply::Error { error } => Err(io::Error::new(io::ErrorKind::InvalidInput, error)),
        }
    }
}
