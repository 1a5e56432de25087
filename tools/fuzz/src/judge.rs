//! Decides which runs are findings.

use crate::job::Invariants;
use antares_transaction::FieldName;

use crate::End;

/// The violation of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Violation {
    /// Violations of one kind are the same finding.
    pub(crate) kind: String,
    pub(crate) what: String,
    /// Whether it is an error of an instruction, whose address distinguishes bugs of one kind.
    pub(crate) has_place: bool,
}

impl Violation {
    fn new(kind: impl Into<String>, what: impl Into<String>) -> Option<Self> {
        Some(Self { kind: kind.into(), what: what.into(), has_place: false })
    }

    /// Adds the address of the instruction.
    pub(crate) fn at(self, address: u64) -> Self {
        Self { kind: format!("{} at {address:#x}", self.kind), ..self }
    }
}

/// The facts about a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Case<'a> {
    pub(crate) end: &'a End,
    /// The result with the other script, if there is one.
    pub(crate) other: Option<&'a End>,
    /// Fields that differ from the original transaction.
    pub(crate) changed: &'a [FieldName],
}

/// The violation of `case`, if any.
pub(crate) fn judge(invariants: &Invariants, case: Case<'_>) -> Option<Violation> {
    let is_accepted = *case.end == End::Accepted;
    if let Some(other) = case.other
        && is_accepted != (*other == End::Accepted)
    {
        let kind =
            if is_accepted { "accepts-what-the-other-refuses" } else { "refuses-what-the-other-accepts" };
        return Violation::new(kind, format!("{}; the other script: {}", case.end, other));
    }
    match case.end {
        End::Failed { error, source, .. } if invariants.fails => {
            let kind = format!("{error} {source}");
            Some(Violation { kind, what: case.end.to_string(), has_place: true })
        }
        End::Cycles { source } if invariants.fails => {
            Violation::new(format!("cycles {source}"), case.end.to_string())
        }
        End::Exit { code, source } if invariants.exits.contains(code) => {
            Violation::new(format!("exit {code} {source}"), case.end.to_string())
        }
        End::Accepted if invariants.accepts => Violation::new("accepts", "the transaction is accepted"),
        End::Accepted if invariants.accepts_other && !case.changed.is_empty() => {
            let names: Vec<_> = case.changed.iter().map(ToString::to_string).collect();
            let names = names.join(" and ");
            Violation::new(format!("accepts {names}"), format!("it is accepted with other bytes in {names}"))
        }
        _ => None,
    }
}

impl std::fmt::Display for End {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Accepted => f.write_str("accepted"),
            Self::Exit { code, source } => write!(f, "{source} exits with {code}"),
            Self::Failed { error, source, detail } => write!(f, "{source} fails with {error}: {detail}"),
            Self::Cycles { source } => write!(f, "{source} passes the limit of cycles"),
            Self::Unresolved => f.write_str("ckb refuses the transaction before a script runs"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(
        invariants: &Invariants,
        end: &End,
        other: Option<&End>,
        changed: &[FieldName],
    ) -> Option<String> {
        judge(invariants, Case { end, other, changed }).map(|found| found.kind)
    }

    #[test]
    fn each_invariant_finds_what_it_forbids_and_nothing_else() {
        let source = || "Inputs[0].Lock".to_owned();
        let exit = End::Exit { code: 5, source: source() };
        let failed =
            End::Failed { error: "MemOutOfBound".to_owned(), source: source(), detail: String::new() };
        let changed = [FieldName::Witness(0)];
        let none = Invariants::default();
        for end in [&exit, &failed, &End::Accepted, &End::Unresolved] {
            assert_eq!(kind(&none, end, None, &changed), None);
        }
        let fails = Invariants { fails: true, ..none.clone() };
        assert_eq!(kind(&fails, &failed, None, &[]).as_deref(), Some("MemOutOfBound Inputs[0].Lock"));
        let cycles = kind(&fails, &End::Cycles { source: source() }, None, &[]);
        assert_eq!(cycles.as_deref(), Some("cycles Inputs[0].Lock"));
        assert_eq!(kind(&fails, &exit, None, &[]), None);
        let exits = Invariants { exits: vec![5], ..none.clone() };
        assert_eq!(kind(&exits, &exit, None, &[]).as_deref(), Some("exit 5 Inputs[0].Lock"));
        let accepts = Invariants { accepts: true, ..none.clone() };
        assert_eq!(kind(&accepts, &End::Accepted, None, &[]).as_deref(), Some("accepts"));
        let bound = Invariants { accepts_other: true, ..none.clone() };
        assert_eq!(kind(&bound, &End::Accepted, None, &[]), None);
        assert_eq!(kind(&bound, &End::Accepted, None, &changed).as_deref(), Some("accepts witness.0"));
        assert_eq!(kind(&none, &exit, Some(&failed), &changed), None);
        let differ = kind(&none, &End::Accepted, Some(&exit), &changed);
        assert_eq!(differ.as_deref(), Some("accepts-what-the-other-refuses"));
        let differ = kind(&none, &exit, Some(&End::Accepted), &changed);
        assert_eq!(differ.as_deref(), Some("refuses-what-the-other-accepts"));
    }
}
