//! Files whose relocations do not reveal all entries of code.

use antares_guests::assemble;
use antares_optimise::{LinkedScript, RewriteError};

use crate::linked::{
    CODE, DATA, HEADERS, LABEL, Linked, NOP, RET, add, addi, branch, jal, jalr, load, lui, mul, mulhu, store,
};

fn error(linked: &Linked) -> Option<RewriteError> {
    LinkedScript::read(&linked.bytes()).err()
}

/// A file that starts with this code, and has these relocations in code or data.
fn with(code: &[u32], relocations: &[Relocation]) -> Linked {
    let mut linked = Linked::of(&[code, &[RET]].concat());
    linked.data = (CODE + 4).to_le_bytes().to_vec();
    linked.relocations.extend(relocations);
    linked.symbols.push(("__global_pointer$", usize::try_from((DATA + 0x800 - CODE) / 4).unwrap(), 0, LABEL));
    linked
}

#[test]
fn a_file_without_relocations_names_the_flags() {
    let bytes = {
        let mut linked = Linked::of(&[NOP, RET]);
        linked.relocations.clear();
        linked.bytes()
    };
    // An empty table is a valid one; without its type it is not.
    assert!(LinkedScript::read(&bytes).is_ok());
    let mut none = bytes;
    let sections = u64::from_le_bytes(*none[40..].first_chunk().unwrap()) as usize;
    none[sections + 3 * 64 + 4] = 1;
    let error = LinkedScript::read(&none).err().unwrap();
    assert_eq!(error, RewriteError::NoRelocations);
    for flag in ["-Wl,-q", "-C link-arg=-q"] {
        assert!(error.to_string().contains(flag), "{error}");
    }
}

/// Address, kind and target.
type Relocation = (u64, u32, u64);

#[test]
fn relocations_are_those_of_the_bytes() {
    let auipc = 0x17 | 10 << 7;
    let far = CODE + 0x1234;
    // The distance to `far`: 0x1000 and 0x234.
    let upper = 0x1000 | auipc;
    let cases: [(&str, Vec<u32>, Vec<Relocation>); 15] = [
        ("32", vec![NOP], vec![(DATA, 1, CODE + 4)]),
        ("64", vec![NOP], vec![(DATA, 2, CODE + 4)]),
        ("BRANCH", vec![branch(0, 10, 11, 1)], vec![(CODE, 16, CODE + 4)]),
        ("JAL", vec![jal(0, 1)], vec![(CODE, 17, CODE + 4)]),
        ("CALL", vec![upper, 0x2340_0067 | 10 << 15], vec![(CODE, 18, far)]),
        ("RVC_BRANCH", vec![0x0001_c111], vec![(CODE, 44, CODE + 4)]),
        ("RVC_JUMP", vec![0x0001_a011], vec![(CODE, 45, CODE + 4)]),
        ("PCREL_HI20", vec![upper], vec![(CODE, 23, far)]),
        ("PCREL_LO12_I", vec![upper, addi(10, 10, 0x234)], vec![(CODE, 23, far), (CODE + 4, 24, CODE)]),
        ("HI20", vec![lui(10, 0x11000)], vec![(CODE, 26, far)]),
        ("LO12_I", vec![addi(10, 10, 0x234)], vec![(CODE, 27, far)]),
        ("LO12_S", vec![store(3, 11, 10, 0x234)], vec![(CODE, 28, far)]),
        ("GPREL_I", vec![load(3, 10, 3, 0x800)], vec![(CODE, 47, DATA)]),
        // GNU ld subtracts the global pointer from the addend.
        ("GPREL_I, less gp", vec![load(3, 10, 3, 0x800)], vec![(CODE, 47, 0_u64.wrapping_sub(0x800))]),
        ("GPREL_S, from zero", vec![store(3, 11, 0, 0x7f8)], vec![(CODE, 48, 0x7f8)]),
    ];
    for (name, code, relocations) in cases {
        assert_eq!(error(&with(&code, &relocations)), None, "{name}");
        let mut wrong = relocations.clone();
        let last = wrong.last_mut().unwrap();
        last.2 = last.2.wrapping_add(if matches!(last.1, 23 | 26) { 0x1000 } else { 2 });
        let (at, kind, _) = *last;
        assert_eq!(error(&with(&code, &wrong)), Some(RewriteError::Stale { kind, at }), "{name}");
    }
    let lower = [(CODE, 23, far), (CODE + 4, 24, CODE)];
    let stale = RewriteError::Stale { kind: 24, at: CODE + 4 };
    assert_eq!(error(&with(&[upper, addi(10, 10, 0x238)], &lower)), Some(stale));
    // ADD16 and SUB16 of a missing distance.
    let difference = |to: u64| with(&[NOP], &[(DATA + 4, 34, to), (DATA + 4, 38, CODE)]);
    assert_eq!(error(&difference(CODE)), None);
    assert!(matches!(error(&difference(CODE + 4)), Some(RewriteError::Stale { .. })));
    assert_eq!(
        error(&with(&[NOP], &[(CODE, 200, CODE)])),
        Some(RewriteError::Unknown { kind: 200, at: CODE })
    );
}

