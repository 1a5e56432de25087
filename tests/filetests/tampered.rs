//! The IR's verifier against IR with false claims.

use antares_abi::CodeTier;
use antares_compiler::{CompileError, Stage, compile_by};
use antares_ir::{
    BinaryOp, Block, Charge, LinearSum, LoopSpan, Module, Op, Terminator, Value, VersionedLoop,
};
use antares_opt::{Context, Level, optimize};
use antares_program::BlockId;
use antares_proof::refused;
use antares_tests::native::{self, claim_proof, claim_proofs};

use crate::{case::Case, read};

fn case(name: &str) -> Case {
    read(format!("{}/filetests/cases/{name}.S", env!("CARGO_MANIFEST_DIR")).as_ref())
}

fn module(name: &str) -> Module {
    case(name).module(CodeTier::Full).unwrap()
}

/// Locations of all operations that satisfy `is_wanted`.
fn places(module: &Module, is_wanted: impl Fn(&Op) -> bool) -> Vec<(usize, usize, usize)> {
    let mut places = Vec::new();
    for (function, blocks) in module.functions.iter().map(|function| &function.blocks).enumerate() {
        for (block, ops) in blocks.iter().map(|block| &block.ops).enumerate() {
            let found = ops.iter().enumerate().filter(|(_, op)| is_wanted(op));
            places.extend(found.map(|(op, _)| (function, block, op)));
        }
    }
    places
}

/// Checks that the verifier refuses `module` after `change`, with an error that contains `expected`.
#[track_caller]
fn check_refused(module: &Module, expected: &str, change: impl FnOnce(&mut Module)) {
    let mut tampered = module.clone();
    change(&mut tampered);
    let error = refused(&tampered).first().map_or_else(|| "nothing".to_owned(), ToString::to_string);
    assert!(error.contains(expected), "{error}\n{tampered}");
}

/// Claims that every check is proved.
fn lie(module: &mut Module, context: Context, level: Level) {
    optimize(module, context, level);
    claim_proofs(module);
}

#[test]
fn what_the_verifier_refuses_is_compiled_from_the_plain_form() {
    let case = case("checks_across_blocks");
    let (elf, request) = (case.elf().unwrap(), native::request(case.options, Stage::Baseline));
    let plain = compile_by(|it, context, _| optimize(it, context, Level::Plain), &elf, &request).unwrap();
    let lied = |it: &mut Module, context: Context, level: Level| match level {
        Level::Plain => optimize(it, context, level),
        _ => lie(it, context, level),
    };
    let lied = compile_by(lied, &elf, &request).unwrap();
    assert_eq!((plain.unproved_functions, lied.unproved_functions), (0, 1));
    assert_eq!(lied.bytes, plain.bytes);
    let failed = compile_by(lie, &elf, &request);
    assert!(matches!(failed, Err(CompileError::Failed { detail }) if detail.contains("is not proved")));
}

#[test]
fn a_check_that_is_only_said_to_be_proved_is_noticed() {
    let module = module("checks_across_blocks");
    assert!(!module.functions.iter().any(|function| !function.loops.is_empty()));
    let checks = places(&module, |op| matches!(op, Op::Check { .. }));
    assert!(checks.len() >= 6, "{checks:?}");
    for (function, block, op) in checks {
        check_refused(&module, "is not proved", |tampered| {
            claim_proof(&mut tampered.functions[function].blocks[block].ops[op]);
        });
    }
}

#[test]
fn a_proof_of_more_than_was_checked_is_noticed() {
    let module = module("checks_across_blocks");
    let proofs = places(&module, |op| matches!(op, Op::Proved { .. }));
    assert!(proofs.len() >= 5, "{proofs:?}");
    for place in proofs {
        widen(&module, place, 0, 4096);
    }
}

/// Checks that the verifier refuses a proof of more bytes.
#[track_caller]
fn widen(module: &Module, place: (usize, usize, usize), below: i64, above: i64) {
    check_refused(module, "is not proved", |tampered| {
        let (function, block, index) = place;
        if let Op::Proved { low, high, .. } = &mut tampered.functions[function].blocks[block].ops[index] {
            (*low, *high) = (*low - below, *high + above);
        }
    });
}

/// Programs with versioned loops, of one block and of several, with calls and words.
const LOOPS: [&str; 5] =
    ["counted_loop", "counted_loop_of_blocks", "loop_on_vectors", "called_with_numbers", "versioned_loops"];

