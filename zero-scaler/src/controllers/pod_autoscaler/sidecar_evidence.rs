//! SidecarEvidence: whether the requests of a workload go through sidecars, and what these limit
//! and do not count.
//!
//! The setting wants it, or leaves it to the pod template (`auto`): pods with the inject label have
//! a sidecar, others none. In a rollout some pods have one and some have none. Activators reach
//! both kinds, and clients and sidecars only those with one. So activators stay in the path until
//! every ready pod has a sidecar, and come back into it as soon as the next pod has none.

use autoscaler::findings::sidecar::Sidecar;
use autoscaler::settings::{Settings, SidecarMode};

use crate::pods::endpoints::PodEndpoint;
use crate::pods::private_ports::sidecar_port;
use crate::pods::start_watch::UnusablePod;

/// What is known of the sidecars of a workload's pods.
#[derive(Debug)]
pub(super) struct SidecarEvidence<'a> {
    /// The pod template; `None` if the target's kind is not watched, or there is no target.
    pub(super) template: Option<&'a Sidecar>,
    /// The mode in force.
    pub(super) before: SidecarMode,
    /// Whether Rouse writes the endpoints of the Service.
    pub(super) is_managed: bool,
    /// The ready pods of the Service. Not needed where the mode before is `Required`.
    pub(super) ready: Vec<PodEndpoint>,
    /// A ready pod that gets no requests, if all ready pods are such.
    pub(super) unusable: Option<UnusablePod>,
}

// === impl SidecarEvidence ===

impl SidecarEvidence<'_> {
    /// The mode, for a workload with this setting.
    pub(super) fn mode(&self, setting: Option<SidecarMode>) -> SidecarMode {
        let wanted = setting.unwrap_or_else(|| self.of_pods());
        if !wanted.is_required() || self.before.is_required() {
            return wanted;
        }
        // A Service with a selector has no activators in its path that could stay.
        let without = |pod: &PodEndpoint| sidecar_port(&pod.ports).is_none();
        let waits = self.is_managed && self.ready.iter().any(without);
        if waits || self.template == Some(&Sidecar::Missing) { self.before } else { wanted }
    }

    /// The limit of a pod by the template. Without a valid one, pods of the former template serve,
    /// with the limit `before`.
    pub(super) fn limit(&self, before: Option<u32>) -> Option<u32> {
        match self.template {
            None | Some(Sidecar::Invalid) => before,
            Some(template) => template.container_concurrency(),
        }
    }

    /// Applies the template's rules of requests that are not load to a workload without rules.
    pub(super) fn apply_rules(&self, settings: &mut Settings) {
        if settings.wake.no_wake.is_empty()
            && let Some(rules) = self.template.and_then(Sidecar::no_wake)
        {
            settings.wake.no_wake = rules.clone();
        }
    }

    /// What the pods are made with, or where no template can be read, what those that run have.
    fn of_pods(&self) -> SidecarMode {
        if let Some(template) = self.template {
            return template.mode();
        }
        let without_sidecar = match self.before {
            SidecarMode::Required => matches!(self.unusable, Some(UnusablePod::WithoutSidecar(_))),
            SidecarMode::None => self.ready.is_empty(),
        };
        if self.is_managed && without_sidecar { SidecarMode::None } else { SidecarMode::Required }
    }
}

#[cfg(test)]
mod tests {
    use autoscaler::Protocol;
    use autoscaler::settings::NoWakeRules;
    use serde_json::json;

    use super::*;

    const NONE: SidecarMode = SidecarMode::None;
    const REQUIRED: SidecarMode = SidecarMode::Required;

    fn pods(have_sidecar: &[bool]) -> Vec<PodEndpoint> {
        let pod = |has: &bool| PodEndpoint {
            family: "IPv4".to_owned(),
            endpoint: serde_json::from_value(json!({"addresses": ["10.0.0.1"]})).unwrap(),
            ports: serde_json::from_value::<Vec<_>>(json!([{
                "name": if *has { "rouse-sidecar" } else { "rouse-80" }, "port": 8012,
            }]))
            .unwrap()
            .into(),
        };
        have_sidecar.iter().map(pod).collect()
    }

    fn configured() -> Sidecar {
        let (protocol, no_wake) = (Protocol::Http, NoWakeRules::default());
        Sidecar::Configured { protocol, container_concurrency: 0, no_wake, port: 8012, conflict: None }
    }

