//! A loaded compiled script: its shared object, header and entry table.

use std::{
    collections::hash_map::RandomState,
    ffi::{c_int, c_void},
    fs::File,
    hash::{BuildHasher, Hasher},
    ops::Range,
    os::{
        fd::{AsRawFd, BorrowedFd},
        unix::fs::FileExt,
    },
    sync::atomic::{AtomicU64, Ordering},
};

use antares_abi::{
    ABI_VERSION, COUNTED_MAGIC, ENTRIES_PER_GROUP, ENTRY_PAGE_BYTES, FrameAt, FrameTable, LIBRARY_MAGIC,
    LIBRARY_SYMBOL, LibraryHeader, STORES_ANYWHERE,
};
use libloading::os::unix as dl;

use crate::{
    LibraryError,
    limits::{DIRECTORY_ENTRIES_MAX, TABLE_ENTRIES_MAX},
};

/// A loaded library. It stays loaded as long as this value lives.
#[derive(Debug)]
pub struct Library {
    /// Keeps everything below mapped.
    _object: dl::Library,
    header: LibraryHeader,
    table: *const i32,
    directory: *const u16,
    text: Range<usize>,
    frames: FrameTable,
}

// SAFETY: `table` and `directory` point to read-only data of the object that the value keeps loaded; nothing
// in it is tied to a thread.
unsafe impl Send for Library {}
// SAFETY: as for Send; all methods only read.
unsafe impl Sync for Library {}

/// One loadable segment of an object in memory.
#[derive(Clone, Debug)]
struct Segment {
    addresses: Range<usize>,
    flags: u32,
}

impl Library {
    /// Loads the shared object in `file`, for example a sealed memfd. The caller may close the descriptor
    /// afterwards.
    ///
    /// # Errors
    /// Returns [`LibraryError`] if the object is not a library of this ABI version. The content beyond the
    /// header is trusted: verify the bytes first.
    pub fn load(file: BorrowedFd<'_>) -> Result<Self, LibraryError> {
        Self::load_as(file, LIBRARY_MAGIC)
    }

    /// Loads a library whose code counts control flow, for a [counting](crate::MachineSession::counting)
    /// session. No other session uses it.
    ///
    /// # Errors
    /// Like [`Library::load`]; also refuses a library that does not count.
    pub fn load_counted(file: BorrowedFd<'_>) -> Result<Self, LibraryError> {
        Self::load_as(file, COUNTED_MAGIC)
    }

    fn load_as(file: BorrowedFd<'_>, magic: [u8; 8]) -> Result<Self, LibraryError> {
        let flags = dl::RTLD_NOW | dl::RTLD_LOCAL;
        // SAFETY: the caller verified the bytes: the object has no constructors, destructors or dependencies,
        // so loading and unloading run none of its code.
        let object = unsafe { dl::Library::open(Some(alias(file)), flags) }.map_err(LibraryError::Load)?;
        // SAFETY: the symbol is only used as an address here.
        let symbol = unsafe { object.get::<*const LibraryHeader>(LIBRARY_SYMBOL) };
        let address = symbol.map_err(LibraryError::NoHeader)?.as_raw_ptr().cast::<u8>().cast_const();
        let segments = segments_around(address as usize);
        let header = read_header(address, &segments, magic)?;
        let table = find_table(address, &header, &segments)?;
        let directory = find_directory(address, &header, &segments)?;
        let text = only_text(&segments)?;
        Ok(Self { _object: object, header, table, directory, text, frames: FrameTable::default() })
    }

    /// Reads the frame table at the end of `file`, the file of this library; profiles need it. A missing or
    /// unreadable table is not an error.
    ///
    /// # Errors
    /// Returns [`LibraryError::File`] if the file cannot be read.
    pub fn with_frames(mut self, file: &File) -> Result<Self, LibraryError> {
        let bytes = file.metadata().map_err(LibraryError::File)?.len();
        let mut tail = [0; FrameTable::TAIL_BYTES];
        let Some(place) = bytes.checked_sub(tail.len() as u64) else { return Ok(self) };
        file.read_exact_at(&mut tail, place).map_err(LibraryError::File)?;
        let Some(length) = FrameTable::length(&tail, bytes) else { return Ok(self) };
        let mut table = vec![0; length];
        file.read_exact_at(&mut table, bytes - length as u64).map_err(LibraryError::File)?;
        self.frames = FrameTable::read(table).unwrap_or_default();
        Ok(self)
    }

