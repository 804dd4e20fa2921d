//! kernel (see ARCHITECTURE.md).
