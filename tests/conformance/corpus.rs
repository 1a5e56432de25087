//! Current scripts in Rust, Lua and JavaScript, whole, stripped and without section headers. They have equal
//! results in all tiers, and become native once runs have provided hints that recovery lacks.

use antares_abi::{CodeTier, Hints};
use antares_tests::{
    corpus::{Form, Learnt, Program, RUNS, case, learn, programs, run},
    differential::compare,
    guests::{self, Source},
};
use antares_vm::Machine;
use anyhow::{Context, Result, anyhow, ensure};

use crate::check::each;

/// Minimum native share of cycles from the third run on, in per mille.
const SHARE_MIN: u64 = 990;

fn is_js_vm(program: &Program) -> bool {
    program.name.starts_with("ckb-js-vm")
}

/// Runs one program in one form through all tiers.
fn check(machine: &mut Machine, program: &Program, form: Form) -> Result<Learnt> {
    let case = case(&form.of(&program.elf)?, &program.args);
    let interpreted =
        compare(machine, &case, None)?.map_err(|difference| anyhow!("interpreter: {difference}"))?;
    // The exit code of a panic, after which most of the program has not run.
    ensure!(interpreted.outcome != "Exit(-1)", "panics");
    let learnt = learn(machine, &case, RUNS)?;
    // Both generators share recovery, so one full compile per ELF suffices. Lua's full compiles take long;
    // other tests make them.
    let has_full = match program.name.as_str() {
        "ckb-js-vm calls" => form == Form::Whole,
        name => form == Form::Stripped && !name.starts_with("lua"),
    };
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
    let all = programs.iter().flat_map(|program| Form::ALL.map(|form| (program, form)));
    // ckb-js-vm is published stripped.
    let jobs: Vec<(&Program, Form)> =
        all.filter(|(program, form)| !(is_js_vm(program) && *form == Form::Stripped)).collect();
    println!("program | form | % native in runs 1 to {RUNS} | hints");
    each(&jobs, |machine, (program, form)| {
        let name = format!("{} | {form:?}", program.name);
        match check(machine, program, *form).with_context(|| name.clone()) {
            Ok(learnt) => Ok(Some(row(&name, &learnt))),
            Err(error) => Err(format!("{error:#}")),
        }
    });
}

/// The benchmark's programs stay native without symbols and section headers, after at most three runs.
#[test]
fn guests_become_native_without_symbols() {
    let guests = guests::guests();
    // Lua is part of the corpus.
    let programs = guests
        .iter()
        .filter(|guest| matches!(guest.source, Source::Program { .. }) && !guest.name.starts_with("lua"));
    let forms = Form::ALL.into_iter().filter(|form| *form != Form::Whole);
    let jobs: Vec<_> = programs.flat_map(|guest| forms.clone().map(move |form| (guest, form))).collect();
    each(&jobs, |machine, (guest, form)| {
        let elf = form.of(&guests::bytes(&guest.name).unwrap()).unwrap();
        let learnt = learn(machine, &case(&elf, &["-".into(), "1".into()]), RUNS).unwrap();
        let (first, last) = (learnt.share(0), learnt.share(RUNS - 1));
        let name = format!("{} | {form:?}", guest.name);
        if last < SHARE_MIN {
            return Err(format!("{name}: {last} per mille native"));
        }
        Ok((first < SHARE_MIN).then(|| format!("{name} | {first} per mille native in the first run")))
    });
}

fn row(name: &str, learnt: &Learnt) -> String {
    let shares = (0..RUNS).map(|index| format!("{:.1}", learnt.share(index) as f64 / 10.0));
    format!("{name} | {} | {}", shares.collect::<Vec<_>>().join(", "), learnt.hints.len())
}

/// Panics in functions that only a table references end as in the interpreter, whether or not the code knows
/// these functions.
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
