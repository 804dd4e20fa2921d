//! Moments of runs, as lanes for CPUs and tasks: which task ran where, and which waited.
//!
//! When the reader zooms in, `script.js` draws the same again: from the same numbers, which are below the timeline as CSV, in the same
//! positions, which are in `data-view`.

use super::{Figures, svg};
use crate::format::{Unit, value};
use fairground_metrics::Timeline;
use fairground_results::{Mark, Moment};
use kuva::render::color::Color;
use kuva::render::render::{PathData, Primitive, Scene, TextAnchor};
use maud::{Markup, html};
use serde::Serialize;
use std::fmt::Write as _;

/// Width of everything, of the names on the left, and of the margin on the right, in pixels.
const WIDTH: f64 = 1040.0;
const NAMES: f64 = 118.0;
const MARGIN: f64 = 8.0;
/// Heights of a CPU's lane, a task's lane, the space between lanes, between CPUs and tasks, and of the axis.
const CPU_LANE: f64 = 22.0;
const TASK_LANE: f64 = 14.0;
const SPACE: f64 = 4.0;
const GAP: f64 = 12.0;
const AXIS: f64 = 26.0;
/// Maximum number of tasks with a lane: the marked ones, then those that wait longest.
const MOST_TASK_LANES: usize = 14;
/// Maximum length of a task's name on the left, and the width of a letter in a slice in pixels.
const NAME_LETTERS: usize = 16;
const LETTER: f64 = 6.6;
/// Number of task colours that `style.css` defines as `--t0`, `--t1`, ...; after that they repeat.
const COLOURS: usize = 8;
/// Maximum number of labels on the time axis.
const MOST_TICKS: f64 = 9.0;
const TEXT_SIZE: u32 = 12;

/// The positions of everything, also for the script.
#[derive(Serialize)]
struct View {
    left: f64,
    width: f64,
    /// Top and bottom of the lanes, and where their labels end.
    top: f64,
    bottom: f64,
    span_ns: u64,
    /// Tops of the CPUs' lanes.
    cpus: Vec<f64>,
    cpu_height: f64,
    task_height: f64,
    /// The tasks, in the order of the timeline.
    tasks: Vec<TaskView>,
    marks: Vec<MarkView>,
    letter: f64,
}

#[derive(Serialize)]
struct TaskView {
    name: String,
    colour: String,
    /// Top of its lane, if it has one.
    top: Option<f64>,
}

/// A frame around the important part; times are relative to the beginning of the timeline.
#[derive(Serialize)]
struct MarkView {
    from_ns: u64,
    to_ns: u64,
    top: f64,
    height: f64,
}

/// The moment as a figure, on the same scale of time as `all` that begin at the same time, so that they can be compared by eye.
pub(super) fn markup(moment: &Moment, all: &[Moment], figures: &mut Figures) -> Markup {
    let number = figures.next();
    let timeline = &moment.timeline;
    if timeline.from_ns >= timeline.to_ns {
        return html! {};
    }
    let beside = all.iter().map(|one| &one.timeline);
    let beside = beside.filter(|one| one.from_ns == timeline.from_ns);
    let end = beside.map(|one| one.to_ns).fold(timeline.to_ns, u64::max);
    let view = view(moment, end);
    let hidden = view.tasks.iter().filter(|task| task.top.is_none()).count();
    let data = serde_json::to_string(&view).expect("numbers and texts");
    let from = match timeline.from_ns {
        0 => "the start".to_owned(),
        from => value(Some(from as f64), Unit::Time),
    };
    html! {
        figure.timeline {
            figcaption {
                b { (moment.title) }
                @if !moment.text.is_empty() { " " (moment.text) }
            }
            div.scroll data-view=(data) { (svg::inline(scene(moment, &view), number, &moment.title)) }
            p.faint {
                "Time since " (from) " of the run. Above: which task each CPU runs. Below: when each task runs "
                span.swatch.runs {} " and when it waits " span.swatch.waits {} "."
                @if end > timeline.to_ns {
                    " Nothing is drawn after " (value(Some((timeline.to_ns - timeline.from_ns) as f64), Unit::Time)) "."
                }
                @if hidden > 0 { " " (hidden) " more tasks have no lane of their own." }
            }
            details.data {
                summary { "Data" }
                pre { (csv(timeline)) }
            }
        }
    }
}

/// Lays everything out up to `end`.
fn view(moment: &Moment, end: u64) -> View {
    let timeline = &moment.timeline;
    let mut top = 4.0;
    let mut next = |height: f64| {
        let here = top;
        top += height + SPACE;
        here
    };
    let cpus: Vec<f64> = timeline.cpus.iter().map(|_| next(CPU_LANE)).collect();
    next(GAP - SPACE);
    let with_lane = with_lane(moment);
    let tasks = timeline.tasks.iter().enumerate();
    let tasks: Vec<TaskView> = tasks
        .map(|(task, name)| TaskView {
            name: name.clone(),
            colour: if moment.focus.as_ref() == Some(name) {
                "var(--focus)".to_owned()
            } else {
                format!("var(--t{})", task % COLOURS)
            },
            top: with_lane[task].then(|| next(TASK_LANE)),
        })
        .collect();
    View {
        left: NAMES,
        width: WIDTH - NAMES - MARGIN,
        top: 0.0,
        bottom: top,
        span_ns: end - timeline.from_ns,
        cpus,
        cpu_height: CPU_LANE,
        task_height: TASK_LANE,
        marks: mark_views(moment, &tasks, top),
        tasks,
        letter: LETTER,
    }
}

