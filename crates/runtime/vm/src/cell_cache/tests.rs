//! Tests of the cache with memory of machines.

use ckb_vm::{Memory, RISCV_MAX_MEMORY, machine::asm::AsmCoreMachineRevealer};

use super::*;
use crate::{memory::Core, prepare_thread};

thread_local! {
    /// Calls of [`change`].
    pub(super) static CHANGES: Cell<usize> = const { Cell::new(0) };
}

const PLACE: usize = 0x10_0000;
const BYTES: usize = 0x1_0000;

fn cell() -> Bytes {
    (0..u32::try_from(BYTES).unwrap()).map(|index| index.wrapping_mul(77).to_le_bytes()[1]).collect()
}

fn part(core: &Core, start: usize, bytes: usize) -> Range<usize> {
    let start = core.base().expose_provenance() + start;
    start..start + bytes
}

/// Passes a machine that has just cached [`cell`] to `work`, where processors have protection keys.
fn with_cached(work: impl FnOnce(&mut Core, Range<usize>)) {
    cache_cells();
    prepare_thread().unwrap();
    if KEYS.get() == Some(&None) {
        return println!("no protection keys: skipped");
    }
    enabled(|| {
        let mut core = <Core as AsmCoreMachineRevealer>::new(0, 2, 1, RISCV_MAX_MEMORY);
        core.store_bytes(PLACE as u64, &cell()).unwrap();
        let part = part(&core, PLACE, BYTES);
        core.cells.insert(part.clone(), cell());
        assert_eq!(core.cells.holds(part.start), Some(true));
        work(&mut core, part);
    });
    assert!(ARMED.get().is_null());
}

fn bytes(core: &Core) -> &[u8] {
    &core.bytes()[PLACE..PLACE + BYTES]
}

#[test]
fn a_cached_cell_appears_when_it_is_loaded_again() {
    with_cached(|core, part| {
        for content in [cell(), Bytes::copy_from_slice(&cell())] {
            core.reset(0, 2, 1);
            assert_eq!(core.cells.holds(part.end - 1), Some(false));
            assert!(core.cells.find(part.clone(), &content));
            assert_eq!(bytes(core), cell());
        }
    });
}

#[test]
fn a_run_that_does_not_load_it_sees_zeros() {
    with_cached(|core, part| {
        core.reset(0, 2, 1);
        assert!(bytes(core).iter().all(|byte| *byte == 0));
        assert!(core.cells.is_empty() && !core.cells.find(part, &cell()));
    });
}

#[test]
fn a_change_ends_it() {
    with_cached(|core, part| {
        core.store_bytes(PLACE as u64 + 5000, &[1, 2, 3]).unwrap();
        assert!(core.cells.is_empty());
        assert_eq!((&bytes(core)[..5000], &bytes(core)[5000..5003]), (&cell()[..5000], &[1, 2, 3][..]));
        core.reset(0, 2, 1);
        assert!(bytes(core).iter().all(|byte| *byte == 0));
        assert!(!core.cells.find(part, &cell()));
    });
}

#[test]
fn another_cell_or_place_is_not_it() {
    with_cached(|core, part| {
        core.reset(0, 2, 1);
        assert!(!core.cells.find(part.start + PAGE_BYTES..part.end, &cell().slice(PAGE_BYTES..)));
        assert!(!core.cells.find(part.clone(), &cell().slice(1..)));
        // The comparison with other bytes evicted it.
        assert!(!core.cells.find(part, &cell()) && core.cells.is_empty());
        assert!(bytes(core).iter().all(|byte| *byte == 0));
    });
}

#[test]
fn a_machine_beside_it_or_outside_of_an_attempt_caches_nothing() {
    let caches_nothing = || {
        let mut other = <Core as AsmCoreMachineRevealer>::new(0, 2, 1, RISCV_MAX_MEMORY);
        let part = part(&other, PLACE, BYTES);
        other.cells.insert(part, Bytes::new());
        assert!(other.cells.is_empty());
    };
    with_cached(|core, _| {
        caches_nothing();
        assert_eq!(bytes(core), cell());
    });
    caches_nothing();
}

#[test]
fn a_machine_that_stays_after_an_attempt_has_plain_memory() {
    cache_cells();
    prepare_thread().unwrap();
    let mut core = enabled(|| {
        let mut core = <Core as AsmCoreMachineRevealer>::new(0, 2, 1, RISCV_MAX_MEMORY);
        core.store_bytes(PLACE as u64, &cell()).unwrap();
        core.cells.insert(part(&core, PLACE, BYTES), cell());
        core
    });
    assert!(core.cells.is_empty() && ARMED.get().is_null());
    assert_eq!(bytes(&core), cell());
    core.store_bytes(PLACE as u64, &[0; BYTES]).unwrap();
}

#[test]
fn code_is_protected_without_a_system_call() {
    with_cached(|core, part| {
        let code = Pages::holding(PLACE as u64..(PLACE + BYTES) as u64);
        core.protect(code);
        assert_eq!((core.cells.unseal(core.base()), core.protected()), (code, code));
        // A cell that is only partly code is evicted, and the code is protected.
        core.unprotect();
        core.protect(Pages::holding(PLACE as u64..PLACE as u64 + 1));
        assert!(core.cells.holds(part.start).is_none() && !evict_at(part.start));
        core.unprotect();
        core.store_bytes(PLACE as u64, &[0; BYTES]).unwrap();
    });
}

#[test]
fn code_of_the_next_run_has_its_keys_already() {
    with_cached(|core, _| {
        let pages = |places: &[usize]| {
            let one = |place: &usize| Pages::holding(*place as u64..(*place + BYTES) as u64);
            places.iter().map(one).fold(Pages::default(), Pages::or)
        };
        let places: [usize; CODE_PARTS_MAX + 1] = std::array::from_fn(|index| (index + 2) * 2 * BYTES);
        let others = places.map(|place| place + PAGE_BYTES);
        let all = CODE_PARTS_MAX;
        for (places, changes) in [(places, all), (places, 0), (others, 2 * all), (places, 2 * all)] {
            let before = CHANGES.get();
            core.reset(0, 2, 1);
            for (loaded, place) in places.iter().enumerate() {
                // Parts of the last run are plain memory.
                core.store_bytes(*place as u64, &[7; BYTES]).unwrap();
                core.protect(pages(&places[..=loaded]));
                // One more than there are slots.
                let with_key = pages(&places[..CODE_PARTS_MAX.min(loaded + 1)]);
                assert_eq!(core.cells.sealed(core.base()), with_key);
                assert!(!evict_at(part(core, *place, 1).start));
            }
            assert_eq!((core.protected(), CHANGES.get() - before), (pages(&places), changes));
        }
        // A cell takes its pages over.
        core.reset(0, 2, 1);
        core.store_bytes(places[0] as u64, &cell()).unwrap();
        core.cells.insert(part(core, places[0], BYTES), cell());
        assert_eq!(core.cells.holds(part(core, places[0], 1).start), Some(true));
        core.protect(pages(&places[1..]));
        assert_eq!(core.bytes()[places[0]..places[0] + BYTES], cell());
    });
}

#[test]
fn a_machine_that_often_loses_its_cells_pauses() {
    with_cached(|core, part| {
        let mut cached = 0;
        for _ in 0..2000 {
            core.reset(0, 2, 1);
            core.store_bytes(PLACE as u64, &cell()).unwrap();
            core.cells.insert(part.clone(), cell());
            cached += u32::from(!core.cells.is_empty());
        }
        assert!((4..20).contains(&cached), "{cached}");
    });
}
