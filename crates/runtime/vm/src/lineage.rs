//! How each VM of a script group was created: the contexts below the sampled stacks of spawned and exec'd
//! programs. Their numbering equals that of exact profiles.

use std::collections::BTreeMap;

use crate::recording::{ROOT, Recording, StackLocation};

#[derive(Debug, Default)]
pub(crate) struct Lineage {
    /// By VM number, the context below its stacks. Loading a VM costs cycles, so the cycle limit bounds their
    /// number.
    roots: BTreeMap<u64, u32>,
    /// The VM that ran last.
    last: Option<u64>,
    /// The call site of a pending request for a program, if native code made it.
    site: Option<u32>,
    spawns: u32,
    execs: u32,
}

impl Lineage {
    /// The context below the stacks of this VM.
    pub(crate) fn root(&self, vm: u64) -> u32 {
        self.roots.get(&vm).copied().unwrap_or(ROOT)
    }

    /// Records which VM runs from now on.
    pub(crate) fn run(&mut self, vm: u64) {
        self.last = Some(vm);
    }

    /// Records that the running VM requests a program at `site`, or with `None` that the request is over.
    pub(crate) fn request_program(&mut self, site: Option<u32>) {
        self.site = site;
    }

    /// Records that a program was loaded into a VM: the first program, a replacement, or a VM that the last
    /// VM spawned. If the interpreter made the request, its call site is unknown, and the program's root is
    /// the requester's root.
    pub(crate) fn load(&mut self, vm: u64, recording: &mut Recording) {
        let site = self.site.take();
        let place = match (self.roots.contains_key(&vm), self.last) {
            (true, _) => {
                self.execs += 1;
                StackLocation::Exec(self.execs)
            }
            (false, Some(_)) => {
                self.spawns += 1;
                StackLocation::Spawn(self.spawns)
            }
            (false, None) => {
                self.roots.insert(vm, ROOT);
                return;
            }
        };
        let below = site.or(self.last.map(|last| self.root(last))).unwrap_or(ROOT);
        self.roots.insert(vm, recording.context(below, place).0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(recording: &Recording, mut at: u32) -> Vec<StackLocation> {
        let mut addresses = Vec::new();
        while at != ROOT {
            let context = recording.contexts()[at as usize];
            addresses.push(context.place);
            at = context.parent;
        }
        addresses
    }

    #[test]
    fn programs_stand_on_the_call_that_made_them() {
        let (mut lineage, mut recording) = (Lineage::default(), Recording::default());
        lineage.load(0, &mut recording);
        assert_eq!(lineage.root(0), ROOT);
        lineage.run(0);
        let code = StackLocation::Code { program: 0, pc: 0x100 };
        lineage.request_program(Some(recording.context(ROOT, code).0));
        lineage.load(1, &mut recording);
        assert_eq!(addresses(&recording, lineage.root(1)), [StackLocation::Spawn(1), code]);
        // The interpreted child spawns a VM, and then is replaced itself.
        lineage.run(1);
        lineage.load(2, &mut recording);
        assert_eq!(
            addresses(&recording, lineage.root(2)),
            [StackLocation::Spawn(2), StackLocation::Spawn(1), code]
        );
        lineage.load(1, &mut recording);
        assert_eq!(
            addresses(&recording, lineage.root(1)),
            [StackLocation::Exec(1), StackLocation::Spawn(1), code]
        );
        // A failed request is not a call site.
        lineage.run(0);
        lineage.request_program(Some(lineage.root(2)));
        lineage.request_program(None);
        lineage.load(3, &mut recording);
        assert_eq!(addresses(&recording, lineage.root(3)), [StackLocation::Spawn(3)]);
    }
}
