//! The image that takes the place of the vDSO in traced programs: the kernel's, with clock functions that read a page
//! which the tracer writes.
//!
//! The programs map it and read its address from their auxiliary vector, so that no code of theirs is changed. Behind
//! it lies a page that a program shares only with its forks, in which they count their readings.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt as _;

use super::arch::{
    ALL_READINGS, CODE, CODE_OFFSET, Call, DIFFERENCE, FUNCTIONS, LAST, MONOTONIC, MOST_COUNTED_OFFSET, SYSTEM_CALL,
    ZERO, jump,
};
use super::clocks::{Clocks, Family};
use super::elf;
use super::filter::SEND_FILTER;
use super::sys::SharedMemory;

const PAGE: usize = 4096;

/// The place in the page of a seccomp filter's instructions, behind the code.
const FILTER: usize = (CODE_OFFSET + CODE.len()).next_multiple_of(16);

/// The place in the page for values of calls, behind the filter: two numbers each.
const LENT: usize = FILTER + (SEND_FILTER.len() * 8).next_multiple_of(16);
const LENT_PLACES: usize = (PAGE - LENT) / 16;

/// The shared image.
pub(crate) struct Image {
    memory: SharedMemory,
    /// The offset of the page with data and code.
    page: usize,
    /// The offset of a system call instruction in the kernel's image.
    pub(crate) system_call: u64,
    /// The number of values that were lent.
    lent: usize,
}

impl Image {
    /// Makes the image from the vDSO of this process. `None` without a vDSO: programs then ask the kernel for the time.
    pub(crate) fn new() -> io::Result<Option<Self>> {
        let Some(vdso) = vdso()? else { return Ok(None) };
        let Some(system_call) = vdso.windows(2).position(|code| code == SYSTEM_CALL) else { return Ok(None) };
        let page = vdso.len();
        let Some(content) = patched(vdso) else { return Ok(None) };
        let memory = SharedMemory::new(&content)?;
        Ok(Some(Self { memory, page, system_call: system_call as u64, lent: 0 }))
    }

    /// The call with which a program makes a place for the image and for the page behind it.
    pub(crate) fn reserve(&self) -> Call {
        let access = (libc::PROT_READ | libc::PROT_WRITE) as u64;
        let kind = (libc::MAP_SHARED | libc::MAP_ANONYMOUS) as u64;
        let length = (self.page + LAST + PAGE) as u64;
        Call { number: libc::SYS_mmap, arguments: [0, length, access, kind, u64::MAX, 0] }
    }

    /// The call with which a program maps the image there.
    pub(crate) fn attach(&self, place: u64) -> Call {
        let flags = (libc::SHM_RDONLY | libc::SHM_EXEC | libc::SHM_REMAP) as u64;
        Call { number: libc::SYS_shmat, arguments: [self.memory.id() as u64, place, flags, 0, 0, 0] }
    }

    /// Returns the address of the last reading that was counted in a program that has the image at `base`.
    pub(crate) fn last(&self, base: u64) -> u64 {
        base + (self.page + LAST) as u64
    }

    /// Returns the address of the number of readings in a program that has the image at `base`.
    pub(crate) fn readings(&self, base: u64) -> u64 {
        base + (self.page + ALL_READINGS) as u64
    }

    /// Sets the clocks of all programs.
    pub(crate) fn show(&self, clocks: &Clocks) {
        let difference = clocks.realtime_start.wrapping_sub(clocks.monotonic_start);
        self.memory.store(self.page + DIFFERENCE, difference);
        self.memory.store(self.page + MOST_COUNTED_OFFSET, clocks.most_counted());
        self.memory.store(self.page + MONOTONIC, clocks.now(Family::Monotonic));
    }

    /// Keeps a value of two numbers for an argument of one call, and returns its offset. Later ones take its place.
    pub(crate) fn lend(&mut self, value: [u64; 2]) -> u64 {
        let place = self.page + LENT + self.lent % LENT_PLACES * 16;
        self.lent += 1;
        self.memory.store(place, value[0]);
        self.memory.store(place + 8, value[1]);
        place as u64
    }