/// Changes each loop of the programs, at least `least` of them: the verifier's error must contain one of
/// `expected`.
#[track_caller]
fn refused_loops(least: usize, expected: &[&str], change: impl Fn(&mut Module, usize, usize) -> Option<()>) {
    let mut changed = 0;
    for name in LOOPS {
        let module = module(name);
        assert_eq!(refused(&module), [], "{name}");
        for function in 0..module.functions.len() {
            for versioned in 0..module.functions[function].loops.len() {
                let mut tampered = module.clone();
                if change(&mut tampered, function, versioned).is_none() || tampered == module {
                    continue;
                }
                let found = refused(&tampered);
                let error = found.first().map_or_else(|| "nothing".to_owned(), ToString::to_string);
                let is_expected = expected.iter().any(|expected| error.contains(expected));
                assert!(is_expected, "{name} function {function} loop {versioned}: {error}\n{tampered}");
                changed += 1;
            }
        }
    }
    assert!(changed >= least, "{changed}");
}

fn witness(module: &mut Module, function: usize, versioned: usize) -> &mut VersionedLoop {
    &mut module.functions[function].loops[versioned]
}

/// The guard's operations.
fn guard(module: &mut Module, function: usize, versioned: usize) -> &mut Vec<Op> {
    let guard = witness(module, function, versioned).guard;
    &mut module.functions[function].blocks[guard.0 as usize].ops
}

#[test]
fn a_witness_of_another_loop_is_noticed() {
    let trips = ["the trip count is not shown"];
    let changes: [fn(&mut VersionedLoop); 5] = [
        |witness| witness.step += 1,
        |witness| witness.step = -witness.step,
        |witness| witness.counter.offset += 1 << 40,
        |witness| witness.end = LinearSum { terms: Vec::new(), offset: 3 },
        |witness| witness.last = Value(0),
    ];
    for (number, change) in changes.into_iter().enumerate() {
        println!("change {number}");
        refused_loops(8, &trips, |module, function, versioned| {
            change(witness(module, function, versioned));
            Some(())
        });
    }
    let shorter = ["control flows", "the cycle limit", "a deferred charge"];
    refused_loops(8, &shorter, |module, function, versioned| {
        witness(module, function, versioned).blocks -= 1;
        Some(())
    });
}

#[test]
fn a_guard_that_asks_less_is_noticed() {
    use BinaryOp::{Eq, Ge, GeUnsigned, LtUnsigned};
    // Each comparison of the guard is removed alone: another one may imply it, but not often.
    let (mut needless, mut needed) = (0, 0);
    for name in LOOPS {
        let module = module(name);
        for (index, function) in module.functions.iter().enumerate() {
            for versioned in &function.loops {
                let block = versioned.guard.0 as usize;
                for (place, op) in function.blocks[block].ops.iter().enumerate() {
                    let Op::Binary(by, ..) = op else { continue };
                    if !matches!(by, LtUnsigned | GeUnsigned | Ge | Eq) {
                        continue;
                    }
                    let mut tampered = module.clone();
                    tampered.functions[index].blocks[block].ops[place] = Op::Const(1);
                    *(if refused(&tampered).is_empty() { &mut needless } else { &mut needed }) += 1;
                }
            }
        }
    }
    assert!(needed >= 40 && needless * 10 <= needed, "{needed} and {needless}");
}

#[test]
fn a_guard_whose_numbers_are_wider_is_noticed() {
    refused_loops(8, &["the cycles are not shown", "is not shown"], |module, function, versioned| {
        let ops = guard(module, function, versioned);
        // The bound of the distance, and so of iterations.
        let compared = ops.iter().rev().find_map(|op| match *op {
            Op::Binary(BinaryOp::LtUnsigned, _, end) => Some(end),
            _ => None,
        })?;
        ops[compared.0 as usize] = Op::Const(-1);
        Some(())
    });
    refused_loops(8, &["the cycles are not shown"], |module, function, versioned| {
        let ops = guard(module, function, versioned);
        let overdraft = ops.iter().position(|op| *op == Op::Const(-(1 << 22)))?;
        ops[overdraft] = Op::Const(-(1 << 23));
        Some(())
    });
}

