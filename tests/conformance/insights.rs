//! Insights on real guests: they name the expected code, and following the advice saves the cycles stated in
//! the docs.

use antares_analysis::insights::{Finding, Rule, groups, insights, markdown};
use antares_profile::Profile;
use antares_profile_view::{Programs, Symbols, View};
use antares_tests::{
    asm::encode,
    elf::{self, Cut, Segment},
    guests,
};

use crate::{check::script, formats};

/// A profile of at most 20 million cycles.
fn profile(elf: &[u8]) -> (Profile, Programs) {
    formats::profile(elf, &["-", "1"], 20_000_000)
}

fn findings(elf: &[u8]) -> (Vec<Finding>, u64) {
    let (profile, programs) = profile(elf);
    (insights(&View::new(&profile, &programs)), profile.sum().cycles)
}

#[test]
fn rsa_gets_its_limbs_and_following_that_saves_cycles() {
    let elf = guests::bytes("rsa1024-imc").unwrap();
    let (found, before) = findings(&elf);
    let reported = reported(&elf);
    println!("{reported}");
    assert!(reported.contains("measured: 1,511,550 to 519,045 cycles"), "of the same kind of program");
    let limbs = found.iter().find(|finding| finding.rule == Rule::NarrowLimbs).unwrap();
    let saves = limbs.saves.unwrap();
    assert!(saves > limbs.cycles / 2 && saves < limbs.cycles, "{limbs:?}");
    assert_eq!(limbs.function, "mpi_mul_hlp");
    assert!(limbs.cycles > before / 4, "{limbs:?}");
    assert!(limbs.advice.contains("64 bits"), "{limbs:?}");
    let memory = found.iter().find(|finding| finding.rule == Rule::ByteLoop).unwrap();
    assert_eq!(memory.function, "memset");
    // Without symbols the code yields the same findings.
    let (stripped, _) = findings(&Cut::Sections.apply(&elf));
    let same = stripped.iter().find(|finding| finding.rule == Rule::NarrowLimbs).unwrap();
    assert_eq!((same.cycles, same.address), (limbs.cycles, limbs.address));
    assert!(same.function.starts_with("fn_0x"));
    // An unknown library: savings measured on Mbed TLS may not apply.
    assert_eq!((same.measured, same.saves), (None, limbs.saves));
    assert!(stripped.iter().all(|finding| finding.measured.is_none()), "{stripped:?}");

    let cycles = |name: &str| findings(&guests::bytes(name).unwrap()).1;
    let (words, both) = (cycles("rsa1024-words-imc"), cycles("rsa1024-limbs64-imc"));
    println!("{before} cycles; {words} with memory functions by words; {both} with limbs of 64 bits too");
    assert!(both * 100 <= before * 60, "following both saves less than 40 %");
    let limbs64 = insights_rules("rsa1024-limbs64-imc");
    assert!(!limbs64.contains(&Rule::NarrowLimbs), "{limbs64:?}");
}

/// The Markdown output of all insights.
fn reported(elf: &[u8]) -> String {
    let (profile, programs) = profile(elf);
    let groups = groups(&View::new(&profile, &programs));
    markdown(&groups, profile.sum().cycles, &|_| None)
}

fn insights_rules(name: &str) -> Vec<Rule> {
    findings(&guests::bytes(name).unwrap()).0.iter().map(|finding| finding.rule).collect()
}

#[test]
fn every_guest_has_findings_or_none_and_nothing_panics() {
    for name in ["secp256k1", "keccak", "blake2b", "lz4", "lua", "sort", "sha256", "interpreter", "blocks"] {
        for suffix in ["imc", "b"] {
            let elf = guests::bytes(&format!("{name}-{suffix}")).unwrap();
            let (found, cycles) = findings(&elf);
            println!("## {name}-{suffix}, {cycles} cycles\n{}", reported(&elf));
            assert!(found.iter().all(|finding| finding.cycles <= cycles));
            assert!(found.windows(2).all(|pair| pair[0].cycles >= pair[1].cycles));
        }
    }
    // Hashes without hardware rotations have a finding; with B they have none.
    assert!(insights_rules("sha256-imc").contains(&Rule::MissingB));
    assert!(!insights_rules("sha256-b").contains(&Rule::MissingB));
}

/// A loop of 100 rounds over `body`, whose operands are in a0 and a1.
fn in_a_loop(body: &[u32]) -> Vec<u8> {
    let addi = |rd, rs1, number| encode::i(0x13, 0, rd, rs1, number);
    let mut code = vec![addi(10, 0, 1234), addi(11, 0, 567), addi(5, 0, 100)];
    code.extend(body);
    code.push(addi(5, 5, -1));
    // bne t0, zero, to the body.
    code.extend(encode::b(1, 5, 0, -4 - 4 * body.len() as i64));
    code.extend([addi(10, 0, 0), addi(17, 0, 93), 0x73]);
    elf::file(0x10000, vec![Segment::whole(0x10000, 5, elf::code(&code))])
}

/// The cycles that a rule finds in a loop over `body`.
fn found_in_a_loop(body: &[u32], rule: Rule) -> Option<u64> {
    let (found, _) = findings(&in_a_loop(body));
    found.iter().find(|finding| finding.rule == rule).map(|finding| finding.cycles)
}