/// The frames: around a task's lane, or around everything.
fn mark_views(moment: &Moment, tasks: &[TaskView], bottom: f64) -> Vec<MarkView> {
    let (start, end) = (moment.timeline.from_ns, moment.timeline.to_ns);
    let since = |time: u64| time.clamp(start, end) - start;
    let marks = moment.marks.iter();
    marks
        .map(|mark| {
            let task = tasks.iter().find(|task| mark.task.as_ref() == Some(&task.name));
            let (top, height) = match task.and_then(|task| task.top) {
                Some(top) => (top - 2.0, TASK_LANE + 4.0),
                None => (0.0, bottom),
            };
            MarkView { from_ns: since(mark.from_ns), to_ns: since(mark.to_ns), top, height }
        })
        .collect()
}

/// Which tasks get a lane: the marked ones, then those that wait longest.
fn with_lane(moment: &Moment) -> Vec<bool> {
    let timeline = &moment.timeline;
    let mut waited = vec![0; timeline.tasks.len()];
    for wait in &timeline.waits {
        waited[wait.task] += wait.to_ns - wait.from_ns;
    }
    for (task, name) in timeline.tasks.iter().enumerate() {
        let is_it = |mark: &Mark| mark.task.as_ref() == Some(name);
        if moment.focus.as_ref() == Some(name) || moment.marks.iter().any(is_it) {
            waited[task] = u64::MAX;
        }
    }
    let mut order: Vec<usize> = (0..waited.len()).collect();
    order.sort_by_key(|&task| std::cmp::Reverse(waited[task]));
    let mut with_lane = vec![false; waited.len()];
    for task in order.into_iter().take(MOST_TASK_LANES) {
        with_lane[task] = true;
    }
    with_lane
}

impl View {
    /// The horizontal position of a time, relative to the beginning of the timeline.
    fn x(&self, time: u64) -> f64 {
        round(self.left + self.width * time as f64 / self.span_ns as f64)
    }
}

fn round(number: f64) -> f64 {
    (number * 10.0).round() / 10.0
}

fn scene(moment: &Moment, view: &View) -> Scene {
    let mut scene = Scene::new(WIDTH, view.bottom + AXIS);
    names(&mut scene, moment, view);
    group(&mut scene, "live");
    axis(&mut scene, view);
    waits(&mut scene, moment, view);
    slices(&mut scene, moment, view);
    marks(&mut scene, view);
    scene.add(Primitive::GroupEnd);
    scene
}

fn group(scene: &mut Scene, class: &str) {
    scene.add(Primitive::GroupStart {
        transform: None,
        title: None,
        extra_attrs: Some(format!("class=\"{class}\"")),
    });
}

/// The names of the lanes.
fn names(scene: &mut Scene, moment: &Moment, view: &View) {
    let mut label = |text: String, middle: f64| {
        scene.add(Primitive::Text {
            x: view.left - 8.0,
            y: middle + 4.0,
            content: text,
            size: TEXT_SIZE,
            anchor: TextAnchor::End,
            rotate: None,
            bold: false,
            color: None,
        });
    };
    for (top, cpu) in view.cpus.iter().zip(&moment.timeline.cpus) {
        label(format!("CPU {cpu}"), top + CPU_LANE / 2.0);
    }
    for (task, name) in view.tasks.iter().zip(&moment.timeline.tasks) {
        if let Some(top) = task.top {
            let name = crate::format::shortened(name, NAME_LETTERS);
            label(name, top + TASK_LANE / 2.0);
        }
    }
}

/// A distance between ticks: 1, 2 or 5 times a power of ten.
fn tick_step(span: u64) -> u64 {
    let least = (span as f64 / MOST_TICKS).max(1.0);
    let power = 10_f64.powf(least.log10().floor());
    let factor =
        [1.0, 2.0, 5.0, 10.0].into_iter().find(|factor| factor * power >= least).unwrap_or(10.0);
    (factor * power).round() as u64
}

/// A time as a tick's label, in the unit that suits the step.
fn tick_label(time: u64, span: u64) -> String {
    let (unit, name) = match span {
        2_000_000_000.. => (1e9, "s"),
        2_000_000.. => (1e6, "ms"),
        2_000.. => (1e3, "us"),
        _ => (1.0, "ns"),
    };
    let number = (time as f64 / unit * 1e6).round() / 1e6;
    format!("{number} {name}")
}

