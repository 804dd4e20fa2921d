//! The functions that the kernel maps into every process to read the time without a system call. Here they must make the call, because time
//! is virtual.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;

use object::{Object as _, ObjectSymbol as _};

use crate::process;

/// Substitutes of vdso functions, by the ends of their names: a system call, or report that there is no such function.
const FUNCTIONS: [(&str, Option<i64>); 6] = [
    ("clock_gettime", Some(libc::SYS_clock_gettime)),
    ("clock_getres", Some(libc::SYS_clock_getres)),
    ("gettimeofday", Some(libc::SYS_gettimeofday)),
    #[cfg(target_arch = "x86_64")]
    ("time", Some(libc::SYS_time)),
    #[cfg(not(target_arch = "x86_64"))]
    ("time", None),
    ("getcpu", Some(libc::SYS_getcpu)),
    ("getrandom", None),
];

/// The instructions of a function that makes a system call with its own arguments, or returns that there is none.
#[cfg(target_arch = "x86_64")]
fn instructions(call: Option<i64>) -> Vec<u8> {
    let mut code = vec![0xb8];
    code.extend((call.unwrap_or(i64::from(-libc::ENOSYS)) as i32).to_le_bytes());
    if call.is_some() {
        code.extend([0x0f, 0x05]);
    }
    code.push(0xc3);
    code
}

#[cfg(target_arch = "aarch64")]
fn instructions(call: Option<i64>) -> Vec<u8> {
    let words = match call {
        // mov x8, NUMBER; svc 0; ret
        Some(number) => vec![0xd280_0008 | (number as u32) << 5, 0xd400_0001, 0xd65f_03c0],
        // mov x0, -ENOSYS; ret
        None => vec![0x9280_0000 | (libc::ENOSYS as u32 - 1) << 5, 0xd65f_03c0],
    };
    words.into_iter().flat_map(u32::to_le_bytes).collect()
}

/// Makes all vdso functions of a process call the kernel. Returns whether this interrupted the call that the process is in.
pub(crate) fn disarm(process: i32) -> io::Result<bool> {
    let maps = fs::read_to_string(format!("/proc/{process}/maps"))?;
    let Some(line) = maps.lines().find(|line| line.ends_with("[vdso]")) else {
        return Ok(false);
    };
    let range = line.split_whitespace().next().and_then(|range| {
        let (start, end) = range.split_once('-')?;
        let number = |text| u64::from_str_radix(text, 16).ok();
        Some((number(start)?, number(end)?))
    });
    let (start, end) = range.ok_or(io::ErrorKind::InvalidData)?;
    let memory = File::options().read(true).write(true).open(format!("/proc/{process}/mem"))?;
    let mut image = vec![0; (end - start) as usize];
    memory.read_exact_at(&mut image, start)?;
    let parsed = object::File::parse(image.as_slice()).map_err(io::Error::other)?;
    let mut interrupted = false;
    for symbol in parsed.dynamic_symbols() {
        let name = symbol.name().unwrap_or_default().trim_start_matches("__vdso_");
        let name = name.trim_start_matches("__kernel_");
        let known = FUNCTIONS.iter().find(|(known, _)| *known == name);
        if let (Some((_, call)), true) = (known, symbol.is_definition()) {
            interrupted |= process::write_code(
                &memory,
                process,
                start + symbol.address(),
                &instructions(*call),
            )?;
        }
    }
    Ok(interrupted)
}
