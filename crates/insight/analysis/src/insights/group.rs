//! Groups of findings: one rule with one advice, over all functions.

use std::{cmp::Reverse, collections::BTreeMap, fmt::Write};

use serde::{Serialize, Serializer};

use super::{Finding, Rule};

/// Maximum functions of a group in its text.
const SPOTS_SHOWN: usize = 5;

/// Maximum bytes of a source line in a text.
const LINE_BYTES_MAX: usize = 100;

/// Findings of one rule with the same advice. The order of the fields is that of the JSON, which is a contract.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FindingGroup {
    /// The rule.
    pub rule: Rule,
    /// Cycles spent at all its spots: an upper bound of the savings, not an estimate.
    pub cycles: u64,
    /// Estimated savings in cycles, over the spots with an estimate; `None` if none has one.
    #[serde(rename = "saves_cycles")]
    pub saves: Option<u64>,
    /// What to try.
    pub advice: String,
    /// Savings measured for this advice on a program of the same kind.
    pub measured: Option<&'static str>,
    /// Its findings, most cycles first.
    #[serde(serialize_with = "as_spots")]
    pub spots: Vec<Finding>,
}

/// A finding without what its group has.
#[derive(Serialize)]
struct Spot<'a> {
    function: &'a str,
    place: Option<&'a str>,
    address: Option<u64>,
    cycles: u64,
    saves_cycles: Option<u64>,
    why: &'a str,
}

fn as_spots<S: Serializer>(spots: &[Finding], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(spots.iter().map(|spot| Spot {
        function: &spot.function,
        place: spot.place.as_deref(),
        address: spot.address,
        cycles: spot.cycles,
        saves_cycles: spot.saves,
        why: &spot.why,
    }))
}

/// Returns the text of a source file, by the compiler's name for the file.
pub type SourceFinder<'a> = dyn Fn(&str) -> Option<String> + 'a;

/// Groups `findings`, most cycles first. A loop that is in two findings of a group counts twice.
pub(crate) fn group(findings: Vec<Finding>) -> Vec<FindingGroup> {
    let mut groups: BTreeMap<(Rule, String), Vec<Finding>> = BTreeMap::new();
    for finding in findings {
        groups.entry((finding.rule, finding.advice.clone())).or_default().push(finding);
    }
    let mut groups: Vec<FindingGroup> =
        groups.into_iter().map(|((rule, advice), spots)| of(rule, advice, spots)).collect();
    groups.sort_by_key(|group| (Reverse(group.cycles), group.rule));
    groups
}

fn of(rule: Rule, advice: String, mut spots: Vec<Finding>) -> FindingGroup {
    spots.sort_by_key(|spot| (Reverse(spot.cycles), spot.address, spot.function.clone()));
    let reported: Vec<u64> = spots.iter().filter_map(|spot| spot.saves).collect();
    FindingGroup {
        rule,
        advice,
        measured: spots.iter().find_map(|spot| spot.measured),
        cycles: spots.iter().map(|spot| spot.cycles).fold(0, u64::saturating_add),
        saves: (!reported.is_empty()).then(|| reported.into_iter().fold(0, u64::saturating_add)),
        spots,
    }
}

/// Formats groups as Markdown, with their share of `cycles` and source lines from `source`.
#[must_use]
pub fn markdown(groups: &[FindingGroup], cycles: u64, source: &SourceFinder<'_>) -> String {
    let mut text = String::new();
    if groups.is_empty() {
        return "No findings.\n".to_owned();
    }
    for (group, number) in groups.iter().zip(1..) {
        let count = match group.spots.len() {
            1 => String::new(),
            count => format!(" at {count} places"),
        };
        // Writing to a string does not fail.
        let _ = writeln!(
            text,
            "{number}. **{}**{count}: {} cycles, {}",
            group.rule.into_str(),
            group.cycles,
            share(group.cycles, cycles)
        );
        for spot in group.spots.iter().take(SPOTS_SHOWN) {
            write_spot(&mut text, spot, cycles, source);
        }
        if group.spots.len() > SPOTS_SHOWN {
            let rest = group.spots[SPOTS_SHOWN..].iter().map(|spot| spot.cycles).fold(0, u64::saturating_add);
            let more = group.spots.len() - SPOTS_SHOWN;
            let _ = writeln!(text, "   * and {more} more: {rest} cycles, {}", share(rest, cycles));
        }
        // Print a reason shared by all spots only once.
        let why = group.spots.first().map(|spot| spot.why.as_str()).unwrap_or_default();
        let _ = writeln!(text, "   * why: {why}");
        let _ = writeln!(text, "   * try: {}", group.advice);
        if let Some(saves) = group.saves {
            let _ = writeln!(text, "   * would save about {saves} cycles, {}", share(saves, cycles));
        }
        if let Some(measured) = group.measured {
            let _ = writeln!(text, "   * measured: {measured}");
        }
    }
    text
}

