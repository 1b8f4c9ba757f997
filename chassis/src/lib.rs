//! chassis
