//! Runs by what they have in common: of each only its numbers are kept, so that there may be any number of them.

use std::collections::BTreeMap;

use fairground_results::{Measure, Summary};

use crate::Run;
use crate::csv_format::csv_of_texts;
use crate::format::value;
use crate::table::{heading, layout, pipes};

/// Runs in groups.
pub struct Groups {
    /// The keys that the runs of a group have in common.
    names: Vec<String>,
    measures: Vec<&'static Measure>,
    groups: BTreeMap<Vec<String>, Group>,
}

/// The runs of a group.
struct Group {
    /// The first place of its runs.
    place: usize,
    runs: usize,
    failed: usize,
    /// The numbers of its runs that are ok, for each measure.
    numbers: Vec<Vec<f64>>,
}

impl Groups {
    /// No runs yet; `names` are the headings of what the runs of a group have in common.
    pub fn new(names: Vec<String>) -> Self {
        Self {
            names,
            measures: Measure::shown().filter(|measure| measure.of_run.is_some()).collect(),
            groups: BTreeMap::new(),
        }
    }

    /// Adds a run to the group with these values. Groups are in the order of the least `place` of their runs.
    pub fn add(&mut self, values: Vec<String>, place: usize, run: &Run) {
        let measures = &self.measures;
        let group = self.groups.entry(values).or_insert_with(|| Group {
            place,
            runs: 0,
            failed: 0,
            numbers: vec![Vec::new(); measures.len()],
        });
        group.place = group.place.min(place);
        group.runs += 1;
        let Some(measured) = run.measured().filter(|_| run.is_ok()) else {
            group.failed += usize::from(!run.is_ok());
            return;
        };
        for (numbers, measure) in group.numbers.iter_mut().zip(measures) {
            numbers.extend(measured.number(measure));
        }
    }

    /// A table for a terminal: a line for each group with the medians, and one with the spread of its runs.
    pub fn table(&self) -> String {
        let [first, second] = [0, 1].map(|line| {
            let of_group = |name: &str| match line {
                0 => String::new(),
                _ => name.to_owned(),
            };
            let names = self.names.iter().map(String::as_str);
            let names = names.chain(["runs", "failed"]).map(of_group);
            let measures = self.measured().map(|(_, measure)| measure);
            names.chain(measures.map(|measure| heading(measure)[line].to_owned())).collect()
        });
        let mut lines = vec![first, second];
        lines.extend(self.told());
        layout(&lines, self.names.len())
    }

    /// The same in Markdown.
    pub fn markdown(&self) -> String {
        let names = self.names.iter().map(String::as_str);
        let names = names.chain(["runs", "failed"]).map(str::to_owned);
        let measures = self.measured().map(|(_, measure)| measure);
        let titles = measures.map(|measure| heading(measure).join(" ").trim().to_owned());
        let mut lines = vec![names.chain(titles).collect()];
        lines.extend(self.told());
        pipes(&lines)
    }

    /// CSV: a heading, then for each group a line with the medians, and for each measure the least and the greatest number, too.
    pub fn csv(&self) -> String {
        let names = self.names.iter().map(String::as_str);
        let names = names.chain(["runs", "failed"]).map(str::to_owned);
        let columns = self.measured().flat_map(|(_, measure)| {
            let column = measure.column();
            let [least, greatest] = ["min", "max"].map(|end| format!("{column}_{end}"));
            [column, least, greatest]
        });
        let rows = self.lines(|_, summary| match summary {
            Some(summary) => {
                [summary.median, summary.min, summary.max].map(|number| number.to_string()).to_vec()
            }
            None => vec![String::new(); 3],
        });
        csv_of_texts(names.chain(columns).collect(), rows)
    }

    /// The measures that any run has, with their places.
    fn measured(&self) -> impl Iterator<Item = (usize, &'static Measure)> {
        let has_any = |place: usize| {
            let mut groups = self.groups.values();
            groups.any(|group| !group.numbers[place].is_empty())
        };
        self.measures.iter().copied().enumerate().filter(move |(place, _)| has_any(*place))
    }

    /// Lines with medians as people read them, and with the spread of several runs below.
    fn told(&self) -> Vec<Vec<String>> {
        let lines = |of: fn(Summary) -> f64| {
            self.lines(|measure, summary| vec![value(summary.map(of), measure.unit)])
        };
        let (medians, spreads) = (lines(|one| one.median), lines(|one| one.spread()));
        let names = self.names.len();
        let both = medians.into_iter().zip(spreads).flat_map(|(median, mut spread)| {
            let is_one = median[names] == "1";
            spread[..names + 2].fill(String::new());
            spread[0] = " spread".to_owned();
            [Some(median), (!is_one).then_some(spread)]
        });
        both.flatten().collect()
    }

    /// A line for each group, with what `told` says of each measure.
    fn lines(&self, told: impl Fn(&Measure, Option<Summary>) -> Vec<String>) -> Vec<Vec<String>> {
        let mut groups: Vec<_> = self.groups.iter().collect();
        groups.sort_by_key(|(_, group)| group.place);
        let line = |(values, group): (&Vec<String>, &Group)| {
            let mut line = values.clone();
            line.extend([group.runs.to_string(), group.failed.to_string()]);
            for (place, measure) in self.measured() {
                line.extend(told(measure, Summary::of(group.numbers[place].clone())));
            }
            line
        };
        groups.into_iter().map(line).collect()
    }
}
