//! Every reason of a condition, of an event and of a finding of `kubectl rouse check`, with its
//! meaning and its fix.
//!
//! One table for each kind: [`Reason`] is written by the zero-scaler, and shown by `check`.
//! [`CheckReason`] is found by `check` alone, because no part of Rouse in the cluster sees it.
//! `docs/reference/conditions.md` is generated from them.
//!
//! In a fix, `NAMESPACE` and `NAME` are those of the object that the finding names, and `TARGET` is
//! the workload's target as kubectl takes it, such as `deployment/web`. `POD` and `CONTAINER`
//! are those that the message names.

#[macro_use]
mod table;
mod causes;
mod check;
mod condition;

pub use check::CheckReason;
pub use condition::Reason;
pub use table::ReasonDescription;

/// All rows: those of [`Reason`], then those of [`CheckReason`].
pub fn all() -> impl Iterator<Item = ReasonDescription> {
    let of_conditions = Reason::ALL.iter().map(|reason| reason.description());
    of_conditions.chain(CheckReason::ALL.iter().map(|reason| reason.description()))
}

/// The row of a CamelCase word; `None` for one that is not Rouse's.
pub fn description(reason: &str) -> Option<ReasonDescription> {
    all().find(|row| row.reason == reason)
}

/// A fix with the names in place of `NAMESPACE`, `NAME` and `TARGET`.
pub fn filled(fix: &str, namespace: &str, name: &str, target: &str) -> String {
    fix.replace("NAMESPACE", namespace).replace("TARGET", target).replace("NAME", name)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_reason_is_described_once_with_a_sentence() {
        let names: BTreeSet<&str> = all().map(|row| row.reason).collect();
        assert_eq!(names.len(), all().count());
        for row in all() {
            assert!(row.meaning.ends_with('.') && !row.place.is_empty(), "{row:?}");
            assert!(!row.fix.ends_with('.'), "a clause: {row:?}");
        }
        assert!(CheckReason::ALL.iter().all(|reason| !reason.fix().is_empty()));
    }
}
