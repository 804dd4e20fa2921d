//! Finds the fitted values of an experiment again.

use std::num::NonZero;

use fairground_results::Fit;

use super::file::TargetFile;
use super::load::Experiment;
use super::reproduce::{Request, Simulations};
use crate::error::Error;

/// How often the search range is halved: down to 1/4096.
const STEPS: u32 = 12;
/// Rounds over all values if there are several, because each depends on the others.
const ROUNDS: u32 = 2;

/// Fits again those values of `experiment` that have a target, and returns all values. The experiment's file is not changed.
///
/// The search is a bisection, so the measure must rise or fall monotonically with the value.
pub fn fit(experiment: &Experiment, threads: Option<NonZero<usize>>) -> Result<Vec<Fit>, Error> {
    let mut values = experiment.fits();
    let fits = &experiment.file.fit;
    let rounds = match fits.iter().filter(|fit| fit.target.is_some()).count() {
        1 => 1,
        _ => ROUNDS,
    };
    let request = Request { threads, ..Request::default() };
    let mut setup = Simulations::new(experiment, &request)?;
    for _ in 0..rounds {
        for fit in fits {
            let Some(target) = &fit.target else { continue };
            let value = halve(target, |value| {
                values.insert(fit.name.clone(), value);
                setup.set_fits(values.clone())?;
                setup.mean_at(&target.column, &target.point, &target.measure, threads)
            })?
            .ok_or_else(|| {
                experiment.wrong(format!(
                    "{} of {} does not reach {} with {} between {} and {}",
                    target.measure,
                    target.column,
                    target.value,
                    fit.name,
                    target.range[0],
                    target.range[1]
                ))
            })?;
            values.insert(fit.name.clone(), value);
        }
    }
    let found = fits.iter().map(|fit| Fit {
        name: fit.name.clone(),
        value: values[&fit.name],
        unit: fit.unit.clone(),
        to: fit.to.clone(),
    });
    Ok(found.collect())
}

/// The value in the target's range at which `measure` reaches the target; `None` if there is none.
fn halve(
    target: &TargetFile,
    mut measure: impl FnMut(f64) -> Result<f64, Error>,
) -> Result<Option<f64>, Error> {
    let [mut low, mut high] = target.range;
    let is_beyond = |figure: f64| figure > target.value;
    let at_low = is_beyond(measure(low)?);
    if at_low == is_beyond(measure(high)?) {
        return Ok(None);
    }
    for _ in 0..STEPS {
        let middle = (low + high) / 2.0;
        if is_beyond(measure(middle)?) == at_low {
            low = middle;
        } else {
            high = middle;
        }
    }
    Ok(Some((low + high) / 2.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(value: f64) -> TargetFile {
        TargetFile {
            column: "o1".into(),
            point: String::new(),
            measure: "time".into(),
            value,
            range: [0.0, 10.0],
        }
    }

    #[test]
    fn a_value_is_found_whether_the_measure_rises_or_falls() {
        let rising = halve(&target(9.0), |value| Ok(value * value)).unwrap();
        assert!((rising.unwrap() - 3.0).abs() < 0.01);
        let falling = halve(&target(4.0), |value| Ok(10.0 - value)).unwrap();
        assert!((falling.unwrap() - 6.0).abs() < 0.01);
    }

    #[test]
    fn a_target_out_of_reach_is_none() {
        assert_eq!(halve(&target(200.0), Ok).unwrap(), None);
    }
}
