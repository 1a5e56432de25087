//! IR to LLVM to object to shared object. The only crate that knows LLVM.
