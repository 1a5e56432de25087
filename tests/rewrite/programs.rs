//! Random C and C++ programs with control flow that is hard to analyse. Two compilers and two linkers build
//! them with relocations. Rewritten, they run on ckb-vm's own machine with several arguments.

use std::{collections::BTreeMap, fmt::Write as _, fs, path::Path, process::Command};

use antares_guests as guests;
use antares_optimise::{Optimised, RewriteError};
use antares_tests::oracle::{Case, LOADER, Run, run};
use bytes::Bytes;
use object::{Object as _, ObjectSymbol as _};

use crate::{chance::Chance, machine, rewrite};

/// Kinds of control flow that are hard to analyse, and functions with them. Each program has all of them. The
/// percentage of programs in which one of the functions is rewritten; 0 if they are never rewritten.
const KINDS: [(&str, &[&str], usize); 11] = [
    ("setjmp and longjmp", &["attempt"], 50),
    ("fibers", &["worker"], 50),
    ("callbacks", &["fold", "main"], 50),
    ("jump tables", &["cases"], 20),
    ("computed gotos", &["pointers"], 0),
    ("differences of labels", &["differences"], 0),
    ("function tables of four widths", &["g0", "g1", "g2"], 100),
    ("weak symbols", &["hook"], 30),
    ("virtual functions", &["_ZN5shape4areaEmm", "_ZN4cube4areaEmm"], 10),
    ("tail calls", &["tail"], 30),
    ("conventions of their own, and fusion across labels", &["odd", "border"], 100),
];

/// Common head of all sources.
const TYPES: &str = include_str!("types.h");

/// Additional head of programs.
const HEAD: &str = include_str!("head.h");

/// An expression of `x` and `y`.
fn expression(chance: &mut Chance) -> String {
    let number = chance.next() >> chance.below(60);
    let shift = 1 + chance.below(62);
    match chance.below(8) {
        0 => format!("(u64)((u128)x * y >> 64) + x * y + {number}UL"),
        1 => format!("(u64)((u128)(x ^ {number}UL) * y >> 64) ^ (x ^ {number}UL) * y"),
        2 => format!("(x << {shift} | x >> {}) + y * {}", 64 - shift, chance.below(99)),
        3 => "x + y + (x + y < x)".to_owned(),
        4 => format!("x / (y | 1) * {number}UL + x % (y | 1)"),
        5 => format!("(u64)((u128)x + y >> {})", chance.below(65)),
        6 => "x - y - (x < y)".to_owned(),
        _ => format!("(x ^ y >> {shift}) * {number}UL"),
    }
}

/// Statements on `x` and `y`; the first computes both halves of a product.
fn statements(chance: &mut Chance) -> String {
    let mut text = format!("x ^= (u64)((u128)x * y >> 64) + x * y * {}; ", 1 + chance.below(99));
    for _ in 0..chance.below(4) {
        let to = ["x", "y"][chance.below(2) as usize];
        let value = expression(chance);
        let _ = match chance.below(4) {
            0 => {
                let (tested, mask) = (["x", "y"][chance.below(2) as usize], 1 + chance.below(7));
                write!(text, "if ({tested} & {mask}) {to} = {value}; ")
            }
            1 => {
                let passes = 1 + chance.below(4);
                write!(text, "for (int i = 0; i < {passes}; i++) {{ {to} = {value}; x += i; }} ")
            }
            _ => write!(text, "{to} = {value}; "),
        };
    }
    text
}

/// Assembly with labels between instructions that fuse.
fn border(chance: &mut Chance) -> String {
    const LINES: [&str; 12] = [
        "mul a2,a0,a1",
        "mulhu a3,a0,a1",
        "mulhu a4,a0,a1",
        "mul a5,a0,a1",
        "add a2,a3,a4",
        "sltu a5,a2,a3",
        "add a5,a5,a4",
        "add a6,a2,a5",
        "lui a4,0x12345",
        "addiw a4,a4,9",
        "xor a0,a0,a5",
        "mv a3,a6",
    ];
    let mut text =
        "__asm__(\".type border,@function\\nborder: mv a3,a0; mv a4,a1; mv a5,a0; mv a6,a1\\n".to_owned();
    for _ in 0..8 + chance.below(8) {
        let from = chance.below(12) as usize;
        let count = 1 + chance.below(4) as usize;
        let lines = LINES.iter().cycle().skip(from).take(count);
        text.extend(lines.map(|line| format!(" {line}\\n")));
        text.push_str(["", "1: ", " bltu a0,a1,1f\\n", " beq a0,a5,1f\\n"][chance.below(4) as usize]);
    }
    text + "1: add a0,a0,a2; xor a0,a0,a3; add a0,a0,a4; xor a0,a0,a6; ret\\n.size border,.-border\\n\");\n"
}

