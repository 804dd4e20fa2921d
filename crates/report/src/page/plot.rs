//! Plots, each with a table of its data.
//!
//! They are drawn by kuva, which writes bare SVG, accepts the variables of `style.css` as colours, so that plots follow light and dark mode,
//! and knows the width of text.

use super::table::{self, Cell, Table};
use super::{Figures, svg};
use crate::format::{Unit, tick, value};
use crate::text::each_once;
use fairground_results::Interval;
use kuva::plot::{LinePlot, ScatterPlot};
use kuva::render::layout::Layout;
use kuva::render::plots::Plot as Drawing;
use kuva::render::render::render_multiple;
use kuva::{AxisLabelOverlap, Theme, TickFormat};
use maud::{Markup, html};
use std::sync::Arc;

/// Size of a plot, in pixels.
const WIDTH: f64 = 500.0;
const HEIGHT: f64 = 300.0;
/// Height of a dot with its surroundings, of the gap between rows of them, of the space above, and of the axis without and with a label.
const ROW: f64 = 14.0;
const ROW_GAP: f64 = 9.0;
const TOP: f64 = 6.0;
const AXIS: f64 = 26.0;
const LABELLED_AXIS: f64 = 46.0;
/// Radius of a dot.
const DOT: f64 = 4.5;
/// Sizes of text.
const TICK_SIZE: u32 = 12;
const LABEL_SIZE: u32 = 12;
/// Maximum number of points of a line that are marked.
const MOST_MARKED: usize = 24;
/// Maximum number of bins of a series.
const MOST_BINS: usize = 500;
/// Maximum length of a row's name.
const NAME_LETTERS: usize = 26;

/// A plot.
#[derive(Clone, Debug, PartialEq)]
pub struct Plot {
    /// Its subject.
    pub title: String,
    /// A hint where to look, or how to read it; may be empty.
    pub text: String,
    /// How it is drawn.
    pub kind: PlotKind,
    /// The horizontal axis of lines and histograms; unused by rows.
    pub x: Axis,
    /// The axis of the values: the vertical one of lines and histograms, the horizontal one of rows.
    pub y: Axis,
    /// The names of the rows of dots, from the top; a point's `x` is the index of its row. If empty, every scheduler is a row.
    pub categories: Vec<String>,
    /// The plotted series.
    pub series: Vec<Series>,
}

/// How a plot is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlotKind {
    /// Points at numbers, joined by lines, with intervals.
    Lines,
    /// Counts per bin: each point's `x` is the beginning of a bin; the last point ends the last bin.
    Histogram,
    /// A row per category, with a dot and its interval for each series.
    Dots,
    /// A row per scheduler, with dots for quantiles on a line; the `x` of a point for a quantile q is 1 / (1 - q).
    Quantiles,
}

impl PlotKind {
    fn in_rows(self) -> bool {
        matches!(self, Self::Dots | Self::Quantiles)
    }
}

/// An axis.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Axis {
    /// The quantity on it.
    pub label: String,
    /// Its unit.
    pub unit: Unit,
    /// Whether it is logarithmic, if it is that of the values; ignored if one is not above 0.
    pub log: bool,
}

/// Values of one scheduler.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Series {
    /// Its name.
    pub name: String,
    /// The scheduler that it is about, which determines its colour.
    pub scheduler: String,
    /// Whether the numbers are a document's rather than ours.
    pub printed: bool,
    /// The values.
    pub points: Vec<Point>,
}

/// A value with its interval.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Point {
    /// Where on the x axis, or in which row.
    pub x: f64,
    /// The value.
    pub y: f64,
    /// Lower end of its interval; `y` if there is none.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

impl Point {
    /// A mean with its interval.
    pub fn interval(x: f64, interval: Interval) -> Self {
        let (low, high, _) = interval.shown();
        Self { x, y: interval.mean, low, high }
    }

    /// A value without an interval.
    pub fn exact(x: f64, y: f64) -> Self {
        Self { x, y, low: y, high: y }
    }
}

