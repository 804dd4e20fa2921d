//! The metrics against their definitions in docs/metrics.md.

mod by_hand;
mod by_list;
mod properties;
