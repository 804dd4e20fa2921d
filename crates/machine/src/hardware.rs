//! How the CPUs of a machine share cores, sleep and change speed.

use std::fmt;

use crate::error::Error;
use crate::model::Machine;

/// The beginning of the word of a description that gives the work of a core whose siblings are busy.
pub(crate) const SMT: &str = "smt:";

/// Throughput of a core with one busy CPU, in the unit of [`Hardware::smt`].
pub const ALONE: u32 = 1000;

/// Behaviour of a machine's CPUs besides computing at a constant speed; the default is none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hardware {
    /// Throughput of a core with two, three and more busy CPUs, in thousandths of that with one ([`ALONE`]). If it is empty, siblings do not slow
    /// each other down.
    pub smt: Vec<u32>,
}

impl Hardware {
    /// Throughput of a core with this many busy CPUs, at least one, in thousandths of that with one.
    pub fn throughput(&self, busy: usize) -> u32 {
        let shared = busy.checked_sub(2);
        shared.map_or(ALONE, |place| {
            let known = self.smt.get(place).or(self.smt.last());
            known.map_or(ALONE * busy as u32, |throughput| *throughput)
        })
    }
}

/// Writes these properties in words, such as `a shared core does 1.15 times the work`; nothing for the default.
impl fmt::Display for Hardware {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.smt.is_empty() {
            let list: Vec<String> = { self.smt.iter() }
                .map(|throughput| (f64::from(*throughput) / f64::from(ALONE)).to_string())
                .collect();
            write!(formatter, ", SMT throughput {}", list.join(" "))?;
        }
        Ok(())
    }
}

/// Sets the work of cores with two, three and more busy CPUs to the values that `word` lists.
pub(crate) fn apply_smt(word: &str, machine: &mut Machine) -> Result<(), Error> {
    let list = word[SMT.len()..].split(',');
    let throughputs: Option<Vec<f64>> = list.map(|part| part.parse().ok()).collect();
    let result = match throughputs {
        Some(throughputs) => smt(&throughputs, machine),
        None => Err("throughputs are numbers".to_owned()),
    };
    machine.hardware.smt = result.map_err(|message| {
        let text = format!("`{word}`: {message}; for example `core:4 pu:2 {SMT}1.15`");
        Error::new(&machine.description, text)
    })?;
    Ok(())
}

/// The throughputs of a core with two, three and more busy CPUs, in thousandths.
pub(crate) fn smt(throughputs: &[f64], machine: &Machine) -> Result<Vec<u32>, String> {
    let cores = machine.cores();
    let siblings = cores.map(|core| machine.core_members(core).count()).max();
    let siblings = siblings.unwrap_or(1);
    if siblings < 2 {
        return Err("no core of the machine has more than one CPU".into());
    }
    if throughputs.len() != siblings - 1 {
        return Err(format!(
            "cores have {siblings} CPUs, so {} belong here, for two and more busy ones",
            siblings - 1
        ));
    }
    let within = |(throughput, busy): (&f64, u32)| match *throughput {
        value if (0.1..=f64::from(busy)).contains(&value) => {
            Ok((value * f64::from(ALONE)).round() as u32)
        }
        value => Err(format!(
            "{value} is no throughput of {busy} busy CPUs, which is from 0.1 to {busy} times that of one"
        )),
    };
    throughputs.iter().zip(2..).map(within).collect()
}