impl Plot {
    /// A histogram of samples with bins of equal width, which begin at multiples of it; each scheduler is a series. Counts are fractions of
    /// all samples of a series, so that schedulers with many samples and with few can be compared by their shapes.
    pub fn histogram(title: String, x: Axis, bin: f64, samples: &[(String, Vec<f64>)]) -> Self {
        let series = samples.iter().map(|(scheduler, samples)| Series {
            name: scheduler.clone(),
            scheduler: scheduler.clone(),
            printed: false,
            points: bins(samples, bin),
        });
        Self {
            title,
            text: String::new(),
            kind: PlotKind::Histogram,
            x,
            y: Axis { label: String::new(), unit: Unit::Fraction, log: false },
            categories: Vec::new(),
            series: series.collect(),
        }
    }

    /// Percentiles of times, a row for each scheduler, all on one axis; each is a series of quantiles (0 to 1) with their intervals in nanoseconds.
    pub fn percentiles(title: String, schedulers: &[(String, Vec<(f64, Interval)>)]) -> Self {
        let series = schedulers.iter().map(|(scheduler, quantiles)| Series {
            name: scheduler.clone(),
            scheduler: scheduler.clone(),
            printed: false,
            points: quantiles
                .iter()
                .map(|(quantile, interval)| Point::interval(1.0 / (1.0 - quantile), *interval))
                .collect(),
        });
        Self {
            title,
            text: "The large dot is the median; the small ones, from left to right, are the 5th, 95th, 99th and 99.9th percentile. Logarithmic."
                .to_owned(),
            kind: PlotKind::Quantiles,
            x: Axis {
                label: "percentile".to_owned(),
                unit: Unit::Percentile,
                log: false,
            },
            y: Axis {
                label: String::new(),
                unit: Unit::Time,
                log: true,
            },
            categories: Vec::new(),
            series: series.collect(),
        }
    }
}

/// Fractions of the samples in each bin, from the first nonempty one to the last, followed by the last one's end.
fn bins(samples: &[f64], bin: f64) -> Vec<Point> {
    let number = |sample: f64| (sample / bin).floor();
    let numbers = || samples.iter().map(|&sample| number(sample));
    let (first, last) = numbers()
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), number| {
            (number.min(low), number.max(high))
        });
    let mut points = Vec::new();
    let mut place = first;
    while place <= last && points.len() < MOST_BINS {
        let count = numbers().filter(|&number| number == place).count();
        points.push(Point::exact(place * bin, count as f64 / samples.len() as f64));
        place += 1.0;
    }
    if !points.is_empty() {
        points.push(Point::exact(place * bin, 0.0));
    }
    points
}

/// The plot, its legend and its data.
pub(super) fn markup(plot: &Plot, figures: &mut Figures) -> Markup {
    let number = figures.next();
    let rows = rows(plot);
    let drawing = match plot.kind {
        PlotKind::Lines | PlotKind::Histogram => curves(plot, figures),
        PlotKind::Dots | PlotKind::Quantiles => in_rows(plot, &rows, figures),
    };
    html! {
        figure {
            figcaption {
                b { (plot.title) }
                @if !plot.text.is_empty() { " " (plot.text) }
            }
            (svg::inline(drawing, number, &plot.title))
            (legend(plot, figures))
            details.data {
                summary { "Data" }
                (table::body(&data(plot, &rows), figures.colours))
            }
        }
    }
}

fn legend(plot: &Plot, figures: &Figures) -> Markup {
    let rows = plot.kind.in_rows();
    let named = !(rows && plot.categories.is_empty());
    let printed = !named && plot.series.iter().any(|series| series.printed);
    html! {
        @if printed || named && !plot.series.is_empty() {
            ul.legend {
                @if named {
                    @for series in &plot.series {
                        li.printed[series.printed] style=(format!("--c:{}", figures.colours.css(&series.scheduler))) { (series.name) }
                    }
                }
                @if printed { li.hollow { "document" } }
            }
        }
    }
}

/// The names of the rows of dots.
fn rows(plot: &Plot) -> Vec<String> {
    if !plot.categories.is_empty() {
        return plot.categories.clone();
    }
    each_once(plot.series.iter().map(|series| series.scheduler.clone()))
}

/// The row of a series' point.
fn row_of(plot: &Plot, rows: &[String], series: &Series, point: &Point) -> usize {
    if plot.categories.is_empty() {
        rows.iter().position(|row| *row == series.scheduler).unwrap_or(0)
    } else {
        point.x as usize
    }
}

