//! Services: with and without a selector, and what a change of it moves.

mod made_managed;
mod selectors;
