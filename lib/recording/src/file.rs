//! The file: a header, entries in compressed chunks, and an end that counts the lost entries.

use std::fs::File;
use std::io::{self, BufReader, Chain, Cursor, Read, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};
use zstd::bulk::{Compressor, Decompressor};

use crate::error::Error;
use crate::record::{Entry, EntryKind};

/// Version of the format that is written. Files of version 1, which have no control groups, are read too.
pub const VERSION: u32 = 2;
const OLDEST_VERSION: u32 = 1;
/// First bytes of a file. They show that it is not text, and whether a copy converted its line endings.
const MAGIC: [u8; 8] = *b"\x89FGREC\r\n";
/// Maximum size of a chunk before compression.
const CHUNK: usize = 1 << 20;
/// Bytes before the contents of a chunk: tag, compressed length, uncompressed length.
const CHUNK_HEAD: usize = 9;
const COMPRESSION: i32 = 3;
/// How late an entry from another CPU may reach the writer, nanoseconds.
const SETTLING: u64 = 100_000_000;

/// Maximum length of a recording, nanoseconds: a year, so that the times of all its tasks add up within 64 bits.
pub(crate) const LONGEST: u64 = 365 * 24 * 3600 * 1_000_000_000;

const TAG_HEADER: u8 = b'H';
const TAG_ENTRIES: u8 = b'E';
const TAG_ENDING: u8 = b'Z';

/// The tasks that a recording is about.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Roots {
    /// All but kernel threads.
    #[default]
    All,
    /// These threads and processes, and all that they create.
    Tasks(Vec<u32>),
}

/// The facts that are known when a recording begins.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Header {
    /// When it begins, on the clock of the entries.
    pub origin: u64,
    /// CPUs of the machine.
    pub cpus: u32,
    /// The tasks it is about.
    pub roots: Roots,
    /// The process that recorded, which is not part of the recording; 0 if unknown.
    pub recorder: u32,
    /// The recorded command.
    pub command: Vec<String>,
    /// Release of the kernel.
    pub kernel: String,
    /// Name of the sched_ext scheduler in charge; `None` for the kernel's own.
    pub scheduler: Option<String>,
    /// Its writer: `fairground record`, or the origin of an import.
    pub source: String,
    /// Whether system calls, yields and affinity are missing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub without_calls: bool,
    /// Whether it was made of a text, which does not tell whose threads these are.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub from_text: bool,
    /// Whether its oldest entries were overwritten, so that nothing is known of a CPU before its first one.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub overwritten: bool,
    /// What its source does not tell, for people.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// The facts that are known when a recording ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ending {
    /// When it ended, on the clock of the entries.
    pub end: u64,
    /// Entries lost for lack of room; there are gaps in their places.
    pub lost: u64,
}

/// A recording in memory; its entries stay compressed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recording {
    /// Name of the file without folder and suffix.
    pub name: String,
    /// Name of the file, for messages.
    pub file: String,
    /// How it begins.
    pub header: Header,
    /// How it ends.
    pub ending: Ending,
    chunks: Vec<Vec<u8>>,
}

/// A file that may be a recording. It is opened only once, because a pipe can only be read once.
pub enum Source {
    /// It begins like a recording.
    Recording(Box<Recording>),
    /// It does not; this reads it from its beginning.
    Other(Chain<Cursor<Vec<u8>>, File>),
}

impl Source {
    /// Opens a file and reads it if it is a recording.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let file = path.display().to_string();
        let unreadable = |source| Error::Read { file: file.clone(), source };
        let mut opened = File::open(path).map_err(unreadable)?;
        let mut first = Vec::new();
        let most = MAGIC.len() as u64;
        (&mut opened).take(most).read_to_end(&mut first).map_err(unreadable)?;
        let is_recording = first == MAGIC;
        let whole = Cursor::new(first).chain(opened);
        Ok(match is_recording {
            true => Self::Recording(Recording::parse(&file, BufReader::new(whole))?.into()),
            false => Self::Other(whole),
        })
    }
}

/// Whether a file begins like a recording.
pub fn is_recording(path: &Path) -> bool {
    let mut first = [0; MAGIC.len()];
    File::open(path).and_then(|mut file| file.read_exact(&mut first)).is_ok_and(|()| first == MAGIC)
}

/// Writes a recording.
pub struct Writer<W> {
    file: W,
    compressor: Compressor<'static>,
    /// Entries, with their times, that older ones may still precede.
    waiting: Vec<(u64, Vec<u8>)>,
    chunk: Vec<u8>,
    entries: u64,
    /// The time up to which entries are in the file, and how many entries came too late for it.
    settled: u64,
    late: u64,
}

impl<W: Write> Writer<W> {
    /// Begins a file.
    pub fn new(mut file: W, header: &Header) -> io::Result<Self> {
        file.write_all(&MAGIC)?;
        file.write_all(&VERSION.to_le_bytes())?;
        let mut writer = Self::headless(file)?;
        writer.write_chunk(TAG_HEADER, &serde_json::to_vec(header)?)?;
        Ok(writer)
    }