fn write_spot(text: &mut String, spot: &Finding, cycles: u64, source: &SourceFinder<'_>) {
    let mut place = spot.place.clone().unwrap_or_default();
    if let Some(address) = spot.address {
        let _ = write!(place, "{}{address:#x}", if place.is_empty() { "" } else { ", " });
    }
    let place = if place.is_empty() { String::new() } else { format!(" ({place})") };
    let function = spot.function.replace('`', "'");
    let _ =
        writeln!(text, "   * `{function}`{place}: {} cycles, {}", spot.cycles, share(spot.cycles, cycles));
    if let Some(line) = spot.place.as_deref().and_then(|place| line(place, source)) {
        let _ = writeln!(text, "     `{}`", line.replace('`', "'"));
    }
}

/// The source line at a location.
fn line(place: &str, source: &SourceFinder<'_>) -> Option<String> {
    let (file, number) = place.rsplit_once(':')?;
    let number: usize = number.parse().ok()?;
    let text = source(file)?;
    let line = text.lines().nth(number.checked_sub(1)?)?.trim();
    Some(line[..line.floor_char_boundary(LINE_BYTES_MAX)].to_owned()).filter(|line| !line.is_empty())
}

/// A percentage, rounded as in every table.
fn share(part: u64, whole: u64) -> String {
    let whole = u128::from(whole.max(1));
    let hundredths = (u128::from(part) * 10_000 + whole / 2) / whole;
    format!("{}.{:02} %", hundredths / 100, hundredths % 100)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(rule: Rule, function: &str, cycles: u64, saves: Option<u64>) -> Finding {
        Finding {
            rule,
            function: function.to_owned(),
            place: Some("main.c:2".to_owned()),
            address: Some(cycles),
            cycles,
            saves,
            why: format!("why {function}"),
            advice: "try it".to_owned(),
            measured: None,
        }
    }

    #[test]
    fn what_is_one_matter_is_reported_once_with_its_sum() {
        let mut findings: Vec<Finding> =
            (1..=7).map(|n| finding(Rule::MissingB, &format!("f{n}"), n * 10, Some(n))).collect();
        findings.push(finding(Rule::Spill, "g", 100, None));
        let groups = group(findings);
        assert_eq!(groups.len(), 2);
        let [first, second] = [&groups[0], &groups[1]];
        assert_eq!((first.rule, first.cycles, first.saves), (Rule::MissingB, 280, Some(28)));
        assert_eq!((second.cycles, second.saves), (100, None));
        assert_eq!(first.spots[0].function, "f7");
        let source = |file: &str| (file == "main.c").then(|| "one\n  two();\n".to_owned());
        let text = markdown(&groups, 1000, &source);
        assert!(text.contains("1. **missing-b** at 7 places: 280 cycles, 28.00 %"), "{text}");
        assert!(text.contains("   * `f7` (main.c:2, 0x46): 70 cycles, 7.00 %\n     `two();`\n"), "{text}");
        assert!(text.contains("   * and 2 more: 30 cycles, 3.00 %"), "{text}");
        assert!(text.contains("would save about 28 cycles, 2.80 %"), "{text}");
        assert_eq!(text.matches("try: try it").count(), 2, "{text}");
    }
}
