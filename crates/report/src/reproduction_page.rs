//! Reproductions of the documents' experiments as a page.

use crate::format::Unit;
use crate::page::{
    Answer, Axis, Cell, Moment, Page, Plot, PlotKind, Point, Row, Section, Series, Table,
};
use crate::reproduction::{counted, fewer_runs, has_fewer_runs, kernels, standing_with_cause};
use fairground_results::{Figure, Reproduction, Standing, Where};
use std::collections::BTreeMap;

/// A page with a section per experiment. `moments` and `curves` (distributions, completion times) are shown with the experiment of that name.
pub fn reproductions_page(
    reproductions: &[&Reproduction],
    moments: &BTreeMap<String, Vec<Moment>>,
    curves: &BTreeMap<String, Vec<Plot>>,
) -> Page {
    let section = |reproduction: &&Reproduction| {
        let moments = moments.get(&reproduction.id).cloned().unwrap_or_default();
        let curves = curves.get(&reproduction.id).cloned().unwrap_or_default();
        section(reproduction, curves, moments, row(reproduction))
    };
    Page {
        title: "Which scheduler, for which load, and why: the documents' experiments, reproduced"
            .to_owned(),
        schedulers: Vec::new(),
        answer: Answer {
            summary: vec![capitalised(counted(reproductions)), summary(reproductions)],
            certainty: format!("{} {}", worlds(reproductions), certainty(reproductions)),
            ..Answer::default()
        },
        sections: reproductions.iter().map(section).collect(),
        ..Page::default()
    }
}

fn summary(reproductions: &[&Reproduction]) -> String {
    let of = |wanted: &dyn Fn(Standing) -> bool| {
        let those = reproductions.iter().filter(|reproduction| wanted(reproduction.standing()));
        those.map(|reproduction| reproduction.title.as_str()).collect::<Vec<_>>()
    };
    let measured = of(&|standing| standing != Standing::NotMeasured).len();
    let reproduced = of(&|standing| standing == Standing::Holds).len();
    let mut text =
        format!("What the documents state holds in {reproduced} of {measured} experiments.");
    let partly = of(&|standing| standing == Standing::Partly);
    let failed = of(&|standing| standing == Standing::Fails);
    let open = of(&|standing| matches!(standing, Standing::NotShown(_)));
    for (verb, those) in [
        ("It holds partly in", partly),
        ("It does not in", failed),
        ("There are too few runs to show it in", open),
    ] {
        if !those.is_empty() {
            text.push_str(&format!(" {verb}: {}.", those.join("; ")));
        }
    }
    text
}

fn capitalised(sentence: String) -> String {
    let mut letters = sentence.chars();
    letters.next().map(char::to_uppercase).into_iter().flatten().chain(letters).collect()
}

/// Which experiments ran on a real kernel.
fn worlds(reproductions: &[&Reproduction]) -> String {
    let on_kernel = reproductions.iter().filter(|one| one.world == Where::Kernel);
    let on_kernel: Vec<&str> = on_kernel.map(|one| one.title.as_str()).collect();
    match on_kernel.len() {
        0 => {
            let beside =
                kernels(reproductions).unwrap_or_else(|| "None ran on a real kernel.".to_owned());
            format!("All ran in the simulator. {beside}")
        }
        all if all == reproductions.len() => "All ran on a real kernel.".to_owned(),
        _ => {
            format!("On a real kernel ran: {}; all others in the simulator.", on_kernel.join("; "))
        }
    }
}

fn certainty(reproductions: &[&Reproduction]) -> String {
    let repeats = || reproductions.iter().map(|reproduction| reproduction.repeats);
    let (least, most) = (repeats().min().unwrap_or(0), repeats().max().unwrap_or(0));
    if most < 2 {
        return "One run of each: differences may be chance.".to_owned();
    }
    let runs = if least == most { least.to_string() } else { format!("{least} to {most}") };
    let fewer = match has_fewer_runs(reproductions) {
        true => " (fewer where the table says so)",
        false => "",
    };
    format!(
        "Means of {runs} runs at each point{fewer}, with 95 % intervals (Student's), and of fewer than five runs the least and the most. A line holds or does not where the intervals leave no doubt."
    )
}

