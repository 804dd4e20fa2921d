//! Numbers of CPUs and hwloc's synthetic descriptions.

use std::collections::BTreeSet;

use fairground_events::CgroupMode;

use crate::assemble::{Facts, NodeDistances, assemble};
use crate::error::Error;
use crate::model::Machine;
use crate::{capacity, smt};

/// A description that works, for messages.
const EXAMPLE: &str = "numa:2 l3:2 core:4 pu:2";

/// The beginning of the word for how the shares of control groups grow.
const CGROUP_MODE: &str = "cgroup_mode:";

/// The beginnings of the words that say more about a machine, after its levels.
const MORE: [&str; 3] = [capacity::WORD, smt::WORD, CGROUP_MODE];

/// The type of a level's objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ObjectKind {
    Node,
    Package,
    Die,
    Group,
    /// A data or unified cache with its level.
    Cache(u32),
    InstructionCache(u32),
    Core,
    Cpu,
}

/// A level: how many objects each object of the previous level has.
#[derive(Clone, Debug)]
struct Level {
    kind: ObjectKind,
    /// The word that describes it.
    word: String,
    count: u32,
    /// Whether a node is attached to each object (`[numa]`).
    memory: bool,
    /// How the objects are numbered, if not in order.
    indexes: Option<String>,
}

/// Makes a machine from a number or a synthetic description.
pub(crate) fn parse(description: &str) -> Result<Machine, Error> {
    Reading { description }.machine()
}

struct Reading<'a> {
    description: &'a str,
}

