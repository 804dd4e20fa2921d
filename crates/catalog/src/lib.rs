//! catalog (see ARCHITECTURE.md).
