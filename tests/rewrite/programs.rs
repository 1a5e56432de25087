//! Programs in C with all that makes control hard to follow: setjmp, fibers, callbacks, computed gotos, label
//! tables in both forms, function tables of four widths, weak symbols, tail calls, and calling conventions of
//! their own. Each is made by chance, built by gcc with its relocations, rewritten, and run on ckb-vm's own
//! machine with several arguments.

use std::{fmt::Write as _, fs, path::Path, process::Command};

use antares_abi::{CompileOptions, Isa};
use antares_guests as guests;
use antares_optimise::{Settings, optimise};
use antares_tests::oracle::{Case, Run, run};
use bytes::Bytes;

use crate::chance::Chance;

/// What all programs begin with.
const HEAD: &str = r#"
typedef unsigned long u64; typedef unsigned __int128 u128; typedef unsigned int u32;
typedef unsigned short u16; typedef unsigned char u8;
#define NOINLINE __attribute__((noipa))
static long say(u64 x) {
    static char line[20]; int at = 18;
    for (line[19] = 0; at >= 3; at--, x >>= 4) line[at] = "0123456789abcdef"[x & 15];
    register long a0 __asm__("a0") = (long)(line + 3); register long a7 __asm__("a7") = 2177;
    __asm__ volatile("ecall" : "+r"(a0) : "r"(a7) : "memory"); return a0;
}
typedef u64 buffer[16];
int setj(buffer) __attribute__((returns_twice)); void longj(buffer, long) __attribute__((noreturn));
struct context { u64 sp, ra, s[12]; };
u64 switch_to(struct context *, struct context *, u64);
u64 both(u64, u64);
__asm__(".text\n"
".globl setj\n.type setj,@function\nsetj: sd ra,0(a0); sd sp,104(a0)\n"
".irp n,0,1,2,3,4,5,6,7,8,9,10,11\n sd s\\n,8+8*\\n(a0)\n.endr\n li a0,0\n ret\n.size setj,.-setj\n"
".globl longj\n.type longj,@function\nlongj: ld ra,0(a0); ld sp,104(a0)\n"
".irp n,0,1,2,3,4,5,6,7,8,9,10,11\n ld s\\n,8+8*\\n(a0)\n.endr\n seqz a0,a1\n add a0,a0,a1\n ret\n.size longj,.-longj\n"
".globl switch_to\n.type switch_to,@function\nswitch_to: sd sp,0(a0); sd ra,8(a0)\n"
".irp n,0,1,2,3,4,5,6,7,8,9,10,11\n sd s\\n,16+8*\\n(a0)\n.endr\n ld sp,0(a1); ld ra,8(a1)\n"
".irp n,0,1,2,3,4,5,6,7,8,9,10,11\n ld s\\n,16+8*\\n(a1)\n.endr\n mv a0,a2\n ret\n.size switch_to,.-switch_to\n"
/* Results in t3 and t4, and nothing else is changed: a convention that no compiler has. */
".type odd,@function\nodd: mul t3,a0,a1; mulhu t4,a0,a1; ret\n.size odd,.-odd\n"
".globl both\n.type both,@function\nboth: mv t0,ra; call odd; add a0,t3,t4; sltu t5,a0,t3; add a0,a0,t5; mv ra,t0; ret\n.size both,.-both\n"
".macro small name, number\n.type \\name,@function\n\\name: mulhu a3,a0,a1; mul a2,a0,a1; xor a0,a2,a3; addi a0,a0,\\number; ret\n.size \\name,.-\\name\n.endm\n"
"small g0, 1\nsmall g1, 2\nsmall g2, 3\n"
".section .rodata\n.balign 8\n.globl words, halves, bytes\nwords: .word g0,g1,g2\nhalves: .half g0-g0,g1-g0,g2-g0\nbytes: .byte g0-g0,g1-g0,g2-g0\n.text\n");
extern const u32 words[]; extern const u16 halves[]; extern const u8 bytes[]; u64 g0(u64, u64);
typedef u64 (*function)(u64, u64);
static buffer env; static struct context contexts[3]; static u64 stacks[3][512]; static u64 out, running; static int failures;
"#;

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

