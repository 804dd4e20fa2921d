//! simulator (see ARCHITECTURE.md).
