//! The field `noWake` of a PodAutoscaler and a ServerlessService: requests that are not load.
//!
//! Users write it, or the annotations `no-wake` and `no-wake-response`. zero-scaler copies it to
//! the ServerlessService, where activators read it. Its texts have the format of the annotations.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::settings::{NoWakeResponse, NoWakeRules, SettingError, Settings};

/// Requests that neither wake the workload nor count as load.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {"rule": "self.requests.matches('^ *([Uu]ser-[Aa]gent: *[*]?[^*, ]([^*,]*[^*, ])?[*]?|[A-Z-]{1,20}( +/[^*?#, ]*[*]?)?|/[^*?#, ]*[*]?)( *, *([Uu]ser-[Aa]gent: *[*]?[^*, ]([^*,]*[^*, ])?[*]?|[A-Z-]{1,20}( +/[^*?#, ]*[*]?)?|/[^*?#, ]*[*]?)){0,31} *$')",
     "message": "requests must be rules, separated by commas, such as GET /healthz, HEAD, /static/*, or User-Agent: *UptimeRobot* (at most 32)"},
    {"rule": "!has(self.response) || (self.response.matches('^[2-5][0-9][0-9]( .*)?$') && !self.response.matches('^(204|205|304) '))",
     "message": "response must be a status from 200 to 599, then a text, which 204, 205 and 304 do not have"}
]))]
pub struct NoWakeSpec {
    /// Rules, separated by commas: a method, a path, or both, such as `GET /healthz`; or
    /// `User-Agent: TEXT`. A `*` at the end of a path, and at either end of a user agent, stands
    /// for any text. Pods with a sidecar have the annotation `no-wake` instead.
    #[schemars(length(min = 1, max = 1024))]
    pub requests: String,
    /// What these requests get while there is no pod: a status, then the text of the body. Default:
    /// `200 asleep`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 3, max = 260))]
    pub response: Option<String>,
}

// === impl NoWakeSpec ===

impl NoWakeSpec {
    /// The spec of these settings, if they have rules.
    pub fn of_settings(settings: &Settings) -> Option<Self> {
        let response = &settings.wake.no_wake_response;
        (!settings.wake.no_wake.is_empty()).then(|| Self {
            requests: settings.wake.no_wake.to_string(),
            response: (*response != NoWakeResponse::default()).then(|| response.to_string()),
        })
    }

    /// Rules and response; `None` if a part is invalid.
    pub fn parse(&self) -> Option<(NoWakeRules, NoWakeResponse)> {
        Some((self.rules()?, self.response()?))
    }

    /// Replaces the settings of annotations by the valid parts of this spec, and returns the errors
    /// of the others.
    pub(super) fn override_settings(&self, settings: &mut Settings) -> Vec<SettingError> {
        let mut errors = Vec::new();
        match self.rules() {
            Some(rules) => settings.wake.no_wake = rules,
            None => errors.push(SettingError::new(
                "spec.noWake.requests",
                &self.requests,
                NoWakeRules::FORMAT.words,
            )),
        }
        match self.response() {
            Some(response) => settings.wake.no_wake_response = response,
            None => errors.push(SettingError::new(
                "spec.noWake.response",
                self.response.as_deref().unwrap_or_default(),
                NoWakeResponse::FORMAT.words,
            )),
        }
        errors
    }

    fn rules(&self) -> Option<NoWakeRules> {
        NoWakeRules::parse(self.requests.trim())
    }

    fn response(&self) -> Option<NoWakeResponse> {
        self.response.as_deref().map_or_else(|| Some(NoWakeResponse::default()), NoWakeResponse::parse)
    }
}
