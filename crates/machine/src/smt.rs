//! The work of cores whose siblings are busy, as descriptions give it.

use crate::error::Error;
use crate::hardware::ALONE;
use crate::model::Machine;

/// The beginning of the word of a description that gives the work of a core whose siblings are busy.
pub(crate) const WORD: &str = "smt:";

/// Sets the work of cores with two, three and more busy CPUs to the values that `word` lists.
pub(crate) fn apply(word: &str, machine: &mut Machine) -> Result<(), Error> {
    let list = word[WORD.len()..].split(',');
    let throughputs: Option<Vec<f64>> = list.map(|part| part.parse().ok()).collect();
    let result = match throughputs {
        Some(throughputs) => self::throughputs(&throughputs, machine),
        None => Err("throughputs are numbers".to_owned()),
    };
    machine.hardware.smt = result.map_err(|message| {
        let text = format!("`{word}`: {message}; for example `core:4 pu:2 {WORD}1.15`");
        Error::new(&machine.description, text)
    })?;
    Ok(())
}

/// The throughputs of a core with two, three and more busy CPUs, in thousandths.
pub(crate) fn throughputs(given: &[f64], machine: &Machine) -> Result<Vec<u32>, String> {
    let cores = machine.cores();
    let siblings = cores.map(|core| machine.core_members(core).count()).max().unwrap_or(1);
    if siblings < 2 {
        return Err("no core of the machine has more than one CPU".into());
    }
    if given.len() != siblings - 1 {
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
    given.iter().zip(2..).map(within).collect()
}
