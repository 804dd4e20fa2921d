//! The table at the top of a page: a row for each section, by document.

use super::{Section, anchor, verdict};
use crate::text::each_once;
use maud::{Markup, html};

/// A section in one row.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Row {
    /// The document; sections of the same one share a table.
    pub document: String,
    /// The document's statement.
    pub says: String,
    /// Its numbers.
    pub printed: String,
    /// The numbers measured here.
    pub here: String,
    /// Whether it holds, in a word or two.
    pub holds: String,
    /// Whether that is a success, a failure, or neither.
    pub success: Option<bool>,
}

/// A table for each document, in the order of the sections.
pub(super) fn markup(sections: &[Section]) -> Markup {
    let rows: Vec<(&Section, &Row)> =
        sections.iter().filter_map(|section| Some((section, section.row.as_ref()?))).collect();
    let documents = each_once(rows.iter().map(|(_, row)| &row.document));
    html! {
        nav.overview aria-label="Contents" {
            @for document in documents {
                h3 { (document) }
                div.scroll {
                    table {
                        thead {
                            tr {
                                @for head in ["experiment", "the document says", "document", "here", "holds", "lines"] {
                                    th.word { (head) }
                                }
                            }
                        }
                        tbody {
                            @for (section, row) in rows.iter().filter(|(_, row)| row.document == *document) {
                                (line(section, row))
                            }
                        }
                    }
                }
            }
        }
    }
}

fn line(section: &Section, row: &Row) -> Markup {
    let class = match row.success {
        Some(true) => "holds",
        Some(false) => "fails",
        None => "open",
    };
    html! {
        tr class=(class) {
            td.word { a href=(format!("#{}", anchor(&section.id))) { (section.title) } }
            td.word { (row.says) }
            td.word { (row.printed) }
            td.word { (row.here) }
            td.word { span.verdict { (row.holds) } }
            td.word { (verdict::short_tally(&section.verdicts)) }
        }
    }
}
