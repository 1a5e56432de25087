//! The formats that other tools read, each in a module of its own.

mod callgrind;
mod folded;
mod html;
mod interned;
mod lcov;
mod otlp;
mod pprof;
mod sample_profile;
mod speedscope;

use std::{collections::BTreeMap, str::FromStr};

use antares_profile::ProfileError;

use crate::{View, write_archive};

pub use html::profile_page;
pub use lcov::write_lcov;
pub use otlp::otlp_request;

/// A format to write a profile in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Format {
    /// Our own, which can be read again.
    Antares,
    /// Of `pprof`, compressed by gzip.
    Pprof,
    /// One line for each stack, for flame graph tools.
    Folded,
    /// JSON for <https://www.speedscope.app>.
    Speedscope,
    /// Of `callgrind_annotate` and `KCachegrind`.
    Callgrind,
    /// Lines by how often they ran, of `lcov` and `genhtml`.
    Lcov,
    /// A request of OpenTelemetry's profiles service (v1development), in protobuf.
    Otlp,
    /// Text for LLVM's `-fprofile-sample-use`.
    SampleProfile,
    /// A page with an interactive flame graph that needs nothing else.
    Html,
}

/// Why a profile cannot be written in a format.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FormatError {
    /// The format is about lines of source, and no program has any.
    #[error("the format {format} needs line numbers: build the guest with -g")]
    NoLines {
        /// Its name.
        format: &'static str,
    },
    /// The profile itself cannot be bytes.
    #[error(transparent)]
    Profile(#[from] ProfileError),
}

impl Format {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::Antares,
        Self::Pprof,
        Self::Folded,
        Self::Speedscope,
        Self::Callgrind,
        Self::Lcov,
        Self::Otlp,
        Self::SampleProfile,
        Self::Html,
    ];

    /// Its name on command lines and in requests.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Antares => "antares",
            Self::Pprof => "pprof",
            Self::Folded => "folded",
            Self::Speedscope => "speedscope",
            Self::Callgrind => "callgrind",
            Self::Lcov => "lcov",
            Self::Otlp => "otlp",
            Self::SampleProfile => "llvm-sample",
            Self::Html => "html",
        }
    }

    /// Whether it is text that can go to a terminal.
    #[must_use]
    pub fn is_text(self) -> bool {
        !matches!(self, Self::Antares | Self::Pprof | Self::Otlp)
    }

    /// Writes `view`. `labels` say whose profile it is, such as `tenant`; `before` is another profile to
    /// compare with, in formats that can.
    ///
    /// # Errors
    /// The format needs what the profile has not.
    pub fn write(
        self,
        view: &View<'_>,
        labels: &BTreeMap<String, String>,
        before: Option<&View<'_>>,
    ) -> Result<Vec<u8>, FormatError> {
        let no_lines = FormatError::NoLines { format: self.name() };
        Ok(match self {
            Self::Antares => write_archive(view.profile(), view.programs())?,
            Self::Pprof => pprof::write(view, labels),
            Self::Folded => folded::write(view).into_bytes(),
            Self::Speedscope => speedscope::write(view, labels).into_bytes(),
            Self::Callgrind => callgrind::write(view).into_bytes(),
            Self::Lcov => lcov::write(view).ok_or(no_lines)?.into_bytes(),
            Self::Otlp => otlp::write(view, labels),
            Self::SampleProfile => sample_profile::write(view).ok_or(no_lines)?.into_bytes(),
            Self::Html => profile_page(view, labels, before, &|_| None).into_bytes(),
        })
    }
}

impl FromStr for Format {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let names = || Self::ALL.map(Self::name).join(", ");
        let found = Self::ALL.into_iter().find(|format| format.name() == name);
        found.ok_or_else(|| format!("must be one of {}", names()))
    }
}
