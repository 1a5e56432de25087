//! The VMs' programs as files for gdb's symbols. There are no other files.
//!
//! gdb has one address space, but programs of several VMs have the same addresses. So only the program of the
//! stopped VM is reported, as a library.

use std::{collections::BTreeMap, fmt::Write as _};

use bytes::Bytes;
use gdbstub::{
    common::Pid,
    target::{
        TargetResult,
        ext::{
            exec_file::ExecFile,
            host_io::{
                FsKind, HostIo, HostIoClose, HostIoCloseOps, HostIoErrno, HostIoError, HostIoFstat,
                HostIoFstatOps, HostIoOpen, HostIoOpenFlags, HostIoOpenMode, HostIoOpenOps, HostIoPread,
                HostIoPreadOps, HostIoResult, HostIoSetfs, HostIoSetfsOps, HostIoStat,
            },
            libraries::Libraries,
        },
    },
};

use object::{Object as _, ObjectSection as _, SectionFlags, elf::SHF_ALLOC};

use super::{Session, part};
use crate::session::loaded::segments;

/// The program of the first VM; gdb may have it as a file.
const FIRST: usize = 0;
/// The executable for a gdb without a file, which gets all programs as libraries: only an ELF header.
const EMPTY: &str = "/none.elf";
/// Maximum files that gdb has open.
const OPEN_MAX: u32 = 64;

/// The files that gdb has open.
#[derive(Debug)]
pub(super) struct Files {
    open: BTreeMap<u32, Bytes>,
    /// Whether gdb has the script as a file.
    has_file: bool,
}

impl Files {
    pub(super) fn new(has_file: bool) -> Self {
        Self { open: BTreeMap::new(), has_file }
    }

    fn get<E>(&self, fd: u32) -> Result<&Bytes, HostIoError<E>> {
        self.open.get(&fd).ok_or(HostIoError::Errno(HostIoErrno::EBADF))
    }
}

/// The name of a program.
fn name(number: usize) -> String {
    format!("/script-{number}.elf")
}

/// The name of a file from which code was loaded at this address.
fn loaded_name(address: u64) -> String {
    format!("/loaded-{address:x}.elf")
}

/// Adds a library with its first segment's address to a list.
fn add(list: &mut String, name: &str, elf: &[u8], address: u64) {
    let Some((first, last)) = segments(elf).next().zip(segments(elf).last()) else { return };
    let places: String = match last.address.checked_add(last.bytes).is_some_and(|end| end >= first.address) {
        true => format!("<segment address=\"{address:#x}\"/>"),
        // gdb 13 crashes if the last segment precedes the first, so list sections instead.
        false => {
            let Ok(file) = object::File::parse(elf) else { return };
            let is_loaded = |section: &object::Section<'_, '_>| match section.flags() {
                SectionFlags::Elf { sh_flags, .. } => sh_flags.0 & SHF_ALLOC.0 != 0,
                _ => false,
            };
            let moved = address.wrapping_sub(first.address);
            let loaded = file.sections().filter(is_loaded);
            loaded
                .map(|section| format!("<section address=\"{:#x}\"/>", section.address().wrapping_add(moved)))
                .collect()
        }
    };
    if !places.is_empty() {
        // Writing to a string does not fail.
        let _ = write!(list, "<library name=\"{name}\">{places}</library>");
    }
}

impl Session {
    fn named(&self, path: &[u8]) -> Option<Bytes> {
        let path = std::str::from_utf8(path).ok()?;
        if path == EMPTY {
            return Some(Bytes::from(empty()));
        }
        if path.starts_with("/loaded-") {
            let loaded = self.debuggee.loaded(self.listed.0).into_iter();
            return loaded.rev().find(|file| loaded_name(file.address) == path).map(|file| file.elf);
        }
        let number = path.strip_prefix("/script-")?.strip_suffix(".elf")?.parse().ok()?;
        self.debuggee.program_at(number)
    }
}

impl ExecFile for Session {
    fn get_exec_file(
        &self,
        _pid: Option<Pid>,
        offset: u64,
        length: usize,
        into: &mut [u8],
    ) -> TargetResult<usize, Self> {
        // A gdb with a file may ask for it, too.
        let name = if self.files.has_file { name(FIRST) } else { EMPTY.to_owned() };
        Ok(part(name.as_bytes(), (offset, length), into))
    }
}

