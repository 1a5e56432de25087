//! The host of a script: files by artificial numbers, the standard streams, time, random numbers, and the input
//! file.

use std::{
    collections::HashMap,
    fs,
    io::{self, Read as _, Write as _},
    mem,
    path::PathBuf,
    time::{SystemTime, UNIX_EPOCH},
};

use antares_hosted::job::{HOST_CALL_BYTES_MAX, HostAnswer, HostCall};
use antares_profile_view::DebuggerNames;

use super::{lines::say, paths::Allowed, streams::Streams};

/// Bytes of the guest's `struct stat`.
const STAT_BYTES: usize = 128;
/// Offsets of its mode, number of links and block size.
const STAT_MODE: usize = 16;
const STAT_LINKS: usize = 20;
const STAT_BLOCK: usize = 56;

/// The host of one run.
#[derive(Debug)]
pub(crate) struct Host {
    pub(crate) allowed: Allowed,
    pub(crate) streams: Streams,
    /// The script's input.
    pub(crate) input: Option<Vec<u8>>,
    /// Path for an ELF dump, if the script requests one.
    pub(crate) dump: Option<PathBuf>,
    /// Number of input bytes that each VM has read.
    read: HashMap<u64, usize>,
    /// Which standard streams are open.
    standard: [bool; 3],
    /// The observed program.
    pub(crate) watched: Option<Vec<u8>>,
}

impl Host {
    pub(crate) fn new(allowed: Allowed, input: Option<Vec<u8>>, dump: Option<PathBuf>) -> Self {
        let (streams, read) = (Streams::default(), HashMap::new());
        Self { allowed, streams, input, dump, read, standard: [true; 3], watched: None }
    }

    /// Serves a script's request.
    pub(crate) fn answer(&mut self, call: HostCall) -> HostAnswer {
        let value = |value| HostAnswer { value, ..HostAnswer::default() };
        let filled = |(value, bytes)| HostAnswer { value, bytes, error: None };
        let truth = |is_so| value(if is_so { 0 } else { -1 });
        let Self { allowed, streams, .. } = self;
        match call {
            HostCall::Close(number) => value(self.close(number)),
            HostCall::Seek(number, ..) => {
                // Standard streams may be files, but their position is not a script's concern.
                complain(if self.is_open(number) { "ESPIPE" } else { "EBADF" });
                value(-1)
            }
            HostCall::Read(number, bytes) => filled(self.read_standard(number, bytes)),
            HostCall::Write(number, bytes) => value(self.write_standard(number, &bytes)),
            HostCall::Stat(number) => filled(self.stat(number)),
            HostCall::Input(vm, bytes) => filled(self.input(vm, bytes)),
            HostCall::Time => {
                let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
                value(i64::try_from(now).unwrap_or(i64::MAX))
            }
            HostCall::Random => value(random()),
            HostCall::Open(path, mode, replaced) => {
                value(streams.open(allowed, (&path, &mode), replaced).cast_signed())
            }
            HostCall::ReadStream(stream, size, items) => filled(streams.read(stream, size, items)),
            HostCall::IsAtEnd(stream) => value(streams.is_at_end(stream)),
            HostCall::HasFailed(stream) => value(streams.has_failed(stream)),
            HostCall::Next(stream) => value(streams.next(stream)),
            HostCall::CloseStream(stream) => value(streams.close(stream)),
            HostCall::Tell(stream) => value(streams.position(stream)),
            HostCall::SeekStream(stream, offset, whence) => value(streams.seek(stream, offset, whence)),
            HostCall::WriteStream(stream, size, bytes) => value(streams.write(stream, size, &bytes)),
            HostCall::WriteFile(path, bytes) => truth(streams.write_file(allowed, &path, &bytes)),
            HostCall::Dump(elf) => self.dump(&elf),
            HostCall::Functions(elf) => self.functions(elf),
        }
    }

    fn is_open(&self, number: i32) -> bool {
        usize::try_from(number).is_ok_and(|number| self.standard.get(number) == Some(&true))
    }

    fn close(&mut self, number: i32) -> i64 {
        let standard = usize::try_from(number).ok().and_then(|number| self.standard.get_mut(number));
        if standard.is_some_and(mem::take) { 0 } else { complain("EBADF") }
    }

    fn read_standard(&self, number: i32, bytes: u64) -> (i64, Vec<u8>) {
        if number != 0 || !self.is_open(number) {
            return (complain("EBADF"), Vec::new());
        }
        let mut buffer = vec![0; usize::try_from(bytes.min(HOST_CALL_BYTES_MAX)).unwrap_or(0)];
        match io::stdin().lock().read(&mut buffer) {
            Ok(read) => {
                buffer.truncate(read);
                (i64::try_from(read).unwrap_or(-1), buffer)
            }
            Err(_) => (complain("EIO"), Vec::new()),
        }
    }

