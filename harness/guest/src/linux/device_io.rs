//! The kernel's asynchronous I/O (`io_submit`): time does not move while a device works for a program.
//!
//! A context of the kernel is a ring in the memory of its program. The kernel writes an event to it for each request
//! that is done, and moves the end of the ring on.

use super::state::Tracer;
use super::sys;

/// The ring's number of events, the index behind the last one, and a fixed number, in its header.
const LENGTH: usize = 1;
const TAIL: usize = 3;
const MAGIC: (usize, u32) = (4, 0xa10a_10a1);
/// The bytes of the header and of an event, and the place in an event of the address of its request.
const HEADER: u64 = 32;
const EVENT: u64 = 32;
const OF_REQUEST: u64 = 8;

/// The place of a request's operation, and the operation that waits for an event of a file instead of a device.
const OPERATION: u64 = 16;
const POLL: [u8; 2] = [5, 0];

/// Requests of one call that are not done.
#[derive(Debug)]
pub(crate) struct Batch {
    process: i32,
    ring: u64,
    /// The end of the ring up to which it was read.
    end: u32,
    requests: Vec<u64>,
}

fn read<const N: usize>(process: i32, address: u64) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    sys::read_memory(process, address, &mut bytes).then_some(bytes)
}

/// Returns the end of a ring; `None` if it is none.
pub(crate) fn end(process: i32, ring: u64) -> Option<u32> {
    ends(process, ring).map(|(_, end)| end)
}

fn ends(process: i32, ring: u64) -> Option<(u32, u32)> {
    let header: [u8; HEADER as usize] = read(process, ring)?;
    let field = |index: usize| header.chunks_exact(4).nth(index)?.try_into().ok().map(u32::from_ne_bytes);
    (field(MAGIC.0) == Some(MAGIC.1)).then_some((field(LENGTH)?.max(1), field(TAIL)?))
}

impl Batch {
    /// Forgets the requests that are done. Returns false if there are no others.
    fn update(&mut self) -> bool {
        let Some((length, end)) = ends(self.process, self.ring) else { return false };
        while self.end % length != end % length {
            let place = self.ring + HEADER + u64::from(self.end % length) * EVENT + OF_REQUEST;
            // The program can write to its ring, too.
            let Some(done) = read(self.process, place).map(u64::from_ne_bytes) else { return false };
            if let Some(index) = self.requests.iter().position(|request| *request == done) {
                self.requests.swap_remove(index);
            }
            self.end = (self.end + 1) % length;
        }
        !self.requests.is_empty()
    }
}

impl Tracer {
    /// Keeps the first requests of a list, which the kernel has accepted. `end` is that of the ring before.
    pub(crate) fn on_requests(&mut self, process: i32, (ring, list, end): (u64, u64, u32), count: u64) {
        let of_device = |place: u64| {
            let request = read(process, place).map(u64::from_ne_bytes)?;
            (read(process, request + OPERATION)? != POLL).then_some(request)
        };
        let requests = (0..count).filter_map(|index| of_device(list + 8 * index)).collect();
        self.batches.push(Batch { process, ring, end, requests });
    }

    /// Returns true if a request of a program is not done.
    pub(crate) fn is_device_busy(&mut self) -> bool {
        self.batches.retain_mut(Batch::update);
        !self.batches.is_empty()
    }
}
