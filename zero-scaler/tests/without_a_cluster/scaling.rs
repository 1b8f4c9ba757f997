//! Sizes: beside an HPA, without one, after a wake and after management ended; the learned
//! target.

mod beside_hpa;
mod learned_target;
mod unmanaged;
mod user_written;
mod wakes;
