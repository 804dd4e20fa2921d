//! Data sets that are read back.

use fairground_report::{DataFiles, Pack, Run, Style, comparison_table, kept, runs_of};
use fairground_results::{MEASURES, Measured};

use crate::small_machine::comparison;

/// The numbers of a run and of its tasks, as far as they are whole: means are rounded in columns of times.
fn numbers(run: &Run) -> Vec<Vec<Option<String>>> {
    let exact = || MEASURES.iter().filter(|measure| !measure.id.ends_with("_mean"));
    let told = |number: Option<f64>| number.map(|number| format!("{number:.9}"));
    let Some(measured) = run.measured() else { return Vec::new() };
    let of = |one: &dyn Measured| exact().map(|measure| told(one.number(measure))).collect();
    let tasks = measured.tasks().into_iter().map(|(_, task)| of(task));
    std::iter::once(of(measured)).chain(tasks).collect()
}

#[test]
fn what_was_written_is_read_back() {
    let comparison = comparison();
    let folder = tempfile::tempdir().unwrap();
    let [runs, tasks] = ["runs", "tasks"].map(|name| folder.path().join(name).join("1.parquet"));
    let mut files = DataFiles::create(&runs, &tasks).unwrap();
    let (first, rest) = comparison.runs.split_at(1);
    files.add(first, "0.1").unwrap();
    files.add(rest, "0.1").unwrap();
    assert!(!runs.exists(), "it is not complete yet");
    files.finish().unwrap();
    let mut read = Vec::new();
    runs_of(&runs, Some(&tasks), |run| read.push(run)).unwrap();
    assert_eq!(read.len(), comparison.runs.len());
    for (one, other) in read.iter().zip(&comparison.runs) {
        assert_eq!(numbers(one), numbers(other));
        assert_eq!(one.status, other.status);
        assert_eq!(one.labels.tunables, other.labels.tunables);
    }
    let mut again = comparison.clone();
    again.runs = read;
    assert_eq!(
        comparison_table(&again, Style::default()),
        comparison_table(&comparison, Style::default())
    );

    // Cells and how they ended are read without the rest.
    let mut all = Vec::new();
    kept(&runs, |one| all.push(one)).unwrap();
    assert_eq!(all.len(), comparison.runs.len());
    assert!(all.iter().all(|one| one.status == "ok" && one.cell.len() == 32));

    // Those that nobody wants are left out, with their tasks.
    let [packed, packed_tasks] =
        ["runs", "tasks"].map(|name| folder.path().join(name).join("2.parquet"));
    let mut pack = Pack::create(&packed, &packed_tasks).unwrap();
    let wanted = all[0].cell.clone();
    let mut results = Vec::new();
    let is_wanted = |cell: &str, result| {
        results.push(result);
        cell == wanted
    };
    pack.add(&runs, &tasks, |_| true, is_wanted).unwrap();
    pack.finish().unwrap();
    let mut left = Vec::new();
    runs_of(&packed, Some(&packed_tasks), |run| left.push(run)).unwrap();
    let count = all.iter().filter(|one| one.cell == wanted).count();
    assert_eq!(left.len(), count);
    assert_eq!(left[0], again.runs[0]);
    results.dedup();
    assert!(results.len() > 1, "different results have different numbers");

    // Tasks that are not where their runs are do not get lost.
    let (path, error) = runs_of(&packed, Some(&tasks), |_| ()).unwrap_err();
    assert_eq!(path, tasks);
    assert!(error.to_string().contains("another place"), "{error}");
}