fn in_rows(plot: &Plot, rows: &[String], figures: &Figures) -> kuva::render::render::Scene {
    // The library counts rows from the bottom, starting at 1.
    let height = |row: usize| (rows.len() - row.min(rows.len())) as f64;
    let own_rows = plot.categories.is_empty();
    let lanes = if own_rows { 1 } else { plot.series.len() };
    let row_height = lanes as f64 * ROW + ROW_GAP;
    let lane = |series: usize| {
        let middle = (lanes as f64 - 1.0) / 2.0;
        let place = if lanes == 1 { 0.0 } else { series as f64 };
        (middle - place) * ROW / row_height
    };
    let mut drawings: Vec<Drawing> = Vec::new();
    for (number, series) in plot.series.iter().enumerate() {
        if plot.kind == PlotKind::Quantiles {
            let at = |point: &Point| height(row_of(plot, rows, series, point));
            let ends = series.points.iter().map(|point| (point.y, at(point)));
            let line = LinePlot::new()
                .with_data(ends)
                .with_color(figures.colours.css(&series.scheduler))
                .with_stroke_width(1.5);
            drawings.push(line.into());
        }
        for &point in &series.points {
            let row = row_of(plot, rows, series, &point);
            let at = height(row) + lane(number);
            let name = rows.get(row).map_or("", String::as_str);
            drawings.push(mark(plot, series, name, point, at, figures));
        }
    }
    let values = || plot.series.iter().flat_map(|series| &series.points);
    let axis_height = if plot.y.label.is_empty() { AXIS } else { LABELLED_AXIS };
    let layout = Layout::auto_from_plots(&drawings)
        .with_y_categories(rows.iter().rev().map(|row| short(row)).collect())
        .with_height(rows.len() as f64 * row_height + TOP + axis_height)
        .with_force_margins_y(TOP, axis_height)
        .with_y_axis_min(0.5)
        .with_y_axis_max(rows.len() as f64 + 0.5)
        .with_x_tick_format(ticks(
            plot.y.unit,
            plot.y.log && decades(values().map(|point| drawn(plot, point))),
        ));
    let layout = labelled(layout, &plot.y.label, Layout::with_x_label);
    let mut layout = dressed(layout);
    if plot.y.log && values().all(|point| drawn(plot, point) > 0.0) {
        layout = layout.with_log_x();
    }
    render_multiple(drawings, layout)
}

/// The smallest number that is drawn for a point.
fn drawn(plot: &Plot, point: &Point) -> f64 {
    match plot.kind {
        PlotKind::Quantiles => point.y,
        _ => point.low.min(point.y),
    }
}

/// A dot.
fn mark(
    plot: &Plot,
    series: &Series,
    row: &str,
    point: Point,
    at: f64,
    figures: &Figures,
) -> Drawing {
    let colour = figures.colours.css(&series.scheduler);
    let mut label = series.name.clone();
    if row != label {
        label = format!("{row}, {label}");
    }
    if plot.kind == PlotKind::Quantiles {
        label = format!("{label}, {}", value(Some(point.x), plot.x.unit));
    }
    label = format!("{label}: {}", with_interval(point, plot.y.unit));
    let mut dot = ScatterPlot::new()
        .with_data([(point.y, at)])
        .with_size(match plot.kind {
            // All but the median.
            PlotKind::Quantiles if point.x != 2.0 => 2.5,
            _ => DOT,
        })
        .with_color(colour)
        .with_tooltips()
        .with_tooltip_labels([label]);
    if series.printed {
        dot = dot.with_marker_opacity(0.15).with_marker_stroke_width(1.5);
    }
    if plot.kind != PlotKind::Quantiles && interval(point, plot.y.unit).is_some() {
        dot = dot.with_x_err_asymmetric([(point.y - point.low, point.high - point.y)]);
    }
    dot.into()
}

