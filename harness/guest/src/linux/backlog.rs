//! Packets on their way between programs of this machine.
//!
//! The kernel hands a packet of the loopback device on in the call that sends it, most often. Where that processor has
//! other work, its thread `ksoftirqd` does it later: until then sender and receiver may both be asleep.

use std::fs::File;
use std::os::unix::fs::FileExt as _;

/// The column of a processor's number of packets that wait, in hexadecimal digits.
const WAITING: usize = 11;

/// The numbers of packets that wait.
#[derive(Debug)]
pub(crate) struct Backlog {
    file: Option<File>,
    text: Vec<u8>,
}

impl Backlog {
    /// Opens the kernel's table, a line for each processor. Without one, no packet is known to wait.
    pub(crate) fn open() -> Self {
        Self { file: File::open("/proc/net/softnet_stat").ok(), text: vec![0; 4096] }
    }

    /// Returns true if a packet waits on a processor.
    pub(crate) fn is_waiting(&mut self) -> bool {
        let Some(file) = &self.file else { return false };
        loop {
            let length = file.read_at(&mut self.text, 0).unwrap_or(0);
            // A line has less than 160 bytes, so this one is the last, or there are more.
            if length + 160 <= self.text.len() {
                return has_waiting(&self.text[..length]);
            }
            self.text.resize(2 * self.text.len(), 0);
        }
    }
}

fn has_waiting(table: &[u8]) -> bool {
    table.split(|byte| *byte == b'\n').any(|line| {
        let number = line.split(|byte| *byte == b' ').nth(WAITING).unwrap_or_default();
        number.iter().any(|digit| *digit != b'0')
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_that_wait_are_seen_on_each_processor() {
        let line = |waiting: &str| {
            format!("001aaf29 00000000 00000002 {}{waiting} 00000001 00000000 00000000\n", "00000000 ".repeat(8))
        };
        let none = line("00000000");
        assert!(!has_waiting(none.repeat(2).as_bytes()));
        assert!(has_waiting(format!("{none}{}", line("00000010")).as_bytes()));
        assert!(has_waiting(format!("{}{none}", line("00000001")).as_bytes()));
        assert!(!has_waiting(b""), "no table");
    }

    #[test]
    fn the_table_of_this_machine_is_read() {
        let mut backlog = Backlog::open();
        backlog.is_waiting();
        let first = backlog.text.split(|byte| *byte == b'\n').next().unwrap_or_default();
        assert!(backlog.file.is_none() || first.split(|byte| *byte == b' ').nth(WAITING).is_some());
    }
}
