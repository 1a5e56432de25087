//! Both services over real gRPC on the loopback, with real workers and a store in a temporary directory.
#![forbid(unsafe_code)]

mod guest;
mod node;
mod profiles;
mod pushes;
mod reflection;
mod services;
mod tiers;
mod trouble;