    /// The call with which a program that has the image at `base` stops from now on when it sends, in all threads.
    pub(crate) fn stop_at_sends(&mut self, base: u64) -> Call {
        // `struct sock_fprog`: the number of instructions, and their address.
        let filter = self.lend([SEND_FILTER.len() as u64, base + (self.page + FILTER) as u64]);
        let (operation, flags) = (libc::SECCOMP_SET_MODE_FILTER, libc::SECCOMP_FILTER_FLAG_TSYNC);
        Call { number: libc::SYS_seccomp, arguments: [operation.into(), flags, base + filter, 0, 0, 0] }
    }

    /// Returns the address of a `timespec` of zero in a program that has the image at `base`.
    pub(crate) fn zero(&self, base: u64) -> u64 {
        base + (self.page + ZERO) as u64
    }
}

/// Reads the vDSO of this process.
fn vdso() -> io::Result<Option<Vec<u8>>> {
    let maps = fs::read_to_string("/proc/self/maps")?;
    let Some(line) = maps.lines().find(|line| line.ends_with("[vdso]")) else { return Ok(None) };
    let bounds = line.split(' ').next().and_then(|range| range.split_once('-'));
    let number = |text: &str| u64::from_str_radix(text, 16).ok();
    let Some((start, end)) = bounds.and_then(|(start, end)| Some((number(start)?, number(end)?))) else {
        return Ok(None);
    };
    let mut bytes = vec![0; (end - start) as usize];
    File::open("/proc/self/mem")?.read_exact_at(&mut bytes, start)?;
    Ok(Some(bytes))
}

/// Appends the page with data and code to the image, and makes its functions jump there. `None` if the image has no
/// function that reads a clock, or one that reads the kernel's data and is not replaced.
fn patched(mut image: Vec<u8>) -> Option<Vec<u8>> {
    let page = image.len();
    let symbols = symbols(&image)?;
    for (name, offset) in symbols {
        if let Some((_, code)) = FUNCTIONS.iter().find(|(known, _)| *known == name) {
            let jump = jump(offset, page + CODE_OFFSET + code);
            image.get_mut(offset..offset + jump.len())?.copy_from_slice(&jump);
        } else if name.starts_with("__vdso_") && name != "__vdso_getcpu" {
            return None;
        }
    }
    image.resize(page + PAGE, 0);
    image[page + CODE_OFFSET..][..CODE.len()].copy_from_slice(&CODE);
    for (index, instruction) in SEND_FILTER.iter().enumerate() {
        image[page + FILTER + index * 8..][..8].copy_from_slice(&instruction.to_ne_bytes());
    }
    Some(image)
}

/// Reads names and offsets of the dynamic symbols.
fn symbols(image: &[u8]) -> Option<Vec<(String, usize)>> {
    let symbols = elf::symbols(image, elf::DYNSYM)?;
    Some(symbols.into_iter().map(|symbol| (symbol.name, symbol.address)).collect())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_functions_of_this_kernel_are_replaced() {
        let vdso = vdso().expect("readable maps").expect("a vDSO");
        let page = vdso.len();
        let image = patched(vdso.clone()).expect("an image that fits");
        assert_eq!(image.len(), page + PAGE);
        for (name, offset) in symbols(&vdso).expect("symbols") {
            let replaced = FUNCTIONS.iter().any(|(known, _)| *known == name);
            if name.starts_with("__vdso_") {
                assert_eq!(image[offset] == 0xe9 && vdso[offset] != 0xe9, replaced, "{name}");
            }
        }
    }

    #[test]
    fn each_function_begins_after_a_return() {
        for (name, offset) in FUNCTIONS {
            assert!(offset == 0 || CODE[offset - 1] == 0xc3, "{name}");
        }
        assert_eq!(CODE.last(), Some(&0xc3));
    }

    proptest! {
        #[test]
        fn broken_images_are_refused(place in 0_usize..8192, length in 0_usize..8192, byte: u8) {
            let mut image = vdso().expect("readable maps").expect("a vDSO");
            if let Some(place) = image.get_mut(place) {
                *place = byte;
            }
            image.truncate(length);
            // It neither panics nor loops.
            let _ = patched(image);
        }
    }
}