    /// Begins what follows the header, which is not known yet.
    pub(crate) fn headless(file: W) -> io::Result<Self> {
        let mut compressor = Compressor::new(COMPRESSION)?;
        compressor.include_checksum(true)?;
        Ok(Self {
            file,
            compressor,
            waiting: Vec::new(),
            chunk: Vec::new(),
            entries: 0,
            settled: 0,
            late: 0,
        })
    }

    /// Writes what follows the header, as another writer has made it.
    pub(crate) fn follow(&mut self, body: &[u8]) -> io::Result<()> {
        self.file.write_all(body)?;
        self.file.flush()
    }

    /// Adds entries, as bytes, from any number of CPUs.
    pub fn add(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while let Ok(size) = Entry::size(bytes) {
            let (entry, rest) = bytes.split_at(size);
            bytes = rest;
            if Entry::time(entry) < self.settled {
                self.late += 1;
                continue;
            }
            self.waiting.push((Entry::time(entry), entry.to_vec()));
        }
        self.waiting.sort_by_key(|(time, _)| *time);
        let newest = self.waiting.last().map_or(0, |(time, _)| *time);
        self.settle(newest.saturating_sub(SETTLING))
    }

    /// Moves entries older than `time` to the file.
    fn settle(&mut self, time: u64) -> io::Result<()> {
        self.settled = self.settled.max(time);
        let count = self.waiting.partition_point(|(when, _)| *when < time);
        let settled: Vec<_> = self.waiting.drain(..count).collect();
        for (_, entry) in settled {
            if self.chunk.len() + entry.len() > CHUNK {
                self.flush()?;
            }
            self.chunk.extend_from_slice(&entry);
            self.entries += 1;
        }
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        let chunk = std::mem::take(&mut self.chunk);
        if chunk.is_empty() {
            return Ok(());
        }
        self.write_chunk(TAG_ENTRIES, &chunk)
    }

    fn write_chunk(&mut self, tag: u8, contents: &[u8]) -> io::Result<()> {
        let stored = self.compressor.compress(contents)?;
        let length = |bytes: &[u8]| u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        self.file.write_all(&[tag])?;
        self.file.write_all(&length(&stored).to_le_bytes())?;
        self.file.write_all(&length(contents).to_le_bytes())?;
        self.file.write_all(&stored)
    }

    /// How many entries were left out because they were more than a tenth of a second older than one that came before.
    pub fn late(&self) -> u64 {
        self.late
    }

    /// Ends the file; returns the number of entries.
    pub fn finish(mut self, ending: &Ending) -> io::Result<u64> {
        self.settle(u64::MAX)?;
        self.flush()?;
        self.write_chunk(TAG_ENDING, &serde_json::to_vec(ending)?)?;
        self.file.flush()?;
        Ok(self.entries)
    }
}

impl Recording {
    /// Reads a file.
    pub fn read(path: impl AsRef<Path>) -> Result<Self, Error> {
        let path = path.as_ref();
        let file = path.display().to_string();
        let opened =
            File::open(path).map_err(|source| Error::Read { file: file.clone(), source })?;
        Self::parse(&file, BufReader::new(opened))
    }

    /// Reads a recording; `file` names it in messages.
    pub fn parse(file: &str, source: impl Read) -> Result<Self, Error> {
        let mut input = Input { file, source, place: 0, begin: None, last: 0 };
        let mut head = [0; MAGIC.len() + 4];
        let count = input.fill(&mut head)?;
        if count < MAGIC.len() || head[..MAGIC.len()] != MAGIC {
            return Err(Error::Foreign { file: file.to_owned() });
        }
        if count < head.len() {
            return Err(input.truncated());
        }
        let version = u32::from_le_bytes(head[MAGIC.len()..].try_into().unwrap_or_default());
        if !(OLDEST_VERSION..=VERSION).contains(&version) {
            return Err(Error::Version { file: file.to_owned(), version });
        }
        let (header, chunks, ending) = input.chunks()?;
        let name = Path::new(file)
            .file_stem()
            .map_or_else(|| file.into(), |stem| stem.to_string_lossy().into_owned());
        Ok(Self { name, file: file.to_owned(), header, ending, chunks })
    }

    /// The entries in order of time. They were checked when the file was read.
    pub fn entries(&self) -> impl Iterator<Item = Entry> + '_ {
        let chunks = self.chunks.iter();
        chunks.flat_map(|chunk| {
            let contents = Decompressor::new()
                .and_then(|mut decompressor| decompressor.decompress(chunk, CHUNK))
                .unwrap_or_default();
            let mut place = 0;
            std::iter::from_fn(move || {
                let (entry, size) = Entry::parse(contents.get(place..)?).ok()?;
                place += size;
                Some(entry)
            })
        })
    }

    /// How long it lasted, nanoseconds.
    pub fn length(&self) -> u64 {
        self.ending.end.saturating_sub(self.header.origin)
    }
}

