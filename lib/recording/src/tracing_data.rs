//! The layout of the kernel's trace point events, as `perf record` stores it.

use std::collections::HashMap;

/// First bytes of this section of a file.
const MAGIC: &[u8] = b"\x17\x08\x44tracing";

/// An event: its name and the places of its fields.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Format {
    pub name: String,
    fields: HashMap<String, (usize, usize)>,
}

impl Format {
    /// A field of the event with these bytes, if present.
    fn bytes<'a>(&self, event: &'a [u8], field: &str) -> Option<&'a [u8]> {
        let (place, size) = *self.fields.get(field)?;
        event.get(place..place.checked_add(size)?)
    }

    /// A numeric field; signed if it has four bytes.
    pub fn number(&self, event: &[u8], field: &str) -> Option<i64> {
        let bytes = self.bytes(event, field)?;
        Some(match bytes.len() {
            1 => i64::from(bytes[0]),
            2 => i64::from(u16::from_le_bytes(bytes.try_into().ok()?)),
            4 => i64::from(i32::from_le_bytes(bytes.try_into().ok()?)),
            8 => i64::from_le_bytes(bytes.try_into().ok()?),
            _ => return None,
        })
    }

    /// A field that holds the number of a task.
    pub fn task(&self, event: &[u8], field: &str) -> Option<u32> {
        self.number(event, field).and_then(|number| u32::try_from(number).ok())
    }

    /// A text field.
    pub fn text(&self, event: &[u8], field: &str) -> Option<String> {
        let bytes = self.bytes(event, field)?;
        let end = bytes.iter().position(|byte| *byte == 0);
        Some(String::from_utf8_lossy(&bytes[..end.unwrap_or(bytes.len())]).into_owned())
    }

    /// The number and format of an event, from the kernel's description of it.
    fn parse(text: &str) -> Option<(u16, Self)> {
        let line = |start: &str| text.lines().find_map(|line| line.strip_prefix(start));
        let number = line("ID:")?.trim().parse().ok()?;
        let name = line("name:")?.trim().to_owned();
        let fields = text.lines().filter_map(|line| {
            let mut parts = line.trim().strip_prefix("field:")?.split(';');
            let declared = parts.next()?;
            let declared = declared.split('[').next()?;
            let mut value = |key: &str| {
                let part = parts.next()?.trim();
                part.strip_prefix(key)?.parse::<usize>().ok()
            };
            let place = (value("offset:")?, value("size:")?);
            Some((declared.split_whitespace().last()?.to_owned(), place))
        });
        let fields = fields.collect();
        Some((number, Self { name, fields }))
    }
}

/// The formats of all events by number; `None` if the bytes are something else.
pub(crate) fn formats(bytes: &[u8]) -> Option<HashMap<u16, Format>> {
    let mut input = Input(bytes.strip_prefix(MAGIC)?);
    input.word()?; // Version.
    input.take(1 + 1 + 4)?; // Byte order, size of a long, page size.
    for _ in ["header_page", "header_event"] {
        input.word()?;
        input.sized()?;
    }
    for _ in 0..input.count()? {
        input.sized()?;
    }
    let mut formats = HashMap::new();
    for _ in 0..input.count()? {
        input.word()?;
        for _ in 0..input.count()? {
            formats.extend(Format::parse(&String::from_utf8_lossy(input.sized()?)));
        }
    }
    Some(formats)
}

/// Bytes that are being read.
struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    /// The bytes up to and including the next zero.
    fn word(&mut self) -> Option<&'a [u8]> {
        let end = self.0.iter().position(|byte| *byte == 0)?;
        self.take(end + 1)
    }

    fn count(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.take(4)?.try_into().ok()?))
    }

    /// Bytes with their length before them.
    fn sized(&mut self) -> Option<&'a [u8]> {
        let size = u64::from_le_bytes(self.take(8)?.try_into().ok()?);
        self.take(usize::try_from(size).ok()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SWITCH: &str = "name: sched_switch\nID: 318\nformat:\n\
        \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\n\
        \tfield:char prev_comm[16];\toffset:8;\tsize:16;\tsigned:0;\n\
        \tfield:pid_t prev_pid;\toffset:24;\tsize:4;\tsigned:1;\n\nprint fmt: \"prev_comm=%s\"\n";

    #[test]
    fn fields_are_found_by_their_names() {
        let (number, format) = Format::parse(SWITCH).expect("it is a format");
        assert_eq!((number, format.name.as_str()), (318, "sched_switch"));
        let mut event = vec![0; 28];
        event[8..11].copy_from_slice(b"cc1");
        event[24] = 7;
        assert_eq!(format.text(&event, "prev_comm").as_deref(), Some("cc1"));
        assert_eq!(format.task(&event, "prev_pid"), Some(7));
        assert_eq!(format.task(&event[..26], "prev_pid"), None);
        assert_eq!(format.number(&event, "next_pid"), None);
    }

    #[test]
    fn other_bytes_have_no_formats() {
        assert_eq!(formats(b""), None);
        assert_eq!(formats(b"\x17\x08\x44tracing0.6"), None);
    }
}
