//! What a scheduler begins with. It is computed here for every kernel: the simulated one takes it as it is, a real one gets it through libbpf.

use crate::object::{Object, Section, StructOps, StructOpsValue, Variable};
use crate::setup::Setup;

/// The section of the constants that may be set before a scheduler is loaded.
pub const CONSTANTS: &str = ".rodata";

/// The structures in which schedulers keep why they ended: ours, and that of scx's headers.
const EXIT_RECORDS: [&str; 2] = ["exit_record", "user_exit_info"];

/// Length of the kernel's report at a scheduler's exit unless the scheduler asks for another, bytes (`SCX_EXIT_DUMP_DFL_LEN`).
const DUMP_LENGTH: u32 = 32768;

/// The value of a read-only variable.
#[derive(Clone, Copy, Debug)]
pub struct Value<'v> {
    /// The section that the variable is in.
    pub section: &'v str,
    /// Its name.
    pub name: &'v str,
    /// Its bytes. A variable that is alone in a section other than [`CONSTANTS`] may get more than it is declared with.
    pub bytes: &'v [u8],
    /// Whether it was chosen for this run, so that the scheduler's loader has no say in it.
    pub chosen: bool,
}

impl<'v> Value<'v> {
    /// The values of tunables, by name.
    pub fn of_tunables(tunables: &'v [(String, Vec<u8>)]) -> impl Iterator<Item = Self> {
        tunables.iter().map(|(name, bytes)| Self { section: CONSTANTS, name, bytes, chosen: true })
    }
}

/// The contributions of a kernel, a machine, a user and a scheduler's loader.
pub struct Given<'g> {
    /// Values of variables, of which an object need not have any.
    pub values: &'g [Value<'g>],
    /// The kernel's constants by name; `None` for one that it does not have.
    pub constant: &'g dyn Fn(&str) -> Option<u64>,
    /// Whether the kernel knows this member of the table of callbacks.
    pub knows: &'g dyn Fn(&str) -> bool,
    /// How many times CPUs have come online or gone offline since the kernel started.
    pub hotplug_sequence: u64,
    /// The settings of its loader.
    pub setup: &'g Setup,
}

/// What a scheduler begins with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prepared {
    /// The bytes of each section of global variables, in the order of [`Object::sections`].
    pub sections: Vec<Vec<u8>>,
    /// The capacity of each map in entries, in the order of [`Object::maps`].
    pub map_entries: Vec<u32>,
    /// Its table of callbacks.
    pub operations: StructOps,
    /// Members of the table that are left out, because the kernel does not know them.
    pub left_out: Vec<String>,
}

impl Object {
    /// What its scheduler begins with.
    pub fn prepare(&self, given: &Given<'_>) -> Result<Prepared, String> {
        let table = self.scheduler()?;
        let (mut operations, left_out) = table.for_kernel(&given.setup.operations, given.knows);
        operations.set("hotplug_seq", &given.hotplug_sequence.to_le_bytes());
        let mut sections: Vec<Vec<u8>> = self.sections().iter().map(Section::content).collect();
        let (chosen, usual): (Vec<_>, Vec<_>) = given.values.iter().partition(|one| one.chosen);
        for value in usual {
            self.place(value, &mut sections)?;
        }
        self.fill_constants(given.constant, &mut sections);
        for patch in &given.setup.variables {
            let section = &mut sections[patch.section];
            grow(section, patch.offset + patch.bytes.len());
            write(section, patch.offset as u64, &patch.bytes);
        }
        for value in chosen {
            self.place(value, &mut sections)?;
        }
        self.make_room_for_dump(&operations, &mut sections);
        let mut map_entries: Vec<u32> = self.maps().iter().map(|map| map.max_entries).collect();
        for (map, entries) in &given.setup.map_sizes {
            map_entries[*map] = *entries;
        }
        Ok(Prepared { sections, map_entries, operations, left_out })
    }

    fn place(&self, value: &Value<'_>, sections: &mut [Vec<u8>]) -> Result<(), String> {
        let Some((number, variable)) = self.variable(value.section, value.name) else {
            return Ok(());
        };
        let is_alone = self.sections()[number].variables.len() == 1;
        let section = &mut sections[number];
        if value.section != CONSTANTS && is_alone && variable.offset == 0 {
            grow(section, value.bytes.len());
        } else if value.bytes.len() as u64 != variable.size {
            return Err(format!(
                "the variable `{}` in {} cannot hold {} bytes: it has {}",
                value.name,
                value.section,
                value.bytes.len(),
                variable.size
            ));
        }
        write(section, variable.offset, value.bytes);
        Ok(())
    }

    /// scx's headers keep the kernel's constants in variables, `__SCX_X` that of `SCX_X`. A constant that the kernel does not have is 0, for
    /// which schedulers test.
    fn fill_constants(&self, constant: &dyn Fn(&str) -> Option<u64>, sections: &mut [Vec<u8>]) {
        for (section, bytes) in self.sections().iter().zip(sections) {
            for variable in &section.variables {
                if let Some(name) = variable.name.strip_prefix("__")
                    && section.name == CONSTANTS
                    && name.starts_with("SCX_")
                    && variable.size == 8
                {
                    let value = constant(name).unwrap_or(0);
                    write(bytes, variable.offset, &value.to_le_bytes());
                }
            }
        }
    }

