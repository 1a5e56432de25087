//! Random transactions with many processes: drawn from a seed, run in every tier and by ckb-script itself,
//! compared.
//!
//! ```text
//! draw      a seed      -> Scenario: orders for actors, and their environment
//! Scenario  mock        -> a transaction: its cells hold the images, its first witness the orders
//! compare   a Scenario  -> the common verdict, or the first difference
//! Campaign  run         -> a Tally, and a scenario that differs
//! ```
//! One guest, the actor (`tests/guests/actor`), does all work; it reads its orders at run time. So a few
//! images with different segments are compiled once, and tens of thousands of scenarios run on them.

mod campaign;
mod compare;
mod draw;
mod images;
mod layouts;
mod lines;
mod loaded;
mod minimise;
mod orders;
mod phrases;
mod processes;
mod scenario;
mod tally;

pub use campaign::{Campaign, Different};
pub use compare::{Agreed, Difference, Generator, Verdict, compare, oracle};
pub use draw::draw;
pub use images::{Image, Images};
pub use minimise::minimise;
pub use orders::{Order, Verb};
pub use scenario::{Cell, Group, Limit, Scenario};
pub use tally::Tally;