fn axis(scene: &mut Scene, view: &View) {
    let step = tick_step(view.span_ns);
    for time in (0..=view.span_ns).step_by(step as usize) {
        let x = view.x(time);
        scene.add(Primitive::Line {
            x1: x,
            y1: view.top,
            x2: x,
            y2: view.bottom,
            stroke: Color::from("var(--grid)"),
            stroke_width: 1.0,
            stroke_dasharray: None,
        });
        scene.add(Primitive::Text {
            x,
            y: view.bottom + 15.0,
            content: tick_label(time, view.span_ns),
            size: TEXT_SIZE,
            anchor: TextAnchor::Middle,
            rotate: None,
            bold: false,
            color: None,
        });
    }
}

/// A path made of boxes.
#[derive(Clone, Default)]
struct Boxes(String);

impl Boxes {
    fn add(&mut self, from: f64, to: f64, top: f64, height: f64) {
        // Even the shortest one is visible.
        let width = round((to - from).max(0.3));
        let top = round(top);
        write!(self.0, "M{from} {top}h{width}v{height}h-{width}z").expect("a String takes all");
    }

    fn draw(self, scene: &mut Scene, colour: &str) {
        if !self.0.is_empty() {
            scene.add(Primitive::Path(Box::new(PathData {
                d: self.0,
                fill: Some(Color::from(colour)),
                stroke: Color::None,
                stroke_width: 0.0,
                opacity: None,
                stroke_dasharray: None,
            })));
        }
    }
}

fn waits(scene: &mut Scene, moment: &Moment, view: &View) {
    let timeline = &moment.timeline;
    let mut boxes = Boxes::default();
    for wait in &timeline.waits {
        if let Some(top) = view.tasks[wait.task].top {
            let (from, to) = (wait.from_ns, wait.to_ns);
            let (from, to) = (from - timeline.from_ns, to - timeline.from_ns);
            let middle = top + TASK_LANE / 3.0;
            boxes.add(view.x(from), view.x(to), middle, round(TASK_LANE / 3.0));
        }
    }
    boxes.draw(scene, "var(--wait)");
}

fn slices(scene: &mut Scene, moment: &Moment, view: &View) {
    let timeline = &moment.timeline;
    let mut boxes = vec![Boxes::default(); timeline.tasks.len()];
    let mut labels = Vec::new();
    for slice in &timeline.slices {
        let from = view.x(slice.from_ns - timeline.from_ns);
        let to = view.x(slice.to_ns - timeline.from_ns);
        let lane = view.cpus.get(slice.cpu as usize);
        let task = &view.tasks[slice.task];
        if let Some(&top) = lane {
            boxes[slice.task].add(from, to, top, CPU_LANE);
            if to - from > (task.name.chars().count() + 1) as f64 * LETTER {
                labels.push((task.name.clone(), (from + to) / 2.0, top));
            }
        }
        if let Some(top) = task.top {
            boxes[slice.task].add(from, to, top, TASK_LANE);
        }
    }
    for (boxes, task) in boxes.into_iter().zip(&view.tasks) {
        boxes.draw(scene, &task.colour);
    }
    for (name, middle, top) in labels {
        scene.add(Primitive::Text {
            x: round(middle),
            y: top + CPU_LANE / 2.0 + 4.0,
            content: name,
            size: TEXT_SIZE - 1,
            anchor: TextAnchor::Middle,
            rotate: None,
            bold: false,
            color: Some(Color::from("var(--on-task)")),
        });
    }
}

/// A frame around each part that matters.
fn marks(scene: &mut Scene, view: &View) {
    for mark in &view.marks {
        let (from, to) = (view.x(mark.from_ns), view.x(mark.to_ns));
        scene.add(Primitive::Rect {
            x: from,
            y: mark.top,
            width: round(to - from),
            height: mark.height,
            fill: Color::None,
            stroke: Some(Color::from("var(--mark)")),
            stroke_width: Some(1.5),
            opacity: None,
        });
    }
}

/// The timeline as CSV: times in nanoseconds since its beginning; `wait` instead of a CPU where a task waits.
fn csv(timeline: &Timeline) -> String {
    let mut writer = csv::Writer::from_writer(Vec::new());
    let mut line = |cells: [&str; 4]| {
        writer.write_record(cells).expect("a Vec takes all");
    };
    line(["cpu", "from_ns", "to_ns", "task"]);
    let since = |time: u64| (time - timeline.from_ns).to_string();
    for slice in &timeline.slices {
        let (from, to) = (since(slice.from_ns), since(slice.to_ns));
        line([
            &timeline.cpus[slice.cpu as usize].to_string(),
            &from,
            &to,
            &timeline.tasks[slice.task],
        ]);
    }
    for wait in &timeline.waits {
        let (from, to) = (since(wait.from_ns), since(wait.to_ns));
        line(["wait", &from, &to, &timeline.tasks[wait.task]]);
    }
    let bytes = writer.into_inner().expect("a Vec takes all");
    String::from_utf8(bytes).expect("made of texts")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round() {
        assert_eq!(tick_step(9_000_000), 1_000_000);
        assert_eq!(tick_step(10_000_000), 2_000_000);
        assert_eq!(tick_step(44_000), 5_000);
        assert_eq!(tick_label(2_000_000, 10_000_000), "2 ms");
        assert_eq!(tick_label(500_000, 2_500_000), "0.5 ms");
        assert_eq!(tick_label(0, 3_000_000_000), "0 s");
    }
}
