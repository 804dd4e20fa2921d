//! Bounds-checked reading of little-endian numbers.

/// The `u16` at `offset`, or `None` past the end.
pub(crate) fn u16_at(bytes: &[u8], offset: usize) -> Option<u16> {
    let end = offset.checked_add(2)?;
    Some(u16::from_le_bytes(bytes.get(offset..end)?.try_into().ok()?))
}

/// The `u32` at `offset`, or `None` past the end.
pub(crate) fn u32_at(bytes: &[u8], offset: usize) -> Option<u32> {
    let end = offset.checked_add(4)?;
    Some(u32::from_le_bytes(bytes.get(offset..end)?.try_into().ok()?))
}

/// The NUL-terminated UTF-8 string at `offset`, or `None` if it is not one.
pub(crate) fn string_at(bytes: &[u8], offset: usize) -> Option<&str> {
    std::str::from_utf8(text_at(bytes, offset)?).ok()
}

/// The same in any encoding.
pub(crate) fn text_at(bytes: &[u8], offset: usize) -> Option<&[u8]> {
    let rest = bytes.get(offset..)?;
    let end = rest.iter().position(|&byte| byte == 0)?;
    Some(&rest[..end])
}