/// Statements on `x` and `y`.
fn statements(chance: &mut Chance) -> String {
    let mut text = String::new();
    for _ in 0..1 + chance.below(4) {
        let to = ["x", "y"][chance.below(2) as usize];
        let value = expression(chance);
        let _ = match chance.below(4) {
            0 => write!(
                text,
                "if ({} & {}) {to} = {value}; ",
                ["x", "y"][chance.below(2) as usize],
                1 + chance.below(7)
            ),
            1 => write!(
                text,
                "for (int i = 0; i < {}; i++) {{ {to} = {value}; x += i; }} ",
                1 + chance.below(4)
            ),
            _ => write!(text, "{to} = {value}; "),
        };
    }
    text
}

/// A program.
fn program(chance: &mut Chance) -> String {
    let mut text = HEAD.to_owned();
    for index in 0..4 {
        let end = match chance.below(4) {
            0 if index > 0 => format!("return f{}(y, x);", index - 1),
            1 => "say(x); return x ^ y;".to_owned(),
            2 => "if (!(x & 15)) { failures++; longj(env, 1 + (x & 3)); } return x + y;".to_owned(),
            _ => "return x ^ y;".to_owned(),
        };
        let kind =
            ["NOINLINE", "NOINLINE __attribute__((weak))", "NOINLINE static"][chance.below(3) as usize];
        let _ = writeln!(text, "{kind} u64 f{index}(u64 x, u64 y) {{ {} {end} }}", statements(chance));
    }
    let bodies: Vec<String> = (0..8).map(|_| statements(chance)).collect();
    let step = |index: usize| &bodies[index];
    let _ = writeln!(
        text,
        "NOINLINE u64 fold(u64 *v, int n, function f) {{ u64 s = 1; for (int i = 0; i < n; i++) s = s * 31 + f(v[i], s); return s; }}
         NOINLINE u64 attempt(u64 x, u64 y) {{ int r = setj(env); if (r) return r * {}; return f0(x, y) + f1(y, x) + f2(x, x) + f3(y, y); }}
         NOINLINE u64 pointers(u64 k, u64 x, u64 y) {{ static void *const way[] = {{ &&l0, &&l1, &&l2, &&l3 }}; goto *way[k & 3]; l0: {} l1: {} l2: {} l3: {} return x ^ y; }}
         NOINLINE u64 differences(u64 k, u64 x, u64 y) {{ static const int way[] = {{ 0, &&l1 - &&l0, &&l2 - &&l0 }}; goto *(&&l0 + way[k % 3]); l0: {} l1: {} l2: {} return x + y; }}
         NOINLINE u64 cases(u64 k, u64 x, u64 y) {{ switch (k & 7) {{ case 0: {} case 1: x ^= 5; break; case 2: y += x; break; case 3: x += y * 3; break; case 4: y ^= x >> 7; case 5: x *= y; break; case 6: return y; }} return x - y; }}",
        1 + chance.below(99), step(0), step(1), step(2), step(3), step(4), step(5), step(6), step(7)
    );
    text.push_str(
        "NOINLINE u64 tables(u64 k, u64 x, u64 y) {
             static const function way[] = { f0, f1, both };
             static const struct __attribute__((packed)) { char tag; function f; } packed[] = { { 1, f2 }, { 2, f3 }, { 3, both } };
             k %= 3; u64 s = way[k](x, y); s ^= packed[k].f(y, s);
             s += ((function)(u64)words[k])(s, x); s ^= ((function)((char *)g0 + halves[k]))(x, s);
             return s + ((function)((char *)g0 + bytes[k]))(s, y); }
         NOINLINE static void worker(u64 value) { u64 id = running; out += value; for (u64 i = 0;; i++) { u128 p = (u128)(id * 0x9e3779b97f4a7c15 + i) * (out + id); out = out * 31 + ((u64)(p >> 64) ^ (u64)p); out += switch_to(&contexts[id], &contexts[0], i); } }
         int main(int argc, char **argv) {
             u64 n = 0; for (char *c = argc ? argv[argc - 1] : \"\"; *c >= '0' && *c <= '9'; c++) n = n * 10 + *c - '0';
             u64 v[4], s = n + 1; for (int i = 0; i < 4; i++) v[i] = 0x9e3779b97f4a7c15 * (i + 1) ^ s;
             for (int i = 1; i < 3; i++) { contexts[i].sp = (u64)&stacks[i][508] & ~15UL; contexts[i].ra = (u64)worker; }
             for (u64 i = 0; i < 6; i++) {
                 s = s * 31 + attempt(v[i & 3], s); if (failures > 9) break;
                 s ^= pointers(i, s, n); s += differences(i, n, s); s ^= cases(i, s, v[0]);
                 if (!setj(env)) s += tables(i, s, v[1]); if (!setj(env)) s ^= fold(v, 4, i & 1 ? f1 : both);
                 running = 1 + (i & 1); switch_to(&contexts[0], &contexts[running], s); say(s ^ out);
             }
             return (s ^ s >> 7 ^ out) & 127; }\n",
    );
    text
}

