//! metrics (see ARCHITECTURE.md).
