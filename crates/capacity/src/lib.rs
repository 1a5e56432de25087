//! How many calls a cluster answers, and what a load needs: a simulation of callers, runners and compilers,
//! and the advice that is drawn from it. Numbers in, numbers out; no IO.
#![forbid(unsafe_code)]
#![allow(clippy::cast_precision_loss, reason = "counts of machines and calls")]

mod advice;
mod simulation;
mod times;

pub use advice::{Advice, AdviceError, Busy, Demand, FULL, PODS_MAX, Spread, advise};
pub use simulation::{ClusterLoad, ClusterPlan, SimulatedTimes, simulate};
pub use times::{Measured, Times};
