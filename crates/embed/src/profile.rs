//! Where the cycles of a run went.

use std::{collections::BTreeMap, fmt};

use antares_profile_view::{Format, Programs, View};

/// Where the cycles of a run went: by function, by stack, or in the formats of other tools.
pub struct Profile {
    profile: antares_profile::Profile,
    programs: Programs,
}

/// What a function cost.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FunctionCycles {
    /// Its name, by symbols or debug data; what the code alone tells where there are none.
    pub name: String,
    /// Cycles of its own instructions.
    pub self_cycles: u64,
    /// The same with all that it called.
    pub total_cycles: u64,
}

impl Profile {
    pub(crate) fn new(profile: antares_profile::Profile, elf: &[u8]) -> Self {
        let mut programs = Programs::new();
        programs.add(elf);
        Self { profile, programs }
    }

    /// All cycles: those of the run.
    #[must_use]
    pub fn cycles(&self) -> u64 {
        self.profile.sum().cycles
    }

    /// The functions that cost most, in that order; at most `rows`.
    #[must_use]
    pub fn functions(&self, rows: usize) -> Vec<FunctionCycles> {
        let rows = View::new(&self.profile, &self.programs).top(rows).into_iter();
        let cost = |row: antares_profile_view::Row| FunctionCycles {
            name: row.name,
            self_cycles: row.own.cycles,
            total_cycles: row.total.cycles,
        };
        rows.map(cost).collect()
    }

    /// A line for each stack: its functions, outermost first, separated by `;`, and its cycles. What flame
    /// graphs are made of.
    #[must_use]
    pub fn folded(&self) -> String {
        self.write(Format::Folded)
    }

    /// A page with a flame graph, that needs nothing else.
    #[must_use]
    pub fn flame_graph(&self) -> String {
        self.write(Format::Html)
    }

    fn write(&self, format: Format) -> String {
        let view = View::new(&self.profile, &self.programs);
        let written = format.write(&view, &BTreeMap::new(), None);
        // These two need nothing that a profile may lack.
        String::from_utf8(written.unwrap_or_default()).unwrap_or_default()
    }
}

impl fmt::Debug for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Profile").field("cycles", &self.cycles()).finish_non_exhaustive()
    }
}
