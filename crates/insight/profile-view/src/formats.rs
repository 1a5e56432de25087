//! The formats of other tools, one module for each.

mod callgrind;
mod folded;
mod html;
mod interned;
mod lcov;
mod otlp;
mod pprof;
mod sample_profile;
mod speedscope;

use std::collections::BTreeMap;

use antares_profile::ProfileError;
use strum::{EnumString, IntoStaticStr, VariantNames};

use crate::{View, write_archive};

pub use html::profile_page;
pub use lcov::write_lcov;
pub use otlp::otlp_request;

/// An output format of profiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumString, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "kebab-case", const_into_str, parse_err_ty = String, parse_err_fn = unknown)]
pub enum Format {
    /// The project's own format, the only one that can be read again.
    Antares,
    /// For `pprof`, compressed by gzip.
    Pprof,
    /// One line for each stack, for flame graph tools.
    Folded,
    /// JSON for <https://www.speedscope.app>.
    Speedscope,
    /// For `callgrind_annotate` and `KCachegrind`.
    Callgrind,
    /// Execution counts of lines, for `lcov` and `genhtml`.
    Lcov,
    /// A request of OpenTelemetry's profiles service (v1development), in protobuf.
    Otlp,
    /// Text for LLVM's `-fprofile-sample-use`.
    #[strum(serialize = "llvm-sample")]
    SampleProfile,
    /// A self-contained page with an interactive flame graph.
    Html,
}

/// Why a profile cannot be written in a format.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FormatError {
    /// The format requires source lines, and no program has any.
    #[error("the format {format} needs line numbers: build the guest with -g")]
    NoLines {
        /// Its name.
        format: &'static str,
    },
    /// The profile cannot be encoded.
    #[error(transparent)]
    Profile(#[from] ProfileError),
}

impl Format {
    /// Whether the format is text, suitable for a terminal.
    #[must_use]
    pub fn is_text(self) -> bool {
        !matches!(self, Self::Antares | Self::Pprof | Self::Otlp)
    }

    /// Writes `view`. `labels` identify the profile's origin, such as `tenant`; `before` is a profile to
    /// compare with, in formats that support it.
    ///
    /// # Errors
    /// The profile lacks data that the format requires.
    pub fn write(
        self,
        view: &View<'_>,
        labels: &BTreeMap<String, String>,
        before: Option<&View<'_>>,
    ) -> Result<Vec<u8>, FormatError> {
        let no_lines = FormatError::NoLines { format: self.into_str() };
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

fn unknown(_: &str) -> String {
    format!("must be one of {}", Format::VARIANTS.join(", "))
}
