//! Tuning: every chosen number of the learner, with what it does and its source.
//!
//! All rules read them from [`TUNING`]. Not among them are numbers that nothing is learned from:
//! the layout of a stored curve, and bounds that only keep numbers finite. These stand where they
//! apply.
//!
//! Sources, by their names in the comments of the fields:
//!
//! | Source | Is |
//! |---|---|
//! | scenario NAME | `tests/simulator/scenarios/NAME.yaml`, whose bounds need the rule |
//! | simulation | virtual time; the figures are in `docs/design/learned-target.md` |
//! | literature | named with the field |
//! | arithmetic | follows from other numbers, which are named |
//! | chosen | no other source; the simulator's scenarios keep their bounds with it |
//! | chosen, untested | no other source, and no scenario reaches it; tests of this crate may |

mod bracket;
mod costs;
mod curve;
mod evidence;
mod memory;
mod pressure;
mod readings;
mod steps;

use bracket::BracketTuning;
use costs::CostTuning;
use curve::CurveTuning;
use evidence::EvidenceTuning;
use memory::MemoryTuning;
use pressure::PressureTuning;
use readings::ReadingTuning;
use steps::StepTuning;

/// The numbers of all rules.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tuning {
    /// Which seconds of pods are evidence.
    pub(crate) evidence: EvidenceTuning,
    /// The load curve, and whether the service time is still the curve's.
    pub(crate) curve: CurveTuning,
    /// Whether a trial shows room for more load.
    pub(crate) pressure: PressureTuning,
    /// The next target after a bad one.
    pub(crate) bracket: BracketTuning,
    /// When and how far the target moves.
    pub(crate) steps: StepTuning,
    /// Readings of the pods' CPU and memory.
    pub(crate) readings: ReadingTuning,
    /// Memory of the pods.
    pub(crate) memory: MemoryTuning,
    /// Comparison of costs with the user's target.
    pub(crate) costs: CostTuning,
}

/// The numbers in use. A static, because an unoptimized build copies a whole constant for each
/// field.
pub(crate) static TUNING: Tuning = Tuning::DEFAULT;

// === impl Tuning ===

impl Tuning {
    /// The default, and only, tuning.
    pub(crate) const DEFAULT: Self = Self {
        evidence: EvidenceTuning::DEFAULT,
        curve: CurveTuning::DEFAULT,
        pressure: PressureTuning::DEFAULT,
        bracket: BracketTuning::DEFAULT,
        steps: StepTuning::DEFAULT,
        readings: ReadingTuning::DEFAULT,
        memory: MemoryTuning::DEFAULT,
        costs: CostTuning::DEFAULT,
    };
}
