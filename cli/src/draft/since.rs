//! Parses `since` and epochs.

use anyhow::{Context as _, Result};
use ckb_types::core::EpochNumberWithFraction;

/// The flag of a relative `since`, and the metrics (RFC 17).
const RELATIVE: u64 = 1 << 63;
const EPOCHS: u64 = 1 << 61;
const SECONDS: u64 = 2 << 61;
/// Bits of a value.
const VALUE_MAX: u64 = (1 << 56) - 1;

const FORMS: &str = "[relative] block N, epoch N, epoch N+I/L or seconds N, or 0x and digits";

/// `[relative] block 10`, `epoch 180`, `epoch 180+1/4`, `seconds 86400`, or the number itself.
pub(crate) fn since(text: &str) -> Result<u64> {
    let parsed = || {
        if let Some(digits) = text.strip_prefix("0x") {
            return u64::from_str_radix(digits, 16).ok();
        }
        let (flag, rest) = match text.strip_prefix("relative ") {
            Some(rest) => (RELATIVE, rest),
            None => (0, text),
        };
        let (metric, value) = match rest.split_once(' ')? {
            ("block", number) => (0, number.parse().ok()?),
            ("epoch", number) => (EPOCHS, epoch(number).ok()?.full_value()),
            ("seconds", number) => (SECONDS, number.parse().ok()?),
            _ => return None,
        };
        (value <= VALUE_MAX).then_some(flag | metric | value)
    };
    parsed().with_context(|| format!("{text:?} is not {FORMS}"))
}

/// `180` or `180+1/4`.
pub(crate) fn epoch(text: &str) -> Result<EpochNumberWithFraction> {
    let parsed = || {
        let (number, fraction) = text.split_once('+').unwrap_or((text, "0/1"));
        let (index, length) = fraction.split_once('/')?;
        let (number, index, length): (u64, u64, u64) =
            (number.parse().ok()?, index.parse().ok()?, length.parse().ok()?);
        let is_valid = number < EpochNumberWithFraction::NUMBER_MAXIMUM_VALUE
            && index < length
            && length < EpochNumberWithFraction::LENGTH_MAXIMUM_VALUE;
        is_valid.then(|| EpochNumberWithFraction::new(number, index, length))
    };
    parsed().with_context(|| format!("{text:?} is not an epoch: N, or N+I/L with I below L"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_become_numbers() {
        for (text, value) in [
            ("0x10", 16),
            ("block 12345", 12345),
            ("relative block 100", 0x8000_0000_0000_0064),
            ("epoch 1024", 0x2000_0100_0000_0400),
            ("relative epoch 180+1/4", 0xa000_0400_0100_00b4),
            ("relative seconds 1209600", 0xc000_0000_0012_7500),
        ] {
            assert_eq!(since(text).unwrap(), value, "{text}");
        }
        let wrong = "10, block, block -1, epoch 1+4/4, epoch 16777216, seconds 72057594037927936, 0xg, ";
        for text in wrong.split(", ") {
            let error = since(text).unwrap_err().to_string();
            assert!(error.ends_with(&format!("is not {FORMS}")), "{error}");
        }
    }
}
