//! The status that follows from a plan.

use autoscaler::api::WorkloadPhase;

use super::*;
use crate::controllers::pod_autoscaler::observe::HpaState;

#[test]
fn pauses_on_zero_of_other_writer_and_reverts_own_zero() {
    let mut observed = ObservedWorkload {
        scale: scale(0, Writer::Other("kubectl".into())),
        ..observed(0, &[at("Active", "True", "PodsReady", 60)])
    };
    observed.ready = 0;
    observed = edited(observed, |autoscaler| autoscaler.spec.scale_to_zero = false);
    let plan = decide(&observed, None);
    assert!(plan.paused);
    assert_eq!((plan.write, plan.mode), (None, SksMode::Proxy));
    let status = status::status(&observed, &plan, &Ok(ScaleWriteResult::NotNeeded), None);
    let content =
        |r#type| condition(&status.conditions, r#type).map(|c| (c.status.as_str(), c.reason.as_str()));
    assert_eq!(content("Active"), Some(("False", "Paused")));
    assert_eq!(content("Ready"), Some(("False", "Paused")));
    // It stays paused with the status that was just written.
    observed.autoscaler.status = Some(status);
    assert!(decide(&observed, None).paused);

    let mut own_zero = edited(at_zero(), |autoscaler| autoscaler.spec.scale_to_zero = false);
    assert_eq!(decide(&own_zero, None).write, write(1, WriteCause::NotAllowed));
    own_zero.scale = scale(0, Writer::Unknown);
    assert_eq!(decide(&own_zero, None).write, write(1, WriteCause::NotAllowed));
}

/// NOW is 2027-01-15T08:00:00Z.
const LATER: &str = "2027-01-15T09:00:00Z";

fn pause(observed: ObservedWorkload, paused: &str) -> ObservedWorkload {
    edited(observed, |autoscaler| annotate(autoscaler, "paused", paused))
}

#[test]
fn nothing_changes_the_size_of_a_paused_workload() {
    let scheduled = |observed| edited(observed, |it| annotate(it, "schedule", "00:00-24:00: 3"));
    let panicking = Decision { panicking: true, held: true, ..decision(5, None) };
    let requested = |observed| ObservedWorkload { decision: Some(panicking.clone()), ..observed };
    let lost = ObservedWorkload { ready: 0, pods_on_unresponsive_nodes: 1, ..active() };
    let absent = Some(Duration::from_secs(60));
    for (situation, observed) in [
        ("requests at zero", requested(at_zero())),
        ("schedule at zero", scheduled(at_zero())),
        ("no activators at zero", ObservedWorkload { without_activators: absent, ..at_zero() }),
        ("forbidden zero", edited(at_zero(), |autoscaler| autoscaler.spec.scale_to_zero = false)),
        ("panic", requested(active())),
        ("another size", direct(requested(active()))),
        ("lost nodes", lost),
        ("idle", going()),
        ("idle, to be probed", ObservedWorkload { wake_check: None, ..going() }),
    ] {
        let replicas = observed.scale.as_ref().unwrap().replicas;
        let plan = decide(&pause(observed, LATER), Some(true));
        assert_eq!((plan.write, plan.probe, plan.check), (None, false, false), "{situation}");
        assert_eq!(plan.paused, replicas == 0, "{situation}");
    }
}

#[test]
fn status_of_a_paused_workload_has_the_reason_and_the_end() {
    let of = |observed: &ObservedWorkload| {
        let status =
            status::status(observed, &decide(observed, None), &Ok(ScaleWriteResult::NotNeeded), None);
        (status.phase.unwrap(), status.reason.unwrap(), status.message.unwrap_or_default(), status.conditions)
    };
    let (phase, reason, message, conditions) = of(&pause(at_zero(), LATER));
    assert_eq!((phase, reason.as_str()), (WorkloadPhase::Paused, "PausedByAnnotation"));
    assert!(message.contains(LATER) && message.contains("503"), "{message}");
    for kind in ["Active", "Ready"] {
        let condition = condition(&conditions, kind).unwrap();
        assert_eq!((condition.status.as_str(), condition.reason.as_str()), ("False", "PausedByAnnotation"));
    }
    let (phase, _, message, conditions) = of(&pause(active(), "true"));
    assert_eq!((phase, message.contains("503")), (WorkloadPhase::Paused, false));
    let active = condition(&conditions, "Active").unwrap();
    assert_eq!((active.status.as_str(), active.reason.as_str()), ("True", "PodsReady"));
}