fn curves(plot: &Plot, figures: &Figures) -> kuva::render::render::Scene {
    let mut drawings: Vec<Drawing> = Vec::new();
    for series in &plot.series {
        let colour = figures.colours.css(&series.scheduler);
        let points = || series.points.iter().map(|point| (point.x, point.y));
        let mut line =
            LinePlot::new().with_data(points()).with_color(colour.as_str()).with_stroke_width(1.8);
        if series.printed {
            line = line.with_dashed();
        }
        if plot.kind == PlotKind::Histogram {
            line = line.with_step().with_fill().with_fill_opacity(0.15);
        }
        drawings.push(line.into());
        if plot.kind == PlotKind::Lines && series.points.len() <= MOST_MARKED {
            let labels = series.points.iter().map(|&point| {
                let x = value(Some(point.x), plot.x.unit);
                format!("{}, {x}: {}", series.name, with_interval(point, plot.y.unit))
            });
            let errors =
                series.points.iter().map(|point| (point.y - point.low, point.high - point.y));
            let dots = ScatterPlot::new()
                .with_data(points())
                .with_size(3.0)
                .with_color(colour.as_str())
                .with_tooltips()
                .with_tooltip_labels(labels.collect::<Vec<_>>());
            drawings.push(if series.printed {
                dots.into()
            } else {
                dots.with_y_err_asymmetric(errors).into()
            });
        }
    }
    let values = || plot.series.iter().flat_map(|series| &series.points);
    let mut layout = dressed(Layout::auto_from_plots(&drawings))
        .with_height(HEIGHT)
        .with_x_tick_format(ticks(plot.x.unit, false))
        .with_y_tick_format(ticks(plot.y.unit, false));
    layout = labelled(layout, &plot.x.label, Layout::with_x_label);
    layout = labelled(layout, &plot.y.label, Layout::with_y_label);
    if plot.y.log && values().all(|point| point.low.min(point.y) > 0.0) {
        layout = layout.with_log_y();
    } else if plot.kind == PlotKind::Lines && is_narrow(values()) {
        // The library chooses an axis that fits the values.
    } else if values().all(|point| point.low.min(point.y) >= 0.0) {
        layout = layout.with_y_axis_min(0.0);
    }
    render_multiple(drawings, layout)
}

/// Whether the values differ so little that an axis from 0 would hide it.
fn is_narrow<'a>(values: impl Iterator<Item = &'a Point> + Clone) -> bool {
    const NARROW: f64 = 0.7;
    let least = values.clone().map(|point| point.low.min(point.y));
    let most = values.map(|point| point.high.max(point.y));
    let least = least.fold(f64::INFINITY, f64::min);
    least > NARROW * most.fold(0.0, f64::max)
}

/// The layout with a label if there is one: the layout reserves room even for an empty label.
fn labelled(layout: Layout, label: &str, with: fn(Layout, String) -> Layout) -> Layout {
    if label.is_empty() { layout } else { with(layout, label.to_owned()) }
}

/// The common appearance of all plots. Colours are the page's variables, so that they follow light and dark mode.
fn dressed(layout: Layout) -> Layout {
    let theme = Theme {
        background: "none".into(),
        axis_color: "var(--axis)".into(),
        tick_color: "var(--axis)".into(),
        grid_color: "var(--grid)".into(),
        text_color: "var(--text)".into(),
        ..Theme::light()
    };
    layout
        .with_theme(theme)
        .with_width(WIDTH)
        .with_tick_size(TICK_SIZE)
        .with_label_size(LABEL_SIZE)
        .with_ticks(5)
        .with_x_label_overlap(AxisLabelOverlap::Thin)
}

/// Labels for ticks; on a logarithmic axis of several decades, only for powers of ten.
fn ticks(unit: Unit, powers_only: bool) -> TickFormat {
    TickFormat::Custom(Arc::new(move |number| {
        let power = number > 0.0 && (number.log10() - number.log10().round()).abs() < 1e-9;
        if power || !powers_only { tick(number, unit) } else { String::new() }
    }))
}

/// Whether numbers are above 0 and span several decades.
fn decades(numbers: impl Iterator<Item = f64>) -> bool {
    const SEVERAL: f64 = 30.0;
    let (least, most) = numbers
        .fold((f64::INFINITY, 0.0), |(least, most), number| (number.min(least), number.max(most)));
    least > 0.0 && most / least > SEVERAL
}

