//! What crosses crates: guests, filetests, differential, conformance, escapes, scenarios.
