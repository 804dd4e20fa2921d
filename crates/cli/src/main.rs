//! The `fairground` command.

fn main() {}