fn short(name: &str) -> String {
    crate::format::shortened(name, NAME_LETTERS)
}

fn with_interval(point: Point, unit: Unit) -> String {
    let text = value(Some(point.y), unit);
    match interval(point, unit) {
        Some(interval) => format!("{text} ({interval})"),
        None => text,
    }
}

/// The interval in words, if it is wide enough to show.
fn interval(point: Point, unit: Unit) -> Option<String> {
    let range = crate::format::range(&value(Some(point.low), unit), &value(Some(point.high), unit));
    (!range.is_empty()).then_some(range)
}

/// A row for each position on the x axis or each category, and a column for each series.
fn data(plot: &Plot, rows: &[String]) -> Table {
    let in_rows = plot.kind.in_rows() && plot.kind != PlotKind::Quantiles;
    let own_rows = in_rows && plot.categories.is_empty();
    // If rows are schedulers, there are at most two columns: ours, and a document's.
    let columns: Vec<(String, Vec<&Series>)> = if own_rows {
        let of = |printed: bool| -> Vec<&Series> {
            plot.series.iter().filter(|one| one.printed == printed).collect()
        };
        let named = [(plot.title.clone(), of(false)), ("document".to_owned(), of(true))];
        named.into_iter().filter(|(_, series)| !series.is_empty()).collect()
    } else {
        plot.series.iter().map(|one| (one.name.clone(), vec![one])).collect()
    };
    let cell = |point: Option<Point>| match point {
        Some(point) => Cell {
            text: value(Some(point.y), plot.y.unit),
            detail: interval(point, plot.y.unit).unwrap_or_default(),
            strip: None,
        },
        None => Cell::plain(crate::format::ABSENT),
    };
    let mut heads = vec![if in_rows { String::new() } else { plot.x.label.clone() }];
    heads.extend(columns.iter().map(|(name, _)| name.clone()));
    let is_at = |series: &Series, point: &Point, x: f64| {
        if in_rows { row_of(plot, rows, series, point) as f64 == x } else { point.x == x }
    };
    let at = |x: f64| {
        let found = |column: &Vec<&Series>| {
            column.iter().find_map(|series| {
                let mut points = series.points.iter();
                points.find(|point| is_at(series, point, x)).copied()
            })
        };
        let cells = columns.iter().map(|(_, column)| cell(found(column)));
        cells.collect::<Vec<_>>()
    };
    let line = |name: String, x: f64| {
        let mut line = vec![Cell::plain(name)];
        line.extend(at(x));
        line
    };
    let lines = if in_rows {
        rows.iter().zip(0_u32..).map(|(row, place)| line(row.clone(), place.into())).collect()
    } else {
        let points = plot.series.iter().flat_map(|series| &series.points);
        let mut places: Vec<f64> = points.map(|point| point.x).collect();
        places.sort_by(f64::total_cmp);
        places.dedup();
        places.into_iter().map(|x| line(value(Some(x), plot.x.unit), x)).collect()
    };
    Table { caption: String::new(), heads, rows: lines, words: if in_rows { 1 } else { 0 } }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_hold_parts_of_all_samples() {
        let points = bins(&[0.5, 1.9, 1.0, 3.0], 1.0);
        let points: Vec<(f64, f64)> = points.iter().map(|point| (point.x, point.y)).collect();
        assert_eq!(points, [(0.0, 0.25), (1.0, 0.5), (2.0, 0.0), (3.0, 0.25), (4.0, 0.0)]);
        assert!(bins(&[], 1.0).is_empty());
    }

    #[test]
    fn the_median_is_the_second_of_two_quantiles_in_a_row_of_its_scheduler() {
        let number = |mean: f64| Interval::of(&[mean]).unwrap();
        let quantiles = vec![(0.05, number(1e2)), (0.5, number(1e3))];
        let plot = Plot::percentiles(String::new(), &[("cfs".to_owned(), quantiles)]);
        let points = &plot.series[0].points;
        assert_eq!((points[1].x, points[1].y), (2.0, 1e3));
        let data = data(&plot, &rows(&plot));
        assert_eq!(data.heads, ["percentile", "cfs"]);
        assert_eq!(data.rows[1][0].text, "50 %");
    }
}