    /// scx's headers leave the size of the text that belongs to `struct user_exit_info` to the loader.
    fn make_room_for_dump(&self, operations: &StructOps, sections: &mut [Vec<u8>]) {
        let Some((number, dump)) = self.separate_dump() else { return };
        let asked = match operations.number("exit_dump_len") as u32 {
            0 => DUMP_LENGTH,
            asked => asked,
        };
        if dump.offset == 0 {
            grow(&mut sections[number], asked as usize);
        }
        if let Some(length) = self.dump_length()
            && length.size == 4
            && let Some((number, _)) = self.variable(CONSTANTS, &length.name)
        {
            write(&mut sections[number], length.offset, &asked.to_le_bytes());
        }
    }

    /// The variable in which the scheduler keeps why it ended, with the number of its section.
    pub fn exit_record(&self) -> Option<(usize, &Variable)> {
        let type_name = |one: &Variable| &self.btf().get(self.btf().resolve(one.type_id)).name;
        self.find_variable(|one| EXIT_RECORDS.contains(&type_name(one).as_str()))
    }

    /// The kernel's report at its exit, if that is not in the record: the variable, with the number of its section.
    pub fn separate_dump(&self) -> Option<(usize, &Variable)> {
        let name = format!("{}_dump", self.exit_record()?.1.name);
        self.find_variable(|one| one.name == name)
    }

    /// The constant that tells the scheduler how long that report may be.
    fn dump_length(&self) -> Option<&Variable> {
        let name = format!("{}_len", self.separate_dump()?.1.name);
        Some(self.variable(CONSTANTS, &name)?.1)
    }

    /// The numbers that may be set before the scheduler is loaded, with their compiled values. The variables of scx's headers, which every loader
    /// fills in, are left out; those of the topology are not.
    pub fn constants(&self) -> Vec<(&Variable, i128)> {
        let filled = self.dump_length().map(|length| length.name.as_str());
        let mut constants = Vec::new();
        for section in self.sections().iter().filter(|one| one.name == CONSTANTS) {
            let content = section.content();
            let own = section.variables.iter().filter(|one| {
                let name = one.name.as_str();
                one.tunable && !name.starts_with("__") && Some(name) != filled
            });
            constants.extend(own.filter_map(|one| Some((one, one.number(&content)?))));
        }
        constants
    }

    fn variable(&self, section: &str, name: &str) -> Option<(usize, &Variable)> {
        let mut sections = self.sections().iter().enumerate();
        sections.find_map(|(number, one)| {
            let mut variables = one.variables.iter().filter(|_| one.name == section);
            Some((number, variables.find(|variable| variable.name == name)?))
        })
    }

    fn find_variable(&self, is_it: impl Fn(&Variable) -> bool) -> Option<(usize, &Variable)> {
        let mut sections = self.sections().iter().enumerate();
        sections.find_map(|(number, section)| {
            Some((number, section.variables.iter().find(|one| is_it(one))?))
        })
    }
}

impl StructOps {
    /// The table as a kernel gets it: with the data that a loader sets, by member, and without the members that the kernel does not `know`; also
    /// the names of those that had a value.
    pub fn for_kernel(
        &self,
        data: &[(String, Vec<u8>)],
        knows: &dyn Fn(&str) -> bool,
    ) -> (StructOps, Vec<String>) {
        let mut table = self.clone();
        for (name, bytes) in data {
            table.set(name, bytes);
        }
        let mut left_out = Vec::new();
        for member in &mut table.members {
            if member.value.is_set() && !knows(&member.name) {
                left_out.push(member.name.clone());
                member.value = StructOpsValue::Data(vec![0; member.value.size()]);
            }
        }
        (table, left_out)
    }

    /// The value of a member.
    pub fn value(&self, name: &str) -> Option<&StructOpsValue> {
        let mut members = self.members.iter();
        members.find(|one| one.name == name).map(|one| &one.value)
    }

    /// The number that a member holds; 0 if there is no such member, or if it is a callback.
    pub fn number(&self, name: &str) -> u64 {
        let Some(StructOpsValue::Data(bytes)) = self.value(name) else { return 0 };
        let mut word = [0; 8];
        let length = bytes.len().min(8);
        word[..length].copy_from_slice(&bytes[..length]);
        u64::from_le_bytes(word)
    }

    fn set(&mut self, name: &str, bytes: &[u8]) {
        if let Some(member) = self.members.iter_mut().find(|one| one.name == name) {
            member.value = StructOpsValue::Data(bytes.to_vec());
        }
    }
}

/// Makes a section at least this long.
fn grow(section: &mut Vec<u8>, end: usize) {
    if section.len() < end {
        section.resize(end, 0);
    }
}

/// Writes bytes into a section. An object's type information may claim that a variable is outside; then nothing is written.
fn write(section: &mut [u8], offset: u64, bytes: &[u8]) {
    let offset = usize::try_from(offset).unwrap_or(usize::MAX);
    let end = offset.saturating_add(bytes.len());
    if let Some(target) = section.get_mut(offset..end) {
        target.copy_from_slice(bytes);
    }
}
