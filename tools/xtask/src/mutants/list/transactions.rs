//! Mutants that only whole transactions detect.

use super::{Campaign, Mutant};

const MEMORY: &str = "crates/runtime/vm/src/memory.rs";
const SOURCES: &str = "crates/runtime/vm/src/sources.rs";
const HOST: &str = "crates/runtime/vm/src/host.rs";

const fn mutant(name: &'static str, file: &'static str, from: &'static str, to: &'static str) -> Mutant {
    Mutant { name, file, from, to, campaign: Campaign::Transactions }
}

/// Bugs found in use: each changed the verdict of a transaction.
pub(super) const VERDICTS: [Mutant; 9] = [
    mutant(
        "exec-unprotects-loaded-code",
        HOST,
        "            return Some(Attempted::Outdated);\n",
        "            self.vm.inner_mut().unprotect();\n",
    ),
    mutant(
        "zeroed-pages-not-marked",
        MEMORY,
        "if filled.has(page) || bytes != ZEROS {",
        "if bytes != ZEROS {",
    ),
    Mutant {
        name: "loaded-data-has-no-source",
        file: "crates/runtime/vm/src/code.rs",
        from: "        vm.inner_mut().fill(data);\n",
        to: "        let _ = data;\n",
        campaign: Campaign::Test(["conformance", "verdicts::pages_that_were_zeroed_come_back_as_zeros"]),
    },
    mutant(
        "segments-over-segments",
        SOURCES,
        "if !taken.and(pages).is_empty() {",
        "if false && !taken.and(pages).is_empty() {",
    ),
    mutant(
        "arguments-over-segments",
        SOURCES,
        "filled.and(arguments).is_empty().then_some(filled)",
        "(filled.and(arguments).is_empty() || true).then_some(filled)",
    ),
    mutant(
        "long-traces-are-native",
        "crates/engine/program/src/assemble.rs",
        "if self.options.isa.has(Isa::MOP) && is_overlong",
        "if false && is_overlong",
    ),
    mutant(
        "pages-not-marked-at-all",
        MEMORY,
        "            self.machine.flags[page] |= FLAG_DIRTY;\n",
        "            let _ = page;\n",
    ),
    mutant(
        "old-machine-is-parked-after-an-exec",
        "crates/runtime/vm/src/parked.rs",
        "        if self.is_open() && lots.machines.contains(&(id, machine)) {\n            debug_assert",
        "        if self.is_open() {\n            debug_assert",
    ),
    mutant(
        "parked-vm-comes-back-without-its-memory",
        "crates/runtime/vm/src/aside.rs",
        "                *self.vm.machine.inner_mut() = *core;\n",
        "                drop(core);\n",
    ),
];