#[test]
fn workload_acts_as_usual_behind_the_end_of_a_pause() {
    let ended = "2027-01-15T08:00:00Z";
    assert!(pause(at_zero(), LATER).until_change() == Some(Duration::from_secs(3600)));
    assert_eq!(pause(at_zero(), ended).until_change(), None);
    let requested = ObservedWorkload { decision: Some(decision(2, None)), ..at_zero() };
    assert_eq!(decide(&pause(requested, ended), None).write, write(2, WriteCause::Wanted));
    assert!(!decide(&pause(at_zero(), ended), None).paused);
    // The size that a person wrote for the time of the pause does not stay.
    let by_hand = ObservedWorkload {
        ready: 0,
        scale: scale(0, Writer::Other("kubectl-rouse".into())),
        ..observed(0, &[at("Active", "False", "PausedByAnnotation", 60)])
    };
    let by_hand = edited(by_hand, |autoscaler| autoscaler.spec.scale_to_zero = false);
    assert_eq!(decide(&pause(by_hand, ended), None).write, write(1, WriteCause::NotAllowed));
}

#[test]
fn unreadable_target_keeps_size_and_mode() {
    let error = crate::scaling::scale_targets::ScaleError::NotFound("Deployment web".into());
    let lost = ObservedWorkload { scale: Err(error), ..going() };
    let plan = decide(&lost, None);
    assert_eq!((plan.write, plan.probe, plan.mode), (None, false, SksMode::Proxy));
    let status = status::status(&lost, &plan, &Ok(ScaleWriteResult::NotNeeded), None);
    let ready = condition(&status.conditions, "Ready").unwrap();
    assert_eq!((ready.status.as_str(), ready.reason.as_str()), ("False", "TargetNotFound"));
    assert_eq!(status.replicas, Some(1));
}

#[test]
fn reports_protocol_mismatch_of_service_and_pods() {
    let mut service = sks("Serve", None);
    let redis = json!({"servicePort": 6379, "activatorPort": 20001, "podPort": 8012, "protocol": "tcp"});
    service.status.as_mut().unwrap().ports = vec![serde_json::from_value(redis).unwrap()];
    let ready = |sidecar| {
        let observed = ObservedWorkload { sidecar, serverless_service: Some(service.clone()), ..active() };
        let plan = decide(&observed, None);
        let status = status::status(&observed, &plan, &Ok(ScaleWriteResult::NotNeeded), None);
        condition(&status.conditions, "Ready").unwrap().clone()
    };
    let mismatch = ready(Some(configured(Protocol::Http, 0, "")));
    assert_eq!((mismatch.status.as_str(), mismatch.reason.as_str()), ("False", "ProtocolMismatch"));
    for part in ["6379", "autoscaling.rouse.dev/protocol: tcp"] {
        assert!(mismatch.message.contains(part), "{}", mismatch.message);
    }
    assert_eq!(ready(Some(configured(Protocol::Tcp, 0, ""))).status, "True");
    assert_eq!(ready(Some(Sidecar::Missing)).reason, "SidecarMissing");
    assert_eq!(ready(None).status, "True", "no condition without an observed sidecar");
}

#[test]
fn pods_without_sidecar_are_compared_with_no_pod_template() {
    let missing = Some(Sidecar::Missing);
    let concurrency = Some(configured(Protocol::Tcp, 3, ""));
    for sidecar in [missing, concurrency] {
        let observed = ObservedWorkload { sidecar, ..without_sidecar(active()) };
        let plan = decide(&observed, None);
        let status = status::status(&observed, &plan, &Ok(ScaleWriteResult::NotNeeded), None);
        let ready = condition(&status.conditions, "Ready").unwrap();
        assert_eq!(ready.status, "True", "{ready:?}");
        assert_eq!(condition(&status.conditions, "Degraded"), None);
    }
}

