//! The server of the time socket. The tracer's own thread answers, so that an order of a traced program is seen before
//! time moves.

use std::collections::BTreeSet;
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::fd::{AsRawFd as _, RawFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;

use super::clocks::{NEVER, SECOND};
use super::sys;
use super::watch;
use crate::protocol::{Order, OrderError, Reading, Reply};

/// The most bytes of orders that may wait.
const MOST: usize = 4096;

/// One client.
#[derive(Debug)]
struct Client {
    stream: UnixStream,
    input: Vec<u8>,
    /// The moment for which its first order waits; 0 for the next rest. Its other orders wait for that one.
    moment: Option<u64>,
    has_events: bool,
    is_gone: bool,
}

/// The time socket and its clients.
#[derive(Debug)]
pub(crate) struct Control {
    listener: UnixListener,
    clients: Vec<Client>,
    is_manual: bool,
    /// The only process whose orders count, if not all do.
    owner: Option<i32>,
    /// The programs of other processes that have connected.
    strangers: BTreeSet<String>,
}

impl Control {
    /// Listens at a path.
    pub(crate) fn new(path: &Path, is_manual: bool) -> std::io::Result<Self> {
        let listener = UnixListener::bind(path)?;
        listener.set_nonblocking(true)?;
        Ok(Self { listener, clients: Vec::new(), is_manual, owner: None, strangers: BTreeSet::new() })
    }

    /// Refuses the orders of all processes but one.
    pub(crate) fn obey_only(&mut self, process: i32) {
        self.owner = Some(process);
    }

    /// Returns the names of programs whose orders were refused.
    pub(crate) fn strangers(&self) -> &BTreeSet<String> {
        &self.strangers
    }

    /// Returns the next moment at which a client wants to be answered, and the moment at which time has to stop.
    pub(crate) fn bounds(&self) -> (u64, u64) {
        let moments = || self.clients.iter().filter_map(|client| client.moment).filter(|moment| *moment > 0);
        let bound = if self.is_manual { moments().max().unwrap_or(0) } else { NEVER };
        (moments().min().unwrap_or(NEVER), bound)
    }

    /// Returns true if time passes by orders only.
    pub(crate) fn is_manual(&self) -> bool {
        self.is_manual
    }

    /// The files that have something to read when an order comes.
    pub(crate) fn files(&self) -> Vec<RawFd> {
        let clients = self.clients.iter().map(|client| client.stream.as_raw_fd());
        clients.chain([self.listener.as_raw_fd()]).collect()
    }

    /// Reads orders, and answers those that need no rest. Returns true if there were any.
    pub(crate) fn receive(&mut self, reading: impl Fn() -> Reading) -> bool {
        // An order that was read together with an earlier one is not in the socket any more.
        if !self.clients.iter().any(|client| client.line_end().is_some()) && !sys::is_readable(&self.files()) {
            return false;
        }
        while let Ok((stream, _)) = self.listener.accept() {
            let peer = sys::peer(stream.as_raw_fd()).unwrap_or_default();
            if self.owner.is_some_and(|owner| owner != peer) {
                self.strangers.insert(watch::thread_name(peer));
                continue;
            }
            let is_gone = stream.set_nonblocking(true).is_err();
            self.clients.push(Client { stream, input: Vec::new(), moment: None, has_events: false, is_gone });
        }
        let mut has_orders = false;
        let mut is_manual = self.is_manual;
        for client in &mut self.clients {
            client.read();
            while let Some(line) = client.next_line() {
                has_orders = true;
                client.obey(&line, &reading(), &mut is_manual);
            }
        }
        self.is_manual = is_manual;
        self.clients.retain(|client| !client.is_gone);
        has_orders
    }

    /// Answers the clients that wait for this rest. Returns true if there were any.
    pub(crate) fn rest(&mut self, reading: impl Fn() -> Reading) -> bool {
        let mut has_answered = false;
        for client in &mut self.clients {
            if client.moment.take_if(|moment| *moment <= reading().elapsed_ns).is_some() {
                client.send(&Reply::Reading(reading()));
                has_answered = true;
            }
        }
        self.clients.retain(|client| !client.is_gone);
        has_answered
    }

    /// Sends the new time to the clients that want events.
    pub(crate) fn moved(&mut self, reading: impl Fn() -> Reading) {
        for client in self.clients.iter_mut().filter(|client| client.has_events) {
            client.send(&Reply::Reading(reading()));
        }
    }
}

impl Client {
    /// Reads what is there.
    fn read(&mut self) {
        let mut bytes = [0; 1024];
        while !self.is_gone {
            match self.stream.read(&mut bytes) {
                Ok(0) => self.is_gone = true,
                Ok(length) => {
                    self.input.extend_from_slice(&bytes[..length]);
                    self.is_gone = self.input.len() > MOST;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(_) => self.is_gone = true,
            }
        }
    }

    /// Returns the end of the next order that was read, unless an earlier one still waits.
    fn line_end(&self) -> Option<usize> {
        self.input.iter().position(|byte| *byte == b'\n').filter(|_| self.moment.is_none())
    }

    /// Takes the next order, unless an earlier one still waits.
    fn next_line(&mut self) -> Option<String> {
        let end = self.line_end()?;
        let rest = self.input.split_off(end + 1);
        let line = std::mem::replace(&mut self.input, rest);
        Some(String::from_utf8_lossy(&line).into_owned())
    }

    /// Carries out an order, or begins to wait for its moment.
    fn obey(&mut self, line: &str, reading: &Reading, is_manual: &mut bool) {
        match line.parse::<Order>() {
            Ok(Order::Advance(length)) => {
                let length = u64::try_from(length.as_nanos()).unwrap_or(NEVER);
                let now = u64::try_from(reading.now.as_nanosecond()).unwrap_or(NEVER);
                if length > (NEVER - SECOND).saturating_sub(now) {
                    self.send(&Reply::Error { error: OrderError::TooFar.to_string() });
                    return;
                }
                // At the start, no time at all is a moment as well.
                let moment = reading.elapsed_ns.saturating_add(length).max(1);
                self.moment = Some(moment.min(NEVER - 1));
                return;
            }
            Ok(Order::Settle) => {
                self.moment = Some(0);
                return;
            }
            Ok(Order::Auto) => *is_manual = false,
            Ok(Order::Manual) => *is_manual = true,
            Ok(Order::Events) => self.has_events = true,
            Ok(Order::Now) => {}
            Err(error) => {
                self.send(&Reply::Error { error: error.to_string() });
                return;
            }
        }
        self.send(&Reply::Reading(*reading));
    }

    /// Sends a line. A client that does not read its replies is dropped.
    fn send(&mut self, reply: &Reply) {
        let mut line = serde_json::to_vec(reply).unwrap_or_default();
        line.push(b'\n');
        self.is_gone |= self.stream.write_all(&line).is_err();
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader};

    use super::*;

    fn reading(elapsed_ns: u64) -> impl Fn() -> Reading {
        move || Reading { now: jiff::Timestamp::UNIX_EPOCH, elapsed_ns, next_ns: None }
    }

    #[test]
    fn orders_are_answered_at_their_moments() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("socket");
        let mut control = Control::new(&path, true).expect("a socket");
        assert_eq!(control.bounds(), (NEVER, 0));
        let mut client = BufReader::new(UnixStream::connect(&path).expect("a connection"));
        client.get_mut().write_all(b"now\nnonsense\nadvance 9999999h\nadvance 5s\nsettle\nadv").expect("written");
        assert!(control.receive(reading(7)));
        assert_eq!(control.bounds(), (5_000_000_007, 5_000_000_007));
        let mut line = || {
            let mut line = String::new();
            client.read_line(&mut line).expect("a line");
            line
        };
        assert!(line().contains(r#""elapsed_ns":7"#));
        assert!(line().contains(r#"{"error":"unknown order"#));
        assert!(line().contains(r#"{"error":"the clocks of programs end in 2554"#));
        assert!(!control.rest(reading(5_000_000_006)), "not yet");
        assert!(control.rest(reading(5_000_000_007)));
        assert!(line().contains("5000000007"));
        assert!(control.receive(reading(5_000_000_007)), "the next order");
        assert!(control.rest(reading(5_000_000_008)));
        assert!(line().contains("5000000008"));
        assert!(!control.receive(reading(8)), "half a line is no order");
        drop(client);
        assert!(!control.receive(reading(8)));
        assert!(control.clients.is_empty());
    }

    #[test]
    fn orders_of_others_than_the_owner_are_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("socket");
        let mut control = Control::new(&path, false).expect("a socket");
        let own = std::process::id() as i32;
        for (owner, is_obeyed) in [(own + 1, false), (own, true)] {
            control.obey_only(owner);
            let mut client = UnixStream::connect(&path).expect("a connection");
            // The other end may be closed already.
            let _ = client.write_all(b"manual\n");
            control.receive(reading(0));
            assert_eq!((control.is_manual(), control.strangers().len()), (is_obeyed, 1));
        }
    }

    #[test]
    fn a_client_that_sends_no_lines_is_dropped() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("socket");
        let mut control = Control::new(&path, false).expect("a socket");
        let mut client = UnixStream::connect(&path).expect("a connection");
        client.write_all(&[b'a'; 5000]).expect("written");
        while !control.clients.is_empty() || control.files().len() > 1 {
            control.receive(reading(0));
        }
    }
}
