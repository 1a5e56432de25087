//! Random Zig programs: errors, slices, tables of functions and tail calls. Skipped without `zig` (PyPI's
//! `ziglang` has it).

use std::{fs, path::Path, process::Command};

use antares_guests as guests;

use crate::{
    chance::Chance,
    programs::{pick, rewritten, saved},
};

/// Common code of all programs. `STATEMENTS` is replaced by statements on `x` and `y`.
const PROGRAM: &str = include_str!("program.zig");

fn statements(chance: &mut Chance) -> String {
    let number = chance.next() >> chance.below(60);
    let mut text =
        format!("x ^= @as(u64, @truncate(@as(u128, x) * y >> 64)) +% x *% y *% {number}; y ^= x; ");
    for _ in 0..1 + chance.below(4) {
        text.push_str(pick(
            chance,
            [
                "{ const sum = @addWithOverflow(x, y); x = sum[0]; y +%= sum[1]; } ",
                "{ const rest = @subWithOverflow(y, x); y = rest[0]; x +%= rest[1]; } ",
                "x = x / (y | 1) +% x % (y | 1); ",
                "for (0..3) |i| { y = (x << 13 | x >> 51) +% y +% i; x *%= y; } ",
                "if (y & 3 == 1) { x = @truncate(@as(u128, x) + y >> 1); } ",
                "y = @truncate((@as(u128, y) << 64 | x) *% y >> 64); ",
            ],
        ));
    }
    text
}

/// The ELF of `source`, with relocations.
fn build(source: &str, folder: &Path, chance: &mut Chance) -> Vec<u8> {
    let [path, object, elf] = ["program.zig", "program.o", "program"].map(|name| folder.join(name));
    fs::write(&path, source).unwrap();
    guests::crates::run(
        Command::new("zig")
            .args(["build-obj", "-target", "riscv64-freestanding-none", "-mcmodel=medany", "-fstrip"])
            .args(["-mcpu", pick(chance, ["generic_rv64+m+c+relax", "generic_rv64+m+c+relax+zba+zbb+zbs"])])
            .args(["-O", pick(chance, ["ReleaseFast", "ReleaseSmall"])])
            .arg(format!("-femit-bin={}", object.display()))
            .arg(&path)
            .envs(["ZIG_GLOBAL_CACHE_DIR", "ZIG_LOCAL_CACHE_DIR"].map(|name| (name, folder.join("cache")))),
    )
    .unwrap();
    let own = guests::source_folder();
    guests::crates::run(
        Command::new("riscv64-unknown-elf-gcc")
            .args(guests::GUEST_FLAGS)
            .args(["-march=rv64imc", "-Wl,-q", "-T"])
            .args(["guest.ld", "start.S", "words.c"].map(|name| own.join(name)))
            .arg(&object)
            .arg("-o")
            .arg(&elf),
    )
    .unwrap();
    fs::read(elf).unwrap()
}

#[test]
fn programs_in_zig_do_the_same() {
    if Command::new("zig").arg("version").output().is_err() {
        println!("skipped: there is no zig (pip install ziglang)");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (mut all, seeds) = (0, crate::seeds("ANTARES_REWRITE_PROGRAMS", 10));
    for seed in seeds.clone() {
        println!("seed {seed}");
        let mut chance = Chance(seed);
        let parts: Vec<&str> = PROGRAM.split("STATEMENTS").collect();
        let source =
            parts[1..].iter().fold(parts[0].to_owned(), |text, part| text + &statements(&mut chance) + part);
        let elf = build(&source, folder.path(), &mut chance);
        let made = rewritten(&elf, false).unwrap();
        let saves = saved(&elf, &made.elf, [None, None]);
        assert!(saves > 0, "seed {seed}");
        all += saves;
    }
    println!("programs in Zig of {seeds:?}: {all} cycles fewer in all");
}
