//! What is noted is told, whatever happens to the process and to the folder.

use std::{fs, path::Path};

use tempfile::TempDir;

use super::*;

fn config(folder: &Path) -> LedgerConfig {
    LedgerConfig { folder: folder.to_owned(), hours_max: 4, tenants_max: 3, export: None }
}

fn cycles(guest_cycles: u64) -> Amounts {
    Amounts { runs: 1, guest_cycles, ..Amounts::default() }
}

fn hour(number: u64) -> Hour {
    Hour::of_seconds(number * 3_600)
}

fn query(rows_max: usize) -> Query {
    Query { from: Hour::FIRST, until: Hour::LAST, tenant: None, token: String::new(), rows_max }
}

fn all(ledger: &Ledger, mut query: Query) -> Vec<(u64, String, u64)> {
    let mut told = Vec::new();
    loop {
        let page = ledger.page(&query).unwrap();
        assert!(page.rows.len() <= query.rows_max);
        let row = |row: UsageRow| (row.hour.seconds() / 3_600, row.tenant.into(), row.amounts.guest_cycles);
        told.extend(page.rows.into_iter().map(row));
        if page.token.is_empty() {
            return told;
        }
        query.token = page.token;
    }
}

fn told(rows: &[(u64, &str, u64)]) -> Vec<(u64, String, u64)> {
    rows.iter().map(|(hour, tenant, cycles)| (*hour, (*tenant).to_owned(), *cycles)).collect()
}

#[test]
fn a_kill_loses_what_came_since_the_flush_and_nothing_else() {
    let folder = TempDir::new().unwrap();
    let ledger = Ledger::open(config(folder.path())).unwrap();
    ledger.note_in(hour(9), "a", &cycles(5));
    ledger.flush().unwrap();
    ledger.note_in(hour(9), "a", &cycles(70));
    ledger.note_in(hour(9), "b", &cycles(1));
    // As a kill does it.
    drop(ledger);
    let ledger = Ledger::open(config(folder.path())).unwrap();
    assert_eq!(all(&ledger, query(9)), told(&[(9, "a", 5)]));
    ledger.note_in(hour(9), "a", &cycles(2));
    ledger.note_in(hour(8), "a", &cycles(1));
    // Who was told something is told it again after the next kill.
    let before = all(&ledger, query(9));
    assert_eq!(before, told(&[(8, "a", 1), (9, "a", 7)]));
    drop(ledger);
    assert_eq!(all(&Ledger::open(config(folder.path())).unwrap(), query(9)), before);
}

#[test]
fn pages_have_every_row_once() {
    let folder = TempDir::new().unwrap();
    let ledger = Ledger::open(LedgerConfig { hours_max: 1_000, ..config(folder.path()) }).unwrap();
    let mut expected = Vec::new();
    for number in 0..400 {
        for tenant in ["a", "b", "c"].iter().take(1 + usize::try_from(number % 3).unwrap()) {
            ledger.note_in(hour(number), tenant, &cycles(number + 1));
            expected.push((number, (*tenant).to_owned(), number + 1));
        }
        if number % 20 == 0 {
            ledger.flush().unwrap();
        }
    }
    for rows_max in [1, 2, 7, 1_000] {
        assert_eq!(all(&ledger, query(rows_max)), expected, "{rows_max} a page");
    }
    let of_b = Query { tenant: Some("b".into()), from: hour(3), until: hour(200), ..query(5) };
    let only = |row: &&(u64, String, u64)| row.1 == "b" && (3..200).contains(&row.0);
    assert_eq!(all(&ledger, of_b), expected.iter().filter(only).cloned().collect::<Vec<_>>());
    for token in ["x", "0000/1970-01-01T00/", &format!("{}/x/", ledger.instance())] {
        let page = ledger.page(&Query { token: token.to_owned(), ..query(1) });
        assert!(matches!(page, Err(UsageError::Token)), "{token}");
    }
}

