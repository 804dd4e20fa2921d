//! The names that expressions can use: the machine, units of time, constants of the kernel and of the scheduler.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};

use fairground_bpf::{Object, TypeKind};
use fairground_machine::Online;
use rhai::{Array, Dynamic, Engine, EvalAltResult, FnPtr, INT, Map, NativeCallContext, Scope};

use crate::bounds::{bound, takes_too_long};

/// Nanoseconds of each unit that expressions can use.
const UNITS: [(&str, INT); 4] = [("ns", 1), ("us", 1_000), ("ms", 1_000_000), ("s", 1_000_000_000)];

/// Maximum steps of all expressions of a companion together; some seconds.
pub(crate) const STEPS: u64 = 10_000_000;
/// No kernel has more CPUs.
const CPUS: usize = 1 << 16;

/// An engine whose only data are the scope, the sizes of those structures of `object` that `text` mentions, and the CPUs by their ids.
pub(crate) fn engine(text: &str, object: &Object, online: &Online) -> Engine {
    let sizes = sizes(text, object);
    let mut engine = Engine::new();
    engine.register_fn("size_of", move |name: &str| -> Result<INT, Box<EvalAltResult>> {
        let size = sizes.get(name).copied();
        size.ok_or_else(|| format!("the object has no type {name}").into())
    });
    bound(&mut engine);
    let steps = AtomicU64::new(0);
    engine.on_progress(move |step| {
        let are_over = steps.fetch_add(1, Ordering::Relaxed) >= STEPS;
        (are_over || takes_too_long(step)).then_some(Dynamic::UNIT)
    });
    engine.register_fn("mask", mask);
    let by_id = by_id(online);
    engine.register_fn("by_id", move |context: NativeCallContext, of: FnPtr| {
        values_by_id(&by_id, |cpu| of.call_within_context::<Dynamic>(&context, (cpu,)))
    });
    engine.register_fn("log2", |value: INT| -> INT { INT::from(value.max(1).ilog2()) });
    engine
}

/// A value of each CPU at the place of its id; 0 or false for CPUs that are offline.
fn values_by_id(
    cpus: &[Option<Dynamic>],
    of: impl Fn(Dynamic) -> Result<Dynamic, Box<EvalAltResult>>,
) -> Result<Array, Box<EvalAltResult>> {
    let values = cpus.iter().map(|cpu| cpu.clone().map(&of).transpose());
    let values: Vec<Option<Dynamic>> = values.collect::<Result<_, _>>()?;
    let are_truths = values.iter().flatten().all(Dynamic::is_bool);
    let none = if are_truths { Dynamic::from_bool(false) } else { Dynamic::from_int(0) };
    Ok(values.into_iter().map(|value| value.unwrap_or_else(|| none.clone())).collect())
}

/// A CPU mask with these CPUs, as 64-bit words.
fn mask(cpus: Array) -> Result<Array, Box<EvalAltResult>> {
    let mut words: Vec<u64> = Vec::new();
    for number in cpus.iter().filter_map(|cpu| cpu.as_int().ok()) {
        let Ok(cpu) = usize::try_from(number) else { continue };
        if cpu >= CPUS {
            return Err(format!("mask: no machine has a CPU {number}").into());
        }
        if words.len() <= cpu / 64 {
            words.resize(cpu / 64 + 1, 0);
        }
        words[cpu / 64] |= 1 << (cpu % 64);
    }
    Ok(words.into_iter().map(|word| Dynamic::from_int(word.cast_signed())).collect())
}

/// The scope of all expressions of a companion. `text` is all of their text: only constants that occur in it are looked up.
pub(crate) fn scope(
    text: &str,
    object: &Object,
    constants: &dyn Fn(&str) -> Option<u64>,
    online: &Online,
) -> Scope<'static> {
    let mut scope = Scope::new();
    for (name, value) in UNITS {
        scope.push_constant(name, value);
    }
    push_machine(&mut scope, online);
    for name in names(text) {
        if let Some(value) = constants(name).or_else(|| enumerator(object, name)) {
            scope.push_constant(name, value.cast_signed());
        }
    }
    scope
}

