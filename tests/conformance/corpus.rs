//! Scripts as they are written today, in Rust and in Lua, whole, stripped and without section headers: equal in all
//! tiers, and native once runs have taught what recovery could not know.

use std::{
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use antares_abi::{CodeTier, Hints};
use antares_tests::{
    corpus::{Form, Learnt, Program, RUNS, case, learn, programs, run},
    differential::compare,
};
use antares_vm::Machine;
use anyhow::{Context, Result, anyhow, ensure};

/// Natively run cycles from the third run on, per mille.
const SHARE_MIN: u64 = 990;

/// One program in one form, through all tiers.
fn check(machine: &mut Machine, program: &Program, form: Form) -> Result<Learnt> {
    let case = case(&form.of(&program.elf)?, &program.args);
    let interpreted =
        compare(machine, &case, None)?.map_err(|difference| anyhow!("interpreter: {difference}"))?;
    let learnt = learn(machine, &case, RUNS)?;
    // The generators share recovery: one full compile for each program is enough, and Lua's, which takes longest, are made elsewhere.
    let has_full = form == Form::Stripped && !program.name.starts_with("lua");
    let full = has_full.then(|| run(machine, &case, CodeTier::Full, &learnt.hints)).transpose()?;
    for equal in learnt.runs.iter().chain(&full) {
        ensure!((&equal.outcome, equal.cycles) == (&interpreted.outcome, interpreted.cycles));
    }
    if let Some(full) = full {
        let share = full.native_cycles * 1000 / full.cycles.max(1);
        ensure!(share >= SHARE_MIN, "{share} per mille native in the full tier, {:?}", full.restarted);
    }
    let last = learnt.share(RUNS - 1);
    let reason = learnt.runs.last().and_then(|run| run.restarted);
    ensure!(last >= SHARE_MIN, "{last} per mille native in run {RUNS}, {reason:?}");
    Ok(learnt)
}

#[test]
fn todays_scripts_become_native_in_every_form() {
    let programs = programs(3).unwrap();
    let jobs: Vec<(&Program, Form)> =
        programs.iter().flat_map(|program| Form::ALL.map(|form| (program, form))).collect();
    let (next, lines, failures) = (AtomicUsize::new(0), Mutex::new(Vec::new()), Mutex::new(Vec::new()));
    let work = || {
        let mut machine = Machine::new().unwrap();
        while let Some((program, form)) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
            let name = format!("{} | {}", program.name, form.name());
            match check(&mut machine, program, *form).with_context(|| name.clone()) {
                Ok(learnt) => lines.lock().unwrap().push(row(&name, &learnt)),
                Err(error) => failures.lock().unwrap().push(format!("{error:#}")),
            }
        }
    };
    let threads = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(work))));
    let (mut lines, failures) = (lines.into_inner().unwrap(), failures.into_inner().unwrap());
    lines.sort();
    println!("program | form | % native in runs 1 to {RUNS} | hints\n{}", lines.join("\n"));
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// A line of the table.
fn row(name: &str, learnt: &Learnt) -> String {
    let shares = (0..RUNS).map(|index| format!("{:.1}", learnt.share(index) as f64 / 10.0));
    format!("{name} | {} | {}", shares.collect::<Vec<_>>().join(", "), learnt.hints.len())
}

/// Panics behind functions that only a table names end as in the interpreter, in code that knows them and in code that does not.
#[test]
fn panics_behind_tables_end_alike() {
    let programs = programs(3).unwrap();
    let mut machine = Machine::new().unwrap();
    for program in programs.iter().filter(|program| program.name.starts_with("handlers")) {
        for form in [Form::Whole, Form::Stripped] {
            let elf = form.of(&program.elf).unwrap();
            let plain = case(&elf, &program.args);
            let hints = learn(&mut machine, &plain, RUNS).unwrap().hints;
            for (how, said) in [
                ("bounds", "index out of bounds"),
                ("overflow", "attempt to subtract with overflow"),
                ("expect", "the stack is empty"),
                ("divide", "attempt to divide by zero"),
            ] {
                let args = [how.into(), program.args[0].clone()];
                let case = case(&elf, &args);
                for hints in [Hints::default(), hints.clone()] {
                    let equal = run(&mut machine, &case, CodeTier::Baseline, &hints).unwrap();
                    assert_eq!(equal.outcome, "Exit(-1)", "{} {how}", program.name);
                    assert!(equal.debug.iter().any(|line| line.contains(said)), "{how}: {:?}", equal.debug);
                }
            }
        }
    }
}