/// Four functions, the last of which may end as `ends` define.
fn functions(chance: &mut Chance, kinds: [&str; 3], ends: [&str; 3]) -> String {
    let mut text = String::new();
    for index in 0..4 {
        let (kind, end) = (kinds[chance.below(3) as usize], ends[chance.below(3) as usize]);
        let _ = writeln!(text, "{kind} u64 f{index}(u64 x, u64 y) {{ {} {end} }}", statements(chance));
    }
    text + &format!(
        "NOINLINE u64 tail(u64 x, u64 y) {{ {} return f0(y, x); }}
         NOINLINE u64 cases(u64 k, u64 x, u64 y) {{ switch (k & 7) {{ case 0: {} case 1: x ^= 5; break; case 2: y += x; break; case 3: x += y * 3; break; case 4: y ^= x >> 7; case 5: x *= y; break; case 6: return y; }} return x - y; }}\n",
        statements(chance), statements(chance)
    )
}

fn program(chance: &mut Chance) -> String {
    let mut text = [TYPES, HEAD].concat();
    let kinds = ["NOINLINE", "NOINLINE __attribute__((weak))", "NOINLINE static"];
    let jump = "if (!(x & 15)) { failures++; longj(env, 1 + (x & 3)); } return x + y;";
    text.push_str(&functions(chance, kinds, ["return x ^ y;", "say(x); return x ^ y;", jump]));
    text.push_str(&border(chance));
    let bodies: Vec<String> = (0..8).map(|_| statements(chance)).collect();
    let step = |index: usize| &bodies[index];
    let _ = writeln!(
        text,
        "NOINLINE u64 fold(u64 *v, int n, function f) {{ u64 s = 1; for (int i = 0; i < n; i++) {{ u64 x = s, y = v[i]; {} s = x * 31 + f(v[i], y); }} return s; }}
         NOINLINE u64 attempt(u64 x, u64 y) {{ int r = setj(env); if (r) return r * {}; {} return f0(x, y) + tail(y, x) + f2(x, x) + f3(y, y); }}
         NOINLINE __attribute__((weak)) u64 hook(u64 x, u64 y) {{ {} return x + y; }}
         NOINLINE u64 pointers(u64 k, u64 x, u64 y) {{ static void *const way[] = {{ &&l0, &&l1, &&l2, &&l3 }}; goto *way[k & 3]; l0: {} l1: {} l2: {} l3: {} return x ^ y; }}
         NOINLINE u64 differences(u64 k, u64 x, u64 y) {{ static const distance way[] = {{ 0, (char *)&&l1 - (char *)&&l0, (char *)&&l2 - (char *)&&l0 }}; goto *((char *)&&l0 + way[k % 3]); l0: {} l1: x += y; l2: x = x * 5 + y; return x + y; }}",
        step(0), 1 + chance.below(99), step(1), step(2), step(3), step(4), step(5), step(6), step(7)
    );
    text.push_str(
        &"NOINLINE u64 tables(u64 k, u64 x, u64 y) {
             static const function way[] = { f0, f1, both };
             static const struct __attribute__((packed)) { char tag; function f; } packed[] = { { 1, f2 }, { 2, f3 }, { 3, both } };
             k %= 3; u64 s = way[k](x, y); s ^= packed[k].f(y, s);
             s += ((function)(u64)words[k])(s, x); s ^= ((function)((char *)g0 + halves[k]))(x, s);
             return s + ((function)((char *)g0 + bytes[k]))(s, y); }
         NOINLINE static void worker(u64 value) { u64 id = running; out += value; for (u64 i = 0;; i++) { u128 p = (u128)(id * 0x9e3779b97f4a7c15 + i) * (out + id); out = out * 31 + ((u64)(p >> 64) ^ (u64)p); out += switch_to(&contexts[id], &contexts[0], i); } }
         CLASSES
         int main(int argc, char **argv) {
             u64 v[4], n = parse(argc, argv), s = n + 1; for (int i = 0; i < 4; i++) v[i] = 0x9e3779b97f4a7c15 * (i + 1) ^ s;
             for (int i = 1; i < 3; i++) { contexts[i].sp = (u64)&stacks[i][508] & ~15UL; contexts[i].ra = (u64)worker; }
             for (u64 i = 0; i < 6; i++) {
                 s = s * 31 + attempt(v[i & 3], s); if (failures > 9) break;
                 s ^= pointers(i, s, n); s += differences(i, n, s); s ^= cases(i, s, v[0]) + hook(s, n); s += border(s, n) + classes(s, n);
                 if (!setj(env)) s += tables(i, s, v[1]); if (!setj(env)) s ^= fold(v, 4, i & 1 ? f1 : both);
                 running = 1 + (i & 1); switch_to(&contexts[0], &contexts[running], s); say(s ^ out);
             }
             return (s ^ s >> 7 ^ out) & 63; }\n"
            .replace("CLASSES", CLASSES),
    );
    text
}

