//! The parts of an object that a kernel sees.

use std::fmt;

use super::Object;

impl Object {
    /// Writes the parts of the object that a kernel sees as text: instructions with their operands, maps, variables, tables of callbacks and types. It is
    /// the same for the same code wherever its source lies, since paths and lines are left out.
    pub fn write_essence(&self, out: &mut impl fmt::Write) -> fmt::Result {
        let Self {
            btf,
            ext,
            license,
            functions,
            programs,
            maps,
            sections,
            struct_ops,
            externs,
            kconfig_size: _,
        } = self;
        write!(out, "{:?}{:?}", btf.types(), ext.relocations)?;
        write!(out, "{license:?}{functions:?}{maps:?}{sections:?}")?;
        write!(out, "{struct_ops:?}{externs:?}")?;
        // Which of them are loaded is up to the loader.
        for program in programs {
            write!(out, "{:?}", (&program.name, &program.section))?;
        }
        Ok(())
    }
}
