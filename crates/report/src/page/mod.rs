//! Results as a self-contained HTML page.
//!
//! A [`Page`] is plain data: an [`Answer`], then [`Section`]s of verdicts, tables, plots and moments of runs. It is filled in from
//! results; [`Page::html`] writes it. The page loads nothing, is readable without scripts and can be printed; plots are static SVG, and its
//! only script zooms into timelines and names the slice under the pointer.

mod answer;
mod colours;
mod moment;
mod overview;
mod plot;
mod strip;
mod svg;
mod table;
mod verdict;

pub use answer::{Answer, Candidate, Finding, Matrix, MatrixRow};
pub use fairground_results::Better;
pub use fairground_results::{Mark, Moment};
pub use overview::Row;
pub use plot::{Axis, Plot, PlotKind, Point, Series};
pub use strip::{Scale, Strip};
pub use table::{Cell, Table};

use colours::Colours;
use fairground_results::Verdict;
use maud::{DOCTYPE, Markup, PreEscaped, html};

const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("script.js");

/// The resources that the browser may load: none. Style and script are in the page itself.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'";

/// A page of results.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Page {
    /// Its title.
    pub title: String,
    /// The facts for a reader who reads nothing else.
    pub answer: Answer,
    /// Its schedulers, for their colours; those of plots and of the answer need not be among them.
    pub schedulers: Vec<String>,
    /// The results, one section for each experiment or workload.
    pub sections: Vec<Section>,
    /// The version of fairground that made the results, with its commit.
    pub version: String,
    /// The inputs of the results, if they are known.
    pub origins: Option<Table>,
}

/// An experiment or a workload.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Section {
    /// The id by which a [`MatrixRow`] refers to it; also its anchor in the page.
    pub id: String,
    /// Its title.
    pub title: String,
    /// Where the result comes from (document, machine, costs, seeds), in one line.
    pub conditions: String,
    /// Its row in the table at the top of the page, for sections that have one.
    pub row: Option<Row>,
    /// The decisive findings.
    pub findings: Vec<Finding>,
    /// The verdicts on acceptance lines.
    pub verdicts: Vec<Verdict>,
    /// Tables that are always open.
    pub tables: Vec<Table>,
    /// Plots.
    pub plots: Vec<Plot>,
    /// Moments of runs that show why.
    pub moments: Vec<Moment>,
    /// Tables that open on a click.
    pub details: Vec<Table>,
    /// Plots that open on a click.
    pub folded: Vec<Plot>,
    /// Remarks about the results, one sentence each.
    pub notes: Vec<String>,
    /// Whether only what answers is open: tables, plots, and the verdicts that count. Everything else opens on a click.
    pub brief: bool,
}

impl Page {
    /// The page as HTML. The same page always gives the same bytes.
    pub fn html(&self) -> String {
        let colours = Colours::of(self);
        let mut figures = Figures { colours: &colours, count: 0 };
        html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta http-equiv="Content-Security-Policy" content=(POLICY);
                    meta name="viewport" content="width=device-width";
                    title { (self.title) }
                    style { (PreEscaped(STYLE)) }
                }
                body {
                    header {
                        h1 { (self.title) }
                        (verdict::tally(&self.sections))
                    }
                    main {
                        (answer::markup(&self.answer, &self.sections, &colours))
                        @if self.sections.iter().any(|section| section.row.is_some()) {
                            (overview::markup(&self.sections))
                        } @else if self.sections.len() > 1 && self.answer.matrix.rows.is_empty() {
                            (contents(&self.sections))
                        }
                        @for section in &self.sections { (section_markup(section, &mut figures)) }
                    }
                    (self.foot(&colours))
                    script { (PreEscaped(SCRIPT)) }
                }
            }
        }
        .into_string()
    }

    /// Where the results come from.
    fn foot(&self, colours: &Colours) -> Markup {
        html! {
            footer {
                @if let Some(table) = &self.origins {
                    details {
                        summary { (table.caption) }
                        (table::body(table, colours))
                    }
                }
                @if !self.version.is_empty() { p.faint { "Made by fairground " (self.version) "." } }
            }
        }
    }
}

/// The state that the figures of a page share.
struct Figures<'a> {
    colours: &'a Colours,
    /// How many there are so far; makes the names in each unique.
    count: usize,
}

impl Figures<'_> {
    fn next(&mut self) -> usize {
        self.count += 1;
        self.count
    }
}

/// The anchor of a section: its id without characters that need escaping.
fn anchor(id: &str) -> String {
    let plain = |letter: char| match letter {
        'a'..='z' | 'A'..='Z' | '0'..='9' | '-' | '_' => letter,
        _ => '-',
    };
    format!("s-{}", id.chars().map(plain).collect::<String>())
}

fn contents(sections: &[Section]) -> Markup {
    html! {
        nav aria-label="Contents" {
            @for section in sections {
                a href=(format!("#{}", anchor(&section.id))) {
                    (section.title) " " (verdict::short_tally(&section.verdicts))
                }
            }
        }
    }
}

fn plots(plots: &[Plot], figures: &mut Figures) -> Markup {
    html! {
        @if !plots.is_empty() {
            div.plots {
                @for plot in plots { (plot::markup(plot, figures)) }
            }
        }
    }
}

fn moments(section: &Section, figures: &mut Figures) -> Markup {
    html! {
        @for moment in &section.moments { (moment::markup(moment, &section.moments, figures)) }
    }
}

fn notes(section: &Section) -> Markup {
    html! {
        ul.notes {
            @for note in &section.notes { li { (note) } }
        }
    }
}

/// Something that opens on a click.
fn folded(title: &str, content: &Markup) -> Markup {
    html! {
        details {
            summary { (title) }
            (content)
        }
    }
}

fn section_markup(section: &Section, figures: &mut Figures) -> Markup {
    html! {
        section id=(anchor(&section.id)) {
            h2 { (section.title) }
            @if !section.conditions.is_empty() { p.faint { (section.conditions) } }
            (answer::decisive(&section.findings, figures.colours))
            @for table in &section.tables { (table::markup(table, figures.colours)) }
            (plots(&section.plots, figures))
            @if section.brief {
                (verdict::brief(&section.verdicts))
                @if !section.moments.is_empty() { (folded("Timelines", &moments(section, figures))) }
            } @else {
                (verdict::list(&section.verdicts))
                (moments(section, figures))
            }
            @for table in &section.details {
                (folded(&table.caption, &table::body(table, figures.colours)))
            }
            @if !section.folded.is_empty() {
                (folded("More figures", &plots(&section.folded, figures)))
            }
            @if !section.notes.is_empty() {
                @if section.brief { (folded("Remarks", &notes(section))) } @else { (notes(section)) }
            }
        }
    }
}