/// Additional code of C++ programs: virtual functions, also with a constructor that only a table references.
const CLASSES: &str = include_str!("classes.h");

pub(crate) fn pick<'a, const N: usize>(chance: &mut Chance, all: [&'a str; N]) -> &'a str {
    all[chance.below(N as u64) as usize]
}

/// The ELF of `source` with relocations, and whether the assembler may omit some.
fn build(source: &str, folder: &Path, chance: &mut Chance, is_library: bool) -> (Vec<u8>, bool) {
    let (path, elf) = (folder.join("program.c"), folder.join("program"));
    fs::write(&path, source).unwrap();
    let compiler = pick(chance, ["riscv64-unknown-elf-gcc", "clang-22"]);
    let relax = pick(chance, ["-mrelax", "-mno-relax"]);
    let is_clang = compiler == "clang-22";
    let mut command = Command::new(compiler);
    let language = if !source.contains("struct shape") { "c" } else { pick(chance, ["c", "c++"]) };
    command.args(guests::GUEST_FLAGS).args(["-fno-exceptions", "-fno-rtti", "-fpermissive"]).args([
        pick(chance, ["-O1", "-O2", "-O3", "-Os"]),
        pick(chance, ["-march=rv64imc", "-march=rv64imc_zba_zbb_zbs", "-march=rv64im"]),
        relax,
        pick(chance, ["-fno-jump-tables", "-fjump-tables"]),
        "-w",
        "-Wl,-q",
        if is_clang { "--target=riscv64-unknown-elf" } else { "-fno-tree-loop-distribute-patterns" },
    ]);
    if is_library || is_clang || chance.below(2) == 0 {
        command.args(["-B/usr/lib/llvm-22/bin", "-fuse-ld=lld"]);
    }
    if is_library {
        command.args(["-fPIC", "-Wl,-shared,-Bsymbolic,--no-rosegment,-zseparate-code,-zmax-page-size=4096"]);
    } else {
        // Half of them use absolute addresses.
        command.args((chance.below(2) == 0).then_some("-mcmodel=medlow"));
        let own = guests::source_folder();
        command.arg("-T").arg(own.join("guest.ld")).arg(own.join("start.S")).arg(own.join("words.c"));
    }
    guests::crates::run(command.args(["-x", language]).arg(&path).arg("-o").arg(&elf)).unwrap();
    (fs::read(elf).unwrap(), relax == "-mno-relax")
}

/// Asserts equal behaviour without additional cycles. Returns the saved cycles.
pub(crate) fn saved(before: &[u8], after: &[u8], code: [Option<&[u8]>; 2]) -> u64 {
    let mut saved = 0;
    for (argument, vm_version) in
        ["0", "3", "77", "123456789"].into_iter().flat_map(|text| [(text, 1), (text, 2)])
    {
        let run_of = |elf: &[u8], code: Option<&[u8]>| {
            let case = Case::new(elf, &[argument; 2], machine(vm_version), 1 << 26);
            run(&Case { code: code.map(Bytes::copy_from_slice), ..case })
        };
        let (before, after) = (run_of(before, code[0]), run_of(after, code[1]));
        let of = |run: &Run| (run.outcome.clone(), run.debug.clone(), run.registers);
        assert_eq!(of(&before), of(&after), "{argument}, version {vm_version}");
        assert!(before.outcome.starts_with("Exit") && before.outcome != "Exit(99)", "{}", before.outcome);
        assert!(after.cycles <= before.cycles, "{} {}", before.cycles, after.cycles);
        saved += before.cycles - after.cycles;
    }
    saved
}

