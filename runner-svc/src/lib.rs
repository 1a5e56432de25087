//! The gRPC run service: fetch the artifact, lend a run worker, answer with the outcome.
