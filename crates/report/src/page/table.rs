//! Tables.

use super::colours::Colours;
use super::strip::{self, Strip};
use maud::{Markup, html};

/// A table.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    /// Its subject; may be empty.
    pub caption: String,
    /// Headings of the columns.
    pub heads: Vec<String>,
    /// The rows, with as many cells as there are headings.
    pub rows: Vec<Vec<Cell>>,
    /// Number of columns, from the left, that hold words; the others hold numbers and are right-aligned.
    pub words: usize,
}

impl Table {
    /// A table of plain cells without a caption. The first row has the heads, the first `words` columns are words.
    pub(crate) fn plain(rows: Vec<Vec<String>>, words: usize) -> Self {
        let mut rows = rows.into_iter();
        Self {
            caption: String::new(),
            heads: rows.next().unwrap_or_default(),
            rows: rows.map(|row| row.into_iter().map(Cell::plain).collect()).collect(),
            words,
        }
    }
}

/// A cell of a table.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cell {
    /// Its contents. The name of a scheduler gets the scheduler's colour.
    pub text: String,
    /// A second, smaller line, such as an interval or the document's number; may be empty.
    pub detail: String,
    /// Where its number is on the scale of its column or table.
    pub strip: Option<Strip>,
}

impl Cell {
    /// A cell with a single line.
    pub fn plain(text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }
}

/// The table with its caption.
pub(super) fn markup(table: &Table, colours: &Colours) -> Markup {
    html! {
        @if !table.caption.is_empty() { h3 { (table.caption) } }
        (body(table, colours))
    }
}

/// The table without its caption.
pub(super) fn body(table: &Table, colours: &Colours) -> Markup {
    let class = |column: usize| (column < table.words).then_some("word");
    // The scheduler is that of the row or of the column.
    let colour = |row: &[Cell], column: usize| {
        let names = [row.first().map(|cell| &cell.text), table.heads.get(column)];
        let mut known = names.into_iter().flatten().filter(|name| colours.has(name));
        known.next().map_or("var(--link)".to_owned(), |name| colours.css(name))
    };
    html! {
        div.scroll {
            table {
                thead {
                    tr {
                        @for (column, head) in table.heads.iter().enumerate() {
                            th class=[class(column)] { (colours.chip(head)) }
                        }
                    }
                }
                tbody {
                    @for row in &table.rows {
                        tr {
                            @for (column, cell) in row.iter().enumerate() {
                                td class=[class(column)] {
                                    (colours.chip(&cell.text))
                                    @if let Some(strip) = &cell.strip {
                                        span style=(format!("--c:{}", colour(row, column))) { (strip::markup(strip)) }
                                    }
                                    @if !cell.detail.is_empty() { small { (cell.detail) } }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}
