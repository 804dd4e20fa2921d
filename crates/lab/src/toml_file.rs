//! Reads TOML, with errors that name file, line and column.

use serde::de::DeserializeOwned;

/// Parses `text`, the contents of `file`.
pub fn parse<T: DeserializeOwned>(file: &str, text: &str) -> Result<T, (String, String)> {
    toml::from_str(text).map_err(|error| {
        let place = match error.span() {
            Some(span) => place(file, text, span.start),
            None => file.to_owned(),
        };
        (place, error.message().to_owned())
    })
}

/// `file:line:column` of a byte offset.
fn place(file: &str, text: &str, offset: usize) -> String {
    let before = &text[..offset];
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or("").chars().count() + 1;
    format!("{file}:{line}:{column}")
}
