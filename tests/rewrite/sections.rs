//! Linkers' tables of calls, constructors and threads, and relaxation: rewritten, unchanged, or refused with
//! the reason.

use std::{fs, path::Path, process::Command};

use antares_guests as guests;
use antares_tests::oracle::{Case, run};

use crate::{machine, rewrite};

/// Result for the function `work`.
enum Then {
    Rewritten,
    Left,
    Refused(&'static str),
}
use Then::{Left, Refused, Rewritten};

const GNU: &[&str] = &["riscv64-unknown-elf-gcc"];
const LLVM: &[&str] = &["clang-22", "--target=riscv64-unknown-elf", "-B/usr/lib/llvm-22/bin", "-fuse-ld=lld"];
const BOTH: &[&[&str]] = &[GNU, LLVM];
const ONLY_LLVM: &[&[&str]] = &[LLVM];

/// A script that calls `work` by `call`, followed by `more`. Only relocations reference the label.
fn source(call: &str, more: &str) -> String {
    format!(
        ".macro function name\n.type \\name,@function\n\\name:\n.endm\n.globl work, _start\nfunction _start\n\
         .option push\n.option norelax\nla gp,__global_pointer$\n.option pop\nli a0,7\nli a1,9\n{call}\n\
         andi a0,a0,63\nli a7,93\necall\n.size _start,.-_start\nfunction work\nmul a2,a0,a1\n.Linside:\n\
         mulhu a3,a0,a1\nadd a0,a2,a3\nret\n.size work,.-work\n{more}\n"
    )
}

/// The file built by a compiler and its linker.
fn link(tools: &[&str], flags: &[&str], text: &str, folder: &Path) -> Vec<u8> {
    // A library uses its host's global pointer.
    let is_library = flags.iter().any(|flag| flag.starts_with("-Wl,-shared"));
    let text = if is_library { text.replace("la gp,__global_pointer$", "") } else { text.to_owned() };
    let (path, elf) = (folder.join("case.s"), folder.join("case"));
    fs::write(&path, text).unwrap();
    // A table with the inner label's address, without a relocation.
    let script = "SECTIONS { .table ALIGN(4) : { LONG(work + 4) LONG(0xffffffff) } } INSERT AFTER .data;";
    fs::write(folder.join("case.ld"), script).unwrap();
    let mut command = Command::new(tools[0]);
    command
        .current_dir(folder)
        .args(&tools[1..])
        .args(guests::GUEST_FLAGS)
        .arg("-march=rv64imac")
        .arg("-Wl,--no-gc-sections");
    if tools == LLVM {
        command.arg("-Wl,--no-rosegment,-zseparate-code,-zmax-page-size=4096");
    }
    guests::crates::run(command.args(flags).arg(&path).arg("-o").arg(&elf)).unwrap();
    fs::read(elf).unwrap()
}

/// A name, compilers, flags, the source, and the result.
type Linking = (&'static str, &'static [&'static [&'static str]], &'static [&'static str], String, Then);

