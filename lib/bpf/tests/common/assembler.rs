//! Objects made of instructions chosen by a test, without a compiler.

/// One instruction: opcode, destination, source, offset, immediate.
pub type Instruction = (u8, u8, u8, i16, i32);

/// `exit`.
pub const EXIT: Instruction = (0x95, 0, 0, 0, 0);

/// `r{destination} = value`, in two instructions.
pub fn load_number(destination: u8, value: u64) -> [Instruction; 2] {
    [(0x18, destination, 0, 0, value as u32 as i32), (0, 0, 0, 0, (value >> 32) as u32 as i32)]
}

pub fn encode(code: &[Instruction]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for &(opcode, destination, source, offset, immediate) in code {
        bytes.extend([opcode, destination | source << 4]);
        bytes.extend(offset.to_le_bytes());
        bytes.extend(immediate.to_le_bytes());
    }
    bytes
}

/// An object file with one program `main` in the section `syscall`.
pub fn assemble(code: &[Instruction]) -> Vec<u8> {
    let code = encode(code);
    // Types: none; strings: the empty one.
    let mut btf = vec![0x9f, 0xeb, 1, 0];
    for word in [24_u32, 0, 0, 0, 1] {
        btf.extend(word.to_le_bytes());
    }
    btf.push(0);
    let strings = b"\0syscall\0main\0.BTF\0.symtab\0.strtab\0";
    let mut symbols = vec![0; 24];
    symbols.extend(9_u32.to_le_bytes());
    // A global function in section 1.
    symbols.extend([0x12, 0, 1, 0]);
    symbols.extend(0_u64.to_le_bytes());
    symbols.extend((code.len() as u64).to_le_bytes());

    // Contents first, section headers at the end.
    let mut file = vec![0; 64];
    let mut headers = vec![0; 64];
    #[allow(clippy::type_complexity)]
    let sections: [(u32, u32, u64, &[u8], u32, u64); 4] = [
        // Name, type, flags, contents, link, size of an entry.
        (1, 1, 6, &code, 0, 0),
        (14, 1, 0, &btf, 0, 0),
        (19, 2, 0, &symbols, 4, 24),
        (27, 3, 0, strings, 0, 0),
    ];
    for (name, kind, flags, contents, link, entry) in sections {
        file.resize(file.len().next_multiple_of(8), 0);
        headers.extend(name.to_le_bytes());
        headers.extend(kind.to_le_bytes());
        let info = u32::from(kind == 2);
        for word in [flags, 0, file.len() as u64, contents.len() as u64] {
            headers.extend(word.to_le_bytes());
        }
        headers.extend(link.to_le_bytes());
        headers.extend(info.to_le_bytes());
        headers.extend(8_u64.to_le_bytes());
        headers.extend(entry.to_le_bytes());
        file.extend(contents);
    }
    file.resize(file.len().next_multiple_of(8), 0);
    let header_offset = file.len() as u64;
    file.extend(headers);
    file[..7].copy_from_slice(&[0x7f, b'E', b'L', b'F', 2, 1, 1]);
    // A relocatable file for the BPF machine, version 1.
    file[16..24].copy_from_slice(&[1, 0, 247, 0, 1, 0, 0, 0]);
    file[40..48].copy_from_slice(&header_offset.to_le_bytes());
    // Sizes of the headers, number of sections, section of their names.
    for (at, value) in [(52, 64_u16), (58, 64), (60, 5), (62, 4)] {
        file[at..at + 2].copy_from_slice(&value.to_le_bytes());
    }
    file
}
