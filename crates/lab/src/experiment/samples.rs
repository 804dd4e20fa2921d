//! Figures over several runs as a single value in expressions.

use fairground_results::Interval;
use rhai::{Array, Dynamic, Engine, EvalAltResult};

/// A figure over several runs: one value per seed. Arithmetic works seed by seed, so that effects of a seed on two schedulers alike cancel out.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Samples(pub(crate) Vec<f64>);

impl Samples {
    /// Its mean with the 95 % interval.
    pub(crate) fn interval(&self) -> Option<Interval> {
        Interval::of(&self.0)
    }

    /// Where the mean lies with 95 % certainty; nowhere without samples.
    fn bounds(&self) -> (f64, f64) {
        let nowhere = (f64::NAN, f64::NAN);
        self.interval().map_or(nowhere, |one| one.bounds())
    }

    fn mean(&mut self) -> f64 {
        self.interval().map_or(f64::NAN, |interval| interval.mean)
    }

    /// Its ratio to `other`, seed by seed.
    pub(crate) fn over(&self, other: &Self) -> Self {
        self.with(other, |one, two| one / two)
    }

    fn with(&self, other: &Self, combine: fn(f64, f64) -> f64) -> Self {
        let pairs = self.0.iter().zip(&other.0);
        Self(pairs.map(|(one, two)| combine(*one, *two)).collect())
    }

    fn map(&self, change: impl Fn(f64) -> f64) -> Self {
        Self(self.0.iter().map(|value| change(*value)).collect())
    }

    /// `mean [low, high]`, with as many digits as the interval justifies.
    fn text(&mut self) -> String {
        match self.interval() {
            None => "none".into(),
            Some(one) if one.samples < 2 => digits(one.mean),
            Some(one) => {
                format!("{} [{}, {}]", digits(one.mean), digits(one.low), digits(one.high))
            }
        }
    }
}

/// A number with four significant digits.
pub(crate) fn digits(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return format!("{value}");
    }
    let exponent = value.abs().log10().floor() as i32;
    let decimals = (3 - exponent).max(0) as usize;
    format!("{value:.decimals$}")
}

/// Registers arithmetic and comparisons of samples.
///
/// `below(a, b)` is true if the 95 % intervals do not overlap and `a` is the lower one. An order counts as shown only then.
pub(crate) fn register(engine: &mut Engine) {
    type Operation = fn(f64, f64) -> f64;
    let operations: [(&str, Operation); 4] = [
        ("+", |one, two| one + two),
        ("-", |one, two| one - two),
        ("*", |one, two| one * two),
        ("/", |one, two| one / two),
    ];
    engine.register_type_with_name::<Samples>("samples");
    for (name, combine) in operations {
        engine.register_fn(name, move |one: Samples, two: Samples| one.with(&two, combine));
        engine
            .register_fn(name, move |one: Samples, two: f64| one.map(|value| combine(value, two)));
        engine
            .register_fn(name, move |one: f64, two: Samples| two.map(|value| combine(one, value)));
        engine.register_fn(name, move |one: Samples, two: i64| {
            one.map(|value| combine(value, two as f64))
        });
        engine.register_fn(name, move |one: i64, two: Samples| {
            two.map(|value| combine(one as f64, value))
        });
    }
    engine
        .register_fn("mean", Samples::mean)
        .register_fn("low", |one: &mut Samples| one.bounds().0)
        .register_fn("high", |one: &mut Samples| one.bounds().1)
        .register_fn("least", |one: &mut Samples| {
            one.0.iter().copied().fold(f64::INFINITY, f64::min)
        })
        .register_fn("most", |one: &mut Samples| {
            one.0.iter().copied().fold(f64::NEG_INFINITY, f64::max)
        })
        .register_fn("abs", |one: &mut Samples| one.map(f64::abs))
        .register_fn("below", |one: Samples, two: Samples| match (one.interval(), two.interval()) {
            (Some(one), Some(two)) => one.is_below(&two),
            _ => false,
        })
        .register_fn("below", |one: Samples, limit: f64| one.bounds().1 < limit)
        .register_fn("below", |limit: f64, one: Samples| limit < one.bounds().0)
        .register_fn("within", |mut one: Samples, low: f64, high: f64| {
            (low..=high).contains(&one.mean())
        })
        .register_fn("within", |one: f64, low: f64, high: f64| (low..=high).contains(&one))
        .register_fn("to_string", Samples::text)
        .register_fn("to_debug", Samples::text)
        .register_fn("+", |text: &str, mut one: Samples| format!("{text}{}", one.text()))
        .register_fn("digits", digits);
    register_statistics(engine);
}

/// Registers comparisons that ask for the means only instead of intervals: results that more runs might still show.
pub(crate) fn register_by_means(engine: &mut Engine) {
    engine
        .register_fn("low", Samples::mean)
        .register_fn("high", Samples::mean)
        .register_fn("below", |mut one: Samples, mut two: Samples| one.mean() < two.mean())
        .register_fn("below", |mut one: Samples, limit: f64| one.mean() < limit)
        .register_fn("below", |limit: f64, mut one: Samples| limit < one.mean());
}