    /// Sets `frame` to the frame table's entry for a host address. Returns whether there is one.
    pub(crate) fn frame(&self, address: usize, frame: &mut FrameAt) -> bool {
        let place = address.checked_sub(self.text.start).and_then(|place| u32::try_from(place).ok());
        let place = place.filter(|_| address < self.text.end);
        place.is_some_and(|place| self.frames.find(place, frame))
    }

    /// VM version that the library was compiled for.
    #[must_use]
    pub fn vm_version(&self) -> u32 {
        self.header.vm_version
    }

    /// ISA flags that the library was compiled for.
    #[must_use]
    pub fn isa(&self) -> u32 {
        self.header.isa
    }

    /// Whether the code counts control flow.
    #[must_use]
    pub fn is_counted(&self) -> bool {
        self.header.magic == COUNTED_MAGIC
    }

    /// Whether each guest store is exactly one host store.
    pub(crate) fn keeps_stores(&self) -> bool {
        self.header.keeps_stores != 0
    }

    /// Whether its stores are checked against all of memory.
    pub(crate) fn stores_anywhere(&self) -> bool {
        self.header.keeps_stores == STORES_ANYWHERE
    }

    /// Host addresses of its instructions.
    pub(crate) fn text(&self) -> Range<usize> {
        self.text.clone()
    }

    /// The thunk that starts at guest address `pc`, if there is one. Valid as long as the library is loaded.
    pub(crate) fn entry(&self, pc: u64) -> Option<*const u8> {
        let offset = pc.checked_sub(self.header.table_base).filter(|offset| offset.is_multiple_of(2))?;
        let page = usize::try_from(offset / ENTRY_PAGE_BYTES).ok()?;
        if page >= self.header.directory_length as usize {
            return None;
        }
        // SAFETY: `find_directory` checked that the whole directory is aligned readable data of the object;
        // `page` is below its length.
        let group = unsafe { self.directory.add(page).read() };
        let slot = usize::try_from(offset / 2).ok()? % ENTRIES_PER_GROUP;
        let index = usize::from(group) * ENTRIES_PER_GROUP + slot;
        if index >= self.header.table_length as usize {
            return None;
        }
        // SAFETY: as for the directory, by `find_table`.
        let distance = unsafe { self.table.add(index).read() };
        let address = self.table.cast::<u8>().wrapping_offset(isize::try_from(distance).ok()?);
        let present = distance != 0 && self.text.contains(&(address as usize));
        present.then_some(address)
    }
}

/// A path to the file that no other load in this process used. The dynamic linker treats a known path as the
/// same object, and descriptor numbers are reused. So the path spells a serial number in `/` and `/.`. An
/// unpredictable number follows it, so that no library can occupy a future path.
fn alias(file: BorrowedFd<'_>) -> String {
    static SERIAL: AtomicU64 = AtomicU64::new(1);
    let mut path = "/proc/self/fd".to_owned();
    spell(SERIAL.fetch_add(1, Ordering::Relaxed), &mut path);
    // Hash table seeds come from the kernel.
    spell(RandomState::new().build_hasher().finish() | 1 << 63, &mut path);
    format!("{path}/{}", file.as_raw_fd())
}

/// Appends a number to a path without changing the file that it names.
fn spell(mut number: u64, path: &mut String) {
    while number != 0 {
        path.push_str(if number.is_multiple_of(2) { "/" } else { "/." });
        number >>= 1;
    }
}

/// The loadable segments of the object that contains `address`; empty if there is none.
fn segments_around(address: usize) -> Vec<Segment> {
    let mut search = (address, Vec::new());
    // SAFETY: the callback gets the pointer to `search`, which outlives the call, and does not retain it.
    unsafe { libc::dl_iterate_phdr(Some(visit_object), (&raw mut search).cast()) };
    search.1
}

/// Callback of `dl_iterate_phdr`: stops at the object that contains the searched address.
#[expect(clippy::cast_possible_truncation, reason = "addresses have 64 bits: lib.rs refuses other targets")]
unsafe extern "C" fn visit_object(info: *mut libc::dl_phdr_info, _size: usize, search: *mut c_void) -> c_int {
    // SAFETY: the dynamic linker passes a valid info with `dlpi_phnum` program headers, and returns our
    // pointer.
    let (info, search, headers) = unsafe {
        let info = &*info;
        let headers = std::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum));
        (info, &mut *search.cast::<(usize, Vec<Segment>)>(), headers)
    };
    let loads = headers.iter().filter(|header| header.p_type == libc::PT_LOAD);
    let segments: Vec<Segment> = loads
        .map(|header| {
            let start = (info.dlpi_addr as usize).wrapping_add(header.p_vaddr as usize);
            Segment { addresses: start..start.wrapping_add(header.p_memsz as usize), flags: header.p_flags }
        })
        .collect();
    if !segments.iter().any(|segment| segment.addresses.contains(&search.0)) {
        return 0;
    }
    search.1 = segments;
    1
}

