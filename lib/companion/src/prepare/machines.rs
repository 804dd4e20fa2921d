//! The companions that come with fairground, evaluated for machines of 1 to 64 CPUs, with threads of cores, nodes and gaps between the numbers of CPUs.

use std::process::Command;

use fairground_machine::Machine;

use super::*;
use crate::builtin;

/// Global variables that list the numbers of all CPUs that are online, in some order.
const ORDERS: [&str; 2] = ["preferred_cpus", "pco_table"];
/// Global variables that hold a bit for each CPU that is online: bytes, words, or several masks of words that have no CPU in common.
const BITS: [&str; 5] =
    ["all_cpus", "dom_cpumasks", "numa_cpumasks", "tune_input.direct_greedy_cpumask", "cpdom_ctxs"];
/// Global variables with a value for each number that a CPU can have.
const BY_NUMBER: [&str; 6] =
    ["cpu_capacity", "cpu_dom_id_map", "cpu_big", "cpu_sibling", "pair_cpu", "cpu_started_at"];

/// An object without variables, maps and programs, with the types whose size companions ask for.
fn object() -> Object {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("empty.o");
    let source = "struct task_ctx { long a; } one; struct task_p2dq { long a; } two;";
    let clang = std::env::var("CLANG").unwrap_or_else(|_| "clang-19".to_owned());
    let input = folder.path().join("empty.c");
    std::fs::write(&input, source).unwrap();
    let mut command = Command::new(clang);
    command.args(["-target", "bpf", "-g", "-O2", "-c", "-o"]).arg(&path).arg(&input);
    assert!(command.status().unwrap().success());
    Object::parse(&std::fs::read(path).unwrap()).unwrap()
}

/// CPUs that are online: all of several kinds of machine, and those that are left without each third one and without the first ones.
fn machines() -> Vec<Online> {
    let mut all = Vec::new();
    for cpus in [1, 2, 3, 4, 5, 7, 8, 9, 16, 24, 33, 64] {
        let half = cpus / 2;
        let mut descriptions = vec![cpus.to_string()];
        if cpus % 2 == 0 {
            descriptions.push(format!("numa:2 core:{half}"));
        }
        if cpus % 8 == 0 {
            descriptions.push(format!("numa:2 l3:2 core:{} pu:2", cpus / 8));
        }
        for description in descriptions {
            let machine = Machine::parse(&description).unwrap();
            let thirds: Vec<usize> = (0..cpus).filter(|cpu| cpu % 3 == 1).collect();
            let first: Vec<usize> = (0..half).collect();
            all.push(Online::whole(&machine));
            all.push(Online::without(&machine, &thirds));
            all.push(Online::without(&machine, &first));
        }
    }
    all
}

fn numbers(value: &Dynamic) -> Vec<INT> {
    value.clone().into_array().unwrap().iter().map(|one| one.as_int().unwrap()).collect()
}

/// The CPUs whose bits are set in words or bytes of so many bits.
fn members(words: &[INT], bits: usize) -> Vec<usize> {
    let has = |at: &usize| words[at / bits] as u64 >> (at % bits) & 1 == 1;
    (0..words.len() * bits).filter(has).collect()
}

/// Compares a global variable with what is true of the CPUs.
fn compare(online: &Online, name: &str, value: &Dynamic, place: &str) {
    let told =
        format!("{place}: {name} = {value:?} for CPUs {:?} of {}", online.ids, online.id_count);
    let list = || value.clone().into_array().unwrap();
    if BY_NUMBER.contains(&name) {
        assert_eq!(list().len(), online.id_count, "{told}");
    } else if BITS.contains(&name) {
        let mut cpus = Vec::new();
        match list().first() {
            Some(first) if first.is_int() => {
                cpus = members(&numbers(value), if name == "all_cpus" { 8 } else { 64 });
            }
            _ => {
                for one in list() {
                    let mask = match one.clone().try_cast::<Map>() {
                        Some(domain) => domain["__cpumask"].clone(),
                        None => one,
                    };
                    cpus.extend(members(&numbers(&mask), 64));
                }
            }
        }
        cpus.sort_unstable();
        assert_eq!(cpus, online.ids, "{told}");
    } else if ORDERS.contains(&name) {
        let orders = if name == "pco_table" { list() } else { vec![value.clone()] };
        for order in orders {
            let mut cpus: Vec<usize> = numbers(&order).iter().map(|cpu| *cpu as usize).collect();
            cpus.sort_unstable();
            assert_eq!(cpus, online.ids, "{told}");
        }
    }
}

impl Preparation<'_> {
    /// Evaluates all that the companion has for each element of a list.
    fn evaluate_each(
        &mut self,
        each: Option<&Spanned<Value>>,
        condition: Option<&Spanned<Value>>,
        values: &[&Spanned<Value>],
    ) -> Result<(), Error> {
        for element in self.elements(each, "each")? {
            let level = self.scope.len();
            if let Some(element) = element {
                self.scope.push_constant_dynamic("it", element);
            }
            if self.holds(condition, "if")? {
                for value in values {
                    let _ = self.value(value, "value")?;
                }
            }
            self.scope.rewind(level);
        }
        Ok(())
    }

    /// Evaluates every expression of the companion, and compares its global variables with the machine.
    fn evaluate_all(&mut self) -> Result<(), Error> {
        let file = &self.companion.file;
        for (name, value) in in_order(&file.option) {
            let value = self.value(value, name.get_ref())?;
            self.scope.push_constant_dynamic(name.get_ref().as_str(), value);
        }
        for (name, value) in in_order(&file.ops) {
            let _ = self.value(value, name.get_ref())?;
        }
        for (name, value) in in_order(&file.global) {
            let found = self.value(value, name.get_ref())?;
            let name = name.get_ref().trim_end_matches('?');
            compare(self.online, name, &found, &self.companion.place(value));
        }
        for change in file.map.values() {
            assert!(self.value(&change.max_entries, "max_entries")?.as_int().unwrap() > 0);
        }
        for entry in &file.entry {
            let values: Vec<&Spanned<Value>> = entry.value.iter().chain([&entry.key]).collect();
            self.evaluate_each(entry.each.as_ref(), entry.condition.as_ref(), &values)?;
        }
        for run in &file.run {
            let then =
                run.then.iter().flat_map(|then| then.context.values().chain(then.write.values()));
            let own = run.context.values().chain(run.write.values()).chain(&run.cpu);
            let values: Vec<&Spanned<Value>> = own.chain(then).collect();
            self.evaluate_each(run.each.as_ref(), run.condition.as_ref(), &values)?;
        }
        Ok(())
    }
}

#[test]
fn every_companion_fits_every_machine() {
    let object = object();
    // Those of schedulers are 0, as no machine changes them.
    let constants = |name: &str| {
        let is_constant = name.len() > 3 && !name.contains(|one: char| one.is_ascii_lowercase());
        is_constant.then_some(0)
    };
    let machines = machines();
    for companion in builtin::all() {
        for online in &machines {
            let mut preparation =
                companion.preparation(&object, &constants, online, &companion.text);
            let ended = preparation.evaluate_all();
            let cpus = format!("CPUs {:?} of {}", online.ids, online.id_count);
            if companion.scheduler() == "pair" && online.id_count % 2 == 1 {
                let message = ended.expect_err(&cpus).to_string();
                assert!(message.contains("an odd number of CPUs"), "{message}");
            } else {
                ended.unwrap_or_else(|error| panic!("{error}: {cpus}"));
            }
        }
    }
}
