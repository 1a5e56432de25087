//! What tenants used, by the hour.
//!
//! A [`Ledger`] is told of each call, run and compile, and adds up in memory. [`Ledger::flush`] adds that to
//! what its folder has: a file for each hour, which is replaced whole, so that a kill at any moment loses
//! what came since the last flush and nothing else.
#![forbid(unsafe_code)]

mod amounts;
mod error;
mod export;
mod folder;
mod hour;
mod ledger;
mod table;

pub use amounts::{Amounts, NAMES};
pub use error::UsageError;
pub use hour::{Hour, NoHour};
pub use ledger::{Ledger, LedgerConfig, Query, Stats, UsagePage};
pub use table::{NO_TENANT, OTHERS, UNPROVEN, UsageRow, csv, json};