/// Whether all `addresses` are readable data of the object.
fn is_data(segments: &[Segment], addresses: &Range<usize>) -> bool {
    segments.iter().any(|segment| {
        segment.flags & libc::PF_R != 0
            && segment.addresses.start <= addresses.start
            && addresses.end <= segment.addresses.end
    })
}

fn read_header(
    address: *const u8,
    segments: &[Segment],
    magic: [u8; 8],
) -> Result<LibraryHeader, LibraryError> {
    let start = address as usize;
    let end = start.checked_add(size_of::<LibraryHeader>()).ok_or(LibraryError::HeaderPlace)?;
    if !is_data(segments, &(start..end)) {
        return Err(LibraryError::HeaderPlace);
    }
    // SAFETY: the bytes are readable data of the loaded object, as checked above; any bytes are a valid
    // header.
    let header = unsafe { address.cast::<LibraryHeader>().read_unaligned() };
    if header.magic != magic {
        return Err(LibraryError::Magic { found: header.magic });
    }
    if header.abi_version != ABI_VERSION {
        return Err(LibraryError::AbiVersion { found: header.abi_version, expected: ABI_VERSION });
    }
    Ok(header)
}

fn find_table(
    address: *const u8,
    header: &LibraryHeader,
    segments: &[Segment],
) -> Result<*const i32, LibraryError> {
    let bad = LibraryError::Table { length: header.table_length, offset: header.table_offset };
    if header.table_length > TABLE_ENTRIES_MAX {
        return Err(bad);
    }
    find(address, (header.table_offset, header.table_length), segments).ok_or(bad)
}

fn find_directory(
    address: *const u8,
    header: &LibraryHeader,
    segments: &[Segment],
) -> Result<*const u16, LibraryError> {
    let bad = LibraryError::Directory { length: header.directory_length, offset: header.directory_offset };
    if header.directory_length > DIRECTORY_ENTRIES_MAX || !header.table_base.is_multiple_of(2) {
        return Err(bad);
    }
    find(address, (header.directory_offset, header.directory_length), segments).ok_or(bad)
}

/// `length` values at an offset from the header, if they are readable data of the object.
fn find<T>(address: *const u8, (offset, length): (i64, u32), segments: &[Segment]) -> Option<*const T> {
    let values = address.wrapping_offset(isize::try_from(offset).ok()?).cast::<T>();
    let start = values as usize;
    let end = start.checked_add(size_of::<T>().checked_mul(length as usize)?)?;
    (values.is_aligned() && (length == 0 || is_data(segments, &(start..end)))).then_some(values)
}

/// Addresses of the only executable segment. Empty if the script has no enterable code, for example because
/// its entry lies outside.
fn only_text(segments: &[Segment]) -> Result<Range<usize>, LibraryError> {
    let mut executable = segments.iter().filter(|segment| segment.flags & libc::PF_X != 0);
    match (executable.next(), executable.count()) {
        (None, _) => Ok(0..0),
        (Some(segment), 0) => Ok(segment.addresses.clone()),
        (Some(_), more) => Err(LibraryError::Text { found: 1 + more }),
    }
}

#[cfg(test)]
mod tests {
    use std::{io::stdin, os::fd::AsFd as _, path::Path};

    use super::*;

    #[test]
    fn aliases_differ_and_name_the_same_file() {
        let null = File::open("/dev/null").unwrap();
        let aliases: Vec<String> = (0..64).map(|_| alias(null.as_fd())).collect();
        for (index, path) in aliases.iter().enumerate() {
            assert!(!aliases[..index].contains(path));
            assert!(path.len() > "/proc/self/fd".len() + 64, "{path}");
            assert_eq!(std::fs::read_link(path).unwrap(), Path::new("/dev/null"));
        }
        assert!(alias(stdin().as_fd()).ends_with("/0"));
    }

    #[test]
    fn segments_are_those_of_the_object() {
        let here = segments_around(segments_around as *const () as usize);
        assert!(only_text(&here).unwrap().contains(&(alias as *const () as usize)));
        assert!(segments_around(8).is_empty());
        assert!(only_text(&[]).unwrap().is_empty());
        let twice = [here.as_slice(), here.as_slice()].concat();
        assert!(matches!(only_text(&twice), Err(LibraryError::Text { found: 2 })));
        assert!(!is_data(&here, &(0..1)));
    }
}