#[test]
fn status_is_stable_without_changes() {
    for (observed, verification) in
        [(active(), None), (going(), Some(Ok(()))), (at_zero(), None), (without_sidecar(active()), None)]
    {
        let plan = decide(&observed, verification.as_ref().map(|p: &Result<(), PathError>| p.is_ok()));
        let first = status::status(&observed, &plan, &Ok(ScaleWriteResult::NotNeeded), verification.as_ref());
        let mut again = observed;
        again.autoscaler.status = Some(first.clone());
        again.now = jiff::Timestamp::from_second(NOW + 1).unwrap();
        let plan = decide(&again, verification.as_ref().map(|p| p.is_ok()));
        assert_eq!(
            status::status(&again, &plan, &Ok(ScaleWriteResult::NotNeeded), verification.as_ref()),
            first
        );
    }
}

#[test]
fn initial_scale_zero_is_initialized_at_once() {
    let mut new = ObservedWorkload {
        decision: None,
        ready: 0,
        scale: scale(0, Writer::Other("kubectl".into())),
        ..observed(0, &[])
    };
    new.autoscaler.status = None;
    let result = |observed: &ObservedWorkload| {
        let plan = decide(observed, None);
        let status = status::status(observed, &plan, &Ok(ScaleWriteResult::NotNeeded), None);
        let initialized = condition(&status.conditions, "ScaleTargetInitialized").unwrap().clone();
        (plan.activation.phase, initialized.status, status.state)
    };
    use autoscaler::scaling::workload_state::WorkloadState::Reserve;
    assert_eq!(result(&new), (ActivePhase::Inactive, "Unknown".into(), Some(Reserve)));
    // Z32
    let allowed = edited(new, |a| annotate(a, "initial-scale", "0"));
    assert_eq!(result(&allowed), (ActivePhase::Inactive, "True".into(), Some(Reserve)));
    assert_eq!(decide(&allowed, None).write, None);
}

#[test]
fn unreachable_workload_goes_to_zero_from_any_size() {
    let retired = |replicas| {
        let conditions = [
            at("Active", "False", "NoTraffic", 60),
            at("ActivatorInPath", "True", "Verified", 50),
            initialized(),
        ];
        let going = ObservedWorkload {
            decision: Some(decision(0, Some(600))),
            serverless_service: Some(sks("Proxy", Some(60))),
            ..observed(replicas, &conditions)
        };
        edited(going, |a| {
            (a.spec.min_replicas, a.spec.scale_to_zero) = (Some(2), false);
            annotate(a, "reachability", "Unreachable");
        })
    };
    // Z21. The size 0 parks the HPA.
    let plan = decide(&retired(5), Some(true));
    assert_eq!((plan.write, plan.paused), (write(0, WriteCause::Idle), false));
    let written = status::status(&retired(5), &plan, &Ok(ScaleWriteResult::Written(0)), None);
    assert_eq!(
        (written.state, written.replicas),
        (Some(autoscaler::scaling::workload_state::WorkloadState::Retired), Some(0))
    );
    assert!(decide(&retired(5), None).probe);
    // Reachable again, it is woken, because scale-to-zero is off.
    let back = |mut observed: ObservedWorkload| {
        observed.scale = scale(0, Writer::Us);
        observed.ready = 0;
        edited(observed, |a| {
            a.status = Some(written.clone());
            annotate(a, "reachability", "Reachable");
        })
    };
    assert_eq!(decide(&back(retired(5)), None).write, write(2, WriteCause::NotAllowed));
}

