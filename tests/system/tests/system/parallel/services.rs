//! Services: with and without a selector, and what a change of it moves.

mod adopted;
mod made_managed;
mod selectors;
