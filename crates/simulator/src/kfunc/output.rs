//! Exits, errors, dumps and messages, with the kernel's formatting.

use std::fmt::Write;

use super::passed::{load, read_string};
use super::{error, kernel_functions};
use crate::constants::*;
use crate::kernel::Kernel;

/// Maximum length of a format, a text or a field.
const TEXT_LIMIT: usize = 4096;

/// Formats as `bpf_bprintf_prepare` and `bstr_printf` do: arguments are 64-bit words.
pub(super) fn format(format: &str, arguments: &[u64]) -> String {
    let mut output = String::new();
    let mut arguments = arguments.iter().copied();
    let mut characters = format.chars().peekable();
    while let Some(character) = characters.next() {
        if character != '%' {
            output.push(character);
            continue;
        }
        let mut flags = String::new();
        while let Some(flag) = characters.next_if(|next| "-+ #0".contains(*next)) {
            flags.push(flag);
        }
        let mut width = 0usize;
        while let Some(digit) = characters.next_if(char::is_ascii_digit) {
            width = (width * 10 + digit as usize - '0' as usize).min(TEXT_LIMIT);
        }
        let mut longs = 0;
        while characters.next_if(|next| *next == 'l' || *next == 'z').is_some() {
            longs += 1;
        }
        let Some(conversion) = characters.next() else {
            break;
        };
        if conversion == '%' {
            output.push('%');
            continue;
        }
        let value = arguments.next().unwrap_or(0);
        let text = match conversion {
            'd' | 'i' => {
                if longs > 0 {
                    (value as i64).to_string()
                } else {
                    (value as i32).to_string()
                }
            }
            'u' => {
                if longs > 0 {
                    value.to_string()
                } else {
                    (value as u32).to_string()
                }
            }
            'x' | 'X' => {
                let value = if longs > 0 { value } else { u64::from(value as u32) };
                let prefix = if flags.contains('#') { "0x" } else { "" };
                if conversion == 'x' {
                    format!("{prefix}{value:x}")
                } else {
                    format!("{prefix}{value:X}")
                }
            }
            'c' => char::from(value as u8).to_string(),
            's' => read_string(value, TEXT_LIMIT),
            'p' => {
                while characters.next_if(|next| next.is_ascii_alphanumeric()).is_some() {}
                format!("0x{value:x}")
            }
            other => format!("%{other}"),
        };
        let padding = width.saturating_sub(text.chars().count());
        if flags.contains('-') {
            let _ = write!(output, "{text}{}", " ".repeat(padding));
        } else if flags.contains('0') {
            let _ = write!(output, "{}{text}", "0".repeat(padding));
        } else {
            let _ = write!(output, "{}{text}", " ".repeat(padding));
        }
    }
    make_visible(output)
}

/// Makes control characters visible: a scheduler's output is shown on terminals, and must not control them.
fn make_visible(text: String) -> String {
    let is_command = |one: char| one.is_control() && one != '\n' && one != '\t';
    if !text.contains(is_command) {
        return text;
    }
    let mut visible = String::new();
    for one in text.chars() {
        match one {
            _ if is_command(one) => visible.extend(one.escape_unicode()),
            _ => visible.push(one),
        }
    }
    visible
}

/// Maximum size of the arguments of a format, in bytes: `MAX_BPRINTF_VARARGS` words.
const ARGUMENTS_LIMIT: u64 = 12 * 8;

/// Formats with a format string and an array of arguments in the scheduler's memory; `None` if there cannot be such an array.
pub(super) fn format_at(text: u64, data: u64, size: u64) -> Option<String> {
    let size = size & 0xffff_ffff;
    if !size.is_multiple_of(8) || size > ARGUMENTS_LIMIT || (size > 0 && data == 0) {
        return None;
    }
    let arguments: Vec<u64> =
        (0..size as usize / 8).map(|position| load::<u64>(data + position as u64 * 8)).collect();
    Some(format(&read_string(text, TEXT_LIMIT), &arguments))
}

impl Kernel<'_> {
    /// The text of an exit, an error or a dump, as `bstr_format` makes it. Arguments that cannot be are an error of the scheduler.
    fn bstr_format(&mut self, text: u64, data: u64, size: u64) -> Option<String> {
        let formatted = format_at(text, data, size);
        if formatted.is_none() {
            let size = size as u32;
            let message = format!("invalid data=0x{data:x} and data__sz={size}");
            self.fail(ExitKind::Error, message);
        }
        formatted
    }

    /// Writes a line to a stream of the program.
    fn print_to_stream(&mut self, text: u64, data: u64, size: u64) -> u64 {
        match format_at(text, data, size) {
            Some(line) => {
                self.say(line);
                0
            }
            None => error(EINVAL),
        }
    }
}

kernel_functions! { TABLE;
    fn scx_bpf_exit_bstr(kernel, code, text, data, size) {
        if let Some(message) = kernel.bstr_format(text, data, size) {
            let cpu = kernel.context.cpu as i32;
            kernel.exit_with(ExitKind::UnregisteredBpf, code as i64, cpu, message);
        }
        0
    }

    fn scx_bpf_error_bstr(kernel, text, data, size) {
        if let Some(message) = kernel.bstr_format(text, data, size) {
            kernel.fail(ExitKind::ErrorBpf, message);
        }
        0
    }

    fn scx_bpf_dump_bstr(kernel, text, data, size) {
        if let Some(line) = kernel.bstr_format(text, data, size) {
            kernel.add_to_dump(&line);
        }
        0
    }

    fn bpf_stream_vprintk(kernel, stream, text, data, size) { kernel.print_to_stream(text, data, size) }
    fn bpf_stream_vprintk_impl(kernel, stream, text, data, size) { kernel.print_to_stream(text, data, size) }
}

#[cfg(test)]
mod tests {
    use super::{format, format_at};

    #[test]
    fn numbers_and_padding_follow_the_kernel() {
        assert_eq!(format("%d %u %lld", &[u64::MAX, u64::MAX, (-5i64) as u64]), "-1 4294967295 -5");
        assert_eq!(format("%04d|%-5u|%5u|", &[7, 8, 9]), "0007|8    |    9|");
        assert_eq!(format("0x%llx %#x %%", &[255, 16]), "0xff 0x10 %");
        assert_eq!(format("%99999999999999999999999d", &[1]).len(), 4096);
        assert_eq!(format("\u{1b}[2J%c|\t\n", &[7]), "\\u{1b}[2J\\u{7}|\t\n");
    }

    #[test]
    fn there_are_at_most_twelve_arguments() {
        let words = [7u64; 13];
        let of = |size: u64| format_at(c"%d".as_ptr() as u64, words.as_ptr() as u64, size);
        assert_eq!(of(12 * 8).as_deref(), Some("7"));
        assert_eq!(of(1 << 32).as_deref(), Some("0"));
        for size in [7, 13 * 8, 0x7fff_ffff, 0x7fff_fff8] {
            assert_eq!(of(size), None, "{size}");
        }
        assert_eq!(format_at(c"%d".as_ptr() as u64, 0, 8), None);
    }

    #[test]
    fn strings_are_read_from_memory() {
        let name = b"hog-0\0";
        assert_eq!(format("%s[%d]", &[name.as_ptr() as u64, 1001]), "hog-0[1001]");
    }
}
