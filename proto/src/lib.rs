//! The wire contract antares.v1: proto files and the types generated from them. No logic.
