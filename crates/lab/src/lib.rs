//! lab (see ARCHITECTURE.md).
