//! Helpers that tell about the task that a program runs for, and read its memory.

use super::passed::{read_string, store, write_bytes};
use super::{error, kernel_functions, signed};
use crate::constants::*;
use crate::structures::INITIAL_PID_NAMESPACE;

/// The number at the beginning of a text for `bpf_strtol()` and `bpf_strtoul()`: how many bytes of it they read, and the value. `None` if there is
/// none, or if it is not to be read with the base in `flags`.
fn number_in(text: &str, flags: u64) -> Result<(usize, i128), i64> {
    let base = flags & 0x1f;
    if !matches!(base, 0 | 8 | 10 | 16) || flags & !0x1f != 0 {
        return Err(EINVAL);
    }
    let digits = text.trim_start();
    let (sign, unsigned) = match digits.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, digits),
    };
    let hexadecimal = unsigned.strip_prefix("0x").or(unsigned.strip_prefix("0X"));
    let (radix, digits) = match (base, hexadecimal) {
        (0 | 16, Some(rest)) => (16, rest),
        (0, None) if unsigned.starts_with('0') => (8, unsigned),
        (0, None) => (10, unsigned),
        _ => (base as u32, unsigned),
    };
    let length = digits.find(|letter: char| !letter.is_digit(radix)).unwrap_or(digits.len());
    if length == 0 {
        return Err(EINVAL);
    }
    let number = i128::from_str_radix(&digits[..length], radix).map_err(|_| ERANGE)?;
    let read = text.len() - digits.len() + length;
    Ok((read, sign * number))
}

/// Puts the number at the beginning of a text to `target`, as one of 64 bits in the form that `encode` gives it.
fn parse(
    text: u64,
    length: u64,
    flags: u64,
    target: u64,
    encode: impl Fn(i128) -> Option<u64>,
) -> u64 {
    let text = read_string(text, length as u32 as usize);
    let found = number_in(&text, flags);
    let found = found.and_then(|(read, number)| Ok((read, encode(number).ok_or(ERANGE)?)));
    match found {
        Ok((read, number)) => {
            store(target, number);
            signed(read as i32)
        }
        Err(number) => error(number),
    }
}

kernel_functions! { HELPERS;
    // Every task is root's.
    fn bpf_get_current_uid_gid(kernel) { 0 }

    fn bpf_get_current_cgroup_id(kernel) {
        let group = kernel.executing().cgroup;
        kernel.groups.id(group)
    }

    fn bpf_get_current_ancestor_cgroup_id(kernel, level) {
        let group = kernel.executing().cgroup;
        let ancestor = kernel.groups.ancestor(group, level as i32);
        ancestor.map_or(0, |ancestor| kernel.groups.id(ancestor))
    }

    // There is one namespace; the device of the file system that shows it is not modelled.
    fn bpf_get_ns_current_pid_tgid(kernel, device, inode, target, size) {
        let size = size as u32 as usize;
        let (pid, tgid) = (kernel.executing().seen.pid, kernel.executing().seen.tgid);
        let is_known = size == 8 && inode == u64::from(INITIAL_PID_NAMESPACE.ns.inum);
        let numbers = [pid.to_ne_bytes(), tgid.to_ne_bytes()].concat();
        write_bytes(target, size, if is_known { &numbers } else { &[] });
        if is_known { 0 } else { error(EINVAL) }
    }

    // Simulated tasks have no memory of their own, as kernel threads.
    fn bpf_probe_read_user(kernel, target, size, source) {
        write_bytes(target, size as u32 as usize, &[]);
        error(EFAULT)
    }

    fn bpf_probe_read_user_str(kernel, target, size, source) {
        write_bytes(target, size as u32 as usize, &[]);
        error(EFAULT)
    }

    fn bpf_copy_from_user(kernel, target, size, source) {
        write_bytes(target, size as u32 as usize, &[]);
        error(EFAULT)
    }

    fn bpf_copy_from_user_task(kernel, target, size, source, task, flags) {
        write_bytes(target, size as u32 as usize, &[]);
        error(if flags == 0 { EFAULT } else { EINVAL })
    }

    fn bpf_strtol(kernel, text, length, flags, target) {
        parse(text, length, flags, target, |number| i64::try_from(number).ok().map(i64::cast_unsigned))
    }

    fn bpf_strtoul(kernel, text, length, flags, target) {
        parse(text, length, flags, target, |number| u64::try_from(number).ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_the_kernel_reads_them() {
        for (text, flags, expected) in [
            ("12", 0, Ok((2, 12))),
            (" -12 x", 10, Ok((4, -12))),
            ("0x1f", 0, Ok((4, 31))),
            ("0x1f", 16, Ok((4, 31))),
            ("1f", 16, Ok((2, 31))),
            ("017", 0, Ok((3, 15))),
            ("017", 10, Ok((3, 17))),
            ("19", 8, Ok((1, 1))),
            ("x", 0, Err(EINVAL)),
            ("", 0, Err(EINVAL)),
            ("1", 2, Err(EINVAL)),
            ("1", 1 << 8, Err(EINVAL)),
        ] {
            assert_eq!(number_in(text, flags), expected, "{text:?} {flags}");
        }
    }
}
