//! An empty library: this package exists for its dependencies.