impl Reading<'_> {
    fn error(&self, message: impl AsRef<str>) -> Error {
        Error::new(self.description, format!("{}; for example `{EXAMPLE}`", message.as_ref()))
    }

    fn machine(&self) -> Result<Machine, Error> {
        let mut words = self.words()?;
        let [capacities, smt, mode] = self.more(&mut words)?;
        if words.is_empty() {
            return Err(self.error(
                "no machine is described; give a number of CPUs, an hwloc synthetic description, an \
                 hwloc file that ends in .xml, a file that ends in .toml, a machine's name, or `host`",
            ));
        }
        let (levels, machine_memory) = self.levels(&words)?;
        let mut machine = self.build(&levels, machine_memory)?;
        if let Some(word) = capacities {
            capacity::apply(&word, &mut machine)?;
        }
        if let Some(word) = smt {
            smt::apply(&word, &mut machine)?;
        }
        if let Some(word) = mode {
            machine.cgroup_mode = self.cgroup_mode(&word)?;
        }
        Ok(machine)
    }

    /// Takes the words that say more about the machine off the end, each at its place in [`MORE`].
    fn more(&self, words: &mut Vec<String>) -> Result<[Option<String>; MORE.len()], Error> {
        let mut found = [const { None }; MORE.len()];
        let place = |word: &String| MORE.iter().position(|begin| word.starts_with(begin));
        while let Some((word, place)) = words.last().and_then(|word| Some((word, place(word)?))) {
            if found[place].is_some() {
                return Err(self.error(format!("`{word}` says again what another word says")));
            }
            found[place] = words.pop();
        }
        Ok(found)
    }

    fn cgroup_mode(&self, word: &str) -> Result<CgroupMode, Error> {
        CgroupMode::find(&word[CGROUP_MODE.len()..]).ok_or_else(|| {
            let names = CgroupMode::ALL.map(CgroupMode::name).join(", ");
            self.error(format!("`{word}`: modes are {names}"))
        })
    }

    /// Splits the description at spaces outside parentheses.
    fn words(&self) -> Result<Vec<String>, Error> {
        let mut words = Vec::new();
        let mut word = String::new();
        let mut open = 0u32;
        for c in self.description.chars() {
            match c {
                '(' => open += 1,
                ')' if open == 0 => {
                    return Err(
                        self.error(format!("`{word})` closes a parenthesis that is not open"))
                    );
                }
                ')' => open -= 1,
                _ => {}
            }
            if c.is_whitespace() && open == 0 {
                if !word.is_empty() {
                    words.push(std::mem::take(&mut word));
                }
            } else {
                word.push(c);
            }
        }
        if open > 0 {
            return Err(self.error(format!("`{word}` does not close its parenthesis")));
        }
        if !word.is_empty() {
            words.push(word);
        }
        Ok(words)
    }

    /// Reads the words into levels that end with the CPUs.
    fn levels(&self, words: &[String]) -> Result<(Vec<Level>, bool), Error> {
        let mut levels: Vec<Level> = Vec::new();
        let mut untyped = Vec::new();
        let mut machine_memory = false;
        for word in words {
            if MORE.iter().any(|begin| word.starts_with(begin)) {
                return Err(self.error(format!("`{word}` must come after the levels")));
            }
            if word.starts_with('[') {
                self.check_memory(word)?;
                match levels.last_mut() {
                    Some(level) => level.memory = true,
                    None => machine_memory = true,
                }
                continue;
            }
            let (text, attributes) = match word.split_once('(') {
                Some((text, attributes)) => (text, Some(attributes)),
                None => (word.as_str(), None),
            };
            if text.is_empty() {
                // Attributes of the whole machine.
                self.attributes(word, attributes.unwrap_or(")"))?;
                continue;
            }
            let (kind, count) = match text.split_once(':') {
                Some((name, count)) => (Some(self.kind(word, name)?), count),
                None => (None, text),
            };
            untyped.push(kind.is_none());
            let count = match count.parse::<u32>() {
                Ok(count @ 1..) => count,
                _ => {
                    return Err(self.error(match kind {
                        Some(_) => format!("`{word}` needs a number from 1 after the colon"),
                        None if count == "0" => "there has to be at least one CPU".to_owned(),
                        None if count.split(',').all(|one| one.parse::<u32>().is_ok()) => {
                            let several = count.replace(',', " -m ");
                            format!("`{word}` is several machines: write -m {several}")
                        }
                        None => format!("`{word}` is neither a number nor a level with a number"),
                    }));
                }
            };
            levels.push(Level {
                kind: kind.unwrap_or(ObjectKind::Cpu),
                word: word.clone(),
                count,
                memory: false,
                indexes: match attributes {
                    Some(attributes) => self.attributes(word, attributes)?,
                    None => None,
                },
            });
        }
        if levels.is_empty() {
            return Err(self.error("no level of CPUs is described"));
        }
        if untyped.iter().all(|untyped| *untyped) {
            let kinds = untyped_kinds(levels.len());
            for (level, kind) in levels.iter_mut().zip(kinds) {
                level.kind = kind;
            }
        } else if let Some(index) = untyped[..untyped.len() - 1].iter().position(|u| *u) {
            return Err(self.error(format!(
                "`{}` has no type although other words have one; only the last number may be plain",
                levels[index].word
            )));
        }
        if levels.last().is_some_and(|last| last.kind != ObjectKind::Cpu) {
            levels.push(Level {
                kind: ObjectKind::Cpu,
                word: "pu:1".into(),
                count: 1,
                memory: false,
                indexes: None,
            });
        }
        self.check_order(&levels)?;
        Ok((levels, machine_memory))
    }

    /// The level that a name stands for.
    fn kind(&self, word: &str, name: &str) -> Result<ObjectKind, Error> {
        const NAMES: [(&str, ObjectKind); 8] = [
            ("numanode", ObjectKind::Node),
            ("node", ObjectKind::Node),
            ("package", ObjectKind::Package),
            ("socket", ObjectKind::Package),
            ("die", ObjectKind::Die),
            ("group", ObjectKind::Group),
            ("core", ObjectKind::Core),
            ("pu", ObjectKind::Cpu),
        ];
        let name = name.to_ascii_lowercase();
        if let Some((_, kind)) =
            NAMES.iter().find(|(full, _)| name.len() >= 2 && full.starts_with(&name))
        {
            return Ok(*kind);
        }
        let cache = name.strip_prefix('l').map(|rest| {
            let rest = rest.strip_suffix("cache").unwrap_or(rest);
            match rest.strip_suffix('i') {
                Some(level) => (level, true),
                None => (rest.strip_suffix(['d', 'u']).unwrap_or(rest), false),
            }
        });
        match cache {
            Some((level @ ("1" | "2" | "3"), true)) => {
                Ok(ObjectKind::InstructionCache(u32::from(level.as_bytes()[0] - b'0')))
            }
            Some((level @ ("1" | "2" | "3" | "4" | "5"), false)) => {
                Ok(ObjectKind::Cache(u32::from(level.as_bytes()[0] - b'0')))
            }
            _ => Err(self.error(format!(
                "`{word}` is not a level; levels are numa, package, die, group, l5 to l1, core and pu"
            ))),
        }
    }

    /// Checks the attributes in `text`, which ends with the closing parenthesis, and returns the
    /// numbering among them.
    fn attributes(&self, word: &str, text: &str) -> Result<Option<String>, Error> {
        let Some(text) = text.strip_suffix(')') else {
            return Err(self.error(format!(
                "`{word}` goes on after its parenthesis; put a space between words"
            )));
        };
        let mut indexes = None;
        for attribute in text.split_whitespace() {
            match attribute.split_once('=') {
                Some(("indexes", value)) => indexes = Some(value.to_string()),
                // Sizes have no meaning for scheduling.
                Some(("memory" | "size" | "memorysidecachesize", _)) => {}
                _ => {
                    return Err(self.error(format!(
                        "`{attribute}` in `{word}` is not an attribute; attributes are memory=, size= and indexes="
                    )));
                }
            }
        }
        Ok(indexes)
    }

    /// Checks a word such as `[numa]` or `[numa(memory=1GB)]`.
    fn check_memory(&self, word: &str) -> Result<(), Error> {
        let inside = word.strip_prefix('[').and_then(|w| w.strip_suffix(']'));
        let (name, attributes) = match inside.map(|inside| inside.split_once('(')) {
            Some(Some((name, attributes))) => (name, Some(attributes)),
            Some(None) => (inside.unwrap_or(""), None),
            None => ("", None),
        };
        let name = name.to_ascii_lowercase();
        let node = ["numanode", "node"].iter().any(|full| full.starts_with(&name));
        if name.len() < 2 || !node {
            return Err(
                self.error(format!("`{word}` is not memory beside a level; write `[numa]`"))
            );
        }
        if let Some(attributes) = attributes {
            self.attributes(word, attributes)?;
        }
        Ok(())
    }

    /// Checks that each level can contain the next.
    fn check_order(&self, levels: &[Level]) -> Result<(), Error> {
        let position = |kind: ObjectKind| levels.iter().position(|level| level.kind == kind);
        for (index, level) in levels.iter().enumerate() {
            let last = index == levels.len() - 1;
            if level.kind == ObjectKind::Cpu && !last {
                return Err(self.error(format!("`{}` must be the last level", level.word)));
            }
            if level.kind != ObjectKind::Group && position(level.kind) != Some(index) {
                return Err(self.error(format!("`{}` repeats a level", level.word)));
            }
            let inside = |outer: ObjectKind| position(outer).is_some_and(|outer| outer < index);
            let misplaced = match level.kind {
                ObjectKind::Package => inside(ObjectKind::Core) || inside(ObjectKind::Die),
                ObjectKind::Die | ObjectKind::Node => inside(ObjectKind::Core),
                ObjectKind::Cache(number) => {
                    (number > 2 && inside(ObjectKind::Core))
                        || (1..number).any(|smaller| inside(ObjectKind::Cache(smaller)))
                }
                _ => false,
            };
            if misplaced {
                return Err(self.error(format!(
                    "`{}` cannot be inside `{}`; order the levels from large to small",
                    level.word,
                    levels[index - 1].word
                )));
            }
        }
        Ok(())
    }

    fn build(&self, levels: &[Level], machine_memory: bool) -> Result<Machine, Error> {
        let total = levels.iter().try_fold(1u32, |total, level| {
            let total = total.checked_mul(level.count)?;
            (total as usize <= Machine::CPUS_MAX).then_some(total)
        });
        let Some(total) = total else {
            return Err(self.error(format!(
                "more than {} CPUs; describe a smaller machine",
                Machine::CPUS_MAX
            )));
        };
        // CPUs of each object of a level.
        let mut inside = total;
        let spans: Vec<u32> = levels
            .iter()
            .map(|level| {
                inside /= level.count;
                inside
            })
            .collect();
        let span = |wanted: &dyn Fn(&Level) -> bool| {
            let index = levels.iter().position(wanted)?;
            Some(spans[index])
        };
        let nodes = self.nodes(levels, &spans, machine_memory, total)?;
        let node_spans = || nodes.iter().map(|node| node.span);
        let (smallest, largest) =
            (node_spans().min().unwrap_or(total), node_spans().max().unwrap_or(total));
        let core = span(&|level| level.kind == ObjectKind::Core).unwrap_or(1);
        let package = span(&|level| level.kind == ObjectKind::Package).unwrap_or(largest);
        let die = span(&|level| level.kind == ObjectKind::Die).unwrap_or(total);
        let llc = span(&|level| matches!(level.kind, ObjectKind::Cache(_)))
            .unwrap_or_else(|| package.min(die).min(smallest).max(core));
        let numbers = self.numbers(levels, levels.len() - 1)?;
        let cpus = (0..total)
            .zip(numbers)
            .map(|(index, number)| Facts {
                number,
                core: u64::from(index / core),
                llc: u64::from(index / llc),
                // A CPU belongs to the smallest of its nodes; the others are nodes without CPUs.
                node: nodes
                    .iter()
                    .filter(|node| (node.begin..node.begin + node.span).contains(&index))
                    .min_by_key(|node| node.span)
                    .map_or(0, |node| node.number),
                package: u64::from(index / package),
                capacity: capacity::FULL,
            })
            .collect();
        let memory: Vec<u32> = nodes.iter().map(|node| node.number).collect();
        Ok(assemble(self.description, cpus, &memory, &NodeDistances::new()))
    }

    /// The nodes of all levels that have some.
    fn nodes(
        &self,
        levels: &[Level],
        spans: &[u32],
        machine_memory: bool,
        total: u32,
    ) -> Result<Vec<MemoryNode>, Error> {
        let is_node = |level: &Level| level.kind == ObjectKind::Node || level.memory;
        let node_levels = levels.iter().zip(spans).filter(|(level, _)| is_node(level));
        let machine = machine_memory.then_some(total);
        let mut nodes: Vec<MemoryNode> = { node_levels.map(|(_, span)| *span).chain(machine) }
            .flat_map(|span| {
                let begins = (0..total).step_by(span as usize);
                begins.map(move |begin| MemoryNode { begin, span, number: 0 })
            })
            .collect();
        // hwloc numbers the contents of an object before the object.
        nodes.sort_by_key(|node| (node.begin + node.span, node.span));
        let mut numbers: Vec<u32> = (0..).take(nodes.len()).collect();
        let only = levels.iter().position(is_node);
        if let Some(only) = only.filter(|only| {
            levels[*only].kind == ObjectKind::Node && nodes.len() as u32 * spans[*only] == total
        }) {
            numbers = self.numbers(levels, only)?;
        }
        for (node, number) in nodes.iter_mut().zip(numbers) {
            node.number = number;
        }
        Ok(nodes)
    }

    /// The numbers of the objects of a level in the order of the description.
    fn numbers(&self, levels: &[Level], level: usize) -> Result<Vec<u32>, Error> {
        let width = |level: usize| levels[..=level].iter().map(|level| level.count).product();
        let total: u32 = width(level);
        let Some(indexes) = &levels[level].indexes else { return Ok((0..total).collect()) };
        let wrong = |problem: &str| {
            self.error(format!(
                "`indexes={indexes}` does not number the {total} objects of `{}`: {problem}; list all numbers (indexes=0,2,1,3), interleave \
                 them (indexes=2*2:1*2), or name the levels in whose order they count (indexes=numa:core)",
                levels[level].word
            ))
        };
        let is_list = |one: char| one.is_ascii_digit() || one == ',';
        if indexes.chars().all(is_list) {
            let numbers = indexes.split(',').map(|number| number.parse().ok());
            let numbers: Option<Vec<u32>> = numbers.collect();
            let numbers = numbers.ok_or_else(|| wrong("not a list of numbers"))?;
            return distinct(numbers, total).map_err(wrong);
        }
        let loops = match indexes.starts_with(|one: char| one.is_ascii_digit()) {
            true => written_loops(indexes).ok_or_else(|| wrong("not loops of STEP*COUNT"))?,
            false => {
                let mut depths = Vec::new();
                for name in indexes.split(':') {
                    let kind = self.kind(name, name)?;
                    let depth = levels.iter().position(|level| level.kind == kind);
                    depths.push(depth.ok_or_else(|| wrong(&format!("there is no level {name}")))?);
                }
                loops_of_levels(&depths, total, &width)
            }
        };
        let numbers = interleaved(loops, total).ok_or_else(|| wrong("the loops do not fit"))?;
        distinct(numbers, total).map_err(wrong)
    }
}