#[test]
fn addresses_that_no_relocation_tells_are_refused() {
    let auipc = 0x17 | 10 << 7;
    assert_eq!(error(&with(&[auipc], &[])), Some(RewriteError::NoRelocation(CODE)));
    // `li` as `addi` and as `ori`.
    for cycles in [addi(17, 0, 2042), addi(17, 0, 2042) | 6 << 12] {
        assert_eq!(error(&with(&[cycles], &[])), Some(RewriteError::ReadsCycles(CODE)));
    }
    // A load by a register other than the global pointer.
    assert!(error(&with(&[load(3, 10, 4, 0x800)], &[(CODE, 47, DATA)])).is_some());
    // A return that skips an instruction after its call, and others to a computed address.
    let (t1, ra, skip) = (6, 1, addi(1, 1, 4));
    for (name, code, at) in [
        ("skip", vec![skip, RET], 1),
        ("by t0", vec![addi(5, ra, 0), addi(5, 5, 4), jalr(0, 5)], 2),
        ("in the jump", vec![jalr(0, ra) | 4 << 20], 0),
        ("by another register", vec![addi(t1, ra, 4), jalr(0, t1)], 1),
        ("by another register, in the jump", vec![addi(t1, ra, 0), jalr(0, t1) | 4 << 20], 1),
        ("as a call", vec![addi(t1, ra, 4), jalr(5, t1)], 1),
        ("behind a branch", vec![skip, branch(0, 10, 11, 1), RET], 2),
        ("on one of two paths", vec![branch(0, 10, 11, 2), skip, RET], 2),
        ("around a loop", vec![branch(0, 10, 11, 3), skip, jal(0, -2), RET], 3),
        ("behind a call", vec![jal(ra, 1), addi(t1, ra, 8), jalr(0, t1)], 2),
    ] {
        assert_eq!(error(&with(&code, &[])), Some(RewriteError::ComputedReturn(CODE + 4 * at)), "{name}");
    }
    // A saved return address, and a moved one.
    assert_eq!(error(&with(&[load(3, 1, 2, 8), RET], &[])), None);
    assert_eq!(error(&with(&[addi(5, 1, 0), addi(1, 5, 0), RET], &[])), None);
    assert_eq!(error(&with(&[add(5, 0, 1), jal(1, 1), add(1, 0, 5), RET], &[])), None);
}

#[test]
fn control_enters_at_the_entry_of_the_file() {
    let of = |code: [u32; 4], entry: u64| {
        let mut bytes = Linked::of(&code).bytes();
        bytes[24..32].copy_from_slice(&entry.to_le_bytes());
        bytes
    };
    let (low, high) = (mul(12, 10, 11), mulhu(13, 10, 11));
    for (entry, is_equal) in [(CODE, true), (CODE + 8, false)] {
        let script = LinkedScript::read(&of([NOP, low, high, RET], entry)).unwrap();
        let found = script.differences(&of([NOP, high, low, RET], entry)).unwrap();
        assert_eq!(found.is_empty(), is_equal, "{entry:#x}: {found:?}");
    }
}

#[test]
fn handlers_of_exceptions_are_entries_that_no_relocation_tells() {
    let elf = assemble("_start: .globl _start\nret\n.section .gcc_except_table,\"aR\"\n.word 4\n").unwrap();
    assert!(matches!(LinkedScript::read(&elf).err(), Some(RewriteError::Exceptions(_))));
}

#[test]
fn any_damage_is_an_error_or_none() {
    let file = with(&[lui(10, 0x11000), addi(10, 10, 0x234)], &[(CODE, 26, CODE + 0x1234)]).bytes();
    // Headers, code and the linker's records, without padding.
    let places = (0..HEADERS).chain(4096..4108).chain(8192..file.len());
    for (number, at) in places.enumerate().step_by(3) {
        let mut damaged = file.clone();
        damaged[at] ^= [1, 0x80, 0xff][number / 3 % 3];
        // Reading must not panic, whatever is damaged.
        if let Ok(script) = LinkedScript::read(&damaged) {
            let _ = script.differences(&file);
        }
    }
    for length in (0..file.len()).step_by(997) {
        let _ = LinkedScript::read(&file[..length]).map(|script| script.differences(&file));
    }
}