#[test]
fn reports_phase_and_reason_in_one_word_each() {
    let summary = |observed: &ObservedWorkload| {
        let plan = decide(observed, None);
        let written =
            plan.write.map_or(ScaleWriteResult::NotNeeded, |write| ScaleWriteResult::Written(write.to));
        let status = status::status(observed, &plan, &Ok(written), None);
        format!("{:?} {}", status.phase.unwrap(), status.reason.unwrap())
    };
    assert_eq!(summary(&active()), "Active ReceivingTraffic");
    assert_eq!(summary(&ObservedWorkload { decision: None, ..active() }), "Active NoDecision");
    let no_activator = ObservedWorkload { without_activators: Some(Duration::from_secs(60)), ..active() };
    assert_eq!(summary(&no_activator), "Active NoActivator");
    let idle = ObservedWorkload { decision: Some(decision(0, Some(9))), ..active() };
    assert_eq!(summary(&idle), "Active WithinStableWindow");
    let serving = ObservedWorkload { serverless_service: Some(sks("Serve", None)), ..going() };
    assert_eq!(summary(&serving), "Active NotProxied");
    let verified = [at("Active", "False", "NoTraffic", 60), at("ActivatorInPath", "True", "Verified", 5)];
    let in_grace = ObservedWorkload {
        decision: Some(decision(0, Some(600))),
        serverless_service: Some(sks("Proxy", Some(9))),
        ..observed(1, &verified)
    };
    assert_eq!(summary(&in_grace), "Active GracePeriod");
    let waking = ObservedWorkload { decision: Some(decision(4, None)), ..at_zero() };
    assert_eq!(summary(&waking), "Waking PodsStarting");
    assert_eq!(summary(&ObservedWorkload { decision: None, ..at_zero() }), "AtZero NoTraffic");
}

#[test]
fn names_the_setting_that_turns_scale_to_zero_off() {
    let off = |mut observed: ObservedWorkload, cluster: bool| {
        observed = edited(observed, |autoscaler| autoscaler.spec.scale_to_zero = false);
        observed.settings.zero.enabled = !cluster;
        let status =
            status::status(&observed, &decide(&observed, None), &Ok(ScaleWriteResult::NotNeeded), None);
        assert_eq!(status.reason.as_deref(), Some("ScaleToZeroDisabled"));
        assert_eq!(status.message, Some(condition(&status.conditions, "Active").unwrap().message.clone()));
        status.message.unwrap()
    };
    assert!(off(active(), true).contains("config-autoscaler"));
    assert!(off(active(), false).contains("spec.scaleToZero"));
}

#[test]
fn reports_a_container_concurrency_of_the_hpa_that_the_pods_do_not_have() {
    let with = |workload: u32, pods: u32| {
        let sidecar = Some(configured(Protocol::Http, pods, ""));
        let observed = edited(active(), |autoscaler| autoscaler.spec.container_concurrency = workload);
        let observed = ObservedWorkload { sidecar, ..observed };
        let status =
            status::status(&observed, &decide(&observed, None), &Ok(ScaleWriteResult::NotNeeded), None);
        let ready = condition(&status.conditions, "Ready").unwrap();
        assert_eq!((ready.status.as_str(), ready.reason.as_str()), ("True", "Serving"));
        (status.reason.unwrap(), condition(&status.conditions, "Degraded").map(|c| c.message.clone()))
    };
    for (workload, pods, fix) in [(10, 20, "\"20\""), (10, 0, "\"10\"")] {
        let (reason, message) = with(workload, pods);
        assert_eq!(reason, "ContainerConcurrencyMismatch");
        let fix = format!("autoscaling.rouse.dev/container-concurrency: {fix}");
        assert!(message.as_ref().unwrap().ends_with(&fix), "{message:?}");
    }
    for (workload, pods) in [(0, 5), (10, 10), (0, 0)] {
        assert_eq!(with(workload, pods), ("ReceivingTraffic".to_owned(), None), "{workload} {pods}");
    }
}