#[test]
fn a_trip_count_that_is_too_low_is_noticed() {
    refused_loops(2, &["the trip count is not shown"], |module, function, versioned| {
        let last = witness(module, function, versioned).last;
        let ops = guard(module, function, versioned);
        // Rounds down instead of up.
        let Op::Binary(BinaryOp::Lshr, distance, _) = ops[last.0 as usize] else { return None };
        let Op::Binary(BinaryOp::Add, sum, more) = ops[distance.0 as usize] else { return None };
        let Op::Const(_) = ops[more.0 as usize] else { return None };
        ops[distance.0 as usize] = Op::Binary(BinaryOp::Or, sum, sum);
        Some(())
    });
    refused_loops(2, &["the trip count is not shown"], |module, function, versioned| {
        let last = witness(module, function, versioned).last;
        let ops = guard(module, function, versioned);
        let Op::Binary(BinaryOp::Add, quotient, _) = ops[last.0 as usize] else { return None };
        let Op::Binary(BinaryOp::Lshr, ..) = ops[quotient.0 as usize] else { return None };
        // One iteration less.
        ops[last.0 as usize] = Op::Binary(BinaryOp::Or, quotient, quotient);
        Some(())
    });
}

#[test]
fn a_span_of_more_than_the_guard_asks_for_is_noticed() {
    let changes: [fn(&mut LoopSpan); 4] = [
        |span| span.bytes += 1 << 22,
        |span| span.start.offset -= 1 << 22,
        |span| span.start.offset += 1 << 22,
        |span| span.step = 1 << 30,
    ];
    for (number, change) in changes.into_iter().enumerate() {
        println!("change {number}");
        refused_loops(8, &["span 0 is not shown", "is not proved"], |module, function, versioned| {
            change(witness(module, function, versioned).spans.first_mut()?);
            Some(())
        });
    }
    refused_loops(8, &["is not proved"], |module, function, versioned| {
        let spans = &mut witness(module, function, versioned).spans;
        spans.pop().map(|_| ())
    });
}

#[test]
fn an_access_beyond_the_spans_of_a_bounded_loop_is_noticed() {
    let mut tried = 0;
    for name in LOOPS {
        let module = module(name);
        for (function, block, index) in places(&module, |op| matches!(op, Op::Proved { .. })) {
            if !module.functions[function].blocks[block].is_bounded {
                continue;
            }
            widen(&module, (function, block, index), 0, 4096);
            widen(&module, (function, block, index), 4096, 0);
            tried += 2;
        }
    }
    assert!(tried >= 16, "{tried}");
}

#[test]
fn an_iteration_that_does_something_else_is_noticed() {
    // A counter that moves in the other direction than the witness states.
    refused_loops(6, &["the trip count is not shown"], |module, function, versioned| {
        let VersionedLoop { header, blocks, counter, .. } = witness(module, function, versioned).clone();
        let (register, _) = *counter.terms.first()?;
        let inside = header.0 as usize..(header.0 + blocks) as usize;
        let mut found = None;
        for block in &mut module.functions[function].blocks[inside] {
            let value =
                block.writes.iter().find(|(written, _)| *written == register).map(|(_, value)| *value);
            if let Some(value) = value
                && let Op::Binary(BinaryOp::Add, x, _) = block.ops[value.0 as usize]
            {
                block.ops[value.0 as usize] = Op::Binary(BinaryOp::Sub, x, x);
                found = Some(());
            }
        }
        found
    });
}

#[test]
fn a_second_way_into_a_bounded_loop_is_noticed() {
    refused_loops(8, &["control flows otherwise"], |module, function, versioned| {
        let VersionedLoop { guard, header, .. } = *witness(module, function, versioned);
        let blocks = &mut module.functions[function].blocks;
        let Terminator::Branch { taken, otherwise, .. } = &mut blocks[guard.0 as usize].terminator else {
            return None;
        };
        assert_eq!(*taken, header);
        *otherwise = header;
        Some(())
    });
}

#[test]
fn a_deferred_charge_that_nobody_makes_is_noticed() {
    let mut tried = 0;
    for name in LOOPS {
        let module = module(name);
        for (function, blocks) in module.functions.iter().map(|function| &function.blocks).enumerate() {
            for (block, charge) in blocks.iter().map(|block| block.charge).enumerate() {
                if !matches!(charge, Charge::OfDeferred { .. }) {
                    continue;
                }
                check_refused(&module, "a deferred charge is lost", |tampered| {
                    tampered.functions[function].blocks[block].charge = Charge::Entered;
                });
                tried += 1;
            }
        }
    }
    assert!(tried >= 1, "{tried}");
}

