//! Looks up a document's figure for one of our columns, points and measures.

use std::collections::BTreeMap;

use fairground_results::PrintedTable;

use super::file::{ColumnFile, DocumentFile, MeasureFile, PointFile, TableColumnFile, TableFile};

impl TableColumnFile {
    fn number(&self, row: usize) -> Option<f64> {
        let value = self.values.get(row)?;
        let number = value.as_float().or_else(|| value.as_integer().map(|integer| integer as f64));
        number.filter(|number| number.is_finite())
    }

    /// Whether this is the document's name for one of our columns.
    fn is(&self, column: &ColumnFile) -> bool {
        match &column.printed {
            Some(printed) => self.label == *printed,
            None => self.scheduler.as_deref() == Some(&column.scheduler),
        }
    }
}

impl TableFile {
    fn row(&self, key: &str) -> Option<usize> {
        self.keys.iter().position(|one| text(one) == key)
    }

    /// The printed number. Either the rows are metrics and the columns schedulers, or the rows are points and the columns metrics of schedulers.
    fn number(&self, column: &ColumnFile, point: &str, printed: &str) -> Option<f64> {
        let ours = |one: &&TableColumnFile| one.is(column);
        if let Some(row) = self.row(printed) {
            return self.column.iter().find(ours)?.number(row);
        }
        let row = self.row(point)?;
        let one = self
            .column
            .iter()
            .filter(ours)
            .find(|one| one.metric.as_deref() == Some(printed) || one.label == printed)?;
        one.number(row)
    }

    fn as_printed(&self) -> PrintedTable {
        let mut heads = vec![self.key.clone()];
        heads.extend(self.column.iter().map(|column| column.label.clone()));
        let rows = self.keys.iter().enumerate().map(|(row, key)| {
            let mut cells = vec![text(key)];
            cells.extend(self.column.iter().map(|column| {
                let decimals =
                    column.decimals.or_else(|| self.row_decimals.as_ref()?.get(row).copied());
                match (column.number(row), decimals) {
                    (Some(number), Some(decimals)) => format!("{number:.decimals$}"),
                    _ => column.values.get(row).map(text).unwrap_or_default(),
                }
            }));
            cells
        });
        PrintedTable { name: self.name.clone(), heads, rows: rows.collect() }
    }
}

/// A key or a value as text; an empty cell of the document is `nan` in the file.
fn text(value: &toml::Value) -> String {
    match value {
        toml::Value::String(text) => text.clone(),
        toml::Value::Float(number) if number.is_nan() => String::new(),
        other => other.to_string(),
    }
}

/// The document's numbers by the names of column, point and measure.
pub(crate) fn numbers(
    document: &DocumentFile,
    columns: &[ColumnFile],
    points: &[PointFile],
    measures: &[MeasureFile],
) -> BTreeMap<(String, String, String), f64> {
    let mut numbers = BTreeMap::new();
    for measure in measures {
        let Some(printed) = &measure.printed else { continue };
        for column in columns {
            for point in points {
                let tables = document.table.iter();
                let number =
                    tables.filter_map(|table| table.number(column, &point.name, printed)).next();
                if let Some(number) = number {
                    let key = (column.name().to_owned(), point.name.clone(), measure.name.clone());
                    numbers.insert(key, number);
                }
            }
        }
    }
    numbers
}

/// The tables as the document prints them.
pub(crate) fn tables(document: &DocumentFile) -> Vec<PrintedTable> {
    document.table.iter().map(TableFile::as_printed).collect()
}

impl ColumnFile {
    /// Its name.
    pub(crate) fn name(&self) -> &str {
        self.name.as_deref().unwrap_or(&self.scheduler)
    }

    /// A point as it is for the column.
    pub(crate) fn at(&self, point: &PointFile) -> PointFile {
        let mut own = point.clone();
        own.machine = self.machine.clone().or(own.machine);
        own.set.extend(self.work.clone());
        own
    }

    /// Its tunables, with values as a user writes them.
    pub(crate) fn settings(&self) -> impl Iterator<Item = (&String, String)> {
        let text = |value: &toml::Value| match value {
            toml::Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        self.set.iter().map(move |(tunable, value)| (tunable, text(value)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(scheduler: &str, printed: Option<&str>) -> ColumnFile {
        ColumnFile {
            scheduler: scheduler.into(),
            printed: printed.map(str::to_owned),
            ..ColumnFile::default()
        }
    }

    #[test]
    fn numbers_are_found_by_point_and_by_metric() {
        let document: DocumentFile = toml::from_str(
            r#"
            [[table]]
            name = "by point"
            key = "N"
            keys = [16, 32]
            [[table.column]]
            label = "STD cycles"
            scheduler = "linux24"
            metric = "latency"
            decimals = 0
            values = [31081, nan]
            [[table]]
            name = "by metric"
            key = "what"
            keys = ["Total time", "Events"]
            row_decimals = [4, 0]
            [[table.column]]
            label = "CFS 0.5"
            values = [13.0980, 10000]
            "#,
        )
        .unwrap();
        let of = |column: &ColumnFile, point: &str, printed: &str| {
            document.table.iter().find_map(|table| table.number(column, point, printed))
        };
        let old = column("linux24", None);
        assert_eq!(of(&old, "16", "latency"), Some(31081.0));
        assert_eq!(of(&old, "32", "latency"), None);
        assert_eq!(of(&old, "16", "other"), None);
        let cfs = column("cfs", Some("CFS 0.5"));
        assert_eq!(of(&cfs, "", "Total time"), Some(13.098));
        let printed = tables(&document);
        assert_eq!(printed[0].rows, [["16", "31081"], ["32", ""]]);
        assert_eq!(printed[1].rows[0], ["Total time", "13.0980"]);
    }
}