#[test]
fn reports_an_hpa_that_follows_its_metric_late() {
    let degraded = |hpa: Option<HpaState>, hpa_lag| {
        let decision = Some(Decision { hpa_lag, ..decision(1, None) });
        let observed = ObservedWorkload { decision, hpa, ..active() };
        let status =
            status::status(&observed, &decide(&observed, None), &Ok(ScaleWriteResult::NotNeeded), None);
        condition(&status.conditions, "Degraded").map(|c| (c.reason.clone(), c.message.clone()))
    };
    let accepted = || Some(HpaState::Accepted(Vec::new()));
    let (reason, message) = degraded(accepted(), Some(480)).unwrap();
    assert_eq!(reason, "HPASlow");
    for part in ["each 480 s", "9600 HPAs", "--kube-api-qps", "--concurrent-horizontal-pod-autoscaler-syncs"]
    {
        assert!(message.contains(part), "{part}: {message}");
    }
    assert_eq!(degraded(accepted(), None), None);
    assert_eq!(degraded(None, Some(480)), None, "without an HPA, another client queried");
}

#[test]
fn reports_a_workload_of_which_no_target_is_learned() {
    let with = |protocol: &str, long_requests, edit: &dyn Fn(&mut PodAutoscaler)| {
        let mut service = sks("Serve", None);
        let lease = json!({"servicePort": 80, "activatorPort": 20000, "podPort": 8012,
            "protocol": protocol});
        service.status.as_mut().unwrap().ports = vec![serde_json::from_value(lease).unwrap()];
        let report = LearningReport { long_requests, ..*learned(LearnTarget::Apply, 2.0).unwrap() };
        let learning = Some(Box::new(report));
        let decision = Some(Decision { learning, ..decision(1, None) });
        let observed = ObservedWorkload { decision, serverless_service: Some(service), ..active() };
        let observed = edited(observed, |autoscaler| {
            autoscaler.spec.target = None;
            edit(autoscaler);
        });
        degraded::advice(&observed)
    };
    let unchanged = |_: &mut PodAutoscaler| {};
    for (protocol, long, cause) in
        [("tcp", false, "TCP connection"), ("http", true, "requests take too long")]
    {
        let (reason, message) = with(protocol, long, &unchanged).unwrap();
        assert_eq!(reason, Reason::TargetNotLearned);
        assert!(message.contains(cause) && message.contains("averageValue"), "{message}");
        let named = |autoscaler: &mut PodAutoscaler| annotate(autoscaler, "target", "70");
        assert_eq!(with(protocol, long, &named), None, "the number is named");
        let single = |autoscaler: &mut PodAutoscaler| autoscaler.spec.max_replicas = Some(1);
        assert_eq!(with(protocol, long, &single), None, "no number changes the size");
    }
    assert_eq!(with("http", false, &unchanged), None);
}

#[test]
fn reports_no_wake_rules_that_differ_in_the_pods() {
    let with = |workload: &str, pods: Sidecar| {
        let observed = edited(active(), |autoscaler| annotate(autoscaler, "no-wake", workload));
        let observed = ObservedWorkload { sidecar: Some(pods), ..observed };
        let status =
            status::status(&observed, &decide(&observed, None), &Ok(ScaleWriteResult::NotNeeded), None);
        condition(&status.conditions, "Degraded").map(|c| (c.reason.clone(), c.message.clone()))
    };
    let (reason, message) = with("HEAD", configured(Protocol::Http, 0, "")).unwrap();
    assert_eq!(reason, "NoWakeMismatch");
    assert!(message.contains("autoscaling.rouse.dev/no-wake: \"HEAD\""), "{message}");
    assert_eq!(with("HEAD,/a", configured(Protocol::Http, 0, "HEAD, /a")), None);
    assert_eq!(with("HEAD", configured(Protocol::Tcp, 0, "")), None, "rules are of HTTP");
}

#[test]
fn reports_what_the_sidecar_does_not_work_with() {
    let degraded = |conflict| {
        let sidecar = Sidecar::Configured {
            protocol: Protocol::Http,
            container_concurrency: 0,
            no_wake: NoWakeRules::default(),
            port: 8012,
            conflict,
        };
        let observed = ObservedWorkload { sidecar: Some(sidecar), ..active() };
        let status =
            status::status(&observed, &decide(&observed, None), &Ok(ScaleWriteResult::NotNeeded), None);
        condition(&status.conditions, "Degraded").map(|c| (c.reason.clone(), c.message.clone()))
    };
    let (reason, message) = degraded(Some(SidecarConflict::Port {
        container: "app".to_owned(),
        port: 9090,
        annotation: "sidecar-stats-port",
    }))
    .unwrap();
    assert!(reason == "AppPortTaken" && message.contains("port 9090"), "{reason}: {message}");
    let (reason, message) = degraded(Some(SidecarConflict::Windows)).unwrap();
    assert!(reason == "WindowsPods" && message.contains("remove the label"), "{reason}: {message}");
    assert_eq!(degraded(None), None);
}

