//! Survivors: which pods get a deletion cost, and which lose theirs.

/// Most pods of a workload with a cost. Of more busy pods, those without one end by their drain.
pub const MAX_SURVIVORS: usize = 16;

/// A pod with a cost keeps it until another is busier by so much, because loads of equal pods
/// differ from second to second.
const LEAD: f64 = 1.25;

/// A ready pod to which we may give a cost.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    pub name: String,
    /// Concurrent requests; 0 if it is not known to be busy.
    pub load: f64,
    /// Whether it has a cost of ours.
    pub has_cost: bool,
}

/// Changes of costs, by the names of pods.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct CostChanges {
    pub set: Vec<String>,
    pub remove: Vec<String>,
}

/// The changes after which the busy pods are deleted last. Without a busy pod nothing changes: a
/// cost is wrong only while another pod needs it. Nor if all are busy: none can be spared then.
pub fn cost_changes(mut pods: Vec<Candidate>) -> CostChanges {
    let busy = pods.iter().filter(|pod| pod.load > 0.0).count();
    if busy == 0 || busy == pods.len() {
        return CostChanges::default();
    }
    pods.sort_by(|a, b| b.weight().total_cmp(&a.weight()).then_with(|| a.name.cmp(&b.name)));
    let others = pods.split_off(busy.min(MAX_SURVIVORS));
    let names = |pods: Vec<Candidate>, had_cost| {
        pods.into_iter().filter(|pod| pod.has_cost == had_cost).map(|pod| pod.name).collect()
    };
    CostChanges { set: names(pods, false), remove: names(others, true) }
}

// === impl Candidate ===

impl Candidate {
    fn weight(&self) -> f64 {
        if self.has_cost { self.load * LEAD } else { self.load }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pods(loads: &[(f64, bool)]) -> Vec<Candidate> {
        let pod = |(i, (load, has_cost)): (usize, &(f64, bool))| Candidate {
            name: format!("web-{i}"),
            load: *load,
            has_cost: *has_cost,
        };
        loads.iter().enumerate().map(pod).collect()
    }

    fn changes(loads: &[(f64, bool)]) -> (Vec<String>, Vec<String>) {
        let CostChanges { set, remove } = cost_changes(pods(loads));
        (set, remove)
    }

    #[test]
    fn busy_pod_gets_the_cost_of_an_idle_one() {
        let web = |i: usize| vec![format!("web-{i}")];
        assert_eq!(changes(&[(0.0, false), (1.0, false), (0.0, false)]), (web(1), vec![]));
        assert_eq!(changes(&[(0.0, true), (1.0, false)]), (web(1), web(0)));
        assert_eq!(changes(&[(0.0, true), (0.0, false)]), (vec![], vec![]), "nothing is busy");
        assert_eq!(changes(&[(2.0, false), (1.0, true)]), (vec![], vec![]), "all are busy");
    }

    #[test]
    fn pod_with_a_cost_keeps_it_among_pods_about_as_busy() {
        let mut loads = vec![(1.0, true); MAX_SURVIVORS];
        loads.extend([(1.2, false), (0.0, false)]);
        assert_eq!(changes(&loads), (vec![], vec![]));
        loads[MAX_SURVIVORS].0 = 2.0;
        assert_eq!(changes(&loads), (vec!["web-16".to_owned()], vec!["web-9".to_owned()]));
    }

    proptest! {
        #[test]
        fn survivors_are_the_busiest_and_changes_settle(
            loads in proptest::collection::vec((0.0..4.0_f64, any::<bool>()), 0..40),
        ) {
            let loads: Vec<_> = loads.iter().map(|(load, has)| ((load - 1.0).max(0.0), *has)).collect();
            let busy = loads.iter().filter(|(load, _)| *load > 0.0).count();
            let CostChanges { set, remove } = cost_changes(pods(&loads));
            let mut after = pods(&loads);
            for pod in &mut after {
                pod.has_cost = pod.has_cost && !remove.contains(&pod.name) || set.contains(&pod.name);
            }
            prop_assert_eq!(cost_changes(after.clone()), CostChanges::default());
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
