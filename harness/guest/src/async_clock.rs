//! The client of a guest's clock for programs on tokio.

use std::path::Path;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::UnixStream;

use crate::clock::{self, ClockError};
use crate::protocol::{Order, Reading};

/// A [`Clock`](crate::Clock) whose orders are futures. After an order whose future was dropped, connect again.
#[derive(Debug)]
pub struct AsyncClock {
    stream: BufReader<UnixStream>,
}

impl AsyncClock {
    /// Connects to the time socket at `path`.
    pub async fn connect(path: impl AsRef<Path>) -> Result<Self, ClockError> {
        let path = path.as_ref();
        let stream = UnixStream::connect(path).await;
        let stream = stream.map_err(|source| ClockError::Connect { path: path.to_owned(), source })?;
        Ok(Self { stream: BufReader::new(stream) })
    }

    /// Connects to the time socket that `PLUMBLINE_TIME_SOCKET` names, as it does in traced programs.
    pub async fn from_env() -> Result<Self, ClockError> {
        Self::connect(clock::path_from_env()?).await
    }

    /// Lets `length` of virtual time pass. Returns when it is over and all that was due has been done.
    pub async fn advance(&mut self, length: Duration) -> Result<Reading, ClockError> {
        self.order(Order::Advance(length)).await
    }

    /// Waits until all programs rest and nothing is due. Time does not move.
    pub async fn settle(&mut self) -> Result<Reading, ClockError> {
        self.order(Order::Settle).await
    }

    /// Sends an order and reads its reply.
    pub async fn order(&mut self, order: Order) -> Result<Reading, ClockError> {
        self.stream.write_all(format!("{order}\n").as_bytes()).await?;
        let mut line = String::new();
        self.stream.read_line(&mut line).await?;
        clock::parse(line)
    }
}
