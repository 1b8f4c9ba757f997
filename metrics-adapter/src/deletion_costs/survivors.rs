//! Survivors: which pods get a deletion cost, and which lose theirs.

/// Most pods of a workload with a cost. Of more busy pods, those without one end by their drain.
pub const MAX_SURVIVORS: usize = 16;

/// A pod with a cost keeps it until another is busier by so much, because loads of equal pods
/// differ from second to second.
const LEAD: f64 = 1.25;

/// A ready pod to which we may give a cost.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate<P> {
    pub pod: P,
    /// Concurrent requests; 0 if it is not known to be busy.
    pub load: f64,
    /// Whether it has a cost of ours.
    pub has_cost: bool,
}

/// The changes after which the busy pods are deleted last: each pod that gets a cost (true) or
/// loses its own. Without a busy pod nothing changes: a cost is wrong only while another pod needs
/// it. Nor if all are busy: none can be spared then. Of equally busy pods, the first ones get a
/// cost.
pub fn cost_changes<P>(mut pods: Vec<Candidate<P>>) -> Vec<(P, bool)> {
    let busy = pods.iter().filter(|pod| pod.load > 0.0).count();
    if busy == 0 || busy == pods.len() {
        return Vec::new();
    }
    pods.sort_by(|a, b| b.weight().total_cmp(&a.weight()));
    let survives = |place| place < busy.min(MAX_SURVIVORS);
    let placed = pods.into_iter().enumerate().map(|(place, pod)| (pod, survives(place)));
    placed.filter(|(pod, set)| pod.has_cost != *set).map(|(pod, set)| (pod.pod, set)).collect()
}

// === impl Candidate ===

impl<P> Candidate<P> {
    fn weight(&self) -> f64 {
        if self.has_cost { self.load * LEAD } else { self.load }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pods(loads: &[(f64, bool)]) -> Vec<Candidate<usize>> {
        let pod = |(pod, (load, has_cost)): (usize, &(f64, bool))| Candidate {
            pod,
            load: *load,
            has_cost: *has_cost,
        };
        loads.iter().enumerate().map(pod).collect()
    }

    fn changes(loads: &[(f64, bool)]) -> Vec<(usize, bool)> {
        cost_changes(pods(loads))
    }

    #[test]
    fn busy_pod_gets_the_cost_of_an_idle_one() {
        assert_eq!(changes(&[(0.0, false), (1.0, false), (0.0, false)]), [(1, true)]);
        assert_eq!(changes(&[(0.0, true), (1.0, false)]), [(1, true), (0, false)]);
        assert_eq!(changes(&[(0.0, true), (0.0, false)]), [], "nothing is busy");
        assert_eq!(changes(&[(2.0, false), (1.0, true)]), [], "all are busy");
    }

    #[test]
    fn pod_with_a_cost_keeps_it_among_pods_about_as_busy() {
        let mut loads = vec![(1.0, true); MAX_SURVIVORS];
        loads.extend([(1.2, false), (0.0, false)]);
        assert_eq!(changes(&loads), []);
        loads[MAX_SURVIVORS].0 = 2.0;
        assert_eq!(changes(&loads), [(16, true), (15, false)]);
    }

    proptest! {
        #[test]
        fn survivors_are_the_busiest_and_changes_settle(
            loads in proptest::collection::vec((0.0..4.0_f64, any::<bool>()), 0..40),
        ) {
            let loads: Vec<_> = loads.iter().map(|(load, has)| ((load - 1.0).max(0.0), *has)).collect();
            let busy = loads.iter().filter(|(load, _)| *load > 0.0).count();
            let mut after = pods(&loads);
            for (changed, set) in changes(&loads) {
                after[changed].has_cost = set;
            }
            prop_assert_eq!(cost_changes(after.clone()), []);
            if 0 < busy && busy < loads.len() {
                let survivors: Vec<_> = after.iter().filter(|pod| pod.has_cost).collect();
                prop_assert_eq!(survivors.len(), busy.min(MAX_SURVIVORS));
                let least = survivors.iter().map(|pod| pod.load).fold(f64::INFINITY, f64::min);
                let others = after.iter().filter(|pod| !pod.has_cost);
                let most = others.map(|pod| pod.load).fold(0.0, f64::max);
                prop_assert!(least > 0.0 && least * LEAD >= most, "{least} {most}");
            }
        }
    }
}
