//! Findings by name: functions known to have faster replacements. `loops.rs` recognises functions by their
//! code.

use antares_profile_view::View;

use super::{Finding, Rule};

/// Measured savings of word-wise memory functions, on the worked example of docs/profiling.md.
pub(crate) const WORDS_MEASURED: &str = "2,302,248 to 1,511,550 cycles (34 % less) for an RSA-1024 verification whose memset and memcpy went by bytes";
/// Measured savings of limbs of 64 bits, on the same example.
pub(crate) const LIMBS_MEASURED: &str = "1,511,550 to 519,045 cycles (65 % less) for an RSA-1024 verification by Mbed TLS, memory functions already by words";

/// A known function and its replacement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Replacement {
    /// Its names; a name that ends with `*` is a prefix.
    pub names: &'static [&'static str],
    /// Why it is slow.
    pub why: &'static str,
    /// The replacement.
    pub instead: &'static str,
    /// Measured savings of the replacement.
    pub measured: Option<&'static str>,
}

/// The table of replacements, which docs/profiling.md shows.
pub const REPLACEMENTS: [Replacement; 7] = [
    Replacement {
        names: &["mpi_mul_hlp", "mbedtls_mpi_core_mla"],
        why: "Mbed TLS multiplies in limbs of 32 bits on RISC-V unless it is told otherwise",
        instead: "MBEDTLS_HAVE_INT64 with a mbedtls_t_udbl of 128 bits: limbs of 64 bits",
        measured: Some(LIMBS_MEASURED),
    },
    Replacement {
        names: &["__udivti3", "__umodti3", "__divti3", "__modti3", "__udivmodti4"],
        why: "division of 128 bits in software",
        instead: "division by a limb of 64 bits with a reciprocal, or MBEDTLS_NO_UDBL_DIVISION for Mbed TLS",
        measured: None,
    },
    Replacement {
        names: &[
            "__udivdi3",
            "__umoddi3",
            "__divdi3",
            "__moddi3",
            "__udivsi3",
            "__umodsi3",
            "__muldi3",
            "__multi3",
        ],
        why: "arithmetic in software that the M extension has in one or two instructions",
        instead: "-march=rv64imc: every VM version has multiplication and division",
        measured: None,
    },
    Replacement {
        names: &["uECC_*", "vli_*", "secp256k1_fe_mul_inner.10x26", "ecc_point_mult*"],
        why: "elliptic curves for small devices: no tables, limbs that suit 8 and 32 bits",
        instead: "libsecp256k1 with 64-bit fields (5x52) and a window of precomputed points",
        measured: None,
    },
    Replacement {
        names: &[
            "malloc",
            "free",
            "calloc",
            "realloc",
            "_malloc_r",
            "_free_r",
            "dlmalloc",
            "dlfree",
            "buffer_alloc_calloc",
            "buffer_alloc_free",
            "__rust_alloc",
            "__rust_dealloc",
        ],
        why: "a general allocator walks its lists; a script ends soon and its memory with it",
        instead: "a bump allocator that never frees, or buffers on the stack",
        measured: None,
    },
    Replacement {
        names: &["__aeabi_*", "__addsf3", "__mulsf3", "__divsf3", "__adddf3", "__muldf3", "__divdf3"],
        why: "floating point in software",
        instead: "integers with a fixed point",
        measured: None,
    },
    Replacement {
        names: &["mbedtls_mpi_div_mpi"],
        why: "a division of long numbers where a Montgomery setup would do",
        instead: "keep R^2 mod N (the last argument of mbedtls_mpi_exp_mod) across calls with the same key",
        measured: None,
    },
];

/// Findings for the functions of a view that are in the table. Each counts only the cycles of the function
/// itself.
pub(crate) fn named(view: &View<'_>) -> Vec<Finding> {
    let rows = view.top(antares_profile_view::limits::ROWS_MAX);
    let found = rows.iter().filter_map(|row| {
        let known = REPLACEMENTS.iter().find(|known| known.names.iter().any(|name| is(&row.name, name)))?;
        let graph = view.call_graph(&row.name);
        let caller = graph.and_then(|graph| graph.callers.into_iter().next()).map(|edge| edge.name);
        let caller = caller.filter(|name| !name.is_empty()).map(|name| format!("; mostly for {name}"));
        Some(Finding {
            rule: Rule::KnownLibrary,
            function: row.name.clone(),
            place: (!row.file.is_empty()).then(|| row.file.clone()),
            address: None,
            cycles: row.own.cycles,
            saves: None,
            why: format!("{}{}", known.why, caller.unwrap_or_default()),
            advice: known.instead.to_owned(),
            measured: known.measured,
        })
    });
    found.collect()
}

/// Whether `name` matches `pattern`; compilers add a suffix to copies of a function.
fn is(name: &str, pattern: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(start) => name.starts_with(start),
        None => name == pattern || name.split_once('.').is_some_and(|(base, _)| base == pattern),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_match_with_their_copies() {
        assert!(is("malloc", "malloc") && is("malloc.constprop.0", "malloc") && !is("malloc2", "malloc"));
        assert!(is("uECC_verify", "uECC_*") && !is("xuECC_verify", "uECC_*"));
    }
}
