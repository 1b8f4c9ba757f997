//! Tuning: every chosen number of the learner, with what it does and its source.
//!
//! Each group of rules has a module. Not among them are numbers that nothing is learned from:
//! the layout of a stored curve, and bounds that only keep numbers finite. These stand where they
//! apply.
//!
//! Sources, by their names in the comments of the constants:
//!
//! | Source | Is |
//! |---|---|
//! | scenario NAME | `tests/simulator/scenarios/NAME.yaml`, whose bounds need the rule |
//! | simulation | virtual time; the figures are in `docs/design/learned-target.md` |
//! | literature | named with the constant |
//! | arithmetic | follows from other numbers, which are named |
//! | chosen | no other source; the simulator's scenarios keep their bounds with it |
//! | chosen, untested | no other source, and no scenario reaches it; tests of this crate may |

pub(crate) mod bracket;
pub(crate) mod costs;
pub(crate) mod curve;
pub(crate) mod evidence;
pub(crate) mod memory;
pub(crate) mod pressure;
pub(crate) mod readings;
pub(crate) mod steps;