#[test]
fn products_whose_halves_are_not_fused_are_found() {
    // OP rd, a0, a1 of the M extension.
    let m = |funct3, rd| encode::r(0x33, funct3, 1, rd, 10, 11);
    let (mul, mulhu, div, rem) = (|rd| m(0, rd), |rd| m(3, rd), |rd| m(4, rd), |rd| m(6, rd));
    let nop = 0x13;
    let change_a0 = 0x0015_0513;
    let of = found_in_a_loop;
    let wide = Rule::UnfusedWideMultiply;
    // 100 rounds of 2 times 5 cycles.
    assert_eq!(of(&[mul(12), mulhu(13)], wide), Some(1000), "the low half first");
    assert_eq!(of(&[mulhu(13), nop, mul(12)], wide), Some(1000), "apart");
    assert_eq!(of(&[mulhu(13), mul(12)], wide), None, "fused");
    assert_eq!(of(&[mulhu(13), change_a0, mul(12)], wide), None, "not the same operands");
    assert_eq!(of(&[mulhu(13), mulhu(14)], wide), None, "no low half");
    // An address inside of the loop is a function too, since it is computed.
    let (here, second) = (encode::u(0x17, 10, 0), encode::i(0x13, 0, 10, 10, 20));
    let (found, _) = findings(&in_a_loop(&[here, second, mul(12), mulhu(13), nop, mul(14), mulhu(15)]));
    let cycles = found.iter().filter(|finding| finding.rule == wide).map(|finding| finding.cycles);
    assert_eq!(cycles.sum::<u64>(), 2000, "each pair counts once");
    assert_eq!(of(&[rem(12), div(13)], Rule::UnfusedDivision), Some(6400));
    assert_eq!(of(&[div(13), rem(12)], Rule::UnfusedDivision), None);
    let elf = in_a_loop(&[mulhu(13), nop, mul(12)]);
    let (found, _) = findings(&elf);
    assert!(reported(&elf).contains("here 1 pairs are apart, 0 in the other order"), "{found:?}");
}

#[test]
fn carries_and_constants_that_are_not_fused_are_found() {
    let add = |rd, rs1, rs2| encode::r(0x33, 0, 0, rd, rs1, rs2);
    let sub = |rd, rs1, rs2| encode::r(0x33, 0, 0x20, rd, rs1, rs2);
    let sltu = |rd, rs1, rs2| encode::r(0x33, 3, 0, rd, rs1, rs2);
    let (lui, addiw) = (encode::u(0x37, 12, 12 << 12), encode::i(0x1b, 0, 12, 12, 1));
    let nop = 0x13;
    let of = found_in_a_loop;
    let carry = Rule::UnfusedCarry;
    // 100 rounds of 2 cycles.
    assert_eq!(of(&[add(12, 10, 11), nop, sltu(13, 12, 10)], carry), Some(200), "apart");
    assert_eq!(of(&[add(12, 10, 11), sltu(13, 12, 11)], carry), Some(200), "by the second operand");
    assert_eq!(of(&[add(12, 10, 11), sltu(13, 12, 10)], carry), None, "fused");
    assert_eq!(of(&[add(12, 10, 11), add(10, 10, 11), sltu(13, 12, 10)], carry), None, "another operand");
    assert_eq!(of(&[sub(12, 10, 11), nop, sltu(13, 10, 11)], carry), Some(200), "apart");
    assert_eq!(of(&[sub(12, 10, 11), sltu(13, 10, 11)], carry), None, "fused");
    let constant = Rule::UnfusedConstant;
    assert_eq!(of(&[lui, nop, addiw], constant), Some(200), "apart");
    assert_eq!(of(&[lui, addiw], constant), None, "fused");
    assert_eq!(of(&[lui, add(13, 12, 12), addiw], constant), None, "the upper half is used by itself");
}

#[test]
fn stripped_functions_are_called_after_the_tables_that_they_refer_to() {
    for (guest, about, of) in [
        ("sha256-imc", "sha256", "compress"),
        ("keccak-imc", "keccak", "KeccakF1600"),
        ("blake2b-imc", "blake2b or sha512", "blake2b"),
    ] {
        let whole = guests::bytes(guest).unwrap();
        let [named, bare] = [&whole, &Cut::Sections.apply(&whole)].map(|elf| Symbols::of(elf, script(2)));
        let mut reported = Vec::new();
        for (start, _, name) in bare.functions().filter(|(_, _, name)| name.contains('?')) {
            assert!(name.ends_with(&format!(" ({about}?)")), "{name}");
            reported.push(named.locate(start).pop().unwrap().function);
        }
        println!("{guest}: {reported:?}");
        assert!(reported.iter().any(|name| name.contains(of)), "{guest}: {reported:?}");
    }
    let lua = Cut::Sections.apply(&guests::bytes("lua-imc").unwrap());
    let symbols = Symbols::of(&lua, script(2));
    assert!(
        symbols.functions().all(|(_, _, name)| !name.contains('?')),
        "an interpreter has none of these tables"
    );
}
