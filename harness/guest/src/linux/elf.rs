//! Reads symbols of 64-bit ELF files. Pure; broken files have none.

/// The type of the section with the symbols of a dynamic library.
pub(crate) const DYNSYM: u32 = 11;

/// The type of the section with all symbols.
pub(crate) const SYMTAB: u32 = 2;

/// The type of a segment that is mapped.
const LOAD: u32 = 1;

/// A symbol: its name, its address and its size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Symbol {
    pub(crate) name: String,
    pub(crate) address: usize,
    pub(crate) size: usize,
}

fn half(file: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(file.get(at..at.checked_add(2)?)?.try_into().ok()?))
}

fn word(file: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(file.get(at..at.checked_add(4)?)?.try_into().ok()?))
}

fn long(file: &[u8], at: usize) -> Option<usize> {
    Some(u64::from_le_bytes(file.get(at..at.checked_add(8)?)?.try_into().ok()?) as usize)
}

/// Reads the symbols of the first section of a type.
pub(crate) fn symbols(file: &[u8], section_type: u32) -> Option<Vec<Symbol>> {
    let table = long(file, 0x28)?;
    let size = usize::from(half(file, 0x3a)?);
    let count = usize::from(half(file, 0x3c)?);
    let header = |index: usize| table.checked_add(index.checked_mul(size)?);
    let section = (0..count).filter_map(header).find(|at| word(file, at.saturating_add(4)) == Some(section_type))?;
    let start = long(file, section.checked_add(0x18)?)?;
    let length = long(file, section.checked_add(0x20)?)?;
    let names = header(word(file, section.checked_add(0x28)?)? as usize)?;
    let names = long(file, names.checked_add(0x18)?)?;
    let mut symbols = Vec::new();
    for symbol in (start..start.checked_add(length)?).step_by(24) {
        let name = file.get(names.checked_add(word(file, symbol)? as usize)?..)?;
        let name = name.iter().take_while(|byte| **byte != 0).map(|byte| char::from(*byte)).collect::<String>();
        let address = long(file, symbol.checked_add(8)?)?;
        let size = long(file, symbol.checked_add(16)?)?;
        symbols.push(Symbol { name, address, size });
    }
    Some(symbols)
}

/// Returns the address at which the byte at an offset of the file is mapped, before relocation.
pub(crate) fn address(file: &[u8], offset: usize) -> Option<usize> {
    let table = long(file, 0x20)?;
    let size = usize::from(half(file, 0x36)?);
    let count = usize::from(half(file, 0x38)?);
    let header = |index: usize| table.checked_add(index.checked_mul(size)?);
    (0..count).filter_map(header).find_map(|at| {
        let begin = long(file, at.checked_add(8)?)?;
        let address = long(file, at.checked_add(0x10)?)?;
        let length = long(file, at.checked_add(0x20)?)?;
        let inside = offset.checked_sub(begin).filter(|inside| *inside < length)?;
        (word(file, at)? == LOAD).then(|| address.checked_add(inside)).flatten()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_of_this_program_are_found() {
        let file = std::fs::read("/proc/self/exe").expect("this program");
        let symbols = symbols(&file, SYMTAB).expect("symbols");
        let main = symbols.iter().find(|symbol| symbol.name == "main").expect("a main function");
        assert!(main.size > 0);
        let offset = (0..file.len()).step_by(16).find(|offset| address(&file, *offset) == Some(main.address));
        assert!(offset.is_some() || !main.address.is_multiple_of(16), "{main:?}");
        assert_eq!(address(&file, usize::MAX), None);
    }
}
