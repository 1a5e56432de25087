//! The machine description for gdb: registers, and no operating system. With an operating system, gdb would
//! step by its own breakpoints, which miss instructions that ckb-vm fuses.

use gdbstub::{
    arch::Arch as _,
    target::{TargetError, TargetResult, ext::target_description_xml_override::TargetDescriptionXmlOverride},
};
use gdbstub_arch::riscv::Riscv64;

use super::{Session, part};

const TARGET: &str = r#"<?xml version="1.0"?>
<!DOCTYPE target SYSTEM "gdb-target.dtd">
<target version="1.0">
<architecture>riscv:rv64</architecture>
<osabi>none</osabi>
<xi:include href="cpu.xml"/>
</target>
"#;

impl TargetDescriptionXmlOverride for Session {
    fn target_description_xml(
        &self,
        annex: &[u8],
        offset: u64,
        length: usize,
        into: &mut [u8],
    ) -> TargetResult<usize, Self> {
        let text = match annex {
            b"target.xml" => TARGET,
            b"cpu.xml" => Riscv64::target_description_xml().ok_or(TargetError::NonFatal)?,
            _ => return Err(TargetError::NonFatal),
        };
        Ok(part(text.as_bytes(), (offset, length), into))
    }
}
