//! What the searches find. Each search also has to find a violation where a rule is off, which
//! shows that it reaches the states that matter.

use std::fmt::Debug;
use std::hash::Hash;

use model::election::Candidates;
use model::port_lease::PortHandover;
use model::sequence::Sequence;
use stateright::{Checker, HasDiscoveries, Model};

/// What the search needs of a model.
trait Explored:
    Model<
        State: Clone + Debug + Hash + PartialEq + Send + Sync,
        Action: Clone + Debug + PartialEq + Send + Sync,
    > + Send
    + Sync
    + 'static
{
}

impl Explored for Candidates {}
impl Explored for PortHandover {}
impl Explored for Sequence {}

fn search<M: Explored>(model: M) -> impl Checker<M> {
    let checker = model.checker().finish_when(HasDiscoveries::AnyFailures).threads(2).spawn_bfs().join();
    let (all, states, depth) = (checker.state_count(), checker.unique_state_count(), checker.max_depth());
    println!("{states} states, {all} steps, depth {depth}");
    checker
}

/// No property is violated, and everything that should be possible is.
fn holds<M: Explored>(model: M) {
    search(model).assert_properties();
}

/// Prints how the property is violated.
fn is_violated<M: Explored>(model: M, property: &'static str) {
    let path = search(model).assert_any_discovery(property);
    println!("{property}: violated by {:#?}", path.into_actions());
}

#[test]
fn no_clock_or_lost_report_ends_a_request_or_leaves_one_held() {
    holds(Sequence::with_clock_jump());
}

#[test]
fn no_change_of_the_leader_ends_a_request_or_leaves_one_held() {
    holds(Sequence::with_leader_change());
}

#[test]
#[ignore = "takes minutes: make model"]
fn no_order_of_more_steps_ends_a_request_or_leaves_one_held() {
    Sequence::larger().into_iter().for_each(holds);
}

#[test]
fn without_heartbeat_an_activator_that_is_cut_off_loses_its_request() {
    is_violated(Sequence::with_clock_jump().without_heartbeat(), "zero ends no request");
}

#[test]
fn with_the_wall_clock_alone_a_jump_ends_grace_before_nodes_follow() {
    is_violated(
        Sequence::with_clock_jump().with_wall_clock_alone(),
        "at zero every node leads to activators",
    );
}

#[test]
fn one_candidate_leads_whatever_is_late_or_lost() {
    holds(Candidates::for_seconds(9));
}

#[test]
#[ignore = "takes minutes: make model"]
fn one_candidate_leads_for_longer_whatever_is_late_or_lost() {
    holds(Candidates::for_seconds(12));
}

#[test]
fn two_candidates_lead_where_versions_are_not_checked() {
    is_violated(Candidates::for_seconds(3).without_preconditions(), "one replica leads");
}

#[test]
fn leased_port_leads_to_one_workload_at_a_time() {
    holds(PortHandover::new());
}

#[test]
fn restarted_zero_scaler_has_no_record_of_a_port_that_rests() {
    is_violated(PortHandover::new().with_restart(), "one workload answers on a port");
}
