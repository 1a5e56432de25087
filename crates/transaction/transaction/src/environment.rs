//! The consensus rules for a transaction: the hard forks, and the epoch of its commitment.

use ckb_types::core::{
    EpochNumber, ScriptHashType,
    hardfork::{CKB2021, CKB2023, HardForks},
};

/// The hard forks and the epoch of the block that commits the transaction. By default, all hard forks are
/// active from the beginning, as on a new development chain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Environment {
    /// First epoch in which VM version 1 runs.
    pub vm_1_epoch: EpochNumber,
    /// First epoch in which VM version 2 runs.
    pub vm_2_epoch: EpochNumber,
    /// Epoch of the block.
    pub epoch: EpochNumber,
}

impl Environment {
    /// The main network at `epoch`.
    #[must_use]
    pub fn mainnet(epoch: EpochNumber) -> Self {
        let HardForks { ckb2021, ckb2023 } = HardForks::new_mirana();
        Self {
            vm_1_epoch: ckb2021.vm_version_1_and_syscalls_2(),
            vm_2_epoch: ckb2023.vm_version_2_and_syscalls_3(),
            epoch,
        }
    }

    /// An environment whose newest VM version is `vm_version` (0, 1, or 2 and more). Scripts referenced by a
    /// type hash run in that version. Scripts referenced by a data hash specify their version, and fail if it
    /// is not active. Equivalent to ckb-debugger's `--script-version`.
    #[must_use]
    pub fn of_version(vm_version: u32) -> Self {
        Self { vm_1_epoch: 1, vm_2_epoch: 2, epoch: EpochNumber::from(vm_version.min(2)) }
    }

    /// The newest active VM version.
    #[must_use]
    pub fn vm_version_latest(&self) -> u32 {
        match self.epoch {
            epoch if epoch >= self.vm_2_epoch => 2,
            epoch if epoch >= self.vm_1_epoch => 1,
            _ => 0,
        }
    }

    /// The VM version of a script with this `hash_type`; `None` if such a script fails.
    #[must_use]
    pub fn vm_version(&self, hash_type: ScriptHashType) -> Option<u32> {
        let latest = self.vm_version_latest();
        match hash_type {
            ScriptHashType::Data => Some(0),
            ScriptHashType::Data1 => (self.epoch >= self.vm_1_epoch).then_some(1),
            ScriptHashType::Data2 => (self.epoch >= self.vm_2_epoch).then_some(2),
            ScriptHashType::Type => Some(latest),
            _ => None,
        }
    }

    /// The hard forks as ckb's type.
    #[must_use]
    pub fn hard_forks(&self) -> HardForks {
        // Only the VM's forks affect scripts; the others are those of the main network.
        let vm_1 = CKB2021::new_mirana().as_builder().rfc_0032(self.vm_1_epoch).build();
        let vm_2 = CKB2023::new_mirana().as_builder().rfc_0049(self.vm_2_epoch).build();
        HardForks {
            ckb2021: vm_1.expect("the builder has all fields of another instance"),
            ckb2023: vm_2.expect("the builder has all fields of another instance"),
        }
    }
}
