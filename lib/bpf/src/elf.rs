//! The parts of an ELF file that make up a BPF object, checked and owned.

use object::elf;
use object::read::elf::{ElfFile64, ElfSection64};
use object::{
    LittleEndian, Object as _, ObjectSection as _, ObjectSymbol as _, RelocationTarget, SectionKind,
};

use crate::error::{Error, malformed};

/// A section size above this is considered damage (arenas end at 4 GiB).
const SECTION_LIMIT: u64 = 1 << 32;

/// The file, reduced to the parts that matter here. Sections and symbols have the same indices as in the file.
#[derive(Debug, Default)]
pub(crate) struct Elf {
    pub sections: Vec<ElfSection>,
    pub symbols: Vec<ElfSymbol>,
}

#[derive(Debug, Default)]
pub(crate) struct ElfSection {
    pub name: String,
    /// Contents; empty for sections without any (`.bss`).
    pub data: Vec<u8>,
    pub size: u64,
    pub kind: ElfKind,
    /// Sorted by offset.
    pub relocations: Vec<ElfRelocation>,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ElfKind {
    Code,
    Data,
    #[default]
    Other,
}

#[derive(Debug, Default)]
pub(crate) struct ElfSymbol {
    pub name: String,
    /// `None` for symbols that belong to no section.
    pub section: Option<usize>,
    pub value: u64,
    pub size: u64,
    pub function: bool,
    /// Whether it is visible outside the file.
    pub global: bool,
    pub weak: bool,
    /// Whether it is defined elsewhere.
    pub undefined: bool,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct ElfRelocation {
    pub offset: u64,
    pub symbol: usize,
}

impl Elf {
    pub(crate) fn parse(bytes: &[u8]) -> Result<Elf, Error> {
        let bad = |error: object::Error| malformed("ELF file", error.to_string());
        let file = ElfFile64::<LittleEndian>::parse(bytes).map_err(bad)?;
        let header = file.elf_header();
        let endian = LittleEndian;
        if header.e_machine.get(endian) != elf::EM_BPF {
            return Err(malformed(
                "ELF file",
                "not for the BPF machine; compile with clang -target bpf",
            ));
        }
        if header.e_type.get(endian) != elf::ET_REL {
            return Err(malformed("ELF file", "not a relocatable object"));
        }
        let mut parsed = Elf::default();
        for section in file.sections() {
            let index = section.index().0;
            parsed.sections.resize_with(index + 1, ElfSection::default);
            parsed.sections[index] = ElfSection::parse(&section)?;
        }
        for symbol in file.symbols() {
            let index = symbol.index().0;
            let name = symbol.name().map_err(bad)?.to_owned();
            let section = symbol.section_index().map(|section| section.0);
            if let Some(section) = section
                && section >= parsed.sections.len()
            {
                return Err(malformed(
                    "ELF file",
                    format!("symbol {name} is in section {section}, which does not exist"),
                ));
            }
            parsed.symbols.resize_with(index + 1, ElfSymbol::default);
            parsed.symbols[index] = ElfSymbol {
                name,
                section,
                value: symbol.address(),
                size: symbol.size(),
                function: symbol.elf_symbol().st_type() == elf::STT_FUNC,
                global: symbol.is_global(),
                weak: symbol.is_weak(),
                undefined: symbol.is_undefined(),
            };
        }
        for section in &parsed.sections {
            for relocation in &section.relocations {
                if relocation.symbol >= parsed.symbols.len() {
                    return Err(malformed(
                        format!("section {}, offset {:#x}", section.name, relocation.offset),
                        "relocation against a symbol that does not exist",
                    ));
                }
            }
        }
        Ok(parsed)
    }

    /// The first section of that name.
    pub(crate) fn section(&self, name: &str) -> Option<&ElfSection> {
        self.sections.iter().find(|section| section.name == name)
    }

    /// Where in a section the symbol `name` is; `None` if either does not exist.
    pub(crate) fn address(&self, section: &str, name: &str) -> Option<u64> {
        let index = self.sections.iter().position(|one| one.name == section)?;
        let symbol = self
            .symbols
            .iter()
            .find(|symbol| symbol.section == Some(index) && symbol.name == name)?;
        Some(symbol.value)
    }
}

impl ElfSection {
    fn parse(section: &ElfSection64<'_, '_, LittleEndian>) -> Result<ElfSection, Error> {
        let name =
            section.name().map_err(|error| malformed("ELF file", error.to_string()))?.to_owned();
        let bad = |problem: String| malformed(format!("section {name}"), problem);
        let header = section.elf_section_header();
        let flags = header.sh_flags.get(LittleEndian);
        let size = section.size();
        if size > SECTION_LIMIT {
            return Err(bad(format!("{size} bytes long")));
        }
        let mut relocations = Vec::new();
        for (offset, relocation) in section.relocations() {
            let RelocationTarget::Symbol(symbol) = relocation.target() else {
                return Err(bad(format!("offset {offset:#x}: relocation without symbol")));
            };
            relocations.push(ElfRelocation { offset, symbol: symbol.0 });
        }
        relocations.sort_by_key(|relocation| relocation.offset);
        Ok(ElfSection {
            data: section.data().map_err(|error| bad(error.to_string()))?.to_vec(),
            size,
            kind: if flags.0 & elf::SHF_EXECINSTR.0 != 0 {
                ElfKind::Code
            } else if flags.0 & elf::SHF_ALLOC.0 != 0
                || section.kind() == SectionKind::UninitializedData
            {
                ElfKind::Data
            } else {
                ElfKind::Other
            },
            relocations,
            name,
        })
    }

    /// The relocation at exactly this offset.
    pub(crate) fn relocation_at(&self, offset: u64) -> Option<ElfRelocation> {
        let index =
            self.relocations.binary_search_by_key(&offset, |relocation| relocation.offset).ok()?;
        Some(self.relocations[index])
    }
}
