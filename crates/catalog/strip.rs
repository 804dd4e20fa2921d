//! Removes from objects the parts that only debuggers read.

/// Sizes of the header of a 64-bit ELF file and of a section's.
const HEADER: usize = 64;
const SECTION: usize = 64;
/// A section without contents in the file.
const SHT_NOBITS: u64 = 8;

/// A BPF object as clang writes it, with the contents of its DWARF sections left out. The sections themselves stay, because others refer to
/// sections by number. Types and source lines are in `.BTF` and `.BTF.ext`, too, which stay.
pub fn without_dwarf(object: &[u8]) -> Vec<u8> {
    let start = number(object, 0x28, 8);
    let count = number(object, 0x3c, 2);
    let names = number(object, 0x3e, 2);
    let mut table = object[start as usize..][..count as usize * SECTION].to_vec();
    let names = number(&table, names as usize * SECTION + 24, 8) as usize;
    let mut kept = object[..HEADER].to_vec();
    for section in table.chunks_exact_mut(SECTION) {
        let name = &object[names + number(section, 0, 4) as usize..];
        let is_dwarf = name.starts_with(b".debug_") || name.starts_with(b".rel.debug_");
        let size = match is_dwarf || number(section, 4, 4) == SHT_NOBITS {
            true => 0,
            false => number(section, 32, 8) as usize,
        };
        let contents = &object[number(section, 24, 8) as usize..][..size];
        align(&mut kept, number(section, 48, 8) as usize);
        section[24..32].copy_from_slice(&(kept.len() as u64).to_le_bytes());
        kept.extend(contents);
        if is_dwarf {
            section[32..40].fill(0);
        }
    }
    align(&mut kept, 8);
    let start = kept.len() as u64;
    kept[0x28..0x30].copy_from_slice(&start.to_le_bytes());
    kept.extend(table);
    kept
}

fn align(bytes: &mut Vec<u8>, alignment: usize) {
    bytes.resize(bytes.len().next_multiple_of(alignment.max(1)), 0);
}

/// The number of that many bytes at `at`.
fn number(bytes: &[u8], at: usize, length: usize) -> u64 {
    bytes[at..at + length].iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}
