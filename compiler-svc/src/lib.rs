//! The gRPC compile service: ask the cache, else lend a compile worker, store, answer.