#[test]
fn reports_service_that_names_the_default_port_of_pods_with_another() {
    let advice = |target: Value, port| {
        let service = json!({"metadata": {"name": "web"}, "spec": {"selector": {"app": "web"},
            "ports": [{"port": 80, "targetPort": target}]}});
        let (protocol, container_concurrency, no_wake) = (Protocol::Http, 0, NoWakeRules::default());
        let sidecar = Sidecar::Configured { protocol, container_concurrency, no_wake, port, conflict: None };
        let service = Some(Arc::new(serde_json::from_value(service).unwrap()));
        let observed = ObservedWorkload { sidecar: Some(sidecar), service, ..active() };
        degraded::advice(&observed)
    };
    let (reason, message) = advice(json!(8012), 18012).unwrap();
    assert!(reason == Reason::SidecarBypassed && message.contains("18012"), "{message}");
    for (target, port) in [(json!(8012), 8012), (json!("queue-proxy"), 18012)] {
        assert_eq!(advice(target, port), None);
    }
}

#[test]
fn scheduled_minimum_is_woken_for_and_kept_without_requests() {
    // NOW is a Friday, at 08:00.
    let scheduled = |observed: ObservedWorkload| {
        edited(observed, |autoscaler| annotate(autoscaler, "schedule", "Fri 07:00-09:00: 3"))
    };
    let idle = |observed| ObservedWorkload { decision: Some(decision(0, Some(600))), ..observed };
    let waking = decide(&scheduled(idle(at_zero())), None);
    assert_eq!((waking.write, waking.why), (write(3, WriteCause::Scheduled), Some(StayReason::Scheduled)));
    assert_eq!(decide(&idle(at_zero()), None).write, None);

    let three = scheduled(ObservedWorkload { scale: scale(3, Writer::Unknown), ready: 3, ..idle(active()) });
    let plan = decide(&three, None);
    assert_eq!((plan.write, plan.probe, plan.why), (None, false, Some(StayReason::Scheduled)));
    let status = status::status(&three, &plan, &Ok(ScaleWriteResult::NotNeeded), None);
    assert_eq!(status.reason.as_deref(), Some("ScheduledMinimum"));
    let until = jiff::Timestamp::from_second(NOW + 3600).unwrap();
    let schedule = status.schedule.unwrap();
    assert_eq!(
        (schedule.minimum, schedule.next_change, schedule.next_minimum),
        (3, Some(Time(until)), Some(0))
    );
    assert_eq!(three.until_change(), Some(Duration::from_secs(3600)));
    // Without an HPA the zero-scaler writes it; with one, the metric has it.
    let one = scheduled(idle(active()));
    assert_eq!(decide(&one, None).write, None);
    assert_eq!(decide(&direct(one), None).write, write(3, WriteCause::Direct));
    // In the scale-to-zero sequence.
    assert_eq!(decide(&scheduled(going()), Some(true)).write, None);
}

