//! Small changes of an input.

/// Pieces worth trying in any text: numbers at the limits of types, and symbols of the formats.
const PIECES: &[&str] = &[
    "0",
    "-1",
    "1",
    "255",
    "4096",
    "65536",
    "2147483648",
    "-2147483649",
    "4294967295",
    "9223372036854775807",
    "-9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "1e308",
    "1e-308",
    "0.5",
    "nan",
    "inf",
    "true",
    "null",
    "\"\"",
    "[]",
    "{}",
    "[[[[[[[[",
    "((((((((",
    "{\"a\":",
    "\"",
    "\\u0000",
    "\\ud800",
    "\u{1b}[2J",
    "é",
    "\u{feff}",
    "\n",
    "\0",
    "=",
    ",",
    ":",
    "#",
    "<a>",
    "</a>",
    "<!--",
    "&amp;",
    "/*",
    "../",
    "%",
];

/// A change. Positions are in 65536ths of the length, so that they are inside every input.
#[derive(Clone, Debug)]
pub enum Edit {
    /// Another byte.
    Set(u16, u8),
    /// One bit flipped.
    Flip(u16, u8),
    /// A little-endian number of 4 bytes.
    Number(u16, u32),
    /// Inserts one of the pieces.
    Insert(u16, usize),
    /// Replaces the word there with one of the pieces.
    Replace(u16, usize),
    /// Removes some bytes.
    Remove(u16, u8),
    /// Copies some bytes to another position.
    Copy(u16, u8, u16),
    /// Cuts the input off here.
    Cut(u16),
}

/// An input with these changes applied one after the other.
pub fn apply(input: &[u8], edits: &[Edit]) -> Vec<u8> {
    let mut bytes = input.to_vec();
    for edit in edits {
        change(&mut bytes, edit);
    }
    bytes
}

fn change(bytes: &mut Vec<u8>, edit: &Edit) {
    let length = bytes.len();
    let place = |part: u16| length * usize::from(part) / 65536;
    match *edit {
        Edit::Set(at, byte) => {
            if let Some(there) = bytes.get_mut(place(at)) {
                *there = byte;
            }
        }
        Edit::Flip(at, bit) => {
            if let Some(there) = bytes.get_mut(place(at)) {
                *there ^= 1 << (bit % 8);
            }
        }
        Edit::Number(at, number) => {
            let there = bytes.iter_mut().skip(place(at) & !3);
            there.zip(number.to_le_bytes()).for_each(|(there, byte)| *there = byte);
        }
        Edit::Insert(at, piece) => {
            let at = place(at);
            bytes.splice(at..at, PIECES[piece % PIECES.len()].bytes());
        }
        Edit::Replace(at, piece) => {
            let at = place(at);
            let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
            let before = bytes[..at].iter().rev().take_while(|byte| is_word(byte)).count();
            let after = bytes[at..].iter().take_while(|byte| is_word(byte)).count();
            bytes.splice(at - before..at + after, PIECES[piece % PIECES.len()].bytes());
        }
        Edit::Remove(at, count) => {
            let at = place(at);
            bytes.drain(at..length.min(at + usize::from(count)));
        }
        Edit::Copy(from, count, to) => {
            let from = place(from);
            let part = bytes[from..length.min(from + usize::from(count))].to_vec();
            let to = place(to);
            bytes.splice(to..to, part);
        }
        Edit::Cut(at) => bytes.truncate(place(at)),
    }
}