/// A node, and the CPUs near it, as positions in the description.
struct MemoryNode {
    begin: u32,
    span: u32,
    number: u32,
}

/// A loop of an interleaved numbering: the number advances with every `step`th object, `count` times.
#[derive(Clone, Copy)]
struct Loop {
    step: u32,
    count: u32,
}

/// The numbers, if they are as many as there are objects, each only once.
fn distinct(numbers: Vec<u32>, total: u32) -> Result<Vec<u32>, &'static str> {
    if numbers.len() as u32 != total {
        return Err("there are more or fewer numbers");
    }
    if numbers.iter().any(|number| *number as usize >= Machine::CPUS_MAX) {
        return Err("numbers go up to 4095");
    }
    match numbers.iter().collect::<BTreeSet<_>>().len() == numbers.len() {
        true => Ok(numbers),
        false => Err("a number comes twice"),
    }
}

/// Loops as they are written, `STEP*COUNT:STEP*COUNT`.
fn written_loops(indexes: &str) -> Option<Vec<Loop>> {
    let parts = indexes.split(':').map(|part| {
        let (step, count) = part.split_once('*')?;
        let (step, count) = (step.parse().ok()?, count.parse().ok()?);
        (step > 0 && count > 0).then_some(Loop { step, count })
    });
    parts.collect()
}

