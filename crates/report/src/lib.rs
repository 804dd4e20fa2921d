//! report (see ARCHITECTURE.md).