/// Registers statistics on arrays of numbers.
fn register_statistics(engine: &mut Engine) {
    fn numbers(array: &Array) -> Result<Vec<f64>, Box<EvalAltResult>> {
        let number = |value: &Dynamic| {
            let number = value.as_float().or_else(|_| value.as_int().map(|int| int as f64));
            number.map_err(|kind| format!("a number was expected, not {kind}").into())
        };
        array.iter().map(number).collect()
    }
    type Statistic = fn(&[f64]) -> f64;
    let statistics: [(&str, Statistic); 5] = [
        // An empty sum is 0, not the -0 that `sum` of floats starts with.
        ("sum", |values| values.iter().fold(0.0, |sum, value| sum + value)),
        ("mean", mean),
        ("stddev", |values| {
            let mean = mean(values);
            let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
            (squares / values.len() as f64).sqrt()
        }),
        ("least", |values| values.iter().copied().fold(f64::INFINITY, f64::min)),
        ("most", |values| values.iter().copied().fold(f64::NEG_INFINITY, f64::max)),
    ];
    for (name, statistic) in statistics {
        engine.register_fn(name, move |array: &mut Array| -> Result<f64, Box<EvalAltResult>> {
            let values = numbers(array)?;
            if values.is_empty() && name != "sum" {
                return Err(format!("{name} of no values").into());
            }
            Ok(statistic(&values))
        });
    }
    let percentile = |array: &mut Array, percent: f64| -> Result<f64, Box<EvalAltResult>> {
        let mut values = numbers(array)?;
        if values.is_empty() {
            return Err("percentile of no values".into());
        }
        values.sort_by(f64::total_cmp);
        let rank = (percent / 100.0 * values.len() as f64).ceil() as usize;
        Ok(values[rank.clamp(1, values.len()) - 1])
    };
    engine.register_fn("percentile", percentile);
    engine.register_fn("percentile", move |array: &mut Array, percent: i64| {
        percentile(array, percent as f64)
    });
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn engine() -> Engine {
        let mut engine = Engine::new();
        register(&mut engine);
        engine
    }

    #[test]
    fn orders_count_only_where_intervals_are_apart() {
        let engine = engine();
        let mut scope = rhai::Scope::new();
        scope.push("low", Samples(vec![1.0, 1.1, 0.9]));
        scope.push("high", Samples(vec![9.0, 9.1, 8.9]));
        scope.push("wide", Samples(vec![0.0, 10.0, 20.0]));
        let mut is = |text: &str| engine.eval_with_scope::<bool>(&mut scope, text).unwrap();
        assert!(is("below(low, high)"));
        assert!(!is("below(high, low)"));
        assert!(!is("below(low, wide)"));
        assert!(is("below(low, 2.0)"));
        assert!(is("within(high / low, 8.0, 10.0)"));
        assert!(is("mean(high - low) == 8.0"));
        assert!(is("mean(2 * low) == 2.0"));
    }

    #[test]
    fn a_single_sample_shows_nothing() {
        let engine = engine();
        let mut scope = rhai::Scope::new();
        scope.push("one", Samples(vec![1.0]));
        scope.push("other", Samples(vec![9.0]));
        let mut is = |text: &str| engine.eval_with_scope::<bool>(&mut scope, text).unwrap();
        assert!(!is("below(one, other)"));
        assert!(!is("below(one, 2.0) || below(0.5, one)"));
        assert!(!is("one.low() > 0.0 || one.high() < 2.0"));
    }

    #[test]
    fn by_means_an_order_holds_before_it_is_shown() {
        let mut engine = engine();
        register_by_means(&mut engine);
        let mut scope = rhai::Scope::new();
        scope.push("low", Samples(vec![1.0, 1.1, 0.9]));
        scope.push("wide", Samples(vec![0.0, 10.0, 20.0]));
        let mut is = |text: &str| engine.eval_with_scope::<bool>(&mut scope, text).unwrap();
        assert!(is("below(low, wide)"));
        assert!(!is("below(wide, low)"));
        assert!(is("below(wide, 11.0) && below(9.0, wide)"));
        assert!(is("wide.low() > 9.0 && wide.high() < 11.0"));
    }

    #[test]
    fn statistics_are_those_of_the_population() {
        let engine = engine();
        let of = |text: &str| engine.eval::<f64>(text).unwrap();
        assert_eq!(of("[2, 4, 4, 4, 5, 5, 7, 9].stddev()"), 2.0);
        assert_eq!(of("[1.5, 2].sum()"), 3.5);
        assert!(of("[].sum()").is_sign_positive());
        assert_eq!(of("[3, 1, 2].percentile(50.0)"), 2.0);
        assert_eq!(of("[3, 1, 2].percentile(95)"), 3.0);
        assert!(engine.eval::<f64>("[].mean()").is_err());
        assert!(engine.eval::<f64>("[\"a\"].mean()").is_err());
    }

    #[test]
    fn numbers_are_printed_with_four_digits() {
        assert_eq!(digits(12.3456), "12.35");
        assert_eq!(digits(0.00123456), "0.001235");
        assert_eq!(digits(123456.0), "123456");
        assert_eq!(digits(0.0), "0");
    }
}