/// First the document's own figures with both values, each either as a curve or as a table, then the verdicts; everything else is folded. `curves`
/// with a label are figures of the document.
fn section(
    reproduction: &Reproduction,
    curves: Vec<Plot>,
    moments: Vec<Moment>,
    row: Option<Row>,
) -> Section {
    let (runs, world) = match reproduction.world {
        Where::Simulator => ("seeds", "simulator"),
        Where::Kernel => ("runs", "real kernel"),
    };
    let kernel = reproduction.kernel.as_ref();
    let kernel = kernel.map_or(String::new(), |kernel| format!("; on a kernel: {kernel}"));
    let (own, others): (Vec<&Figure>, Vec<&Figure>) =
        reproduction.figures.iter().partition(|one| is_own(one));
    let plots = |figures: &[&Figure]| -> Vec<Plot> {
        figures.iter().filter_map(|figure| figure_plot(reproduction, figure)).collect()
    };
    let is_labelled = |plot: &Plot| plot.title.starts_with("Figure ");
    let (labelled, unlabelled): (Vec<Plot>, Vec<Plot>) = curves.into_iter().partition(is_labelled);
    let is_curve = |figure: &&Figure| {
        let plot = figure_plot(reproduction, figure);
        plot.is_some_and(|plot| plot.kind == PlotKind::Lines)
    };
    let (drawn, listed): (Vec<&Figure>, Vec<&Figure>) = own.into_iter().partition(is_curve);
    let mut details = figure_tables(reproduction, &[drawn.as_slice(), &others].concat());
    for table in &mut details {
        if table.caption.is_empty() {
            table.caption = "Other measures".to_owned();
        }
    }
    details.extend(fits(reproduction));
    details.extend(printed_tables(reproduction));
    Section {
        id: reproduction.id.clone(),
        title: reproduction.title.clone(),
        conditions: format!(
            "{}; {}, {}; {world}: {}, {} {runs}",
            reproduction.id,
            reproduction.document,
            reproduction.section,
            reproduction.machine,
            reproduction.repeats
        ) + &kernel,
        row,
        verdicts: reproduction.verdicts.clone(),
        tables: figure_tables(reproduction, &listed),
        plots: [labelled, plots(&drawn)].concat(),
        moments,
        details,
        folded: [plots(&listed), plots(&others), unlabelled].concat(),
        notes: reproduction.notes.clone(),
        brief: true,
        ..Section::default()
    }
}

/// Whether the document has this figure: it labels it, or prints numbers of it.
fn is_own(figure: &Figure) -> bool {
    !figure.label.is_empty() || figure.document.iter().flatten().any(Option::is_some)
}

/// The row at the top of the page.
fn row(reproduction: &Reproduction) -> Option<Row> {
    let headline = reproduction.headline.as_ref()?;
    let standing = reproduction.standing();
    Some(Row {
        document: reproduction.document.clone(),
        says: headline.says.clone(),
        printed: headline.document.clone(),
        here: headline.here.clone(),
        holds: standing_with_cause(reproduction),
        success: match standing {
            Standing::Holds => Some(true),
            Standing::Fails => Some(false),
            _ => None,
        },
    })
}

fn printed_tables(reproduction: &Reproduction) -> impl Iterator<Item = Table> {
    let tables = reproduction.printed.iter();
    tables.map(|table| Table {
        caption: format!("The document prints: {}", table.name),
        heads: table.heads.clone(),
        rows: table.rows.iter().map(|row| row.iter().map(Cell::plain).collect()).collect(),
        words: 1,
    })
}

fn labelled(figure: &Figure) -> String {
    match figure.label.as_str() {
        "" => figure.title.clone(),
        label => format!("{label}: {}", figure.title),
    }
}

fn with_unit(figure: &Figure) -> String {
    let title = labelled(figure);
    match figure.unit.as_str() {
        "" => title,
        unit => format!("{title} ({unit})"),
    }
}

/// Our number with its interval, the number of its runs if it is not `repeats`, and the document's below.
fn cell(figure: &Figure, point: usize, column: usize, repeats: u32) -> Cell {
    let text = |number: f64| format!("{number:.*}", figure.decimals);
    let mut details = Vec::new();
    let here = figure.here[point][column];
    if let Some(interval) = here {
        let (low, high, _) = interval.shown();
        let (low, high) = (text(low), text(high));
        if low != high {
            details.push(format!("{low} to {high}"));
        }
        details.extend(fewer_runs(&interval, repeats));
    }
    if let Some(number) = figure.document[point][column] {
        details.push(format!("document {}", text(number)));
    }
    Cell {
        text: here.map_or(crate::format::ABSENT.to_owned(), |here| text(here.mean)),
        detail: details.join("\n"),
        strip: None,
    }
}

