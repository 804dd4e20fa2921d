//! hwloc's XML files, as `lstopo file.xml` writes them (format 2 and later).

use std::collections::{BTreeMap, BTreeSet};

use roxmltree::{Document, Node, ParsingOptions};

use crate::assemble::{Facts, NodeDistances, assemble};
use crate::capacity;
use crate::error::Error;
use crate::model::Machine;

/// Bit of `kind` that marks the numbers as latencies.
const KIND_LATENCY: u32 = 1 << 2;

/// Makes a machine from the file of this name.
pub(crate) fn read(file: &str) -> Result<Machine, Error> {
    let text = fairground_files::read_text(file.as_ref()).map_err(|cause| {
        Error::new(
            file,
            format!(
                "the file cannot be read: {cause}; check the name, or make one with `lstopo {file}`"
            ),
        )
    })?;
    parse(file, &text)
}

/// Maximum nesting, far beyond that of any hwloc file.
const DEPTH_MAX: usize = 128;

/// Refuses features that could cost unlimited memory: deep nesting, and entities, which hwloc does not use and which can turn a little text
/// into any amount.
fn check_bounds(text: &str) -> Result<(), String> {
    let mut depth = 0usize;
    let mut rest = text;
    while let Some(start) = rest.find('<') {
        rest = &rest[start..];
        let skipped = [("<!--", "-->"), ("<![CDATA[", "]]>"), ("<?", "?>")]
            .into_iter()
            .find(|(begin, _)| rest.starts_with(begin));
        if let Some((begin, end)) = skipped {
            let length = rest[begin.len()..].find(end);
            rest = length.map_or("", |length| &rest[begin.len() + length + end.len()..]);
            continue;
        }
        if rest.starts_with("<!ENTITY") {
            return Err("it defines entities, which files of hwloc do not".into());
        }
        // To the end of the tag; quoted attributes may contain its character.
        let mut quote = None;
        let end = rest.char_indices().skip(1).find(|&(_, one)| {
            match quote {
                Some(open) if open == one => quote = None,
                None if one == '"' || one == '\'' => quote = Some(one),
                _ => {}
            }
            quote.is_none() && (one == '>' || one == '<')
        });
        let Some((end, _)) = end else { break };
        let tag = &rest[..end];
        if tag.starts_with("</") {
            depth = depth.saturating_sub(1);
        } else if !tag.starts_with("<!") && !tag.ends_with('/') {
            depth += 1;
        }
        if depth > DEPTH_MAX {
            return Err(format!("elements are nested deeper than {DEPTH_MAX}"));
        }
        rest = &rest[end..];
    }
    Ok(())
}

pub(crate) fn parse(file: &str, text: &str) -> Result<Machine, Error> {
    check_bounds(text)
        .map_err(|problem| Error::new(file, format!("{problem}; make one with `lstopo {file}`")))?;
    // hwloc names its document type, which says nothing about the content.
    let options = ParsingOptions { allow_dtd: true, ..ParsingOptions::default() };
    let document = Document::parse_with_options(text, options).map_err(|cause| {
        Error::new(file, format!("not an XML file: {cause}; make one with `lstopo {file}`"))
    })?;
    let mut reading = Reading {
        file,
        document: &document,
        cpus: Vec::new(),
        nodes: Vec::new(),
        allowed: None,
        objects: 0,
    };
    let topology = document.root_element();
    reading.check_format(&topology)?;
    for object in children(&topology, "object") {
        reading.object(&object, Inside::default())?;
    }
    reading.machine(&topology)
}

fn children<'a, 'i>(node: &Node<'a, 'i>, name: &'static str) -> impl Iterator<Item = Node<'a, 'i>> {
    node.children().filter(move |child| child.has_tag_name(name))
}

/// The objects that contain an object.
#[derive(Clone, Copy, Debug, Default)]
struct Inside {
    package: Option<u64>,
    die: Option<u64>,
    /// The outermost cache.
    llc: Option<u64>,
    core: Option<u64>,
}

struct Reading<'a, 'i> {
    file: &'a str,
    document: &'a Document<'i>,
    cpus: Vec<(u32, Inside)>,
    /// Number and CPUs of each node.
    nodes: Vec<(u32, BTreeSet<u32>)>,
    /// The CPUs that may be used; `None` if the file does not restrict them.
    allowed: Option<BTreeSet<u32>>,
    /// Number of objects seen, to identify them.
    objects: u64,
}

