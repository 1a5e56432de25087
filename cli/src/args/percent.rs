//! Percentages, parsed and printed.

use std::str::FromStr;

/// A share in hundredths of a percent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Percent(pub(crate) u64);

impl FromStr for Percent {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = "must be a share such as 1% or 0.25%";
        let number = text.strip_suffix('%').unwrap_or(text);
        let (whole, part) = number.split_once('.').unwrap_or((number, ""));
        if part.len() > 2 || !part.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(wrong);
        }
        let whole: u64 = whole.parse().map_err(|_| wrong)?;
        let part: u64 = format!("{part:0<2}").parse().map_err(|_| wrong)?;
        whole.checked_mul(100).and_then(|whole| whole.checked_add(part)).map(Self).ok_or(wrong)
    }
}

impl Percent {
    /// A share from 0% to 100%.
    pub(crate) fn part(text: &str) -> Result<Self, &'static str> {
        text.parse().and_then(|it| if it <= Self(10_000) { Ok(it) } else { Err("must be from 0% to 100%") })
    }

    pub(crate) const NOTHING: Self = Self(0);

    /// Whether `after` exceeds `before` by more than this share.
    pub(crate) fn is_passed(self, before: u64, after: u64) -> bool {
        let allowed = u128::from(before) * (10_000 + u128::from(self.0));
        u128::from(after) * 10_000 > allowed
    }
}

/// `part` of `whole` in percent, rounded to two digits, as on the page.
pub fn share(part: u64, whole: u64) -> String {
    let whole = u128::from(whole.max(1));
    let hundredths = (u128::from(part) * 10_000 + whole / 2) / whole;
    format!("{}.{:02}", hundredths / 100, hundredths % 100)
}