#[test]
fn there_is_an_end_to_tenants_and_hours_and_none_to_sums() {
    let folder = TempDir::new().unwrap();
    let ledger = Ledger::open(config(folder.path())).unwrap();
    for number in 0..10 {
        ledger.note_in(hour(1), &format!("t{number}"), &cycles(1));
        if number == 4 {
            ledger.flush().unwrap();
        }
    }
    assert_eq!(all(&ledger, query(9)), told(&[(1, OTHERS, 7), (1, "t0", 1), (1, "t1", 1), (1, "t2", 1)]));
    // A clock that is far ahead for a moment takes nothing away.
    for number in [2, 500_000, 3] {
        ledger.note_in(hour(number), "a", &cycles(1));
    }
    assert_eq!(all(&ledger, query(9)).len(), 7);
    ledger.note_in(hour(4), "a", &cycles(1));
    let left = told(&[(2, "a", 1), (3, "a", 1), (4, "a", 1), (500_000, "a", 1)]);
    assert_eq!(all(&ledger, query(9)), left);
}

#[test]
fn what_cannot_be_written_waits() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("usage");
    let ledger = Ledger::open(LedgerConfig { hours_max: 100, ..config(&path) }).unwrap();
    ledger.note_in(hour(1), "a", &cycles(1));
    fs::rename(&path, folder.path().join("away")).unwrap();
    assert!(ledger.flush().is_err() && ledger.flush().is_err());
    for number in 2..40 {
        ledger.note_in(hour(number), "a", &cycles(1));
    }
    assert_eq!(ledger.stats(), Stats { unkept_total: 2, ..Stats::default() });
    fs::rename(folder.path().join("away"), &path).unwrap();
    let rows = all(&ledger, query(100));
    assert_eq!(rows.iter().map(|row| row.2).sum::<u64>(), 39);
    assert_eq!(rows.len(), PENDING_HOURS_MAX);
}

#[test]
fn one_process_has_the_folder_and_damage_is_set_aside() {
    let folder = TempDir::new().unwrap();
    let ledger = Ledger::open(config(folder.path())).unwrap();
    assert!(matches!(Ledger::open(config(folder.path())), Err(UsageError::Held { .. })));
    ledger.note_in(hour(1), "a", &cycles(1));
    ledger.note_in(hour(2), "a", &cycles(2));
    ledger.flush().unwrap();
    let (file, instance) = (folder.path().join("1970-01-01T01.usage"), ledger.instance().to_owned());
    for bad in [&b""[..], b"\xff\xfe", &fs::read(&file).unwrap()[1..]] {
        fs::write(&file, bad).unwrap();
        assert_eq!(all(&ledger, query(9)), told(&[(2, "a", 2)]));
    }
    assert_eq!(ledger.stats().damaged_total, 3);
    assert!(folder.path().join("1970-01-01T01.damaged").exists());
    drop(ledger);
    assert_eq!(Ledger::open(config(folder.path())).unwrap().instance(), instance);
}

#[test]
fn hours_that_are_over_are_exported_once() {
    let (folder, to) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let export = Some(to.path().join("billing"));
    let config = || LedgerConfig { export: export.clone(), hours_max: 100, ..config(folder.path()) };
    let ledger = Ledger::open(config()).unwrap();
    ledger.note_in(hour(1), "a", &cycles(7));
    ledger.note("a", &cycles(1));
    ledger.flush().unwrap();
    let name = |kind| format!("usage-1970-01-01T01-{}.{kind}", ledger.instance());
    let files = || {
        let entries = fs::read_dir(to.path().join("billing")).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    };
    // The hour that goes on is not among them.
    assert_eq!(files(), [name("csv"), name("json")]);
    let text = fs::read_to_string(to.path().join("billing").join(name("json"))).unwrap();
    let rows: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!((&rows[0]["tenant"], &rows[0]["guest_cycles"]), (&"a".into(), &7.into()));
    // Whoever took them away has them.
    files().iter().for_each(|name| fs::remove_file(to.path().join("billing").join(name)).unwrap());
    let (csv, instance) = (name("csv"), ledger.instance().to_owned());
    drop(ledger);
    let ledger = Ledger::open(config()).unwrap();
    ledger.flush().unwrap();
    assert!(files().is_empty(), "{csv} of {instance}");
    // Where they cannot be written, they wait.
    fs::remove_dir(to.path().join("billing")).unwrap();
    fs::write(to.path().join("billing"), "").unwrap();
    ledger.note_in(hour(2), "a", &cycles(1));
    ledger.flush().unwrap();
    assert_eq!(ledger.stats().unexported_total, 1);
    fs::remove_file(to.path().join("billing")).unwrap();
    ledger.flush().unwrap();
    assert_eq!(files().len(), 2);
}