impl Libraries for Session {
    /// The program of the reported VM and its loaded code, with their addresses.
    fn get_libraries(&self, offset: u64, length: usize, into: &mut [u8]) -> TargetResult<usize, Self> {
        let mut list = String::from("<library-list>");
        let has_none = !self.files.has_file;
        if let Some(number) = self.debuggee.stops.program.filter(|number| has_none || *number != FIRST)
            && let Some(elf) = self.debuggee.program_at(number)
            && let Some(segment) = segments(&elf).next()
        {
            add(&mut list, &name(number), &elf, segment.address);
        }
        for file in self.debuggee.loaded(self.listed.0) {
            add(&mut list, &loaded_name(file.address), &file.elf, file.address);
        }
        list.push_str("</library-list>");
        Ok(part(list.as_bytes(), (offset, length), into))
    }
}

/// An ELF header for this machine without content.
fn empty() -> Vec<u8> {
    const HEAD_BYTES: u8 = 64;
    let mut elf = vec![0; usize::from(HEAD_BYTES)];
    // 64 bits, little endian, version 1.
    elf[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
    // Executable, RISC-V, version 1; sizes of the header, of a segment entry and of a section entry.
    (elf[16], elf[18], elf[20]) = (2, 243, 1);
    (elf[52], elf[54], elf[58]) = (HEAD_BYTES, 56, 64);
    elf
}

impl HostIo for Session {
    fn support_open(&mut self) -> Option<HostIoOpenOps<'_, Self>> {
        Some(self)
    }

    fn support_close(&mut self) -> Option<HostIoCloseOps<'_, Self>> {
        Some(self)
    }

    fn support_pread(&mut self) -> Option<HostIoPreadOps<'_, Self>> {
        Some(self)
    }

    fn support_fstat(&mut self) -> Option<HostIoFstatOps<'_, Self>> {
        Some(self)
    }

    fn support_setfs(&mut self) -> Option<HostIoSetfsOps<'_, Self>> {
        Some(self)
    }
}

impl HostIoOpen for Session {
    fn open(
        &mut self,
        path: &[u8],
        flags: HostIoOpenFlags,
        _mode: HostIoOpenMode,
    ) -> HostIoResult<u32, Self> {
        if flags.intersects(HostIoOpenFlags::O_WRONLY | HostIoOpenFlags::O_RDWR) {
            return Err(HostIoError::Errno(HostIoErrno::EROFS));
        }
        let file = self.named(path).ok_or(HostIoError::Errno(HostIoErrno::ENOENT))?;
        let free = (0..OPEN_MAX).find(|fd| !self.files.open.contains_key(fd));
        let free = free.ok_or(HostIoError::Errno(HostIoErrno::EMFILE))?;
        self.files.open.insert(free, file);
        Ok(free)
    }
}

impl HostIoClose for Session {
    fn close(&mut self, fd: u32) -> HostIoResult<(), Self> {
        self.files.open.remove(&fd).map(drop).ok_or(HostIoError::Errno(HostIoErrno::EBADF))
    }
}

impl HostIoPread for Session {
    fn pread(&mut self, fd: u32, count: usize, offset: u64, into: &mut [u8]) -> HostIoResult<usize, Self> {
        Ok(part(self.files.get(fd)?, (offset, count), into))
    }
}

impl HostIoFstat for Session {
    fn fstat(&mut self, fd: u32) -> HostIoResult<HostIoStat, Self> {
        let bytes = self.files.get(fd)?.len() as u64;
        Ok(HostIoStat {
            st_dev: 0,
            st_ino: 0,
            st_mode: HostIoOpenMode::S_IFREG | HostIoOpenMode::S_IRUSR,
            st_nlink: 1,
            st_uid: 0,
            st_gid: 0,
            st_rdev: 0,
            st_size: bytes,
            st_blksize: 4096,
            st_blocks: bytes.div_ceil(512),
            st_atime: 0,
            st_mtime: 0,
            st_ctime: 0,
        })
    }
}

impl HostIoSetfs for Session {
    fn setfs(&mut self, _filesystem: FsKind) -> HostIoResult<(), Self> {
        Ok(())
    }
}
