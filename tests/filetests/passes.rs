//! Each optimiser pass alone: IR in, IR out.
//!
//! A file under `passes/` has the name of its pass. Each case starts with `;;; ` and its title. The IR
//! follows, without the parts common to all modules. Then comes `;=>` and the IR after the pass, or `;=>
//! unchanged`. Comments at the head of a case define what a pass looks up in the script: `; entry 0x10000`,
//! `; words at 0x1003c: 0x10 0x20` (in executable pages), `; functions at 0x30000: 0x10010`. `BLESS=1`
//! rewrites the expectations.

use std::{collections::BTreeMap, fs, panic::catch_unwind, path::PathBuf};

use antares_abi::Hints;
use antares_ir::Module;
use antares_opt::{Context, Level, PASSES, Pass};
use antares_program::{GuestAddr, Program};
use antares_tests::{differential::compare, native};
use antares_vm::Machine;

use crate::{first_difference, is_blessing, read};

/// Default head of a module.
const HEAD: &str = "module version 2 isa imc+b+mop\ncode 0x10000..0x20000\nstores 0x20000..0x400000\n\
                    indirect {} changes {}\n";

/// Minimum number of cases of each pass.
const CASES_MIN: usize = 5;

struct PassCase<'a> {
    title: &'a str,
    /// IR with its comments.
    given: &'a str,
    expected: &'a str,
}

fn path(pass: &Pass) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("filetests/passes").join(pass.name).with_extension("ir")
}

fn cases(text: &str) -> Vec<PassCase<'_>> {
    let cases = text.split(";;; ").skip(1).map(|case| {
        let (title, case) = case.split_once('\n').unwrap();
        let (given, expected) = case.split_once(";=>").unwrap_or((case, ""));
        PassCase { title, given: given.trim(), expected: expected.trim() }
    });
    cases.collect()
}

fn module(case: &PassCase) -> Module {
    let lines: Vec<&str> = case.given.lines().filter(|line| !line.starts_with(';')).collect();
    let head = if case.given.contains("module version") { "" } else { HEAD };
    let text = format!("{head}{}", lines.join("\n"));
    antares_ir_text::module(&text).unwrap_or_else(|error| panic!("{}: {error}", case.title))
}

fn number(text: &str) -> u64 {
    u64::from_str_radix(text.trim().trim_start_matches("0x"), 16).unwrap()
}

/// The data that the pass may look up.
fn program(case: &PassCase, module: &Module) -> Program {
    let (mut entry, mut code, mut function_tables) = (module.code_start, Vec::new(), BTreeMap::new());
    for line in case.given.lines() {
        let listed = |start: &str| {
            let (at, numbers) = line.strip_prefix(start)?.split_once(": ")?;
            Some((number(at), numbers.split(' ').map(number).collect::<Vec<_>>()))
        };
        if let Some(at) = line.strip_prefix("; entry ") {
            entry = number(at);
        } else if let Some((at, words)) = listed("; words at ") {
            code.push((
                at,
                words.iter().flat_map(|word| u32::try_from(*word).unwrap().to_le_bytes()).collect(),
            ));
        } else if let Some((at, functions)) = listed("; functions at ") {
            function_tables.insert(at, functions.into_iter().map(GuestAddr).collect());
        }
    }
    Program {
        options: module.options,
        hints: Hints::default(),
        entry: GuestAddr(entry),
        code_start: module.code_start,
        code_end: module.code_end,
        writable: module.writable,
        code,
        is_loaded_code: false,
        functions: Vec::new(),
        function_tables,
    }
}

/// Output of the pass for a case, without the common head.
fn shown(pass: &Pass, case: &PassCase) -> String {
    let mut module = module(case);
    let before = module.clone();
    let program = program(case, &before);
    let context = Context { program: &program, target: antares_compiler::TARGET };
    pass.run(&mut module, context);
    if module == before {
        return "unchanged".to_owned();
    }
    let text = module.to_string();
    text.strip_prefix(HEAD).unwrap_or(&text).trim().to_owned()
}

#[test]
fn every_pass_does_to_its_cases_what_they_say() {
    let mut wrong = Vec::new();
    for pass in PASSES {
        let text = fs::read_to_string(path(pass)).unwrap();
        let mut fresh = text.split(";;; ").next().unwrap().to_owned();
        for case in cases(&text) {
            // The verifier after a pass may panic; continue with the other cases.
            let shown = catch_unwind(|| shown(pass, &case)).unwrap_or_else(|_| "a panic".to_owned());
            if shown != case.expected {
                wrong.push(format!(
                    "{}, {}:\n{}",
                    pass.name,
                    case.title,
                    first_difference(case.expected, &shown)
                ));
            }
            let end = if shown == "unchanged" { " " } else { "\n" };
            fresh.push_str(&format!(";;; {}\n{}\n;=>{end}{shown}\n\n", case.title, case.given));
        }
        if is_blessing() {
            fs::write(path(pass), fresh.trim_end().to_owned() + "\n").unwrap();
        }
    }
    assert!(is_blessing() || wrong.is_empty(), "{}\nBLESS=1 writes what is shown now", wrong.join("\n"));
}

#[test]
fn every_pass_has_cases_in_which_it_acts_and_some_in_which_it_does_not() {
    if is_blessing() {
        // The expectations are being rewritten.
        return;
    }
    for pass in PASSES {
        let text = fs::read_to_string(path(pass)).unwrap();
        let cases = cases(&text);
        assert!(cases.len() >= CASES_MIN, "{} has {} cases", pass.name, cases.len());
        let unchanged = cases.iter().filter(|case| case.expected == "unchanged").count();
        assert!(0 < unchanged && unchanged < cases.len(), "{}: {unchanged} are unchanged", pass.name);
    }
}

/// A module that the verifier refuses is compiled from its plain form, which has only the required passes.
#[test]
fn what_is_not_optimised_runs_as_in_ckb_vm() {
    let mut machine = Machine::new().unwrap();
    for path in crate::cases() {
        let case = read(&path);
        let program = case.program().unwrap();
        let mut module = antares_lift::lift(&program, 1 << 20).unwrap();
        let context = Context { program: &program, target: antares_compiler::TARGET };
        antares_opt::optimize(&mut module, context, Level::Plain);
        assert_eq!(antares_proof::refused(&module), []);
        assert!(!module.to_string().contains("proved."), "{}", path.display());
        let library = native::load(&antares_baseline::compile(&module, None).unwrap()).unwrap();
        let compared = compare(&mut machine, &case.oracle_case().unwrap(), Some(&library)).unwrap();
        assert!(compared.is_ok(), "{}: {}", path.display(), compared.unwrap_err());
    }
}
