//! Sizes: beside an HPA, without one, by a schedule, after a wake and after management ended; the
//! learned target.

mod beside_hpa;
mod learned_target;
mod other_writers;
mod paused;
mod schedules;
mod unmanaged;
mod user_written;
mod wake_checks;
mod wakes;
