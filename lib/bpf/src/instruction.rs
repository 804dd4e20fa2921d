//! BPF instructions as they are encoded, and their mnemonic constants.

/// Size of an encoded instruction in bytes.
pub(crate) const SIZE: usize = 8;

/// One encoded instruction of eight bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Instruction {
    pub opcode: u8,
    pub destination: u8,
    pub source: u8,
    pub offset: i16,
    pub immediate: i32,
}

/// Classes: the lowest three bits of the opcode.
pub(crate) mod class {
    pub const LD: u8 = 0x00;
    pub const LDX: u8 = 0x01;
    pub const ST: u8 = 0x02;
    pub const STX: u8 = 0x03;
    pub const ALU: u8 = 0x04;
    pub const JMP: u8 = 0x05;
    pub const JMP32: u8 = 0x06;
    pub const ALU64: u8 = 0x07;
}

/// Arithmetic operations: the highest four bits of the opcode.
pub(crate) mod alu {
    pub const ADD: u8 = 0x00;
    pub const SUB: u8 = 0x10;
    pub const MUL: u8 = 0x20;
    pub const DIV: u8 = 0x30;
    pub const OR: u8 = 0x40;
    pub const AND: u8 = 0x50;
    pub const LSH: u8 = 0x60;
    pub const RSH: u8 = 0x70;
    pub const NEG: u8 = 0x80;
    pub const MOD: u8 = 0x90;
    pub const XOR: u8 = 0xa0;
    pub const MOV: u8 = 0xb0;
    pub const ARSH: u8 = 0xc0;
    pub const END: u8 = 0xd0;
}

/// Jumps: the highest four bits of the opcode.
pub(crate) mod jump {
    pub const JA: u8 = 0x00;
    pub const JEQ: u8 = 0x10;
    pub const JGT: u8 = 0x20;
    pub const JGE: u8 = 0x30;
    pub const JSET: u8 = 0x40;
    pub const JNE: u8 = 0x50;
    pub const JSGT: u8 = 0x60;
    pub const JSGE: u8 = 0x70;
    pub const CALL: u8 = 0x80;
    pub const EXIT: u8 = 0x90;
    pub const JLT: u8 = 0xa0;
    pub const JLE: u8 = 0xb0;
    pub const JSLT: u8 = 0xc0;
    pub const JSLE: u8 = 0xd0;
    pub const JCOND: u8 = 0xe0;
}

/// Memory modes: the highest three bits of the opcode.
pub(crate) mod mode {
    pub const MEM: u8 = 0x60;
    pub const MEMSX: u8 = 0x80;
    pub const ATOMIC: u8 = 0xc0;
}

/// Atomic operations: the immediate of an atomic instruction.
pub(crate) mod atomic {
    pub const FETCH: i32 = 0x01;
    pub const ADD: i32 = 0x00;
    pub const OR: i32 = 0x40;
    pub const AND: i32 = 0x50;
    pub const XOR: i32 = 0xa0;
    pub const XCHG: i32 = 0xe1;
    pub const CMPXCHG: i32 = 0xf1;
    pub const LOAD_ACQUIRE: i32 = 0x100;
    pub const STORE_RELEASE: i32 = 0x110;
}

/// Offset of a move that casts between address spaces.
pub(crate) const ADDRESS_SPACE_CAST: i16 = 1;

/// Highest register number: r10, the frame pointer.
pub(crate) const FRAME_POINTER: u8 = 10;

impl Instruction {
    /// Stands for an instruction that is not understood: copies r0 to itself.
    pub(crate) const NOTHING: Instruction = Instruction {
        opcode: class::ALU64 | alu::MOV | 0x08,
        destination: 0,
        source: 0,
        offset: 0,
        immediate: 0,
    };

    /// Decodes eight bytes.
    pub(crate) fn decode(bytes: [u8; SIZE]) -> Instruction {
        let [opcode, registers, offset0, offset1, i0, i1, i2, i3] = bytes;
        Instruction {
            opcode,
            destination: registers & 0xf,
            source: registers >> 4,
            offset: i16::from_le_bytes([offset0, offset1]),
            immediate: i32::from_le_bytes([i0, i1, i2, i3]),
        }
    }

    pub(crate) fn class(self) -> u8 {
        self.opcode & 0x07
    }

    /// Operation of an arithmetic or jump instruction.
    pub(crate) fn operation(self) -> u8 {
        self.opcode & 0xf0
    }

    /// Whether the second operand of an arithmetic or jump instruction is a
    /// register.
    pub(crate) fn uses_register(self) -> bool {
        self.opcode & 0x08 != 0
    }

    pub(crate) fn mode(self) -> u8 {
        self.opcode & 0xe0
    }

    /// Bytes accessed by a memory instruction.
    pub(crate) fn access_size(self) -> u8 {
        match self.opcode & 0x18 {
            0x00 => 4,
            0x08 => 2,
            0x10 => 1,
            _ => 8,
        }
    }

    /// The opcode of this memory instruction with another access size.
    pub(crate) fn opcode_with_access_size(self, size: u32) -> Option<u8> {
        let bits = match size {
            1 => 0x10,
            2 => 0x08,
            4 => 0x00,
            8 => 0x18,
            _ => return None,
        };
        Some(self.opcode & !0x18 | bits)
    }

    /// Whether this is the first half of the 16-byte load of a 64-bit value.
    pub(crate) fn is_wide(self) -> bool {
        self.opcode == 0x18
    }

    /// Whether this is any memory load, store or atomic operation.
    pub(crate) fn accesses_memory(self) -> bool {
        matches!(self.class(), class::LDX | class::ST | class::STX)
    }

    pub(crate) fn is_call(self) -> bool {
        self.class() == class::JMP && self.operation() == jump::CALL
    }

    pub(crate) fn is_exit(self) -> bool {
        self.class() == class::JMP && self.operation() == jump::EXIT
    }

    /// Distance of the jump in instructions, if this is a jump with a target.
    pub(crate) fn jump_distance(self) -> Option<i64> {
        match (self.class(), self.operation()) {
            (class::JMP, jump::CALL | jump::EXIT) => None,
            (class::JMP32, jump::JA) => Some(i64::from(self.immediate)),
            (class::JMP | class::JMP32, _) => Some(i64::from(self.offset)),
            _ => None,
        }
    }

    /// Whether control never continues at the next instruction.
    pub(crate) fn ends_flow(self) -> bool {
        self.is_exit()
            || (matches!(self.class(), class::JMP | class::JMP32) && self.operation() == jump::JA)
    }
}
