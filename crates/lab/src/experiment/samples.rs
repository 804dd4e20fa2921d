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

    /// `mean [low, high]`, and `mean (least to most)` of few values.
    pub(crate) fn text(&mut self) -> String {
        let Some(one) = self.interval() else { return "none".into() };
        let (low, high, is_interval) = one.shown();
        let [mean, low, high] = [one.mean, low, high].map(digits);
        match is_interval {
            true => format!("{mean} [{low}, {high}]"),
            false if one.samples < 2 => mean,
            false => format!("{mean} ({low} to {high})"),
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

/// Registers arithmetic and statistics of samples.
pub(crate) fn register(engine: &mut Engine) {
    type Operation = fn(f64, f64) -> f64;
    let operations: [(&str, Operation); 5] = [
        ("+", |one, two| one + two),
        ("-", |one, two| one - two),
        ("*", |one, two| one * two),
        ("/", |one, two| one / two),
        ("max", f64::max),
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
        .register_fn("least", |one: &mut Samples| {
            one.0.iter().copied().fold(f64::INFINITY, f64::min)
        })
        .register_fn("most", |one: &mut Samples| {
            one.0.iter().copied().fold(f64::NEG_INFINITY, f64::max)
        })
        .register_fn("abs", |one: &mut Samples| one.map(f64::abs))
        .register_fn("to_string", Samples::text)
        .register_fn("to_debug", Samples::text)
        .register_fn("+", |text: &str, mut one: Samples| format!("{text}{}", one.text()))
        .register_fn("digits", digits);
    register_statistics(engine);
}

/// What the intervals of the figures must say for a comparison to be true.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Evidence {
    /// It holds wherever the means may lie.
    Shown,
    /// It holds for some place where they may lie.
    Possible,
}

/// A number of a comparison: where it may lie.
trait Bounds: Clone + Send + Sync + 'static {
    fn ends(&self) -> (f64, f64);
}

impl Bounds for Samples {
    fn ends(&self) -> (f64, f64) {
        self.bounds()
    }
}

impl Bounds for f64 {
    fn ends(&self) -> (f64, f64) {
        (*self, *self)
    }
}

impl Bounds for i64 {
    fn ends(&self) -> (f64, f64) {
        (*self as f64).ends()
    }
}

/// Figures that differ by no more than this part are the same: a line that says which one is greater then does not hold, however many runs there are.
const SAME: f64 = 0.01;

/// Registers the comparisons of a line, which all go by the 95 % intervals: that of a figure is on one side of a threshold, or of another figure's.
/// A line is true by [`Evidence::Shown`] if it holds, and false by [`Evidence::Possible`] if it does not.
pub(crate) fn register_comparisons(engine: &mut Engine, evidence: Evidence) {
    compare::<Samples, Samples>(engine, evidence);
    compare::<Samples, f64>(engine, evidence);
    compare::<f64, Samples>(engine, evidence);
    compare::<Samples, i64>(engine, evidence);
    compare::<i64, Samples>(engine, evidence);
    let within = move |one: (f64, f64), low: f64, high: f64| {
        is_at_most(evidence, (low, low), one) && is_at_most(evidence, one, (high, high))
    };
    engine
        .register_fn("within", move |one: Samples, low: f64, high: f64| {
            within(one.bounds(), low, high)
        })
        .register_fn("within", move |one: f64, low: f64, high: f64| within(one.ends(), low, high));
}

/// Refuses statistics of samples, by which a line would be judged without its intervals.
pub(crate) fn refuse_statistics(engine: &mut Engine) {
    for name in ["mean", "least", "most"] {
        engine.register_fn(name, move |_: &mut Samples| -> Result<f64, Box<EvalAltResult>> {
            Err(format!("a line compares figures as they are, by their intervals: without {name}")
                .into())
        });
    }
}

fn compare<A: Bounds, B: Bounds>(engine: &mut Engine, evidence: Evidence) {
    let below = move |one: &A, two: &B| is_below(evidence, one.ends(), two.ends());
    let above = move |one: &A, two: &B| is_below(evidence, two.ends(), one.ends());
    let at_most = move |one: &A, two: &B| is_at_most(evidence, one.ends(), two.ends());
    let at_least = move |one: &A, two: &B| is_at_most(evidence, two.ends(), one.ends());
    engine
        .register_fn("below", move |one: A, two: B| below(&one, &two))
        .register_fn("<", move |one: A, two: B| below(&one, &two))
        .register_fn(">", move |one: A, two: B| above(&one, &two))
        .register_fn("<=", move |one: A, two: B| at_most(&one, &two))
        .register_fn(">=", move |one: A, two: B| at_least(&one, &two))
        .register_fn("==", move |one: A, two: B| at_most(&one, &two) && at_least(&one, &two))
        .register_fn("!=", move |one: A, two: B| below(&one, &two) || above(&one, &two));
}

fn is_below(evidence: Evidence, one: (f64, f64), two: (f64, f64)) -> bool {
    let is_shown = one.1 < two.0;
    let most = two.1 - one.0;
    let differs = most == f64::INFINITY || most > SAME * one.0.abs().min(two.1.abs());
    match evidence {
        Evidence::Shown => is_shown,
        Evidence::Possible => is_shown || differs,
    }
}

fn is_at_most(evidence: Evidence, one: (f64, f64), two: (f64, f64)) -> bool {
    match evidence {
        Evidence::Shown => one.1 <= two.0,
        Evidence::Possible => one.0 <= two.1,
    }
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

    /// The verdicts on lines: `Some(true)` holds, `Some(false)` does not, `None` is open.
    fn judge(text: &str) -> Option<bool> {
        let mut scope = rhai::Scope::new();
        scope.push("low", Samples(vec![1.0, 1.1, 0.9]));
        scope.push("high", Samples(vec![9.0, 9.1, 8.9]));
        scope.push("wide", Samples(vec![0.0, 10.0, 20.0]));
        scope.push("same", Samples(vec![3.0, 3.0]));
        scope.push("one", Samples(vec![1.0]));
        scope.push("near", Samples(vec![1.000, 1.002, 0.998]));
        let [shown, possible] = [Evidence::Shown, Evidence::Possible].map(|evidence| {
            let mut engine = Engine::new();
            register(&mut engine);
            register_comparisons(&mut engine, evidence);
            engine.eval_with_scope::<bool>(&mut scope, text).unwrap()
        });
        assert!(possible || !shown, "{text}");
        (shown == possible).then_some(shown)
    }

    #[test]
    fn a_line_holds_where_the_interval_leaves_no_doubt() {
        for text in [
            "low < high",
            "below(low, high)",
            "high > low",
            "low < 2.0",
            "2 > low",
            "low <= 2.0",
            "high - low >= 7",
            "within(high / low, 7.0, 12.0)",
            "same == 3.0",
            "same <= 3.0 && same >= 3.0",
            "max(low, high) > 8.0",
            "wide > -30.0 && wide < 50.0",
        ] {
            assert_eq!(judge(text), Some(true), "{text}");
        }
        for text in [
            "high < low",
            "low > 2.0",
            "within(high / low, 1.0, 2.0)",
            "same == 2.0",
            "same < 3.0",
            "wide < -30.0",
        ] {
            assert_eq!(judge(text), Some(false), "{text}");
        }
    }

    #[test]
    fn a_threshold_within_the_interval_is_not_shown_whatever_the_operator_and_side() {
        for text in [
            "low < wide",
            "wide < low",
            "below(wide, 11.0)",
            "wide < 9.0",
            "wide <= 11.0",
            "wide >= 11.0",
            "wide > 9.0",
            "wide == 10.0",
            "wide != 10.0",
            "within(wide, 9.0, 11.0)",
            "low < high && wide < 11.0",
        ] {
            assert_eq!(judge(text), None, "{text}");
        }
        // What is certain of another part decides.
        assert_eq!(judge("high < low && wide < 11.0"), Some(false));
        assert_eq!(judge("low < high || wide < 11.0"), Some(true));
    }

    #[test]
    fn what_is_the_same_is_in_no_order() {
        for text in ["near < 1.0", "near > 1.0", "near / near < 1.0", "near != 1.0"] {
            assert_eq!(judge(text), Some(false), "{text}");
        }
        // Not an order, and a part that may be greater.
        assert_eq!(judge("near <= 1.0"), None);
        assert_eq!(judge("near < 1.01"), Some(true));
        assert_eq!(judge("near < 1.02 && wide < 10.5"), None);
    }

    #[test]
    fn a_single_sample_shows_nothing() {
        for text in ["one < 9.0", "one > 9.0", "below(one, high)", "one == 1.0"] {
            assert_eq!(judge(text), None, "{text}");
        }
    }

    #[test]
    fn a_line_cannot_ask_for_the_mean_alone() {
        let mut engine = Engine::new();
        register(&mut engine);
        register_comparisons(&mut engine, Evidence::Shown);
        refuse_statistics(&mut engine);
        let mut scope = rhai::Scope::new();
        scope.push("wide", Samples(vec![0.0, 10.0, 20.0]));
        let error = engine.eval_with_scope::<bool>(&mut scope, "mean(wide) < 11.0").unwrap_err();
        assert!(error.to_string().contains("by their intervals: without mean"), "{error}");
    }

    #[test]
    fn few_values_are_told_by_the_least_and_the_most() {
        assert_eq!(Samples(vec![1.0]).text(), "1.000");
        assert_eq!(Samples(vec![1.0, 3.0]).text(), "2.000 (1.000 to 3.000)");
        assert_eq!(Samples(vec![2.0; 5]).text(), "2.000 [2.000, 2.000]");
    }

    #[test]
    fn statistics_are_those_of_the_population() {
        let mut engine = Engine::new();
        register(&mut engine);
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
