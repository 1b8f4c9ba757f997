//! The declaration of a setting: names, values, default and meaning, each of them once.
//!
//! The [groups](super::groups) declare all settings as constants. From a declaration come the
//! parser and its error messages, the reference page, and the descriptions of the fields of a
//! PodAutoscaler with the same meaning.

/// A setting of the cluster, of a workload, or of both.
pub(crate) struct Setting<T: 'static> {
    /// In the ConfigMap `config-autoscaler`, for all workloads.
    pub(super) key: Option<Entry<T>>,
    /// As an annotation, for one workload. The name is without the prefix `autoscaling.rouse.dev/`.
    pub(super) annotation: Option<Entry<T>>,
    /// The value where neither is given.
    pub(super) default: T,
    /// Effect, in sentences.
    pub(super) meaning: &'static str,
    /// When a user sets it, as a sentence.
    pub(super) when: &'static str,
}

/// A name under which a setting is read, and the text form of its values there.
pub(super) struct Entry<T: 'static> {
    pub(super) name: &'static str,
    pub(super) format: &'static Format<T>,
}

/// Text form of the values that are accepted.
pub(crate) struct Format<T> {
    /// Description that completes the sentence "must be ...".
    pub(crate) words: &'static str,
    /// Parses a trimmed text; `None` for what `words` do not describe.
    pub(crate) parse: fn(&str) -> Option<T>,
    /// Prints a default; `None` for one that is not a value, because other settings determine it.
    pub(crate) print: fn(&T) -> Option<String>,
}

/// An entry of the reference page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingReference {
    /// Key in the ConfigMap `config-autoscaler`, for the cluster.
    pub config_map_key: Option<&'static str>,
    /// Annotation without its prefix `autoscaling.rouse.dev/`, for one workload.
    pub annotation: Option<&'static str>,
    /// Default value; `None` if it depends on another setting, which the meaning then names.
    pub default: Option<String>,
    /// Accepted values in the ConfigMap; empty without a key.
    pub config_map_bounds: &'static str,
    /// Accepted values of the annotation; empty without an annotation.
    pub annotation_bounds: &'static str,
    /// Effect of the setting, in sentences.
    pub meaning: &'static str,
    /// When a user sets it, as a sentence.
    pub when: &'static str,
}

/// The name of a setting in one place.
pub(super) const fn entry<T>(name: &'static str, format: &'static Format<T>) -> Option<Entry<T>> {
    Some(Entry { name, format })
}

// === impl Setting ===

impl<T> Setting<T> {
    /// The entry of the reference page.
    pub(super) fn reference(&self) -> SettingReference {
        let (key, annotation) = (self.key.as_ref(), self.annotation.as_ref());
        let words = |entry: Option<&Entry<T>>| entry.map_or("", |entry| entry.format.words);
        SettingReference {
            config_map_key: key.map(|key| key.name),
            annotation: annotation.map(|annotation| annotation.name),
            default: key.or(annotation).and_then(|entry| (entry.format.print)(&self.default)),
            config_map_bounds: words(key),
            annotation_bounds: words(annotation),
            meaning: self.meaning,
            when: self.when,
        }
    }

    /// Description of the field of a PodAutoscaler that takes precedence over the annotation.
    #[cfg(feature = "api")]
    pub(crate) fn field_description(&self) -> String {
        let Self { meaning, when, .. } = self;
        let name = self.annotation.as_ref().map_or("", |annotation| annotation.name);
        format!("{meaning} {when} Overrides the annotation `{name}`.")
    }
}
