//! The stream that perf writes into a pipe (`perf record -o -`): records in a row, without a table of sections.
//!
//! The reader of perf files knows this form, but not the record with the formats of trace points, whose contents follow behind its end. They
//! are taken out here.

use std::cell::RefCell;
use std::io::{self, Read};
use std::mem;
use std::rc::Rc;

/// Bytes before the first record: `PERFILE2`, and this length. In a file, the length is larger.
pub(crate) const HEADER: usize = 16;
/// Bytes at the beginning of a record: its type, flags and length.
const RECORD: usize = 8;
/// `PERF_RECORD_HEADER_TRACING_DATA`.
const TRACING_DATA: u32 = 66;
/// Maximum length of the formats.
const LONGEST: u64 = 64 << 20;

/// Whether a file that begins with these bytes was written into a pipe.
pub(crate) fn is_stream(first: &[u8]) -> bool {
    let length = first.get(8..HEADER).map(|bytes| bytes.to_vec());
    first.starts_with(crate::PERF) && length == Some((HEADER as u64).to_le_bytes().to_vec())
}

/// The formats of trace points, once they have come by.
#[derive(Clone, Default)]
pub(crate) struct Tracing(Rc<RefCell<Vec<u8>>>);

impl Tracing {
    /// All that has come by.
    pub fn take(&self) -> Vec<u8> {
        mem::take(&mut self.0.borrow_mut())
    }
}

/// The stream without the formats of trace points.
pub(crate) struct Stream<R> {
    source: R,
    tracing: Tracing,
    /// Bytes that were read for passing on, and how many of them were passed on.
    ready: Vec<u8>,
    passed: usize,
    has_begun: bool,
}

impl<R: Read> Stream<R> {
    /// The stream, and where its formats of trace points go.
    pub fn new(source: R) -> (Self, Tracing) {
        let tracing = Tracing::default();
        let stream = Self {
            source,
            tracing: tracing.clone(),
            ready: Vec::new(),
            passed: 0,
            has_begun: false,
        };
        (stream, tracing)
    }

    /// Reads the next `length` bytes.
    fn fetch(&mut self, length: u64) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        match (&mut self.source).take(length).read_to_end(&mut bytes)? as u64 {
            count if count == length => Ok(bytes),
            // An end of file is the end of the stream to its reader.
            _ => Err(io::Error::new(io::ErrorKind::InvalidData, "it is cut off within a record")),
        }
    }

    /// Gets the next record ready; there is none at the end.
    fn advance(&mut self) -> io::Result<()> {
        self.passed = 0;
        if !mem::replace(&mut self.has_begun, true) {
            self.ready = self.fetch(HEADER as u64)?;
            return Ok(());
        }
        loop {
            self.ready.clear();
            (&mut self.source).take(1).read_to_end(&mut self.ready)?;
            if self.ready.is_empty() {
                return Ok(());
            }
            let mut record = mem::take(&mut self.ready);
            record.extend(self.fetch(RECORD as u64 - 1)?);
            let [a, b, c, d, _, _, e, f] = record[..] else { return Ok(()) };
            let length = u64::from(u16::from_le_bytes([e, f]));
            record.extend(self.fetch(length.saturating_sub(RECORD as u64))?);
            if u32::from_le_bytes([a, b, c, d]) != TRACING_DATA {
                self.ready = record;
                return Ok(());
            }
            let size = record.get(RECORD..RECORD + 4);
            let size = size.map_or([0; 4], |size| size.try_into().unwrap_or_default());
            let size = u64::from(u32::from_le_bytes(size)).min(LONGEST);
            let mut contents = self.fetch(size.next_multiple_of(8))?;
            contents.truncate(size as usize);
            *self.tracing.0.borrow_mut() = contents;
        }
    }
}

impl<R: Read> Read for Stream<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.passed == self.ready.len() {
            self.advance()?;
        }
        let left = &self.ready[self.passed..];
        let count = left.len().min(buffer.len());
        buffer[..count].copy_from_slice(&left[..count]);
        self.passed += count;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(kind: u32, body: &[u8]) -> Vec<u8> {
        let mut bytes = kind.to_le_bytes().to_vec();
        bytes.extend([0, 0]);
        bytes.extend((8 + body.len() as u16).to_le_bytes());
        bytes.extend(body);
        bytes
    }

    #[test]
    fn formats_are_taken_out() {
        let mut header = b"PERFILE2".to_vec();
        header.extend(16_u64.to_le_bytes());
        assert!(is_stream(&header));
        let (first, last) = (record(64, &[1; 8]), record(9, &[2; 16]));
        let mut bytes = [header.clone(), first.clone()].concat();
        bytes.extend(record(66, &[5, 0, 0, 0, 0, 0, 0, 0]));
        bytes.extend(b"hello\0\0\0");
        bytes.extend(&last);
        let (mut stream, tracing) = Stream::new(&bytes[..]);
        let mut read = Vec::new();
        stream.read_to_end(&mut read).unwrap();
        assert_eq!(read, [header, first, last.clone()].concat());
        assert_eq!(tracing.take(), b"hello");
        for length in [3, 20] {
            let cut = [&bytes[..], &last[..length]].concat();
            let (mut stream, _) = Stream::new(&cut[..]);
            let error = stream.read_to_end(&mut read).unwrap_err();
            assert!(error.to_string().contains("cut off"), "{error}");
        }
    }

    #[test]
    fn a_file_is_no_stream() {
        let mut header = b"PERFILE2".to_vec();
        header.extend(104_u64.to_le_bytes());
        assert!(!is_stream(&header));
        assert!(!is_stream(b"PERFILE2"));
    }
}