    fn write_standard(&self, number: i32, bytes: &[u8]) -> i64 {
        let flushed = |mut to: Box<dyn io::Write>| to.write_all(bytes).and_then(|()| to.flush());
        let written = match number {
            1 if self.is_open(number) => flushed(Box::new(io::stdout().lock())),
            2 if self.is_open(number) => flushed(Box::new(io::stderr().lock())),
            _ => return complain("EBADF"),
        };
        if written.is_ok() { i64::try_from(bytes.len()).unwrap_or(-1) } else { complain("EPIPE") }
    }

    /// Describes a standard stream as a character device or a pipe, without further details.
    fn stat(&self, number: i32) -> (i64, Vec<u8>) {
        const CHARACTERS: u32 = 0o020_620;
        if !self.is_open(number) {
            return (complain("EBADF"), Vec::new());
        }
        let mut stat = vec![0; STAT_BYTES];
        stat[STAT_MODE..][..4].copy_from_slice(&CHARACTERS.to_le_bytes());
        stat[STAT_LINKS..][..4].copy_from_slice(&1_u32.to_le_bytes());
        stat[STAT_BLOCK..][..4].copy_from_slice(&1024_u32.to_le_bytes());
        (0, stat)
    }

    /// The next bytes of the input, which each VM reads from its start; -1 at its end.
    fn input(&mut self, vm: u64, bytes: u64) -> (i64, Vec<u8>) {
        let content = self.input.as_deref().unwrap_or_default();
        let at = self.read.entry(vm).or_default();
        let rest = content.get(*at..).unwrap_or_default();
        let part = &rest[..rest.len().min(usize::try_from(bytes).unwrap_or(usize::MAX))];
        *at += part.len();
        let count = if part.is_empty() { -1 } else { i64::try_from(part.len()).unwrap_or(-1) };
        (count, part.to_vec())
    }

    fn dump(&self, elf: &[u8]) -> HostAnswer {
        let error = self.dump.as_deref().and_then(|path| fs::write(path, elf).err());
        let error = error.map(|error| error.to_string());
        HostAnswer { error, ..HostAnswer::default() }
    }

    fn functions(&mut self, elf: Vec<u8>) -> HostAnswer {
        let names = DebuggerNames::of(&elf);
        let words = [names.sbrk, names.heap].into_iter().chain(names.starts);
        let bytes = words.flat_map(u64::to_le_bytes).collect();
        self.watched = Some(elf);
        HostAnswer { bytes, ..HostAnswer::default() }
    }
}

/// Prints an error about a descriptor like the original, and returns the call's result.
fn complain(what: &str) -> i64 {
    say(format_args!("Error: {what}"));
    -1
}

/// An unpredictable number.
fn random() -> i64 {
    use std::hash::{BuildHasher as _, RandomState};
    RandomState::new().hash_one(SystemTime::now()).cast_signed()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_vm_reads_the_input_from_its_beginning() {
        let mut host = Host::new(Allowed::default(), Some(b"abcd".to_vec()), None);
        let mut read = |vm, bytes| {
            let answer = host.answer(HostCall::Input(vm, bytes));
            (answer.value, answer.bytes)
        };
        assert_eq!(read(0, 3), (3, b"abc".to_vec()));
        assert_eq!(read(1, u64::MAX), (4, b"abcd".to_vec()));
        assert_eq!(read(0, 3), (1, b"d".to_vec()));
        assert_eq!(read(0, 3), (-1, Vec::new()));
    }

    #[test]
    fn descriptors_are_the_three_and_no_others() {
        let mut host = Host::new(Allowed::default(), None, None);
        let mut value = |call| host.answer(call).value;
        assert_eq!(value(HostCall::Stat(1)), 0);
        assert_eq!(value(HostCall::Close(1)), 0);
        assert_eq!(value(HostCall::Close(1)), -1);
        assert_eq!(value(HostCall::Write(1, b"never seen".to_vec())), -1);
        for number in [-1, 3, 4, 100, i32::MAX] {
            assert_eq!(value(HostCall::Stat(number)), -1);
            assert_eq!(value(HostCall::Read(number, 1)), -1);
            assert_eq!(value(HostCall::Close(number)), -1);
        }
        assert_eq!(value(HostCall::Seek(0, 0, 0)), -1);
    }
}
