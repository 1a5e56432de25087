//! Rows, and how they are written: for people, for programs, and for the folder.

use std::{collections::BTreeMap, fmt::Write as _};

use serde::{Serialize, Serializer};

use crate::{
    amounts::{Amounts, NAMES},
    hour::Hour,
};

/// Whoever gave no name, or none that counts. No tenant has such a name.
pub const NO_TENANT: &str = "(none)";

/// Whoever gave a name that nobody has proven.
pub const UNPROVEN: &str = "(unproven)";

/// All for whom there was no row left.
pub const OTHERS: &str = "(others)";

/// Before the checksum at the end of a file of the folder.
const CHECKSUM: &str = "#crc32 ";

/// What a tenant used in an hour.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct UsageRow {
    /// When.
    #[serde(serialize_with = "as_text")]
    pub hour: Hour,
    /// Who.
    pub tenant: Box<str>,
    /// What.
    #[serde(flatten)]
    pub amounts: Amounts,
}

fn as_text<S: Serializer>(hour: &Hour, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(hour)
}

/// The tenants of an hour.
pub(crate) type Tenants = BTreeMap<Box<str>, Amounts>;

/// Why a file is no table.
pub(crate) type Damage = &'static str;

/// As CSV (RFC 4180): a line with the names, then one for each row. Nothing needs quotes.
#[must_use]
pub fn csv(rows: &[UsageRow]) -> String {
    let mut text = head();
    rows.iter().for_each(|row| line(&mut text, row.hour, &row.tenant, &row.amounts));
    text
}

/// As JSON: an array of objects with the names as keys.
///
/// # Errors
/// Never.
pub fn json(rows: &[UsageRow]) -> serde_json::Result<String> {
    serde_json::to_string_pretty(rows).map(|text| text + "\n")
}

fn head() -> String {
    format!("hour,tenant,{}\r\n", NAMES.join(","))
}

fn line(text: &mut String, hour: Hour, tenant: &str, amounts: &Amounts) {
    // Writing to a string does not fail.
    let _ = write!(text, "{hour},{tenant}");
    for value in amounts.values() {
        let _ = write!(text, ",{value}");
    }
    text.push_str("\r\n");
}

/// An hour as the folder has it: CSV and a checksum.
pub(crate) fn encode(hour: Hour, tenants: &Tenants) -> String {
    let mut text = head();
    tenants.iter().for_each(|(tenant, amounts)| line(&mut text, hour, tenant, amounts));
    let checksum = crc32fast::hash(text.as_bytes());
    let _ = write!(text, "{CHECKSUM}{checksum:08x}\r\n");
    text
}

/// The same way back.
pub(crate) fn decode(hour: Hour, text: &str) -> Result<Tenants, Damage> {
    let at = text.rfind(CHECKSUM).ok_or("it has no checksum")?;
    let (rows, checksum) = (&text[..at], text[at + CHECKSUM.len()..].trim_end());
    if u32::from_str_radix(checksum, 16) != Ok(crc32fast::hash(rows.as_bytes())) {
        return Err("its checksum is another one");
    }
    let rows = rows.strip_prefix(&head()).ok_or("its columns are others")?;
    let name = hour.to_string();
    rows.lines().map(|row| entry(&name, row).ok_or("a row is none")).collect()
}

fn entry(hour: &str, row: &str) -> Option<(Box<str>, Amounts)> {
    let mut fields = row.split(',');
    if fields.next()? != hour {
        return None;
    }
    let tenant = fields.next()?;
    let mut values = [0; NAMES.len()];
    for value in &mut values {
        *value = fields.next()?.parse().ok()?;
    }
    fields.next().is_none().then(|| (tenant.into(), Amounts::of(values)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_reads_back_and_nothing_else_does() {
        let hour: Hour = "2026-11-26T23".parse().unwrap();
        let tenants = Tenants::from([
            ("a".into(), Amounts::of([1; 9])),
            (NO_TENANT.into(), Amounts::of([u64::MAX; 9])),
        ]);
        let text = encode(hour, &tenants);
        assert_eq!(decode(hour, &text).unwrap(), tenants);
        assert!(decode(hour.next(), &text).is_err());
        for at in 0..text.len() {
            let mut bytes = text.clone().into_bytes();
            bytes[at] ^= 1;
            if let Ok(changed) = String::from_utf8(bytes) {
                let decoded = decode(hour, &changed);
                // White space at the end, and the case of hex digits, say nothing.
                assert!(decoded.is_err() || decoded.is_ok_and(|found| found == tenants), "{changed}");
            }
            if at < text.len() - 2 {
                assert!(decode(hour, &text[..at]).is_err(), "{at}");
            }
        }
    }

    #[test]
    fn rows_are_csv_and_json() {
        let hour: Hour = "2026-11-26T23".parse().unwrap();
        let rows =
            [UsageRow { hour, tenant: "acme".into(), amounts: Amounts { calls: 7, ..Amounts::default() } }];
        let text = csv(&rows);
        assert!(text.starts_with("hour,tenant,calls,refused_calls,"), "{text}");
        assert!(text.ends_with("\r\n2026-11-26T23,acme,7,0,0,0,0,0,0,0,0\r\n"), "{text}");
        let value: serde_json::Value = serde_json::from_str(&json(&rows).unwrap()).unwrap();
        assert_eq!((&value[0]["hour"], &value[0]["calls"]), (&"2026-11-26T23".into(), &7.into()));
    }
}
