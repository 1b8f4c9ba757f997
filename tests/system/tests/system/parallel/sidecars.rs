//! Sidecars: what a pod gets by admission, and rollouts that change it.

mod admission;
mod mode_switch;
mod ports;
