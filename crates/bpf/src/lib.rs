//! bpf (see ARCHITECTURE.md).
