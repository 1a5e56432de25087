//! What a script costs that fails after long work: native code gives up, and the interpreter does it all
//! again.

use antares_tests::{
    guests, native,
    oracle::{self, Case},
    stopwatch::timed,
};
use antares_vm::{Library, Limits, Machine, Outcome, RunScript, Tier};
use anyhow::{Result, ensure};
use bytes::Bytes;
use serde_json::{Value, json};

use crate::{programs::OPTIONS, report::Spread};

/// Interleaved rounds.
const ROUNDS: usize = 15;
/// Cycles that no script here takes.
const CYCLES_MAX: u64 = 1 << 40;

/// Work of some 30 million cycles before the end.
const WORK: &str = "
    li t0, 2000000
    li t1, 12345
1:  mul t2, t1, t0
    add t1, t1, t2
    sd t1, -8(sp)
    addi t0, t0, -1
    bnez t0, 1b
";
/// How the scripts end, and the limit of cycles.
const ENDS: [(&str, &str, u64); 4] = [
    ("exit", "li a0, 0\n li a7, 93\n ecall", CYCLES_MAX),
    ("memory error", "li t0, -1\n ld a0, 0(t0)", CYCLES_MAX),
    ("invalid instruction", ".word 0xffffffff", CYCLES_MAX),
    ("cycles exceeded", "j 1b", 30_000_000),
];

/// Measures all failures; prints a line for each.
pub(crate) fn measure() -> Result<Vec<Value>> {
    println!(
        "failures: our time to that of AsmMachine for the same end, plus that of native code for the work"
    );
    let mut native_time = None;
    let mut rows = Vec::new();
    for (name, end, cycles_max) in ENDS {
        let elf = Bytes::from(guests::assemble(&format!(".globl _start\n_start:\n{WORK}{end}\n"))?);
        let case = Case { elf, args: Vec::new(), options: OPTIONS, cycles_max, code: None };
        let library = native::output(&case.elf, OPTIONS, antares_compiler::Stage::Library)?;
        let library = native::load(&library.bytes)?;
        let mut machine = Machine::new()?;
        let mut ratios = Vec::new();
        let mut ours_of = Vec::new();
        for _ in 0..ROUNDS {
            let ours = run(&mut machine, &case, &library)?;
            let (_, theirs) = timed(|| oracle::run(&case));
            let native = *native_time.get_or_insert(ours);
            ratios.push(ours / (theirs.as_secs_f64() + native));
            ours_of.push(ours);
        }
        let (ratio, ours) = (Spread::of(ratios), Spread::of(ours_of).median);
        if name == "exit" {
            native_time = Some(ours);
            println!("{name:<20} {:.2} ms natively", ours * 1e3);
            continue;
        }
        println!("{name:<20} {ratio}   {:.2} ms", ours * 1e3);
        rows.push(json!({ "name": name, "ratio": ratio.median, "ratio_quartiles": [ratio.low, ratio.high] }));
    }
    Ok(rows)
}

fn run(machine: &mut Machine, case: &Case, library: &Library) -> Result<f64> {
    let script = RunScript { elf: &case.elf, args: &[], vm_version: OPTIONS.vm_version, isa: OPTIONS.isa.0 };
    let limits = Limits { cycles_max: case.cycles_max, debug_bytes_max: 0 };
    let (report, time) = timed(|| machine.run(&script, &limits, Tier::Native, Some(library)));
    let report = report?;
    let is_exit = matches!(report.outcome, Outcome::Exit(_));
    ensure!(is_exit == report.restarted.is_none(), "{:?}, {:?}", report.outcome, report.restarted);
    Ok(time.as_secs_f64())
}