/// The ELF of `source`, with relocations.
fn build(source: &str, folder: &Path, chance: &mut Chance) -> Vec<u8> {
    let (path, elf) = (folder.join("program.c"), folder.join("program"));
    fs::write(&path, source).unwrap();
    let mut command = Command::new("riscv64-unknown-elf-gcc");
    let level = ["-O1", "-O2", "-O3", "-Os"][chance.below(4) as usize];
    let isa = ["-march=rv64imc", "-march=rv64imc_zba_zbb_zbs", "-march=rv64im"][chance.below(3) as usize];
    let relax = ["-mrelax", "-mno-relax"][chance.below(2) as usize];
    let table = ["-fno-jump-tables", "-fjump-tables"][chance.below(2) as usize];
    command.args(guests::GUEST_FLAGS).args([
        level,
        isa,
        relax,
        table,
        "-w",
        "-Wl,-q",
        "-fno-tree-loop-distribute-patterns",
    ]);
    // In half of them absolute addresses.
    command.args((chance.below(2) == 0).then_some("-mcmodel=medlow"));
    let own = guests::source_folder();
    command.arg("-T").arg(own.join("guest.ld")).arg(own.join("start.S")).arg(own.join("words.c")).arg(&path);
    let output = command.arg("-o").arg(&elf).output().unwrap();
    assert!(output.status.success(), "{}\n{source}", String::from_utf8_lossy(&output.stderr));
    fs::read(elf).unwrap()
}

fn run_with(elf: &[u8], argument: &str, vm_version: u32) -> Run {
    let options = CompileOptions { vm_version, isa: Isa::of_version(vm_version) };
    let args = vec![Bytes::copy_from_slice(argument.as_bytes()), Bytes::copy_from_slice(argument.as_bytes())];
    run(&Case { elf: Bytes::copy_from_slice(elf), args, options, cycles_max: 1 << 26, code: None })
}

#[test]
fn programs_of_all_kinds_do_the_same() {
    let count =
        std::env::var("ANTARES_REWRITE_PROGRAMS").ok().and_then(|text| text.parse().ok()).unwrap_or(30_u64);
    let first =
        std::env::var("ANTARES_REWRITE_FIRST").ok().and_then(|text| text.parse().ok()).unwrap_or(0_u64);
    let folder = tempfile::tempdir().unwrap();
    let (mut changed, mut saved) = (0, 0);
    for seed in first..first + count {
        let mut chance = Chance(seed);
        let source = program(&mut chance);
        let elf = build(&source, folder.path(), &mut chance);
        let machine = CompileOptions { vm_version: 2, isa: Isa::of_version(2) };
        let settings = Settings { machine, runs: None, takes_all: true };
        // The linker relaxes to gp, whose relocations not all match their bytes: such a file is refused.
        let Ok(made) = optimise(&elf, &settings, |_, _| true) else { continue };
        let untouched: Vec<&str> = made.untouched.iter().map(|function| function.name.as_str()).collect();
        assert!(
            untouched.contains(&"pointers") && untouched.contains(&"differences"),
            "seed {seed}: {untouched:?}"
        );
        changed += u32::from(made.elf != elf);
        for argument in ["0", "3", "77", "123456789"] {
            for version in 1..3 {
                let (before, after) =
                    (run_with(&elf, argument, version), run_with(&made.elf, argument, version));
                let of = |run: &Run| (run.outcome.clone(), run.debug.clone(), run.registers);
                assert_eq!(of(&before), of(&after), "seed {seed}, {argument}, version {version}");
                assert!(before.outcome.starts_with("Exit"), "seed {seed}: {}", before.outcome);
                assert!(after.cycles <= before.cycles, "seed {seed}: {} {}", before.cycles, after.cycles);
                saved += before.cycles - after.cycles;
            }
        }
    }
    println!("{changed} of {count} programs changed, {saved} cycles saved in all");
    assert!(changed > 0 && saved > 0, "{changed} of {count}");
}
