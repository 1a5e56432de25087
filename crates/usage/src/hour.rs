//! Hours of the calendar, in UTC.

use std::{
    fmt,
    str::FromStr,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// Hours of a day.
const DAY: u64 = 24;

/// The last hour of the year 9999: later ones have longer names.
const LAST: u64 = 70_389_527;

/// An hour, UTC. Its text form is `2026-11-26T23`; a day alone is its first hour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Hour(u64);

/// A text that is no hour.
#[derive(Debug, thiserror::Error)]
#[error("must be a day or an hour of it, UTC, such as 2026-11-26 or 2026-11-26T23")]
pub struct NoHour;

impl Hour {
    /// Before every other.
    pub const FIRST: Self = Self(0);

    /// After every other.
    pub const LAST: Self = Self(LAST);

    /// The one that the clock is in.
    #[must_use]
    pub fn now() -> Self {
        Self::before(Duration::ZERO)
    }

    /// The one that the clock was in so long ago.
    #[must_use]
    pub(crate) fn before(time: Duration) -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self::of_seconds(since.saturating_sub(time).as_secs())
    }

    /// The one with the second `seconds` of Unix time.
    #[must_use]
    pub fn of_seconds(seconds: u64) -> Self {
        Self((seconds / 3_600).min(LAST))
    }

    /// Its first second, Unix time.
    #[must_use]
    pub fn seconds(self) -> u64 {
        self.0 * 3_600
    }

    /// The one after it.
    #[must_use]
    pub fn next(self) -> Self {
        Self((self.0 + 1).min(LAST))
    }

    /// Its day, such as `2026-11-26`.
    #[must_use]
    pub fn day(self) -> String {
        let (year, month, day) = civil(self.0 / DAY);
        format!("{year:04}-{month:02}-{day:02}")
    }
}

/// Year, month and day of the day that is `days` after 1970-01-01. Years begin in March here, so that the
/// day that comes and goes is the last of its year (Hinnant, "chrono-compatible low-level date algorithms").
fn civil(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

/// Days from 1970-01-01 to a day, which is one of the calendar.
fn days_to(year: u64, month: u64, day: u64) -> Option<u64> {
    let year = year.checked_sub(u64::from(month <= 2))?;
    let (era, of_era) = (year / 400, year % 400);
    let shifted = if month > 2 { month - 3 } else { month + 9 };
    let of_year = (153 * shifted + 2) / 5 + day - 1;
    let days = (era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year).checked_sub(719_468)?;
    (civil(days) == (year + u64::from(month <= 2), month, day)).then_some(days)
}

impl fmt::Display for Hour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}T{:02}", self.day(), self.0 % DAY)
    }
}

impl FromStr for Hour {
    type Err = NoHour;

    fn from_str(text: &str) -> Result<Self, NoHour> {
        let (day, hour) = text.split_once('T').unwrap_or((text, "00"));
        let mut parts = day.split('-').zip([4, 2, 2]).map(|(part, length)| number(part, length));
        let mut next = || parts.next().flatten().ok_or(NoHour);
        let (year, month, of_month) = (next()?, next()?, next()?);
        let is_month = (1..=12).contains(&month) && (1..=31).contains(&of_month);
        let hour = number(hour, 2).filter(|hour| *hour < DAY && is_month && day.len() == 10).ok_or(NoHour)?;
        let days = days_to(year, month, of_month).ok_or(NoHour)?;
        Ok(Self(days * DAY + hour))
    }
}

fn number(text: &str, length: usize) -> Option<u64> {
    let is_plain = text.len() == length && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hours_have_names() {
        for (seconds, name) in [
            (0, "1970-01-01T00"),
            (951_782_400, "2000-02-29T00"),
            (1_795_734_123, "2026-11-26T23"),
            (4_107_542_399, "2100-02-28T23"),
            (253_402_300_799, "9999-12-31T23"),
        ] {
            let hour = Hour::of_seconds(seconds);
            assert_eq!(hour.to_string(), name);
            assert_eq!(name.parse::<Hour>().unwrap(), hour);
            assert_eq!(hour.seconds(), seconds / 3_600 * 3_600);
        }
        assert_eq!(Hour::of_seconds(u64::MAX), Hour::LAST);
        assert_eq!("2026-11-26".parse::<Hour>().unwrap().to_string(), "2026-11-26T00");
    }

    #[test]
    fn every_day_is_named_and_found() {
        for day in 0..150_000 {
            let hour = Hour(day * DAY + day % DAY);
            assert_eq!(hour.to_string().parse::<Hour>().unwrap(), hour, "{hour}");
        }
    }

    #[test]
    fn other_texts_are_none() {
        for text in [
            "",
            "2026",
            "2026-11",
            "2026-11-26T",
            "2026-11-26T24",
            "2026-11-26T1",
            "2026-02-30",
            "2026-13-01",
            "2026-00-10",
            "1969-12-31",
            "2026-11-26-",
            "+026-11-26",
            "2026-11-26T23:00",
            "02026-11-26",
        ] {
            assert!(text.parse::<Hour>().is_err(), "{text:?}");
        }
    }
}
