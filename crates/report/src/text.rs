//! Text for a terminal: paragraphs and plain tables.

/// Breaks a text at spaces into lines of at most `width` columns, each indented by `indent` spaces.
pub fn wrap(text: &str, width: usize, indent: usize) -> String {
    let mut result = String::new();
    let mut column = 0;
    for word in text.split_whitespace() {
        let length = word.chars().count();
        if column > 0 && column + 1 + length > width {
            result.push('\n');
            column = 0;
        }
        if column == 0 {
            result.push_str(&" ".repeat(indent));
            column = indent;
        } else {
            result.push(' ');
            column += 1;
        }
        result.push_str(word);
        column += length;
    }
    result.push('\n');
    result
}

/// Each of these once, in order of first appearance.
pub(crate) fn each_once<T: PartialEq>(all: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut found = Vec::new();
    for one in all {
        if !found.contains(&one) {
            found.push(one);
        }
    }
    found
}

/// Lines of a table: each column is as wide as its widest cell, the first ones aligned to the left and the others to the right.
pub fn columns(rows: &[Vec<String>], left: usize) -> String {
    let count = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..count).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let cells = row.iter().zip(&widths).enumerate();
        let cells: Vec<String> = cells
            .map(|(column, (cell, width))| match column < left {
                true => format!("{cell:width$}"),
                false => format!("{cell:>width$}"),
            })
            .collect();
        text.push_str(&format!("  {}", cells.join("  ").trim_end()));
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::wrap;

    #[test]
    fn lines_are_broken_at_blanks() {
        assert_eq!(wrap("one two\nthree four", 9, 2), "  one two\n  three\n  four\n");
    }
}
