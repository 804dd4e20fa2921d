//! The `.BTF.ext` section: source lines and CO-RE relocations per section.

use std::borrow::Cow;

use crate::btf::{Btf, Header, TypeId};
use crate::bytes::u32_at;
use crate::error::{Error, malformed};

const PLACE: &str = "section .BTF.ext";

/// Contents of a `.BTF.ext` section, per code section.
#[derive(Debug, Clone, Default)]
pub(crate) struct BtfExt {
    pub lines: Vec<(String, Vec<Line>)>,
    pub relocations: Vec<(String, Vec<CoreRelocation>)>,
}

/// A source line and the instruction at which its code starts.
#[derive(Debug, Clone)]
pub(crate) struct Line {
    /// Offset in the section in bytes.
    pub offset: u32,
    pub file: String,
    pub text: String,
    pub line: u32,
    pub column: u32,
}

/// One CO-RE relocation.
#[derive(Debug, Clone)]
pub(crate) struct CoreRelocation {
    /// Offset of the instruction in the section in bytes.
    pub offset: u32,
    pub type_id: TypeId,
    /// Indices from the type to the field, such as "0:3:1".
    pub access: String,
    pub kind: u32,
}

impl CoreRelocation {
    /// Whether it asks for the offset of a field in bytes.
    pub(crate) fn is_field_offset(&self) -> bool {
        self.kind == 0
    }
}

impl BtfExt {
    pub(crate) fn parse(section: &[u8], btf: &Btf) -> Result<BtfExt, Error> {
        let header = Header::parse(section, PLACE)?;
        let mut ext = BtfExt::default();
        let lines = header.part(section, 16, 20, "line records")?;
        for (name, records) in Records::split(lines, btf)? {
            let lines = records
                .map(|record| {
                    let position = word(record, 12)?;
                    Ok(Line {
                        offset: word(record, 0)?,
                        file: text(btf, word(record, 4)?)?.into_owned(),
                        text: text(btf, word(record, 8)?)?.trim().to_owned(),
                        line: position >> 10,
                        column: position & 0x3ff,
                    })
                })
                .collect::<Result<_, Error>>()?;
            ext.lines.push((name, lines));
        }
        // Compilers without CO-RE write a shorter header.
        if header.holds(28) {
            let relocations = header.part(section, 24, 28, "CO-RE relocations")?;
            for (name, records) in Records::split(relocations, btf)? {
                let relocations = records
                    .map(|record| {
                        Ok(CoreRelocation {
                            offset: word(record, 0)?,
                            type_id: word(record, 4)?,
                            access: string(btf, word(record, 8)?)?,
                            kind: word(record, 12)?,
                        })
                    })
                    .collect::<Result<_, Error>>()?;
                ext.relocations.push((name, relocations));
            }
        }
        Ok(ext)
    }
}

fn word(record: &[u8], offset: usize) -> Result<u32, Error> {
    u32_at(record, offset).ok_or_else(|| malformed(PLACE, "a record is too short"))
}

fn string(btf: &Btf, offset: u32) -> Result<String, Error> {
    btf.string(offset).map(str::to_owned).ok_or_else(|| no_string(offset))
}

fn text(btf: &Btf, offset: u32) -> Result<Cow<'_, str>, Error> {
    btf.text(offset).ok_or_else(|| no_string(offset))
}

fn no_string(offset: u32) -> Error {
    malformed(PLACE, format!("no string at offset {offset}"))
}

/// Splits one part of the section into code sections and records.
struct Records;

impl Records {
    fn split<'a>(
        part: &'a [u8],
        btf: &Btf,
    ) -> Result<Vec<(String, std::slice::ChunksExact<'a, u8>)>, Error> {
        let mut sections = Vec::new();
        if part.is_empty() {
            return Ok(sections);
        }
        let size = word(part, 0)? as usize;
        if size < 8 {
            return Err(malformed(PLACE, format!("records of {size} bytes")));
        }
        let mut rest = &part[4..];
        while !rest.is_empty() {
            let name = string(btf, word(rest, 0)?)?;
            let length = (word(rest, 4)? as usize).checked_mul(size);
            let records = length
                .and_then(|length| rest[8..].get(..length))
                .ok_or_else(|| malformed(PLACE, "more records announced than there are"))?;
            rest = &rest[8 + records.len()..];
            sections.push((name, records.chunks_exact(size)));
        }
        Ok(sections)
    }
}
