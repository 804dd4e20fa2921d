//! The forms in which comparisons are shown, on runs of a small round-robin machine.

mod browser;
mod csv_rows;
mod data_sets;
mod explanations;
mod html_page;
mod json_schema;
mod reproductions;
mod sample_page;
mod small_machine;
mod terminal;
mod unfinished;
mod validator;
