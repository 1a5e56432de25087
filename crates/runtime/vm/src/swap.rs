//! Tests of pages in swap, with a temporary swap file if the machine permits one.
//!
//! `mincore` reports a page in swap like an untouched page: not resident.

use std::{
    fs::File,
    io,
    path::Path,
    process::Command,
    time::{Duration, Instant},
};

use ckb_vm::{
    RISCV_MAX_MEMORY, RISCV_PAGESIZE,
    machine::asm::AsmCoreMachineRevealer,
    memory::{FLAG_DIRTY, Memory},
};

use crate::{
    mapping::Mapping,
    memory::Core,
    pages::Pages,
    wiper::{Order, Wiper},
};

const SWAP_BYTES: u64 = 64 << 20;
const DEADLINE: Duration = Duration::from_secs(10);

/// A swap file that is in use until it is dropped.
struct SwapFile {
    folder: tempfile::TempDir,
}

impl SwapFile {
    /// Creates and enables a swap file; the error is the reason why it cannot.
    fn start() -> Result<Self, String> {
        let beside = std::env::current_exe().map_err(|error| error.to_string())?;
        let folder = tempfile::tempdir_in(beside.parent().unwrap()).map_err(|error| error.to_string())?;
        let swap = Self { folder };
        let path = swap.folder.path().join("swap");
        // Written in full, because a swap file must not have holes.
        io::copy(&mut io::Read::take(io::repeat(0), SWAP_BYTES), &mut File::create(&path).unwrap())
            .map_err(|error| error.to_string())?;
        run("chmod", &[Path::new("600"), &path])?;
        run("mkswap", &[&path])?;
        run("swapon", &[&path])?;
        Ok(swap)
    }
}

impl Drop for SwapFile {
    fn drop(&mut self) {
        // This fails harmlessly if the file was never enabled.
        let _ = run("swapoff", &[&self.folder.path().join("swap")]);
    }
}

fn run(program: &str, arguments: &[&Path]) -> Result<(), String> {
    let made = Command::new(program).args(arguments).output();
    let made = made.map_err(|error| format!("{program}: {error}"))?;
    let said = String::from_utf8_lossy(&made.stderr);
    made.status.success().then_some(()).ok_or_else(|| format!("{program}: {}", said.trim()))
}

/// Moves the page at `start` into swap. Returns whether the kernel did, and reports the page as not resident.
fn put_aside(start: *mut u8) -> bool {
    let until = Instant::now() + DEADLINE;
    while Instant::now() < until {
        let mut is_there = 1_u8;
        // SAFETY: the page is opened memory of the caller, and its content does not change; the byte is for
        // one page.
        unsafe {
            libc::madvise(start.cast(), RISCV_PAGESIZE, libc::MADV_PAGEOUT);
            assert_eq!(libc::mincore(start.cast(), RISCV_PAGESIZE, &mut is_there), 0);
        }
        if is_there & 1 == 0 {
            return true;
        }
        // The kernel wrote the page to swap and cached it. Unchanged, it can be evicted the next time.
        // SAFETY: as above.
        unsafe { start.read_volatile() };
        std::thread::yield_now();
    }
    false
}

/// Runs `test` with swap space, or prints that there is none. `test` returns whether pages could be swapped
/// out.
fn with_swap(test: impl FnOnce() -> bool) {
    let swap = match SwapFile::start() {
        Ok(swap) => swap,
        Err(error) => return println!("skipped: no swap space can be had here: {error}"),
    };
    if !test() {
        println!("skipped: the kernel puts no page into swap");
    }
    drop(swap);
}

#[test]
fn pages_in_swap_are_wiped() {
    with_swap(|| {
        [Order::Any, Order::Down].into_iter().all(|order| {
            let mut mapping = Mapping::reserve(1 << 20).unwrap();
            mapping.open(0..1 << 20).unwrap();
            let mut wiper = Wiper::new(0..1 << 20, order);
            let place = mapping.at((1 << 20) - RISCV_PAGESIZE);
            // SAFETY: the page was opened.
            unsafe { place.write(7) };
            let is_aside = put_aside(place);
            wiper.wipe(&mut mapping, None);
            // SAFETY: as above.
            assert_eq!(unsafe { place.read() }, 0, "{order:?}");
            is_aside
        })
    });
}

#[test]
fn pages_in_swap_are_found_written() {
    with_swap(|| {
        let mut core = <Core as AsmCoreMachineRevealer>::new(3, 2, u64::MAX, RISCV_MAX_MEMORY);
        core.set_filled(Pages::default());
        let place = core.base().wrapping_add(5 * RISCV_PAGESIZE);
        // SAFETY: guest memory is opened; native code writes to it like this.
        unsafe { place.write(7) };
        let is_aside = put_aside(place);
        core.mark_changes();
        assert_ne!(core.fetch_flag(5).unwrap() & FLAG_DIRTY, 0);
        is_aside
    });
}