#[test]
fn savings_change_only_with_the_phase_and_continue_from_the_status() {
    let account = |observed: &ObservedWorkload| {
        status::status(observed, &decide(observed, None), &Ok(ScaleWriteResult::NotNeeded), None).savings
    };
    let later = |observed: ObservedWorkload, seconds: i64, savings: &Option<SavingsStatus>| {
        let mut observed = edited(observed, |autoscaler| {
            autoscaler.status.as_mut().unwrap().savings.clone_from(savings);
        });
        observed.now = jiff::Timestamp::from_second(NOW + seconds).unwrap();
        observed
    };
    let idle = |observed| ObservedWorkload { decision: Some(decision(0, Some(600))), ..observed };
    let begun = account(&idle(at_zero()));
    assert_eq!(begun.as_ref().unwrap().at_zero_since, Some(Time(jiff::Timestamp::from_second(NOW).unwrap())));
    assert_eq!(account(&later(idle(at_zero()), 3600, &begun)), begun, "no write");
    let hour = jiff::Timestamp::from_second(NOW + 3600).unwrap();
    assert_eq!(begun.as_ref().unwrap().at(hour).pod_seconds, 3570);
    let starting = ObservedWorkload { ready: 0, ..active() };
    let woken = account(&later(starting, 3600, &begun)).unwrap();
    assert_eq!((woken.wakes, woken.pod_seconds, woken.starting_pods), (1, 3570, Some(1)));
    let ready = account(&later(active(), 3605, &Some(woken))).unwrap();
    assert_eq!((ready.pod_seconds, ready.starting_since), (3565, None));
    // Without scale-to-zero there is none.
    let never = edited(active(), |autoscaler| autoscaler.spec.scale_to_zero = false);
    assert_eq!(account(&never), None);
}

#[test]
fn state_follows_size_and_wanted_pods() {
    use autoscaler::scaling::workload_state::WorkloadState;
    let state = |observed: &ObservedWorkload| {
        let plan = decide(observed, None);
        status::status(observed, &plan, &Ok(ScaleWriteResult::NotNeeded), None).state
    };
    assert_eq!(state(&active()), Some(WorkloadState::Active));
    assert_eq!(state(&going()), Some(WorkloadState::Active));
    assert_eq!(state(&ObservedWorkload { decision: None, ..at_zero() }), Some(WorkloadState::Reserve));
    assert_eq!(
        state(&ObservedWorkload { decision: Some(decision(4, None)), ..at_zero() }),
        Some(WorkloadState::Active)
    );
    let retired = edited(active(), |a| annotate(a, "reachability", "Unreachable"));
    assert_eq!(state(&retired), Some(WorkloadState::Retired));
}

#[test]
fn reports_start_failure_until_a_pod_starts() {
    let waiting = |failure| ObservedWorkload {
        ready: 0,
        start_failure: failure,
        ..observed(1, &[at("Active", "Unknown", "Queued", 60)])
    };
    let failure = |given_up| {
        Some(StartFailure {
            cause: StartCause::ImagePull,
            reason: "ErrImagePull".into(),
            message: "no such tag".into(),
            pod: "web-1".into(),
            since: Time(jiff::Timestamp::from_second(NOW - 5).unwrap()),
            given_up,
        })
    };
    let status_of = |observed: &ObservedWorkload| {
        status::status(observed, &decide(observed, None), &Ok(ScaleWriteResult::NotNeeded), None)
    };
    let content = |observed: &ObservedWorkload, r#type: &str| {
        let status = status_of(observed);
        let condition = condition(&status.conditions, r#type).cloned();
        condition.map(|c| (c.status, c.reason, c.message))
    };
    let holding = waiting(failure(false));
    let (status, reason, message) = content(&holding, "PodsCanStart").unwrap();
    assert_eq!((status.as_str(), reason.as_str()), ("False", "ImagePull"));
    assert_eq!(message, "pod web-1: ErrImagePull: no such tag; requests are still held");
    assert_eq!(content(&holding, "Ready").unwrap().1, "Activating");

    let given_up = waiting(failure(true));
    let (status, reason, _) = content(&given_up, "Ready").unwrap();
    assert_eq!((status.as_str(), reason.as_str()), ("False", "CannotStart"));
    let warnings = status::warnings(&given_up, Some(&status_of(&holding)), &status_of(&given_up));
    let [(reason, note)] = warnings.as_slice() else { panic!("{warnings:?}") };
    assert_eq!(*reason, crate::kubernetes::reasons::Reason::CannotStart);
    assert!(note.starts_with("ImagePull: pod web-1: ErrImagePull: no such tag"), "{note}");

    assert_eq!(content(&waiting(None), "PodsCanStart"), None);
}
