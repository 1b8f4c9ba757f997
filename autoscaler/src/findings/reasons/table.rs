//! A table of reasons: its macro and its rows.

/// One row of a table and of a reference page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReasonDescription {
    /// The CamelCase word.
    pub reason: &'static str,
    /// Where it appears: conditions as `Kind/Type`, events as `event on Kind`, findings by the kind
    /// of their object.
    pub place: &'static str,
    /// What it means.
    pub meaning: &'static str,
    /// What to do about it, as a clause; empty where nothing is wrong.
    pub fix: &'static str,
}

/// Makes an enum of reasons from their table.
macro_rules! reasons {
    (
        $(#[$attribute:meta])*
        pub enum $enum:ident;
        $($name:ident: $place:literal, $meaning:literal, $fix:literal;)+
    ) => {
        $(#[$attribute])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[allow(missing_docs, reason = "each has its meaning in the table")]
        pub enum $enum {
            $($name,)+
        }

        impl $enum {
            /// All of them, in the order of the reference page.
            pub const ALL: &[Self] = &[$(Self::$name,)+];

            /// As the API and `check` show it.
            pub const fn as_str(self) -> &'static str {
                self.description().reason
            }

            /// What to do about it, as a clause.
            pub const fn fix(self) -> &'static str {
                self.description().fix
            }

            /// Its row in the table.
            pub const fn description(self) -> $crate::findings::reasons::ReasonDescription {
                let (reason, place, meaning, fix) = match self {
                    $(Self::$name => (stringify!($name), $place, $meaning, $fix),)+
                };
                $crate::findings::reasons::ReasonDescription { reason, place, meaning, fix }
            }
        }

        impl From<$enum> for $crate::findings::reasons::ReasonDescription {
            fn from(reason: $enum) -> Self {
                reason.description()
            }
        }
    };
}
