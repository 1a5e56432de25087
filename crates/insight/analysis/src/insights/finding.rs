//! A finding: one rule at one place.

/// What kind of matter a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rule {
    /// A function or library that is known to have a faster replacement, by its name.
    KnownLibrary,
    /// Arithmetic on long numbers in limbs of 32 bits.
    NarrowLimbs,
    /// A loop that copies, fills, compares or searches byte by byte.
    ByteLoop,
    /// Division in software.
    SoftDivision,
    /// Loads that are repeated only because a byte store in between might change what they read.
    AliasedLoad,
    /// Values that are kept in memory within a hot loop, for want of registers.
    Spill,
    /// A division by a constant.
    ConstantDivision,
    /// What the B extension does in one instruction.
    MissingB,
    /// Both halves of a product, which ckb-vm would compute as one.
    UnfusedWideMultiply,
    /// Quotient and remainder, which ckb-vm would compute as one.
    UnfusedDivision,
    /// A sum and its carry, or a difference and its borrow, which ckb-vm would compute as one.
    UnfusedCarry,
    /// The halves of a constant, which ckb-vm would load as one.
    UnfusedConstant,
    /// A small function that is called often.
    InlinableCall,
    /// VMs that are put aside and brought back.
    VmSwitches,
}

impl Rule {
    /// A short name, stable.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::KnownLibrary => "known-library",
            Self::NarrowLimbs => "narrow-limbs",
            Self::ByteLoop => "byte-loop",
            Self::SoftDivision => "soft-division",
            Self::AliasedLoad => "aliased-load",
            Self::Spill => "spill",
            Self::ConstantDivision => "constant-division",
            Self::MissingB => "missing-b",
            Self::UnfusedWideMultiply => "unfused-wide-multiply",
            Self::UnfusedDivision => "unfused-division",
            Self::UnfusedCarry => "unfused-carry",
            Self::UnfusedConstant => "unfused-constant",
            Self::InlinableCall => "inlinable-call",
            Self::VmSwitches => "vm-switches",
        }
    }
}

/// Something that could take fewer cycles.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What kind of matter it is.
    pub rule: Rule,
    /// The function.
    pub function: String,
    /// `file:line`, where the script has line numbers.
    pub place: Option<String>,
    /// Guest address of the code, or of its loop.
    pub address: Option<u64>,
    /// Cycles that are spent there: what is at stake, not what is saved.
    pub cycles: u64,
    /// Cycles that would go, as far as that follows from what instructions cost; none where nobody can tell.
    pub saves: Option<u64>,
    /// Why it is a finding.
    pub why: String,
    /// What to try.
    pub advice: String,
    /// What that gave where it was measured, on a program of the same kind.
    pub measured: Option<&'static str>,
}
