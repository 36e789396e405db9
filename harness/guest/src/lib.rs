//! Runs a command and everything that it starts in virtual time.
//!
//! The programs are not changed: a [`Guest`] traces them. Their clocks show virtual time, which moves only while all
//! their threads rest, and then at once to the next deadline. An hour of waiting costs nothing; a computation takes no
//! virtual time.
//!
//! ```no_run
//! let outcome = plumbline_guest::Guest::new("sh").args(["-c", "sleep 3600; date"]).run()?;
//! assert!(outcome.status.success());
//! println!("{}", outcome.report);
//! # Ok::<(), plumbline_guest::GuestError>(())
//! ```
//!
//! A [`Clock`] reads and moves the time of a running guest, also from inside; with the feature `tokio`, `AsyncClock`
//! does so without blocking.
//!
//! Linux on x86-64 only; elsewhere, [`Guest::start`] returns [`GuestError::Unsupported`].

#[cfg(feature = "tokio")]
mod async_clock;
mod clock;
mod folder;
mod guest;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod linux;
mod outcome;
mod protocol;
mod report;
mod settings;
mod testing;

#[cfg(feature = "tokio")]
pub use async_clock::AsyncClock;
pub use clock::{Clock, ClockError};
pub use folder::TemporaryFolder;
pub use guest::{Guest, Running};
pub use outcome::{End, GuestError, Outcome};
pub use protocol::{Order, OrderError, Reading, TIME_SOCKET};
pub use report::{Report, Spin, UnvirtualCall};
pub use settings::{Epoch, EpochError, Network, Stdio};
pub use testing::in_virtual_time;
