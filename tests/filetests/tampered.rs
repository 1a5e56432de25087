//! The IR's verifier against IR that claims more than is true.

use antares_abi::CodeTier;
use antares_ir::{Module, Op};
use antares_opt::verify;

use crate::case::Case;

fn module(name: &str) -> Module {
    let path = format!("{}/filetests/cases/{name}.S", env!("CARGO_MANIFEST_DIR"));
    Case::parse(&std::fs::read_to_string(path).unwrap()).unwrap().module(CodeTier::Full).unwrap()
}

/// Places of all operations that `is_wanted`.
fn places(module: &Module, is_wanted: impl Fn(&Op) -> bool) -> Vec<(usize, usize, usize)> {
    let mut places = Vec::new();
    for (function, blocks) in module.functions.iter().map(|function| &function.blocks).enumerate() {
        for (block, ops) in
            blocks.iter().filter(|block| !block.is_bounded).map(|block| &block.ops).enumerate()
        {
            let found = ops.iter().enumerate().filter(|(_, op)| is_wanted(op));
            places.extend(found.map(|(op, _)| (function, block, op)));
        }
    }
    places
}

#[test]
fn a_check_that_is_only_said_to_be_proved_is_noticed() {
    let module = module("checks_across_blocks");
    verify(&module).unwrap();
    let checks = places(&module, |op| matches!(op, Op::Check { .. }));
    assert!(checks.len() >= 6, "{checks:?}");
    for (function, block, op) in checks {
        let mut tampered = module.clone();
        let op = &mut tampered.functions[function].blocks[block].ops[op];
        if let Op::Check { access, base, low, high } = *op {
            *op = Op::Proved { access, base, low, high };
        }
        let op = *op;
        let error = verify(&tampered).expect_err("nobody notices").to_string();
        assert!(error.contains("is not proved"), "{op:?}: {error}");
    }
}

#[test]
fn a_proof_of_more_than_was_checked_is_noticed() {
    let module = module("checks_across_blocks");
    let proofs = places(&module, |op| matches!(op, Op::Proved { .. }));
    assert!(proofs.len() >= 5, "{proofs:?}");
    for (function, block, index) in proofs {
        let mut tampered = module.clone();
        let op = &mut tampered.functions[function].blocks[block].ops[index];
        if let Op::Proved { high, .. } = op {
            *high += 4096;
        }
        let error = verify(&tampered).expect_err("nobody notices").to_string();
        assert!(error.contains("is not proved"), "{error}");
    }
}
