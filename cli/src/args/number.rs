//! Numbers with units.

/// A number, perhaps of thousands (k), millions (M) or milliards (G).
pub(super) fn number(text: &str) -> Result<u64, String> {
    let units = [('k', 1_000), ('M', 1_000_000), ('G', 1_000_000_000)];
    let unit = units.into_iter().find_map(|(unit, times)| Some((text.strip_suffix(unit)?, times)));
    let (digits, times) = unit.unwrap_or((text, 1));
    let number = digits.parse::<u64>().ok().and_then(|number| number.checked_mul(times));
    number.ok_or_else(|| "must be a whole number below 2^64; k, M or G may follow".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_units() {
        for (text, expected) in
            [("7", 7), ("70M", 70_000_000), ("3k", 3_000), ("2G", 2_000_000_000), ("0", 0)]
        {
            assert_eq!(number(text), Ok(expected), "{text}");
        }
        for text in ["", "M", "-1", "1.5M", "7 M", "7MB", "7m", "99999999999G", "18446744073709551616"] {
            assert!(number(text).is_err(), "{text}");
        }
    }
}