/// The loops of a numbering that goes through the levels at these depths, the first one fastest. `width` is how many objects a level has.
fn loops_of_levels(depths: &[usize], total: u32, width: &dyn Fn(usize) -> u32) -> Vec<Loop> {
    let loops = depths.iter().map(|depth| {
        let around = depths.iter().filter(|other| *other < depth).max();
        Loop {
            step: total / width(*depth).min(total),
            count: width(*depth) / around.map_or(1, |around| width(*around)),
        }
    });
    loops.collect()
}

/// The kinds that hwloc gives to a description of plain numbers only.
fn untyped_kinds(levels: usize) -> Vec<ObjectKind> {
    // With the number of levels from which on each kind is present.
    const KINDS: [(usize, ObjectKind); 8] = [
        (3, ObjectKind::Package),
        (2, ObjectKind::Node),
        (7, ObjectKind::Cache(3)),
        (5, ObjectKind::Cache(2)),
        (6, ObjectKind::Cache(1)),
        (8, ObjectKind::InstructionCache(1)),
        (4, ObjectKind::Core),
        (1, ObjectKind::Cpu),
    ];
    let groups = std::iter::repeat_n(ObjectKind::Group, levels.saturating_sub(KINDS.len()));
    let kinds = KINDS.iter().filter(|(from, _)| levels >= *from);
    groups.chain(kinds.map(|(_, kind)| *kind)).collect()
}

/// hwloc's interleaved numbering: the first loop is the innermost one. Objects beyond the loops count in order, in a last loop.
fn interleaved(mut loops: Vec<Loop>, total: u32) -> Option<Vec<u32>> {
    let product = |loops: &[Loop]| {
        let mut counts = loops.iter().map(|one| one.count);
        counts.try_fold(1u32, u32::checked_mul)
    };
    let covered = product(&loops)?;
    if covered < total {
        let count = loops.iter().map(|one| one.step).min()?;
        (covered.checked_mul(count) == Some(total)).then_some(())?;
        loops.push(Loop { step: 1, count });
    }
    let mut numbers = vec![0u32; total as usize];
    let mut factor = 1u32;
    for Loop { step, count } in loops {
        for (index, number) in (0..total).zip(&mut numbers) {
            let contribution = ((index / step) % count).checked_mul(factor)?;
            *number = number.checked_add(contribution)?;
        }
        factor = factor.checked_mul(count)?;
    }
    Some(numbers)
}
