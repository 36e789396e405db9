//! The protocol of the time socket: a line for each order, and a line of JSON for each reply.

use std::fmt::{self, Display};
use std::str::FromStr;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

/// The environment variable that names the time socket in traced programs.
pub const TIME_SOCKET: &str = "PLUMBLINE_TIME_SOCKET";

/// An order to the clock of a guest. Its text form is a line of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Order {
    /// `now`: reply at once.
    Now,
    /// `advance 1h30m`: let so much virtual time pass, and reply when it is over and all that was due has been done.
    Advance(Duration),
    /// `settle`: reply as soon as all programs rest and nothing is due.
    Settle,
    /// `auto`: let time flow whenever all programs rest.
    Auto,
    /// `manual`: let time pass only by orders to advance.
    Manual,
    /// `events`: send a line each time that time moves.
    Events,
}

impl Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Now => f.write_str("now"),
            Self::Advance(length) => {
                write!(f, "advance {:#}", SignedDuration::try_from(*length).unwrap_or(SignedDuration::MAX))
            }
            Self::Settle => f.write_str("settle"),
            Self::Auto => f.write_str("auto"),
            Self::Manual => f.write_str("manual"),
            Self::Events => f.write_str("events"),
        }
    }
}

/// A line that is no order.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OrderError {
    /// `advance` without a duration.
    #[error("advance takes a duration such as 90s or 1h30m, not {0:?}")]
    Duration(String),
    /// `advance` with a negative duration.
    #[error("time does not go back")]
    Backwards,
    /// `advance` beyond what clocks can show.
    #[error("the clocks of programs end in 2554: advance by less")]
    TooFar,
    /// Another word.
    #[error("unknown order {0:?}: now, advance DURATION, settle, auto, manual, events")]
    Unknown(String),
}

impl FromStr for Order {
    type Err = OrderError;

    fn from_str(line: &str) -> Result<Self, OrderError> {
        let line = line.trim();
        let (word, argument) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        if word == "advance" {
            let wrong = |_| OrderError::Duration(argument.to_owned());
            let length: SignedDuration = argument.trim().parse().map_err(wrong)?;
            return Duration::try_from(length).map(Self::Advance).map_err(|_| OrderError::Backwards);
        }
        match line {
            "now" => Ok(Self::Now),
            "settle" => Ok(Self::Settle),
            "auto" => Ok(Self::Auto),
            "manual" => Ok(Self::Manual),
            "events" => Ok(Self::Events),
            _ => Err(OrderError::Unknown(line.to_owned())),
        }
    }
}

/// The state of a guest's clock: the reply to an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reading {
    /// The time of day in the guest.
    pub now: Timestamp,
    /// Virtual nanoseconds since the guest's start.
    pub elapsed_ns: u64,
    /// The next deadline, in virtual nanoseconds since the guest's start; `None` if no program waits for a time.
    pub next_ns: Option<u64>,
}

impl Reading {
    /// Returns the virtual time since the guest's start.
    pub fn elapsed(&self) -> Duration {
        Duration::from_nanos(self.elapsed_ns)
    }
}

/// A line of the server.
#[derive(Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum Reply {
    /// The state of the clock.
    Reading(Reading),
    /// An order that was not understood.
    Error {
        /// The reason.
        error: String,
    },
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn orders_are_lines() {
        let orders = [Order::Now, Order::Settle, Order::Auto, Order::Manual, Order::Events];
        for order in orders.into_iter().chain(
            [0, 1, 1_500_000, 5_400_000_000_000].map(|nanoseconds| Order::Advance(Duration::from_nanos(nanoseconds))),
        ) {
            assert_eq!(order.to_string().parse(), Ok(order), "{order}");
        }
        assert_eq!("advance 1h30m\n".parse(), Ok(Order::Advance(Duration::from_mins(90))));
        assert!("advance".parse::<Order>().is_err_and(|error| error.to_string().contains("90s")));
        assert!("advance -1s".parse::<Order>().is_err());
        assert!("stop".parse::<Order>().is_err_and(|error| error.to_string().contains("advance DURATION")));
    }

    proptest! {
        #[test]
        fn any_line_is_an_order_or_an_error(line in ".{0,40}") {
            let _ = line.parse::<Order>();
        }
    }
}