    fn managed<'a>(
        template: Option<&'a Sidecar>,
        before: SidecarMode,
        ready: &[bool],
    ) -> SidecarEvidence<'a> {
        SidecarEvidence { template, before, is_managed: true, ready: pods(ready), unusable: None }
    }

    #[test]
    fn activators_stay_in_path_until_every_ready_pod_has_a_sidecar() {
        let configured = configured();
        let (template, missing) = (Some(&configured), Some(&Sidecar::Missing));
        for (wanted, template, before, ready, expected) in [
            (NONE, template, REQUIRED, [true].as_slice(), NONE),
            (REQUIRED, template, NONE, &[true, false], NONE),
            (REQUIRED, template, NONE, &[true], REQUIRED),
            (REQUIRED, missing, NONE, &[], NONE),
            (REQUIRED, template, NONE, &[], REQUIRED),
            (REQUIRED, missing, REQUIRED, &[false], REQUIRED),
        ] {
            let evidence = managed(template, before, ready);
            assert_eq!(evidence.mode(Some(wanted)), expected, "{wanted:?} {evidence:?}");
        }
    }

    /// A rollout to an invalid template starts no pod.
    #[test]
    fn limit_stays_while_the_pod_template_is_invalid() {
        let (protocol, no_wake) = (Protocol::Http, NoWakeRules::default());
        let limited =
            Sidecar::Configured { protocol, container_concurrency: 20, no_wake, port: 8012, conflict: None };
        for (template, expected) in [
            (Some(&limited), Some(20)),
            (Some(&configured()), None),
            (Some(&Sidecar::Missing), None),
            (Some(&Sidecar::Invalid), Some(10)),
            (None, Some(10)),
        ] {
            let evidence = managed(template, REQUIRED, &[]);
            assert_eq!(evidence.limit(Some(10)), expected, "{evidence:?}");
        }
    }

    #[test]
    fn pods_decide_where_no_setting_does() {
        let configured = configured();
        let (labelled, plain) = (Some(&configured), Some(&Sidecar::Missing));
        for (template, before, ready, expected) in [
            (plain, REQUIRED, [].as_slice(), NONE),
            (labelled, REQUIRED, &[], REQUIRED),
            // The label is added: a rollout, from its first pod to its last, or at zero.
            (labelled, NONE, &[false, false], NONE),
            (labelled, NONE, &[false, true], NONE),
            (labelled, NONE, &[true, true], REQUIRED),
            (labelled, NONE, &[], REQUIRED),
            // It is removed, before or after the last pod with a sidecar has gone.
            (plain, REQUIRED, &[true, true], NONE),
            (plain, NONE, &[true, false], NONE),
            // Its configuration is invalid: the pods do not start, and no other way is taken.
            (Some(&Sidecar::Invalid), REQUIRED, &[], REQUIRED),
        ] {
            let evidence = managed(template, before, ready);
            assert_eq!(evidence.mode(None), expected, "{evidence:?}");
        }
    }

    #[test]
    fn running_pods_decide_where_no_template_can_be_read() {
        for (before, ready, expected) in [
            (NONE, [].as_slice(), NONE),
            (NONE, &[false, true], NONE),
            (NONE, &[true], REQUIRED),
            (REQUIRED, &[], REQUIRED),
            (REQUIRED, &[true], REQUIRED),
        ] {
            let evidence = managed(None, before, ready);
            assert_eq!(evidence.mode(None), expected, "{evidence:?}");
        }
        let unusable = Some(UnusablePod::WithoutSidecar("web-1".to_owned()));
        let evidence = SidecarEvidence { unusable, ..managed(None, REQUIRED, &[]) };
        assert_eq!(evidence.mode(None), NONE, "pods without a sidecar would get no requests");
        assert_eq!(evidence.mode(Some(REQUIRED)), REQUIRED, "explicit");
        let attached = SidecarEvidence { is_managed: false, ..evidence };
        assert_eq!(attached.mode(None), REQUIRED, "a Service with a selector needs sidecars");
    }

    #[test]
    fn label_makes_a_service_with_selector_usable_at_once() {
        let configured = configured();
        let attached =
            |before| SidecarEvidence { is_managed: false, ..managed(Some(&configured), before, &[false]) };
        assert_eq!(attached(NONE).mode(None), REQUIRED, "no activator is in its path");
        assert_eq!(attached(REQUIRED).mode(None), REQUIRED);
    }
}
