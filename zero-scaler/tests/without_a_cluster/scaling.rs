//! Sizes: beside an HPA, without one, after a wake and after management ended.

mod beside_hpa;
mod unmanaged;
mod user_written;
mod wakes;
