//! The names that an object provides to others and needs from them.

use std::collections::BTreeSet;

use crate::btf::{Btf, TypeKind};
use crate::elf::Elf;
use crate::error::Error;

/// The names that tie the objects of one scheduler together.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Symbols {
    /// Global functions and variables that it defines.
    pub defined: BTreeSet<String>,
    /// Functions and variables that it uses, but that neither it nor the kernel defines.
    pub missing: BTreeSet<String>,
}

impl Symbols {
    /// Reads the symbols of an object file, linked or not.
    ///
    /// # Errors
    ///
    /// [`Error::Malformed`] if it is not a BPF object.
    pub fn of(object: &[u8]) -> Result<Symbols, Error> {
        let elf = Elf::parse(object)?;
        let kernels = match elf.section(".BTF") {
            Some(section) => names_of_the_kernel(&Btf::parse(&section.data)?),
            None => BTreeSet::new(),
        };
        let named = || elf.symbols.iter().filter(|one| !one.name.is_empty());
        let names = |chosen: &dyn Fn(&&crate::elf::ElfSymbol) -> bool| {
            named().filter(chosen).map(|one| one.name.clone()).collect()
        };
        Ok(Symbols {
            defined: names(&|one| one.global && one.section.is_some()),
            missing: names(&|one| {
                one.global && one.undefined && !one.weak && !kernels.contains(&one.name)
            }),
        })
    }
}

/// Names that are declared as the kernel's: functions, variables and configuration values.
fn names_of_the_kernel(btf: &Btf) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for one in btf.types() {
        if let TypeKind::DataSection { variables, .. } = &one.kind
            && [".ksyms", ".kconfig"].contains(&one.name.as_str())
        {
            names.extend(variables.iter().map(|entry| btf.get(entry.type_id).name.clone()));
        }
    }
    names
}