/// The words of a text that may be names, each once.
fn names(text: &str) -> BTreeSet<&str> {
    let is_name = |character: char| character.is_ascii_alphanumeric() || character == '_';
    text.split(|character| !is_name(character))
        .filter(|word| word.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_'))
        .collect()
}

/// Bytes of the types of `object` whose names occur in `text`.
fn sizes(text: &str, object: &Object) -> BTreeMap<String, INT> {
    let btf = object.btf();
    names(text)
        .into_iter()
        .filter_map(|name| {
            let size = btf.find(name).and_then(|id| btf.size_of(id))?;
            Some((name.to_owned(), size.cast_signed()))
        })
        .collect()
}

/// A constant of one of the scheduler's own enumerations.
fn enumerator(object: &Object, name: &str) -> Option<u64> {
    object.btf().types().iter().find_map(|one| {
        let TypeKind::Enumeration { enumerators, .. } = &one.kind else { return None };
        let found = enumerators.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| *value)
    })
}

/// The ids of CPUs.
fn list(online: &Online, places: impl Iterator<Item = usize>) -> Dynamic {
    let ids = places.map(|place| Dynamic::from_int(online.ids[place] as INT));
    Dynamic::from_array(ids.collect())
}

fn map<const N: usize>(members: [(&str, Dynamic); N]) -> Dynamic {
    let map: Map = members.into_iter().map(|(name, value)| (name.into(), value)).collect();
    Dynamic::from_map(map)
}

/// The CPUs that are online.
fn cpus(online: &Online) -> Array {
    let Online { machine, ids, .. } = online;
    let number = |value: u32| Dynamic::from_int(INT::from(value));
    let cpus = machine.cpus.iter().enumerate();
    cpus.map(|(place, cpu)| {
        let sibling = machine.siblings(place).find(|other| *other != place);
        map([
            ("id", Dynamic::from_int(ids[place] as INT)),
            ("core", number(cpu.core)),
            ("llc", number(cpu.llc)),
            ("node", number(cpu.node)),
            ("socket", number(cpu.package)),
            ("capacity", number(cpu.capacity)),
            ("siblings", list(online, machine.siblings(place))),
            ("sibling", Dynamic::from_int(sibling.map_or(-1, |other| ids[other] as INT))),
        ])
    })
    .collect()
}

/// Each CPU at the place of its id; none for those that are offline.
fn by_id(online: &Online) -> Vec<Option<Dynamic>> {
    let mut all = vec![None; online.id_count];
    for (id, cpu) in online.ids.iter().zip(cpus(online)) {
        all[*id] = Some(cpu);
    }
    all
}

fn push_machine(scope: &mut Scope<'static>, online: &Online) {
    let machine = &online.machine;
    let number = |value: u32| Dynamic::from_int(INT::from(value));
    let cpus = cpus(online);
    let first = |mut members: Box<dyn Iterator<Item = usize> + '_>| {
        members.next().map(|cpu| &machine.cpus[cpu])
    };
    let cores: Array = machine
        .cores()
        .map(|core| {
            let of = first(Box::new(machine.core_members(core)));
            map([
                ("id", number(core)),
                ("cpus", list(online, machine.core_members(core))),
                ("llc", number(of.map_or(0, |cpu| cpu.llc))),
                ("node", number(of.map_or(0, |cpu| cpu.node))),
            ])
        })
        .collect();
    let llcs: Array = machine
        .llcs()
        .map(|llc| {
            let of = first(Box::new(machine.llc_members(llc)));
            map([
                ("id", number(llc)),
                ("cpus", list(online, machine.llc_members(llc))),
                ("node", number(of.map_or(0, |cpu| cpu.node))),
            ])
        })
        .collect();
    let nodes: Array = machine
        .nodes()
        .map(|node| {
            let distances: Array =
                machine.nodes().map(|other| number(machine.node_distance(node, other))).collect();
            map([
                ("id", number(node)),
                ("cpus", list(online, machine.node_members(node))),
                ("distances", Dynamic::from_array(distances)),
            ])
        })
        .collect();
    scope.push_constant("nr_cpus", machine.cpus.len() as INT);
    scope.push_constant("nr_cpu_ids", online.id_count as INT);
    scope.push_constant("smt", cores.len() < cpus.len());
    for (name, list) in [("cpus", cpus), ("cores", cores), ("llcs", llcs), ("nodes", nodes)] {
        scope.push_constant_dynamic(name, Dynamic::from_array(list));
    }
}
