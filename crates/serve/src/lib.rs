//! What both services share: listener, health, reflection, metrics, tracing, drain, configuration.
