//! Which VM of a script group was made by what: the contexts that sampled stacks of spawned and exec'd
//! programs stand on. They are numbered as exact profiles number them.

use std::collections::BTreeMap;

use crate::recording::{ROOT, Recording, StackLocation};

/// The VMs of one script group.
#[derive(Debug, Default)]
pub(crate) struct Lineage {
    /// By the number of the VM: what its stacks stand on. Each has cost its loading, so they are as many as
    /// cycles allow.
    roots: BTreeMap<u64, u32>,
    /// The VM that ran last.
    last: Option<u64>,
    /// The instruction by which it asked for a program, if native code did.
    site: Option<u32>,
    spawns: u32,
    execs: u32,
}

impl Lineage {
    /// What stacks of this VM stand on.
    pub(crate) fn root(&self, vm: u64) -> u32 {
        self.roots.get(&vm).copied().unwrap_or(ROOT)
    }

    /// A VM runs from now on.
    pub(crate) fn run(&mut self, vm: u64) {
        self.last = Some(vm);
    }

    /// The VM that runs asks for a program at `site`, or has not got it.
    pub(crate) fn request_program(&mut self, site: Option<u32>) {
        self.site = site;
    }

    /// A program was loaded into a VM: the first one, one in place of another, or one that the last VM has
    /// spawned. Its caller is unknown where the interpreter ran that: then it stands on what its caller
    /// stands on.
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
        // The child is interpreted and spawns one, and then is replaced itself.
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
        // A call that fails is nobody's caller.
        lineage.run(0);
        lineage.request_program(Some(lineage.root(2)));
        lineage.request_program(None);
        lineage.load(3, &mut recording);
        assert_eq!(addresses(&recording, lineage.root(3)), [StackLocation::Spawn(3)]);
    }
}
