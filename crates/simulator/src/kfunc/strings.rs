//! String functions (`bpf_str*()` in `kernel/bpf/helpers.c`). A string at an invalid address gives the error `-ERANGE`.

use super::passed::string_bytes;
use super::{error, kernel_functions, signed};
use crate::constants::{ENOENT, ERANGE};

/// Maximum length of a string that the kernel searches (`XATTR_SIZE_MAX`).
const LONGEST: usize = 65_536;

/// The bytes of the string at `address` before its zero byte, at most `limit`; `None` for an address that no string can have.
fn text(address: u64, limit: u64) -> Option<Vec<u8>> {
    let limit = usize::try_from(limit).unwrap_or(LONGEST).min(LONGEST);
    string_bytes(address, limit)
}

const ALL: u64 = LONGEST as u64;

/// The result of examining one string.
fn of_one(address: u64, limit: u64, look: impl Fn(&[u8]) -> Option<usize>) -> u64 {
    match text(address, limit) {
        Some(text) => look(&text).map_or(error(ENOENT), |place| signed(place as i32)),
        None => error(ERANGE),
    }
}

/// The result of examining two strings.
fn of_two(first: u64, second: u64, look: impl Fn(&[u8], &[u8]) -> Option<usize>) -> u64 {
    match text(second, ALL) {
        Some(second) => of_one(first, ALL, |first| look(first, &second)),
        None => error(ERANGE),
    }
}

fn compare(first: u64, second: u64, limit: u64, ignores_case: bool) -> u64 {
    let (Some(mut first), Some(mut second)) = (text(first, limit), text(second, limit)) else {
        return error(ERANGE);
    };
    if ignores_case {
        first.make_ascii_lowercase();
        second.make_ascii_lowercase();
    }
    signed(first.cmp(&second) as i32)
}

/// Where `part` begins in the first `limit` bytes of a string.
fn find(whole: u64, part: u64, limit: u64, ignores_case: bool) -> u64 {
    let lower = |text: &[u8]| match ignores_case {
        true => text.to_ascii_lowercase(),
        false => text.to_vec(),
    };
    let Some(part) = text(part, ALL) else {
        return error(ERANGE);
    };
    let part = lower(&part);
    of_one(whole, limit, |whole| {
        let whole = lower(whole);
        let mut places = 0..=whole.len().checked_sub(part.len())?;
        places.find(|place| whole[*place..].starts_with(&part))
    })
}

fn place_of(text: &[u8], byte: u64) -> Option<usize> {
    // The zero byte counts as part of the string.
    let mut bytes = text.iter().chain([&0]);
    bytes.position(|one| *one == byte as u8)
}

kernel_functions! { TABLE;
    fn bpf_strlen(kernel, string) { of_one(string, ALL, |text| Some(text.len())) }
    fn bpf_strnlen(kernel, string, limit) { of_one(string, limit, |text| Some(text.len())) }
    fn bpf_strcmp(kernel, first, second) { compare(first, second, ALL, false) }
    fn bpf_strcasecmp(kernel, first, second) { compare(first, second, ALL, true) }
    fn bpf_strncasecmp(kernel, first, second, limit) { compare(first, second, limit, true) }
    fn bpf_strchr(kernel, string, byte) { of_one(string, ALL, |text| place_of(text, byte)) }

    fn bpf_strnchr(kernel, string, limit, byte) {
        of_one(string, limit, |text| place_of(text, byte).filter(|place| (*place as u64) < limit))
    }

    fn bpf_strchrnul(kernel, string, byte) {
        of_one(string, ALL, |text| Some(place_of(text, byte).unwrap_or(text.len())))
    }

    fn bpf_strrchr(kernel, string, byte) {
        of_one(string, ALL, |text| match byte as u8 {
            0 => Some(text.len()),
            byte => text.iter().rposition(|one| *one == byte),
        })
    }

    fn bpf_strspn(kernel, string, accepted) {
        of_two(string, accepted, |text, accepted| {
            let other = text.iter().position(|byte| !accepted.contains(byte));
            Some(other.unwrap_or(text.len()))
        })
    }

    fn bpf_strcspn(kernel, string, rejected) {
        of_two(string, rejected, |text, rejected| {
            let first = text.iter().position(|byte| rejected.contains(byte));
            Some(first.unwrap_or(text.len()))
        })
    }

    fn bpf_strstr(kernel, whole, part) { find(whole, part, ALL, false) }
    fn bpf_strcasestr(kernel, whole, part) { find(whole, part, ALL, true) }
    fn bpf_strnstr(kernel, whole, part, limit) { find(whole, part, limit, false) }
    fn bpf_strncasestr(kernel, whole, part, limit) { find(whole, part, limit, true) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_compared_and_searched_as_in_the_kernel() {
        let at = |text: &'static std::ffi::CStr| text.as_ptr() as u64;
        let number = |result: u64| result as i64;
        assert_eq!(number(compare(at(c"abc"), at(c"abd"), ALL, false)), -1);
        assert_eq!(number(compare(at(c"ABC"), at(c"abd"), 2, true)), 0);
        assert_eq!(number(find(at(c"abcabd"), at(c"abd"), ALL, false)), 3);
        assert_eq!(number(find(at(c"abcabd"), at(c"abd"), 5, false)), -ENOENT);
        assert_eq!(number(find(at(c"xAbD"), at(c"aBd"), 4, true)), 1);
        assert_eq!(number(find(at(c"a"), at(c"abc"), ALL, false)), -ENOENT);
        assert_eq!(number(find(0, at(c"abc"), ALL, false)), -ERANGE);
        assert_eq!(place_of(b"abc", 0), Some(3));
        assert_eq!(place_of(b"abc", u64::from(b'c')), Some(2));
    }
}