/// A table for each figure, with a row per point; for a single point, one table with a row per figure.
fn figure_tables(reproduction: &Reproduction, figures: &[&Figure]) -> Vec<Table> {
    let columns = || reproduction.columns.iter().cloned();
    let row = |name: String, figure: &Figure, point: usize| {
        let mut cells = vec![Cell::plain(name)];
        let columns = 0..reproduction.columns.len();
        cells.extend(columns.map(|column| cell(figure, point, column, reproduction.repeats)));
        cells
    };
    let table = |caption: String, head: String, rows: Vec<Vec<Cell>>| Table {
        caption,
        heads: std::iter::once(head).chain(columns()).collect(),
        rows,
        words: 1,
    };
    let figures = figures.iter();
    if reproduction.points.len() == 1 {
        let rows: Vec<_> = figures.map(|figure| row(with_unit(figure), figure, 0)).collect();
        let tables = (!rows.is_empty()).then(|| table(String::new(), String::new(), rows));
        return tables.into_iter().collect();
    }
    figures
        .map(|figure| {
            let points = reproduction.points.iter().enumerate();
            let rows = points
                .filter(|(point, _)| figure.is_of(*point))
                .map(|(point, name)| row(name.clone(), figure, point))
                .collect();
            table(with_unit(figure), reproduction.axis.clone(), rows)
        })
        .collect()
}

fn fits(reproduction: &Reproduction) -> Option<Table> {
    let row = |fit: &fairground_results::Fit| {
        [fit.name.clone(), format!("{} {}", fit.value, fit.unit), fit.to.clone()]
            .map(Cell::plain)
            .to_vec()
    };
    (!reproduction.fits.is_empty()).then(|| Table {
        caption: "Fitted values".to_owned(),
        heads: ["value", "", "fitted to"].map(str::to_owned).to_vec(),
        rows: reproduction.fits.iter().map(row).collect(),
        words: 3,
    })
}

/// Lines over three or more numeric points, otherwise rows of dots; `None` if there are fewer than two numbers to compare.
fn figure_plot(reproduction: &Reproduction, figure: &Figure) -> Option<Plot> {
    let number = |point: usize| reproduction.points[point].parse::<f64>().ok();
    let shown = (0..reproduction.points.len()).filter(|point| figure.is_of(*point));
    let is_lines = shown.clone().filter_map(number).count() > 2;
    // Points that are not on a numeric axis, such as those of another machine, are in the table only.
    let shown: Vec<usize> = shown.filter(|point| !is_lines || number(*point).is_some()).collect();
    let x = |point: usize| match number(point) {
        Some(number) if is_lines => number,
        _ => point as f64,
    };
    let mut series = Vec::new();
    for (column, name) in reproduction.columns.iter().enumerate() {
        let points = shown.iter().copied();
        let here = points.clone().filter_map(|point| {
            let interval = figure.here[point][column]?;
            Some(Point::interval(x(point), interval))
        });
        let document = points
            .filter_map(|point| Some(Point::exact(x(point), figure.document[point][column]?)));
        series.push(Series {
            name: name.clone(),
            scheduler: name.clone(),
            printed: false,
            points: here.collect(),
        });
        series.push(Series {
            name: format!("{name} (document)"),
            scheduler: name.clone(),
            printed: true,
            points: document.collect(),
        });
    }
    series.retain(|series| !series.points.is_empty());
    let single = reproduction.points.len() == 1;
    if series.len() < 2 && (single || series.is_empty()) {
        return None;
    }
    Some(Plot {
        title: labelled(figure),
        text: String::new(),
        kind: if is_lines { PlotKind::Lines } else { PlotKind::Dots },
        x: Axis { label: reproduction.axis.clone(), ..Axis::default() },
        y: Axis { label: figure.unit.clone(), unit: Unit::Plain, log: is_wide(figure) },
        categories: if single { Vec::new() } else { reproduction.points.clone() },
        series,
    })
}

/// Whether numbers differ so much that small ones would disappear on the axis.
fn is_wide(figure: &Figure) -> bool {
    const WIDE: f64 = 30.0;
    let here = figure.here.iter().flatten().flatten();
    let document = figure.document.iter().flatten().flatten().copied();
    let all: Vec<f64> = here.map(|here| here.mean).chain(document).collect();
    let least = all.iter().copied().fold(f64::INFINITY, f64::min);
    let most = all.iter().copied().fold(0.0, f64::max);
    least > 0.0 && most / least > WIDE
}
