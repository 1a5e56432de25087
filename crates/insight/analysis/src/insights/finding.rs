//! A finding: one rule at one location.

use serde::Serialize;
use strum::IntoStaticStr;

/// The kind of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, IntoStaticStr, Serialize)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case", const_into_str)]
pub enum Rule {
    /// A known function or library with a faster replacement, recognised by name.
    KnownLibrary,
    /// Multi-precision arithmetic in limbs of 32 bits.
    NarrowLimbs,
    /// A loop that copies, fills, compares or searches byte by byte.
    ByteLoop,
    /// Division in software.
    SoftDivision,
    /// Loads that are repeated only because a byte store in between might alias them.
    AliasedLoad,
    /// Values spilled to the stack in a hot loop, for lack of registers.
    Spill,
    /// A division by a constant.
    ConstantDivision,
    /// Instructions that one instruction of the B extension can replace.
    MissingB,
    /// Both halves of a product, which ckb-vm could compute as one instruction.
    UnfusedWideMultiply,
    /// Quotient and remainder, which ckb-vm could compute as one instruction.
    UnfusedDivision,
    /// A sum and its carry, or a difference and its borrow, which ckb-vm could compute as one instruction.
    UnfusedCarry,
    /// The halves of a constant, which ckb-vm could load as one instruction.
    UnfusedConstant,
    /// A small function that is called often.
    InlinableCall,
    /// Suspending and resuming VMs.
    VmSwitches,
}

/// Code that could take fewer cycles. The order of the fields is that of the JSON, which is a contract.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The rule that found it.
    pub rule: Rule,
    /// The function.
    pub function: String,
    /// `file:line`, if the script has line numbers.
    pub place: Option<String>,
    /// Guest address of the code, or of its loop.
    pub address: Option<u64>,
    /// Cycles spent there: an upper bound of the savings, not an estimate.
    pub cycles: u64,
    /// The reason for the finding.
    pub why: String,
    /// What to try.
    pub advice: String,
    /// Savings measured for this advice on a program of the same kind.
    pub measured: Option<&'static str>,
    /// Estimated savings in cycles, computed from instruction costs; `None` if no estimate is possible.
    #[serde(rename = "saves_cycles")]
    pub saves: Option<u64>,
}