/// The rewritten file. None if the assembler omitted a relocation, which is allowed if `is_kept`.
pub(crate) fn rewritten(elf: &[u8], is_kept: bool) -> Option<Optimised> {
    match rewrite(elf, 2, usize::MAX) {
        Ok(made) => Some(made),
        Err(RewriteError::NoRelocation(_)) if is_kept => None,
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn programs_of_all_kinds_do_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let (mut count, mut kept, mut all) = (0, 0, 0);
    let mut changed = BTreeMap::<&str, usize>::new();
    for seed in crate::seeds("ANTARES_REWRITE_PROGRAMS", 40) {
        println!("seed {seed}");
        let mut chance = Chance(seed);
        let source = program(&mut chance);
        let (elf, may_keep) = build(&source, folder.path(), &mut chance, false);
        let Some(made) = rewritten(&elf, may_keep) else {
            kept += 1;
            continue;
        };
        count += 1;
        for (name, functions, rewritten) in KINDS {
            let is_left = |name: &&str| made.untouched.iter().any(|function| function.name == **name);
            assert!(rewritten > 0 || functions.iter().all(is_left), "{name}");
            let of =
                |name: &&str| made.rewrites.iter().any(|one| one.refused.is_none() && one.function == **name);
            *changed.entry(name).or_default() += usize::from(functions.iter().any(of));
        }
        all += saved(&elf, &made.elf, [None, None]);
    }
    println!("{count} programs, {kept} refused, {all} cycles fewer in all; rewritten: {changed:?}");
    assert!(kept <= count, "{kept} of {count}");
    for (name, _, rewritten) in KINDS {
        assert!(changed[name] * 100 >= count * rewritten, "{name}: {} of {count}", changed[name]);
    }
}

/// A library of functions that only its export table references.
fn library(chance: &mut Chance) -> String {
    let tail = "return x * 3 ^ y;";
    let all = functions(chance, ["NOINLINE"; 3], ["return x ^ y;", "return x + y;", tail]);
    [TYPES, &all, "const function table[] = { f0, f1 };\n"].concat()
}

/// A program that loads a library and calls its exports at these offsets.
fn host(places: &[u64], length: usize) -> String {
    let places: Vec<String> = places.iter().map(u64::to_string).collect();
    format!(
        "{TYPES} static char room[1 << 16] __attribute__((aligned(4096))); static const u64 places[] = {{ {} }};
         int main(int argc, char **argv) {{
             u64 s = parse(argc, argv) + 1; if (ask({}, (u64)room, sizeof room, 0, {length})) return 99;
             for (u64 i = 0; i < 6 * sizeof places / 8; i++) {{ s = s * 31 + ((u64 (*)(u64, u64, u64))(room + places[i % (sizeof places / 8)]))(s, i * s, s >> 9); say(s); }}
             return s & 63; }}",
        places.join(", "),
        LOADER[0]
    )
}

#[test]
fn libraries_that_scripts_load_do_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let (mut count, mut changed, mut kept, mut all) = (0, 0, 0, 0);
    for seed in crate::seeds("ANTARES_REWRITE_PROGRAMS", 40) {
        println!("seed {seed}");
        let mut chance = Chance(seed);
        let (elf, may_keep) = build(&library(&mut chance), folder.path(), &mut chance, true);
        let Some(made) = rewritten(&elf, may_keep) else {
            kept += 1;
            continue;
        };
        let file = object::File::parse(&*elf).unwrap();
        let exports =
            file.dynamic_symbols().filter(|symbol| symbol.is_definition() && symbol.name() != Ok("table"));
        let places: Vec<u64> = exports.map(|symbol| symbol.address()).collect();
        assert_eq!(places.len(), 6);
        let (host, _) = build(&host(&places, elf.len().min(1 << 16)), folder.path(), &mut chance, false);
        (count, changed) = (count + 1, changed + usize::from(made.elf != elf));
        all += saved(&host, &host, [Some(&elf), Some(&made.elf)]);
    }
    println!("{changed} of {count} libraries changed, {kept} refused, {all} cycles fewer in all");
    assert!(changed * 2 > count && kept <= count, "{changed} of {count}, {kept}");
}