#[test]
fn a_loop_without_a_cycle_limit_check_is_noticed() {
    let module = module("loop");
    let mut tried = 0;
    for function in 0..module.functions.len() {
        for block in 0..module.functions[function].blocks.len() {
            if module.functions[function].blocks[block].is_metered {
                check_refused(&module, "the cycle limit is not checked", |tampered| {
                    tampered.functions[function].blocks[block].is_metered = false;
                });
                tried += 1;
            }
        }
    }
    assert!(tried >= 2, "{tried}");
}

#[test]
fn where_no_path_leads_no_cycle_limit_is_asked_for() {
    let mut module = module("checks_across_blocks");
    let is_left = |block: &&Block| matches!(block.terminator, Terminator::Return { .. });
    let function = module.functions.iter_mut().find(|function| function.blocks.iter().any(|b| is_left(&b)));
    let blocks = &mut function.expect("somebody returns").blocks;
    let unreached = Block { is_metered: false, ..blocks.iter().find(is_left).unwrap().clone() };
    blocks.push(unreached);
    assert_eq!(refused(&module), []);
}

#[test]
fn a_span_of_one_byte_more_is_noticed_unless_another_shows_it() {
    let (mut noticed, mut shown) = (0, 0);
    for name in LOOPS {
        let module = module(name);
        for function in 0..module.functions.len() {
            for versioned in 0..module.functions[function].loops.len() {
                for (below, above) in [(1, 0), (0, 1)] {
                    let mut tampered = module.clone();
                    let Some(span) = witness(&mut tampered, function, versioned).spans.first_mut() else {
                        continue;
                    };
                    span.start.offset -= below;
                    span.bytes += below + above;
                    let error = refused(&tampered).first().map(ToString::to_string);
                    let is_noticed = error.is_some_and(|error| error.contains("span 0 is not shown"));
                    (noticed, shown) = (noticed + usize::from(is_noticed), shown + usize::from(!is_noticed));
                }
            }
        }
    }
    assert!(noticed >= 16 && shown * 4 <= noticed, "{noticed} and {shown}");
}

#[test]
fn a_search_that_charges_something_else_is_noticed() {
    let module = module("zeros_counted_by_bytes");
    assert_eq!(refused(&module), []);
    let searches = places(&module, |op| matches!(op, Op::Charge(_)));
    assert!(!searches.is_empty());
    let (mut noticed, mut needless) = (0, 0);
    for (function, block, _) in searches {
        let blocks = &module.functions[function].blocks;
        let leads_here = |other: &Block| other.terminator.successors().any(|next| next == BlockId::at(block));
        let guard = blocks.iter().position(leads_here).unwrap();
        let mut check = |tampered: &Module| {
            let error = refused(tampered).first().map(ToString::to_string).unwrap_or_default();
            let is_noticed = error.contains("the charge of a search is not proved");
            (noticed, needless) = (noticed + usize::from(is_noticed), needless + usize::from(!is_noticed));
            is_noticed
        };
        // Each constant of the guard and of the block that replaces the loop, plus 1 and plus 8.
        for (place, by) in [guard, block].into_iter().flat_map(|place| [(place, 1), (place, 8)]) {
            for (index, op) in blocks[place].ops.iter().enumerate() {
                let Op::Const(number) = op else { continue };
                let mut tampered = module.clone();
                tampered.functions[function].blocks[place].ops[index] = Op::Const(number.wrapping_add(by));
                check(&tampered);
            }
        }
        let mut tampered = module.clone();
        let end = &mut tampered.functions[function].blocks[block].terminator;
        if let Terminator::Branch { taken, otherwise, .. } = end {
            std::mem::swap(taken, otherwise);
            assert!(check(&tampered), "the other end");
        }
        // The loop itself takes more cycles.
        let Terminator::Branch { otherwise, .. } = blocks[guard].terminator else { panic!("no guard") };
        let mut tampered = module.clone();
        tampered.functions[function].blocks[otherwise.0 as usize].cycles += 1;
        tampered.functions[function].blocks[otherwise.0 as usize].charge = Charge::Entered;
        assert!(!refused(&tampered).is_empty());
        // Another block enters without the guard.
        let mut tampered = module.clone();
        tampered.functions[function].blocks[otherwise.0 as usize].terminator =
            Terminator::Jump(BlockId::at(block));
        assert!(check(&tampered), "another way in");
    }
    // The mask of the byte does not affect cycles.
    assert!(noticed >= 16 && needless * 3 <= noticed, "{noticed} and {needless}");
}