/// A file that is being read.
struct Input<'a, R> {
    file: &'a str,
    source: R,
    place: u64,
    /// Where the recording begins, once known, and the time of the last entry.
    begin: Option<u64>,
    last: u64,
}

impl<R: Read> Input<'_, R> {
    /// Fills `buffer`, or as much of it as there are bytes left.
    fn fill(&mut self, buffer: &mut [u8]) -> Result<usize, Error> {
        let mut count = 0;
        while count < buffer.len() {
            match self.source.read(&mut buffer[count..]) {
                Ok(0) => break,
                Ok(more) => count += more,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(source) => {
                    return Err(Error::Read { file: self.file.to_owned(), source });
                }
            }
        }
        self.place += count as u64;
        Ok(count)
    }

    fn truncated(&self) -> Error {
        let length = self.last.saturating_sub(self.begin.unwrap_or(self.last));
        Error::Truncated { file: self.file.to_owned(), seconds: length as f64 / 1e9 }
    }

    fn damaged(&self, what: impl Into<String>) -> Error {
        Error::Damaged { file: self.file.to_owned(), place: self.place, what: what.into() }
    }

    /// The next chunk: its tag, and its contents before and after decompression.
    fn chunk(&mut self) -> Result<(u8, Vec<u8>, Vec<u8>), Error> {
        let mut head = [0; CHUNK_HEAD];
        if self.fill(&mut head)? < CHUNK_HEAD {
            return Err(self.truncated());
        }
        let number = |place: usize| {
            u32::from_le_bytes(head[place..place + 4].try_into().unwrap_or_default()) as usize
        };
        let (stored, length) = (number(1), number(5));
        // The writer makes no longer chunks, and a damaged length must not make the reader allocate memory for nothing.
        if length > CHUNK || stored > 2 * CHUNK {
            return Err(self
                .damaged(format!("a chunk of {length} bytes, {stored} compressed, is too long")));
        }
        let mut bytes = vec![0; stored];
        if self.fill(&mut bytes)? < stored {
            return Err(self.truncated());
        }
        let contents = Decompressor::new()
            .and_then(|mut decompressor| decompressor.decompress(&bytes, length))
            .map_err(|error| self.damaged(error.to_string()))?;
        if contents.len() != length {
            return Err(self.damaged("a chunk has another length than it says"));
        }
        Ok((head[0], bytes, contents))
    }

    fn chunks(&mut self) -> Result<(Header, Vec<Vec<u8>>, Ending), Error> {
        let mut header: Option<Header> = None;
        let mut chunks = Vec::new();
        loop {
            let (tag, bytes, contents) = self.chunk()?;
            match (tag, &header) {
                (TAG_HEADER, None) => {
                    let read: Header = serde_json::from_slice(&contents)
                        .map_err(|error| self.damaged(format!("invalid header: {error}")))?;
                    if read.cpus == 0 {
                        return Err(self.damaged("the machine has no CPUs"));
                    }
                    self.begin = Some(read.origin);
                    self.last = read.origin;
                    header = Some(read);
                }
                (TAG_ENTRIES, Some(read)) => {
                    let cpus = read.cpus;
                    self.check(&contents, cpus)?;
                    chunks.push(bytes);
                }
                (TAG_ENDING, Some(_)) => {
                    let ending: Ending = serde_json::from_slice(&contents)
                        .map_err(|error| self.damaged(format!("invalid end: {error}")))?;
                    if ending.end < self.begin.unwrap_or(0) {
                        return Err(self.damaged("it ends before it begins"));
                    }
                    if ending.end.max(self.last) - self.begin.unwrap_or(0) > LONGEST {
                        return Err(self.damaged("it lasts longer than a year"));
                    }
                    if self.fill(&mut [0])? > 0 {
                        return Err(self.damaged("data after its end"));
                    }
                    return header
                        .map(|header| (header, chunks, ending))
                        .ok_or_else(|| self.damaged("no header"));
                }
                _ => return Err(self.damaged("an unexpected chunk")),
            }
        }
    }

    /// Checks that these bytes are entries in order of time.
    fn check(&mut self, contents: &[u8], cpus: u32) -> Result<(), Error> {
        let mut rest = contents;
        let mut before = 0;
        while !rest.is_empty() {
            let (entry, size) = Entry::parse(rest).map_err(|what| self.damaged(what))?;
            if entry.time < before {
                return Err(self.damaged("an entry is older than the one before it"));
            }
            let named = !matches!(entry.kind, EntryKind::Task { .. } | EntryKind::Group(_));
            if named && u32::from(entry.cpu) >= cpus {
                return Err(self.damaged(format!("an entry for CPU {} of {cpus}", entry.cpu)));
            }
            before = entry.time;
            rest = &rest[size..];
        }
        if before < self.last && before > self.begin.unwrap_or(0) {
            return Err(self.damaged("a chunk is older than the one before it"));
        }
        self.last = before.max(self.last);
        Ok(())
    }
}
