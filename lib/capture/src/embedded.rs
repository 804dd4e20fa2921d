//! The BPF object that a loader carries in its own file.

use std::path::Path;

use fairground_bpf::Object;

use crate::error::Error;

/// `e_ident` of a 64-bit little-endian ELF file.
const IDENT: &[u8] = b"\x7fELF\x02\x01\x01";
/// `EM_BPF`.
const MACHINE: u16 = 247;

pub(crate) fn read(path: &Path) -> Result<Vec<u8>, Error> {
    fairground_files::read(path).map_err(|cause| Error::Object {
        path: path.to_owned(),
        message: format!("cannot be read: {cause}; {}", fairground_files::remedy(&cause)),
    })
}

/// The first object in the file of `program` that has a scheduler's table.
pub(crate) fn find(program: &Path) -> Result<Vec<u8>, Error> {
    let file = read(program)?;
    let mut from = 0;
    while let Some(found) = position(&file[from..], IDENT) {
        let start = from + found;
        from = start + IDENT.len();
        let Some(object) = object_at(&file[start..]) else { continue };
        let has_table = Object::parse(object).is_ok_and(|parsed| {
            let mut tables = parsed.struct_ops().iter();
            tables.any(|table| table.type_name == "sched_ext_ops")
        });
        if has_table {
            return Ok(object.to_vec());
        }
    }
    Err(Error::NoObject { path: program.to_owned() })
}

fn position(bytes: &[u8], pattern: &[u8]) -> Option<usize> {
    bytes.windows(pattern.len()).position(|window| window == pattern)
}

fn number<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at.checked_add(N)?)?.try_into().ok()
}

/// The BPF object at the beginning of `bytes`: it ends with its last section or its table of sections, whichever is later.
fn object_at(bytes: &[u8]) -> Option<&[u8]> {
    if u16::from_le_bytes(number(bytes, 18)?) != MACHINE {
        return None;
    }
    let table = usize::try_from(u64::from_le_bytes(number(bytes, 40)?)).ok()?;
    let entry = usize::from(u16::from_le_bytes(number(bytes, 58)?));
    let count = usize::from(u16::from_le_bytes(number(bytes, 60)?));
    let mut end = table.checked_add(entry * count)?;
    for index in 0..count {
        let section = table + index * entry;
        let kind = u32::from_le_bytes(number(bytes, section + 4)?);
        // SHT_NOBITS takes no space.
        if kind != 8 {
            let offset = u64::from_le_bytes(number(bytes, section + 24)?);
            let size = u64::from_le_bytes(number(bytes, section + 32)?);
            end = end.max(usize::try_from(offset.checked_add(size)?).ok()?);
        }
    }
    bytes.get(..end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_ends_with_its_last_section() {
        let mut elf = vec![0; 64 + 2 * 64 + 24];
        elf[..7].copy_from_slice(IDENT);
        elf[18..20].copy_from_slice(&MACHINE.to_le_bytes());
        elf[40..48].copy_from_slice(&64_u64.to_le_bytes());
        elf[58..60].copy_from_slice(&64_u16.to_le_bytes());
        elf[60..62].copy_from_slice(&2_u16.to_le_bytes());
        // The second section is after the table.
        elf[64 + 64 + 24..][..8].copy_from_slice(&192_u64.to_le_bytes());
        elf[64 + 64 + 32..][..8].copy_from_slice(&24_u64.to_le_bytes());
        let length = elf.len();
        elf.extend([7; 100]);
        assert_eq!(object_at(&elf).unwrap().len(), length);
        elf[18] = 62;
        assert!(object_at(&elf).is_none());
    }
}