fn linkings() -> Vec<Linking> {
    const KEPT: &[&str] = &["-Wl,-q"];
    const LIBRARY: &[&str] = &["-Wl,-q", "-Wl,-shared"];
    const OWN_LIBRARY: &[&str] = &["-Wl,-q", "-Wl,-shared,-Bsymbolic"];
    const SCRIPT: &[&str] = &["-Wl,-q", "-Wl,-T,case.ld"];
    let call = "call work";
    let unnamed = || Refused("-Wl,-q,-Bsymbolic");
    let by_pointer = "lla a5,word\nld a6,0(a5)\ncall work";
    let inside = "lla a5,.Linside\ncall work";
    let thread = "lui a5,%tprel_hi(word)\nadd a5,a5,tp,%tprel_add(word)\nmv a6,a5\ncall work";
    let words = |section: &str, kind: &str, word: &str| {
        format!(".section {section},\"{kind}\"\n.balign 8\nword: .dword {word}\n")
    };
    let indirect = ".type chosen,@gnu_indirect_function\n.globl chosen\nchosen: la a0,work\nret\n";
    let recursion = ".option norelax\nfunction down\n.Ldown: beqz a0,1f\naddi a0,a0,-1\ncall .Ldown\n1: ret\n\
        .size down,.-down\n";
    vec![
        ("nothing else", BOTH, KEPT, source(call, ""), Rewritten),
        ("a library that calls through a table", ONLY_LLVM, LIBRARY, source(call, ""), Refused("-Bsymbolic")),
        ("a library that calls itself", ONLY_LLVM, OWN_LIBRARY, source(call, ""), Rewritten),
        ("a library without", ONLY_LLVM, &["-Wl,-shared"], source(call, ""), unnamed()),
        ("a stripped library", ONLY_LLVM, &["-Wl,-shared", "-s"], source(call, ""), unnamed()),
        ("ifunc", BOTH, KEPT, source("call chosen", indirect), Refused("ifuncs")),
        ("a constructor", BOTH, KEPT, source(call, &words(".init_array", "aw", "work")), Rewritten),
        ("one inside", BOTH, KEPT, source(call, &words(".init_array", "aw", ".Linside")), Left),
        ("an early one", BOTH, KEPT, source(call, &words(".preinit_array", "aw", "work")), Rewritten),
        ("an early one inside", BOTH, KEPT, source(call, &words(".preinit_array", "aw", ".Linside")), Left),
        ("a thread's", BOTH, KEPT, source(thread, &words(".tdata", "awT", "work")), Rewritten),
        ("a thread's inside", BOTH, KEPT, source(thread, &words(".tdata", "awT", ".Linside")), Left),
        (
            "a thread's, found by a library",
            ONLY_LLVM,
            OWN_LIBRARY,
            source("la.tls.gd a0,word", &words(".tdata", "awT", "work")),
            Refused("unknown type"),
        ),
        ("by the global pointer", BOTH, KEPT, source(by_pointer, &words(".sdata", "aw", "work")), Rewritten),
        (
            "inside, by the global pointer",
            BOTH,
            KEPT,
            source(by_pointer, &words(".sdata", "aw", ".Linside")),
            Left,
        ),
        (
            "a difference of any length",
            ONLY_LLVM,
            KEPT,
            source(call, ".data\n.uleb128 .Linside-_start"),
            Left,
        ),
        ("a difference of a byte", BOTH, KEPT, source(call, ".data\n.byte .Linside-_start"), Left),
        ("an address of 32 bits", BOTH, KEPT, source(call, ".data\n.word .Linside"), Left),
        ("an address of 32 bits by a linker script", BOTH, SCRIPT, source(call, ".data\n.word 1"), Left),
        ("an address by two instructions", BOTH, KEPT, source(inside, ""), Left),
        ("a folded call", BOTH, KEPT, source(call, recursion), Rewritten),
        ("a folded call inside", BOTH, KEPT, source(".option norelax\ncall .Linside", ""), Left),
        ("a folded address", ONLY_LLVM, &["-Wl,-q", "-mno-relax"], source(inside, ""), Refused("-mno-relax")),
    ]
}

#[test]
fn what_linkers_make_is_rewritten_left_alone_or_refused() {
    let folder = tempfile::tempdir().unwrap();
    for (name, tools, flags, text, then) in linkings() {
        for tools in tools {
            let elf = link(tools, flags, &text, folder.path());
            match (rewrite(&elf, 2, usize::MAX), &then) {
                (Ok(made), Rewritten) => {
                    assert!(made.elf != elf, "{name}");
                    let outcome = |elf: &[u8]| run(&Case::new(elf, &[], machine(2), 1 << 20)).outcome;
                    assert_eq!(outcome(&made.elf), outcome(&elf), "{name}");
                }
                (Ok(made), Left) => assert!(made.elf == elf, "{name}: {:?}", made.untouched),
                (Err(error), Refused(why)) => assert!(error.to_string().contains(why), "{name}: {error}"),
                (made, _) => panic!("{name}: {:?}", made.map(|made| made.untouched)),
            }
        }
    }
}
