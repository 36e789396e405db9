//! The place at which a stopped thread runs: functions or addresses, for reports.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use super::arch::Architecture as _;
use super::elf;
use super::sys::{self, Registers};

/// The most callers that a report names.
const DEPTH: usize = 8;

/// The largest file whose symbols are read.
const LARGEST: u64 = 1 << 29;

/// A mapping of a file into memory.
struct ExecutableMapping<'a> {
    start: u64,
    end: u64,
    offset: u64,
    is_executable: bool,
    path: &'a str,
}

/// Reads a line of `/proc/PID/maps`.
fn mapping(line: &str) -> Option<ExecutableMapping<'_>> {
    let (range, rest) = line.split_once(' ')?;
    let (start, end) = range.split_once('-')?;
    let mut words = rest.splitn(5, ' ');
    let permissions = words.next()?;
    let offset = words.next()?;
    let path = words.nth(2).unwrap_or_default().trim_start();
    let number = |text: &str| u64::from_str_radix(text, 16).ok();
    let is_executable = permissions.contains('x');
    Some(ExecutableMapping { start: number(start)?, end: number(end)?, offset: number(offset)?, is_executable, path })
}

/// Returns where a stopped thread runs, and where its callers do, as far as they keep frame pointers.
pub(crate) fn stack(thread: i32, registers: &Registers) -> Vec<String> {
    let maps = fs::read_to_string(format!("/proc/{thread}/maps")).unwrap_or_default();
    let mappings: Vec<ExecutableMapping<'_>> =
        maps.lines().filter_map(mapping).filter(|mapping| mapping.is_executable).collect();
    let find = |address: u64| mappings.iter().find(|mapping| (mapping.start..mapping.end).contains(&address));
    let mut files = BTreeMap::new();
    let mut places = Vec::new();
    let mut address = registers.instruction();
    let mut frame = registers.frame();
    while let Some(mapping) = find(address)
        && places.len() < DEPTH
    {
        let file = files.entry(mapping.path).or_insert_with(|| read(thread, mapping.path));
        places.push(describe(mapping, address, file));
        let mut words = [0; 16];
        if !frame.is_multiple_of(8) || !sys::read_memory(thread, frame, &mut words) {
            break;
        }
        let (next, caller) = words.split_at(8);
        let word = |bytes: &[u8]| bytes.try_into().map_or(0, u64::from_ne_bytes);
        // Frames of callers lie above; the instruction before the return called.
        if word(next) <= frame {
            break;
        }
        address = word(caller).saturating_sub(1);
        frame = word(next);
    }
    places
}

/// Reads a mapped file as the thread's process sees it; empty if it is none or too large.
fn read(thread: i32, path: &str) -> Vec<u8> {
    let path = format!("/proc/{thread}/root{path}");
    let is_small = fs::metadata(&path).is_ok_and(|metadata| metadata.is_file() && metadata.len() <= LARGEST);
    if is_small { fs::read(path).unwrap_or_default() } else { Vec::new() }
}

/// Names the function at an address, or the offset in its file.
fn describe(mapping: &ExecutableMapping<'_>, address: u64, file: &[u8]) -> String {
    let name = Path::new(mapping.path).file_name().map_or("memory", |name| name.to_str().unwrap_or("a file"));
    let offset = (address - mapping.start + mapping.offset) as usize;
    let function = || {
        let address = elf::address(file, offset)?;
        let tables = [elf::SYMTAB, elf::DYNSYM].into_iter().filter_map(|table| elf::symbols(file, table));
        let is_inside = |symbol: &elf::Symbol| (symbol.address..symbol.address + symbol.size).contains(&address);
        tables.flatten().find(is_inside).map(|symbol| format!("{} ({name})", symbol.name))
    };
    function().unwrap_or_else(|| format!("{name}+{offset:#x}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_maps_are_read() {
        let line = "7f00-7f80 r-xp 00001000 08:01 1234                   /usr/lib/a library.so";
        let read = mapping(line).expect("a mapping");
        assert_eq!((read.start, read.end, read.offset, read.is_executable), (0x7f00, 0x7f80, 0x1000, true));
        assert_eq!(read.path, "/usr/lib/a library.so");
        let anonymous = mapping("7f00-7f80 rw-p 00000000 00:00 0").expect("a mapping");
        assert_eq!((anonymous.path, anonymous.is_executable), ("", false));
        assert!(mapping("nonsense").is_none());
    }
}
