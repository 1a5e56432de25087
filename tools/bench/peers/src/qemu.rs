//! qemu's user emulation, running the ELF that we compile: its exit system call and its initial stack are
//! compatible with Linux.

use std::{fs, path::PathBuf, process::Command, time::Duration};

use anyhow::{Context, Result, ensure};
use nix::sys::{
    resource::{UsageWho, getrusage},
    time::TimeValLike,
};

use crate::Peer;

pub(crate) struct Program {
    path: PathBuf,
}

impl Program {
    pub(crate) fn new(elf: &[u8]) -> Result<Self> {
        let path = std::env::temp_dir().join(format!("antares-peers-{}", std::process::id()));
        fs::write(&path, filled(elf.to_vec()).context("a 64-bit ELF")?)?;
        use std::os::unix::fs::PermissionsExt;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o700))?;
        let version = Command::new("qemu-riscv64").arg("--version").output().context("qemu-riscv64")?;
        ensure!(version.status.success(), "qemu-riscv64 --version: {}", version.status);
        Ok(Self { path })
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // A leftover in the temporary folder is harmless.
        let _ = fs::remove_file(&self.path);
    }
}

impl Peer for Program {
    fn run(&mut self, repetitions: u32) -> Result<(i32, Duration)> {
        // Scripts expect no program name before their arguments, so the number replaces argv[0].
        let before = children_time()?;
        let status =
            Command::new("qemu-riscv64").arg("-0").arg(repetitions.to_string()).arg(&self.path).status()?;
        let time = children_time()?.saturating_sub(before);
        Ok((status.code().context("qemu was killed")?, time))
    }
}

/// Processor time of the children that have exited.
fn children_time() -> Result<Duration> {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN)?;
    let micros = usage.user_time().num_microseconds() + usage.system_time().num_microseconds();
    Ok(Duration::from_micros(micros.unsigned_abs()))
}

/// The ELF with its zero-initialised memory in the file. qemu 7 does not start files whose data segment is
/// shorter in the file than in memory, unless it ends at a page boundary.
fn filled(mut elf: Vec<u8>) -> Option<Vec<u8>> {
    let number = |elf: &[u8], at: usize| {
        usize::try_from(u64::from_le_bytes(*elf.get(at..)?.first_chunk()?)).ok()
    };
    let headers = number(&elf, 32)?;
    let count = usize::from(u16::from_le_bytes(*elf.get(56..)?.first_chunk()?));
    for header in (0..count).map(|index| headers + 56 * index) {
        let (offset, in_file, in_memory) =
            (number(&elf, header + 8)?, number(&elf, header + 32)?, number(&elf, header + 40)?);
        // A LOAD segment, no larger than guest memory.
        if elf.get(header..)?.first()? != &1 || in_file >= in_memory || in_memory > 4 << 20 {
            continue;
        }
        let data = elf.get(offset..offset + in_file)?.to_vec();
        let start = elf.len().next_multiple_of(4096);
        elf.resize(start, 0);
        elf.extend(data);
        elf.resize(start + in_memory, 0);
        elf[header + 8..header + 16].copy_from_slice(&(start as u64).to_le_bytes());
        elf[header + 32..header + 40].copy_from_slice(&(in_memory as u64).to_le_bytes());
    }
    Some(elf)
}
