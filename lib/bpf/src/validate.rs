//! Which instructions the translation supports.

use crate::instruction::{
    ADDRESS_SPACE_CAST, FRAME_POINTER, Instruction, alu, atomic, class, jump, mode,
};

/// Whether the translation supports this instruction; the text names its fault.
pub(crate) fn check_instruction(one: Instruction) -> Result<(), String> {
    if one.destination > FRAME_POINTER || one.source > FRAME_POINTER {
        return Err("uses a register above r10".to_owned());
    }
    let unknown = || Err(format!("unknown instruction with opcode {:#04x}", one.opcode));
    let writes = match one.class() {
        class::LD => {
            if !one.is_wide() {
                return Err("packet access, which no scheduler can use".to_owned());
            }
            true
        }
        class::LDX => {
            let sign_extends = one.mode() == mode::MEMSX;
            if !matches!(one.mode(), mode::MEM | mode::MEMSX)
                || (sign_extends && one.access_size() == 8)
            {
                return unknown();
            }
            true
        }
        class::ST => {
            if one.mode() != mode::MEM {
                return unknown();
            }
            false
        }
        class::STX => match one.mode() {
            mode::MEM => false,
            mode::ATOMIC => return check_atomic(one),
            _ => return unknown(),
        },
        class::ALU | class::ALU64 => {
            check_arithmetic(one)?;
            true
        }
        _ => return check_jump(one),
    };
    if writes && one.destination == FRAME_POINTER {
        return Err("writes the frame pointer".to_owned());
    }
    Ok(())
}

fn check_atomic(one: Instruction) -> Result<(), String> {
    let size = one.access_size();
    let known = match one.immediate {
        atomic::LOAD_ACQUIRE => {
            if one.destination == FRAME_POINTER {
                return Err("writes the frame pointer".to_owned());
            }
            true
        }
        atomic::STORE_RELEASE => true,
        atomic::XCHG | atomic::CMPXCHG => size >= 4,
        other => {
            size >= 4
                && matches!(
                    other & !atomic::FETCH,
                    atomic::ADD | atomic::OR | atomic::AND | atomic::XOR
                )
        }
    };
    let fetches = one.immediate & atomic::FETCH != 0 && one.immediate != atomic::CMPXCHG;
    if fetches && one.source == FRAME_POINTER {
        return Err("writes the frame pointer".to_owned());
    }
    if known {
        Ok(())
    } else {
        Err(format!("unknown atomic operation {:#x} on {size} bytes", one.immediate))
    }
}

fn check_arithmetic(one: Instruction) -> Result<(), String> {
    let wide = one.class() == class::ALU64;
    let known = match one.operation() {
        alu::ADD
        | alu::SUB
        | alu::MUL
        | alu::OR
        | alu::AND
        | alu::LSH
        | alu::RSH
        | alu::NEG
        | alu::XOR
        | alu::ARSH => one.offset == 0,
        alu::DIV | alu::MOD => matches!(one.offset, 0 | 1),
        alu::END => matches!(one.immediate, 16 | 32 | 64) && !(wide && one.uses_register()),
        alu::MOV if !one.uses_register() => one.offset == 0,
        alu::MOV => match one.offset {
            0 | 8 | 16 => true,
            32 => wide,
            ADDRESS_SPACE_CAST => wide && matches!(one.immediate, 1 | 0x1_0000),
            _ => false,
        },
        _ => false,
    };
    if known {
        Ok(())
    } else {
        Err(format!(
            "unknown arithmetic instruction with opcode {:#04x}, offset {}, immediate {}",
            one.opcode, one.offset, one.immediate
        ))
    }
}

fn check_jump(one: Instruction) -> Result<(), String> {
    let wide = one.class() == class::JMP;
    let known = match one.operation() {
        jump::CALL => wide && !one.uses_register() && one.source <= 2,
        jump::EXIT => wide,
        jump::JA => !one.uses_register(),
        jump::JCOND => wide && !one.uses_register() && one.source == 0,
        jump::JEQ
        | jump::JGT
        | jump::JGE
        | jump::JSET
        | jump::JNE
        | jump::JSGT
        | jump::JSGE
        | jump::JLT
        | jump::JLE
        | jump::JSLT
        | jump::JSLE => true,
        _ => false,
    };
    if known { Ok(()) } else { Err(format!("unknown jump with opcode {:#04x}", one.opcode)) }
}
