//! The place at which a stopped thread runs: functions or addresses, for reports.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use super::arch::{Architecture as _, LONGEST_CALL, ends_with_call};
use super::elf;
use super::sys::{self, Registers};

/// The most callers that a report names.
const DEPTH: usize = 8;

/// The most words of a stack that are searched for callers.
const SEARCHED_WORDS: u64 = 256;

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

/// Returns where a stopped thread runs, and where its callers do: those that keep frame pointers or, without them, the
/// places on its stack that follow a call.
pub(crate) fn stack(thread: i32, registers: &Registers) -> Vec<String> {
    let maps = fs::read_to_string(format!("/proc/{thread}/maps")).unwrap_or_default();
    let mappings: Vec<ExecutableMapping<'_>> =
        maps.lines().filter_map(mapping).filter(|mapping| mapping.is_executable).collect();
    let find = |address: u64| mappings.iter().find(|mapping| (mapping.start..mapping.end).contains(&address));
    let mut callers = framed(thread, registers, |address| find(address).is_some());
    if callers.is_empty() {
        callers = found_on_the_stack(thread, registers, |address| find(address).is_some());
    }
    let mut files = BTreeMap::new();
    let addresses = [registers.instruction()].into_iter().chain(callers).take(DEPTH);
    let places = addresses.filter_map(|address| {
        let mapping = find(address)?;
        let file = files.entry(mapping.path).or_insert_with(|| read(thread, mapping.path));
        Some(describe(mapping, address, file))
    });
    places.collect()
}

/// Follows the frame pointers. The instruction before the place of return called.
fn framed(thread: i32, registers: &Registers, is_code: impl Fn(u64) -> bool) -> Vec<u64> {
    let mut callers = Vec::new();
    let mut frame = registers.frame();
    while callers.len() < DEPTH && frame.is_multiple_of(8) {
        let Some([next, caller]) = words::<2>(thread, frame) else { break };
        // Frames of callers lie above.
        if next <= frame || !is_code(caller.saturating_sub(1)) {
            break;
        }
        callers.push(caller - 1);
        frame = next;
    }
    callers
}

/// Looks for addresses on the stack that follow a call. Some may be left from calls that have returned.
fn found_on_the_stack(thread: i32, registers: &Registers, is_code: impl Fn(u64) -> bool) -> Vec<u64> {
    let follows_call = |address: &u64| {
        let mut code = [0; LONGEST_CALL];
        is_code(address.saturating_sub(1))
            && sys::read_memory(thread, address.saturating_sub(LONGEST_CALL as u64), &mut code)
            && ends_with_call(code)
    };
    let slots = (0..SEARCHED_WORDS).map(|index| registers.stack().saturating_add(8 * index));
    let found = slots.map_while(|slot| words::<1>(thread, slot)).map(|[word]| word).filter(follows_call);
    found.map(|address| address - 1).take(DEPTH).collect()
}

/// Reads words from the memory of a thread.
fn words<const N: usize>(thread: i32, address: u64) -> Option<[u64; N]> {
    let mut bytes = [[0; 8]; N];
    sys::read_memory(thread, address, bytes.as_flattened_mut()).then(|| bytes.map(u64::from_ne_bytes))
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
    fn calls_are_no_jumps() {
        let calls = [
            ("relative", [0, 0, 0xe8, 1, 2, 3, 4]),
            ("register", [0, 0, 0, 0, 0, 0xff, 0xd0]),
            ("later register", [0, 0, 0, 0, 0x41, 0xff, 0xd4]),
            ("memory", [0, 0xff, 0x15, 1, 2, 3, 4]),
            ("memory behind a register", [0, 0, 0, 0, 0xff, 0x50, 0x18]),
        ];
        for (what, code) in calls {
            assert!(ends_with_call(code), "{what}");
        }
        for (what, code) in [("jump", [0, 0, 0xe9, 1, 2, 3, 4]), ("indirect jump", [0, 0, 0, 0, 0, 0xff, 0xe0])] {
            assert!(!ends_with_call(code), "{what}");
        }
    }

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
