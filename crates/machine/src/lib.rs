//! Machines: CPUs, caches, nodes, distances, capacities.
//!
//! [`Machine::parse`] makes a machine from a description:
//!
//! - a number of CPUs, `8`: one node, one last-level cache, no SMT;
//! - an hwloc synthetic description, `numa:2 l3:2 core:4 pu:2`;
//! - the name of an hwloc XML file, `big.xml`, as `lstopo big.xml` writes it;
//! - the name of a TOML file with the origin of each number, `mine.toml` (`docs/machines.md`);
//! - the name of such a file that comes with fairground ([`NAMED`]), `phone`;
//! - `host`: the machine this program runs on.
//!
//! A machine whose CPU numbers have gaps keeps them for people and files ([`Machine::numbers`]). CPUs that a file does not allow are left out.
//!
//! After the first two, words say more about the machine. `8 capacity:4x1024,4x512` gives the capacities of the CPUs in their order: four CPUs of
//! capacity 1024, then four of 512; the fastest has 1024. `core:4 pu:2 smt:1.15` says that a core with two busy CPUs does 1.15 times the work of
//! one with a single busy CPU; more than two siblings have more numbers ([`Hardware::smt`]). `cgroup_mode:smp` says how the kernel lets the shares of
//! control groups grow with CPUs and tasks, by the kernel's names ([`CgroupMode`]); its default is `concur`.
//!
//! [`CgroupMode`]: fairground_events::CgroupMode
//!
//! # Synthetic descriptions
//!
//! Each word is a level and says how many of its objects each object of the previous level has. The levels are `numa` (`node`), `package`
//! (`socket`), `die`, `group`, `l5` to `l1` (with `d` or `i` for data or instruction caches), `core` and `pu`; the first two letters are
//! enough. Syntax that hwloc defines is read as by hwloc, including plain numbers (`2 4 2`), memory attached to a level (`package:2 [numa] core:4
//! pu:1`), also at several levels, and the numbering of CPUs and nodes: lists (`pu:2(indexes=0,8,1,9)`), interleaved (`pu:2(indexes=2*4:1*2)`) or by
//! levels (`pu:2(indexes=numa:core)`). Sizes of memory and caches are accepted but have no meaning here. In addition, `pu` can be left out at
//! the end.
//!
//! Facts that a description leaves open follow from these rules: without a `core` level there is no SMT; the last-level cache is the outermost one
//! given, and without any the CPUs of a die, node or package (whichever is smallest) share one; without a `package` level every node is one;
//! without a `numa` level there is one node. A CPU belongs to the smallest node around it; all other nodes have no CPUs, but count. Nodes have distance 10 from themselves and 20 from each other.

use std::path::Path;

mod assemble;
mod capacity;
mod capture;
mod error;
mod file;
mod frequencies;
mod hardware;
mod host;
mod model;
mod online;
mod smt;
mod synthetic;
mod xml;

pub use capture::{Captured, capture};
pub use error::Error;
pub use file::NAMED;
pub use hardware::{ALONE, CacheSize, Clock, Hardware, IdleState, LINE, Step};
pub use model::{Cpu, Distance, Machine};
pub use online::Online;

impl Machine {
    /// Makes a machine from a description: a number of CPUs, an hwloc synthetic description, the
    /// name of an hwloc XML file or a TOML file, a machine's name, or `host` (see the documentation of this crate).
    ///
    /// CPU numbers have no gaps: if the machine leaves numbers out, or CPUs are offline, the others move up, and [`Machine::numbers`] has the
    /// machine's own numbers.
    pub fn parse(description: &str) -> Result<Self, Error> {
        let description = description.trim();
        if description == "host" {
            host::read(Path::new("/sys"))
        } else if description.to_ascii_lowercase().ends_with(".xml") {
            xml::read(description)
        } else if description.to_ascii_lowercase().ends_with(".toml") {
            file::read(description)
        } else if let Some(machine) = file::named(description) {
            machine
        } else {
            let parsed = synthetic::parse(description);
            let other = "it is a file, whose name has to end in .xml (of hwloc: `lstopo machine.xml`) or .toml";
            match fairground_files::read(Path::new(description)) {
                Ok(bytes) if parsed.is_err() => {
                    let told = fairground_files::recognised(&bytes).unwrap_or(other);
                    Err(Error::new(description, told))
                }
                _ => parsed,
            }
        }
    }

    /// Makes a machine from the text of an hwloc XML file; `file` names it in messages.
    pub fn parse_xml(file: &str, text: &str) -> Result<Self, Error> {
        xml::parse(file, text)
    }

    /// Makes a machine from the text of a TOML file; `file` names it in messages.
    pub fn parse_toml(file: &str, text: &str) -> Result<Self, Error> {
        file::parse(file, text)
    }
}
