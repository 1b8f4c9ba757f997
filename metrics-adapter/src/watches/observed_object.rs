//! ObservedObject: what a watch of a single object has seen so far.

/// The newest state of one object, which may not exist.
#[derive(Clone, Debug, Default)]
pub enum ObservedObject<T> {
    /// The first list has not come yet.
    #[default]
    Unlisted,
    /// The API server has no such object.
    Missing,
    /// The object as last seen.
    Present(Box<T>),
}

// === impl ObservedObject ===

impl<T> From<Option<T>> for ObservedObject<T> {
    fn from(object: Option<T>) -> Self {
        object.map_or(Self::Missing, |object| Self::Present(Box::new(object)))
    }
}