impl<'i> Reading<'_, 'i> {
    fn error(&self, node: &Node<'_, 'i>, message: impl AsRef<str>) -> Error {
        let place = self.document.text_pos_at(node.range().start);
        Error::new(
            self.file,
            format!("line {}, column {}: {}", place.row, place.col, message.as_ref()),
        )
    }

    fn check_format(&self, topology: &Node<'_, 'i>) -> Result<(), Error> {
        if !topology.has_tag_name("topology") {
            return Err(self.error(
                topology,
                format!(
                    "<{}> is not the <topology> of hwloc; make a file with `lstopo {}`",
                    topology.tag_name().name(),
                    self.file
                ),
            ));
        }
        // Files of hwloc 1 have no version, and nest nodes and caches differently.
        match topology.attribute("version").map(|version| version.split('.').next()) {
            Some(Some("2" | "3")) => Ok(()),
            _ => Err(self.error(
                topology,
                format!(
                    "only files of hwloc 2 and later are read; convert this one with `lstopo --input {} new.xml`",
                    self.file
                ),
            )),
        }
    }

    fn attribute<'n>(&self, node: &Node<'n, 'i>, name: &str) -> Result<&'n str, Error> {
        node.attribute(name)
            .ok_or_else(|| self.error(node, format!("`{name}` is missing; export the file again")))
    }

    fn number(&self, node: &Node<'_, 'i>, name: &str) -> Result<u32, Error> {
        let text = self.attribute(node, name)?;
        text.parse().map_err(|_| {
            self.error(node, format!("{name}=\"{text}\" is not a number; export the file again"))
        })
    }

    fn cpu_set(&self, node: &Node<'_, 'i>, name: &str) -> Result<BTreeSet<u32>, Error> {
        let text = self.attribute(node, name)?;
        cpu_set(text).ok_or_else(|| {
            self.error(
                node,
                format!("{name}=\"{text}\" is not a set of CPUs; export the file again"),
            )
        })
    }

    /// Reads an object and its contents.
    fn object(&mut self, object: &Node<'_, 'i>, mut inside: Inside) -> Result<(), Error> {
        let id = self.objects;
        self.objects += 1;
        match self.attribute(object, "type")? {
            "Machine" if object.has_attribute("allowed_cpuset") => {
                self.allowed = Some(self.cpu_set(object, "allowed_cpuset")?);
            }
            "Package" => inside.package = Some(id),
            "Die" => inside.die = Some(id),
            "L1Cache" | "L2Cache" | "L3Cache" | "L4Cache" | "L5Cache" => {
                inside.llc = inside.llc.or(Some(id));
            }
            "Core" => inside.core = Some(id),
            "NUMANode" => {
                let node = (self.number(object, "os_index")?, self.cpu_set(object, "cpuset")?);
                self.nodes.push(node);
            }
            "PU" => {
                let number = self.number(object, "os_index")?;
                if self.cpus.iter().any(|(other, _)| *other == number) {
                    return Err(self.error(
                        object,
                        format!("CPU {number} is there twice; export the file again"),
                    ));
                }
                if self.cpus.len() == Machine::CPUS_MAX {
                    return Err(self.error(
                        object,
                        format!("more than {} CPUs; use a smaller machine", Machine::CPUS_MAX),
                    ));
                }
                self.cpus.push((number, inside));
            }
            _ => {}
        }
        for child in children(object, "object") {
            self.object(&child, inside)?;
        }
        Ok(())
    }

    fn machine(mut self, topology: &Node<'_, 'i>) -> Result<Machine, Error> {
        if self.cpus.is_empty() {
            return Err(self.error(topology, "it has no CPU (PU object); export the file again"));
        }
        // A CPU with several memories belongs to the first one; the others are nodes without CPUs.
        self.nodes.sort();
        let left_out = self.leave_out_forbidden(topology)?;
        let capacities = self.capacities(topology)?;
        let distances = self.distances(topology)?;
        // Groups that the file does not name get numbers that no object has; missing groups follow from the same rules as in synthetic
        // descriptions.
        let fresh = self.objects;
        let mut shared_caches = BTreeMap::new();
        let cpus = self
            .cpus
            .iter()
            .map(|(number, inside)| {
                let node = self.nodes.iter().find(|(_, cpus)| cpus.contains(number));
                let node = node.map_or(0, |(node, _)| *node);
                let package = inside.package.unwrap_or(fresh + u64::from(node));
                let next_cache = fresh + shared_caches.len() as u64;
                Facts {
                    number: *number,
                    core: inside.core.unwrap_or(fresh + u64::from(*number)),
                    llc: inside.llc.unwrap_or_else(|| {
                        let group = (inside.die.unwrap_or(package), node);
                        *shared_caches.entry(group).or_insert(next_cache)
                    }),
                    node,
                    package,
                    capacity: *capacities.get(number).unwrap_or(&capacity::FULL),
                }
            })
            .collect();
        let memory: Vec<u32> = self.nodes.iter().map(|(node, _)| *node).collect();
        let mut machine = assemble(self.file, cpus, &memory, &distances);
        machine.notes.extend(left_out);
        machine.unknown_speeds = capacities.is_empty() && children(topology, "cpukind").count() > 1;
        Ok(machine)
    }

    /// Leaves out the CPUs that may not be used, and says so.
    fn leave_out_forbidden(&mut self, topology: &Node<'_, 'i>) -> Result<Option<String>, Error> {
        let Some(allowed) = &self.allowed else { return Ok(None) };
        let all = self.cpus.len();
        self.cpus.retain(|(number, _)| allowed.contains(number));
        let left = self.cpus.len();
        if left == 0 {
            return Err(self
                .error(topology, "its allowed_cpuset has none of its CPUs; correct or remove it"));
        }
        Ok((left < all).then(|| {
            format!("only the {left} allowed of the {all} CPUs in {} take part", self.file)
        }))
    }

    /// Latencies between nodes, if the file has them.
    fn distances(&self, topology: &Node<'_, 'i>) -> Result<NodeDistances, Error> {
        let matrix = children(topology, "distances2").find(|matrix| {
            let latency = matrix
                .attribute("kind")
                .and_then(|kind| kind.parse::<u32>().ok())
                .is_some_and(|kind| kind & KIND_LATENCY != 0);
            matrix.attribute("type") == Some("NUMANode")
                && matrix.attribute("indexing") == Some("os")
                && (latency || matrix.attribute("name") == Some("NUMALatency"))
        });
        let Some(matrix) = matrix else { return Ok(NodeDistances::new()) };
        let numbers = |name: &'static str| -> Option<Vec<u32>> {
            let texts = children(&matrix, name).filter_map(|part| part.text());
            texts.flat_map(str::split_whitespace).map(|word| word.parse().ok()).collect()
        };
        match (numbers("indexes"), numbers("u64values")) {
            (Some(nodes), Some(values)) if values.len() == nodes.len() * nodes.len() => {
                let pairs = nodes.iter().flat_map(|a| nodes.iter().map(|b| (*a, *b)));
                Ok(pairs.zip(values).collect())
            }
            _ => Err(self.error(
                &matrix,
                "the distances are not a square of numbers; export the file again",
            )),
        }
    }

    /// Capacities by CPU: the kernel's, otherwise in proportion to the maximum frequencies.
    fn capacities(&self, topology: &Node<'_, 'i>) -> Result<BTreeMap<u32, u32>, Error> {
        let kinds: Vec<_> = children(topology, "cpukind").collect();
        for name in ["LinuxCapacity", "FrequencyMaxMHz"] {
            let mut values = BTreeMap::new();
            for kind in &kinds {
                let info = children(kind, "info").find(|info| info.attribute("name") == Some(name));
                let Some(info) = info else { continue };
                let value = self.number(&info, "value")?;
                if value == 0 {
                    return Err(self.error(&info, format!("{name} is 0; correct or remove it")));
                }
                values.extend(self.cpu_set(kind, "cpuset")?.into_iter().map(|cpu| (cpu, value)));
            }
            let all = self.cpus.iter().all(|(cpu, _)| values.contains_key(cpu));
            let Some(fastest) = values.values().copied().max().filter(|_| all) else {
                continue;
            };
            let scale = |value: u32| {
                let scaled = u64::from(value) * u64::from(capacity::FULL) / u64::from(fastest);
                (scaled as u32).max(1)
            };
            return Ok(values.into_iter().map(|(cpu, value)| (cpu, scale(value))).collect());
        }
        Ok(BTreeMap::new())
    }
}

/// Reads a set such as `0x000000ff,0xffffffff`: words of 32 bits, the highest first; a word can be
/// left out if it is 0.
fn cpu_set(text: &str) -> Option<BTreeSet<u32>> {
    let mut set = BTreeSet::new();
    for (index, word) in text.split(',').rev().enumerate() {
        if word.is_empty() {
            continue;
        }
        let bits = u32::from_str_radix(word.strip_prefix("0x")?, 16).ok()?;
        let base = u32::try_from(index).ok()?.checked_mul(32)?;
        set.extend((0..32).filter(|bit| bits >> bit & 1 == 1).map(|bit| base + bit));
    }
    Some(set)
}
