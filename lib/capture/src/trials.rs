//! Programs that a loader loads only to find out what the kernel can run.

use std::ffi::CStr;

/// `BPF_ALU64 | BPF_MOV | BPF_X`.
const MOVE: u8 = 0xbf;
/// The offset of a move that makes a pointer into an arena.
const ADDRESS_SPACE_CAST: [u8; 2] = [1, 0];
/// `BPF_STX | BPF_ATOMIC`, of any size.
const ATOMIC: u8 = 0xc3;
const SIZE: u8 = 0x18;
/// `BPF_FETCH` with `BPF_OR`, `BPF_AND` and `BPF_XOR`.
const FETCHING_BIT_OPERATIONS: [u32; 3] = [0x41, 0x51, 0xa1];

/// The verifier's message about a program that the kernel refuses; `None` for programs that it accepts.
pub(crate) fn refusal(name: &str, instructions: &[u8]) -> Option<&'static CStr> {
    // libbpf tests whether offsets into maps are limited.
    if name == "global_reloc" {
        return Some(c"invalid access to map value pointer");
    }
    let all = || instructions.chunks_exact(8);
    let makes_arena_pointers = all().any(|one| one[0] == MOVE && one[2..4] == ADDRESS_SPACE_CAST);
    let fetches_bits = all().any(|one| {
        let operation = u32::from_le_bytes([one[4], one[5], one[6], one[7]]);
        one[0] & !SIZE == ATOMIC && FETCHING_BIT_OPERATIONS.contains(&operation)
    });
    // The compiler for this machine has no code for them; others do.
    let refused = cfg!(target_arch = "x86_64") && makes_arena_pointers && fetches_bits;
    refused.then_some(c"BPF_ATOMIC stores into R1 arena is not allowed")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn fetching_or_in_an_arena_is_refused() {
        let cast = [MOVE, 0x11, 1, 0, 1, 0, 0, 0];
        let plain = [MOVE, 0x11, 0, 0, 0, 0, 0, 0];
        let fetch = [0xdb, 0x21, 0, 0, 0x41, 0, 0, 0];
        let add = [0xdb, 0x21, 0, 0, 0x01, 0, 0, 0];
        assert!(refusal("", &[cast, fetch].concat()).is_some());
        assert!(refusal("", &[plain, fetch].concat()).is_none());
        assert!(refusal("", &[cast, add].concat()).is_none());
    }
}
