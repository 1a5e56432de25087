//! Generates the page `docs/reference/configuration.md` from the tables of the sections. `BLESS=1` writes it.

use std::{fmt::Write as _, fs};

use serde::Serialize;

use crate::{
    auth::{RawAdmin, RawAuth, RawRule},
    check::{COUNT_MAX, TIME_MS_MAX, WORKERS_MAX},
    listen::{RawListen, RawWeb},
    observability::{RawAudit, RawLog, RawMetrics, RawProfilePush, RawTrace},
    quotas::{RawQuotas, RawTenantQuotas, RawTenants},
    section::KeyText,
    services::{RawCompiler, RawNode, RawRunner, RawSandbox},
    stores::{RawCache, RawShared, RawSigning},
    tls::RawTls,
};

/// A section in the reference.
struct SectionText {
    /// Its name in files, such as `[listen]`.
    name: &'static str,
    about: &'static [&'static str],
    keys: &'static [KeyText],
    defaults: toml::Table,
}

fn defaults<T: Default + Serialize>() -> toml::Table {
    toml::Table::try_from(T::default()).unwrap()
}

/// All sections, in the order of `--print-config`.
fn sections() -> Vec<SectionText> {
    macro_rules! all {
        ($($name:literal: $raw:ident),+ $(,)?) => {
            vec![$(SectionText {
                name: $name,
                about: $raw::ABOUT,
                keys: $raw::KEYS,
                defaults: defaults::<$raw>(),
            }),+]
        };
    }
    all![
        "[listen]": RawListen,
        "[web]": RawWeb,
        "[tls]": RawTls,
        "[auth]": RawAuth,
        "[[auth.rules]]": RawRule,
        "[admin]": RawAdmin,
        "[quotas]": RawQuotas,
        "[[quotas.tenants]]": RawTenantQuotas,
        "[tenants]": RawTenants,
        "[audit]": RawAudit,
        "[metrics]": RawMetrics,
        "[log]": RawLog,
        "[trace]": RawTrace,
        "[profile_push]": RawProfilePush,
        "[sandbox]": RawSandbox,
        "[cache]": RawCache,
        "[shared]": RawShared,
        "[signing]": RawSigning,
        "[node]": RawNode,
        "[compiler]": RawCompiler,
        "[runner]": RawRunner,
    ]
}

/// Maximum line width of prose in the docs.
const COLUMNS: usize = 110;

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/reference/configuration.md");

const HEAD: &str = "# Configuration

A TOML file, given by `--config`; `--listen` and `--data` win over `listen.address` and `cache.dir`.
One file serves all programs. Unknown keys, zeros that make no sense and contradictions stop the start; all
mistakes are reported at once (`--check-config` does only that). `--print-config` prints everything that is
in force. How to use it: [operations](../operations.md).

This page is made from the code, by a test of `crates/service/config`.
";

/// The guide of each section.
const GUIDES: [(&str, &str); 17] = [
    ("[listen]", "[admission](../operations.md#admission)"),
    ("[web]", "[JSON and browsers](../calling.md#json-and-browsers)"),
    ("[tls]", "[encryption](../operations.md#encryption)"),
    ("[auth]", "[identity](../operations.md#identity)"),
    ("[admin]", "[operators](../operations.md#operators)"),
    ("[quotas]", "[quotas](../operations.md#quotas)"),
    ("[tenants]", "[tenants](../operations.md#tenants)"),
    ("[audit]", "[audit log](../operations.md#audit-log)"),
    ("[log]", "[logs](../operations.md#logs)"),
    ("[trace]", "[logs and traces](../operations.md#logs-and-traces)"),
    ("[profile_push]", "[profiling](../profiling.md)"),
    (
        "[sandbox]",
        "[control groups](../operations.md#control-groups) and [what speculation costs](../sandbox.md#speculation)",
    ),
    ("[cache]", "[the cache](../operations.md#the-cache)"),
    ("[shared]", "[a shared tier](../operations.md#a-shared-tier)"),
    ("[signing]", "[signed native code](../operations.md#signed-native-code)"),
    ("[node]", "[a node](../operations.md#a-node)"),
    ("[compiler]", "[long compiles](../operations.md#long-compiles)"),
];

/// Joins the lines of a comment.
fn sentence(lines: &[&str]) -> String {
    lines.iter().map(|line| line.trim()).collect::<Vec<_>>().join(" ")
}

/// Wraps `text` at [`COLUMNS`].
fn wrapped(text: &str) -> String {
    let (mut lines, mut columns) = (String::new(), 0);
    for word in text.split_whitespace() {
        let width = word.chars().count();
        if columns > 0 && columns + 1 + width > COLUMNS {
            lines.push('\n');
            columns = 0;
        }
        if columns > 0 {
            lines.push(' ');
            columns += 1;
        }
        lines.push_str(word);
        columns += width;
    }
    lines
}

/// Description of the values of a key's kind.
fn type_of(key: &KeyText) -> String {
    let number = |least: u64, most: Option<u64>| match most {
        Some(most) => format!("{least} to {most}"),
        None if least > 0 => format!("number from {least}"),
        None => "number".to_owned(),
    };
    let limit = key.limit;
    match key.kind {
        "flag" => "`true` or `false`".to_owned(),
        "list" | "speculation" => "list of texts".to_owned(),
        "rules" | "tenants" => "tables".to_owned(),
        "share" => "0.0 to 1.0".to_owned(),
        "address" => "address and port".to_owned(),
        "file" | "folder" | "folder_or_none" | "absolute_or_none" => "path".to_owned(),
        "urls" => "URLs".to_owned(),
        "text" | "log_format" | "log_filter" | "isolation" => "text".to_owned(),
        "positive" => number(1, None),
        "at_least" => number(limit.unwrap_or_default(), None),
        "at_most" => number(0, limit),
        "count" => number(1, Some(COUNT_MAX)),
        "workers" => number(1, Some(WORKERS_MAX)),
        "time" => number(1, Some(TIME_MS_MAX)),
        "own" | "whole" | "one_in" | "pause" => number(0, None),
        other => panic!("{other} has no words"),
    }
}

/// Unit of a key's values, from the suffix of its name.
fn unit_of(name: &str) -> &'static str {
    const UNITS: [(&str, &str); 9] = [
        ("_per_second", "a second"),
        ("seconds_per_hour", "s an hour"),
        ("_bytes", "bytes"),
        ("_ms", "ms"),
        ("_ttl_ms", "ms"),
        ("_us", "µs"),
        ("_days", "days"),
        ("_percent", "%"),
        ("cycles", "cycles"),
    ];
    UNITS.iter().find(|(part, _)| name.contains(part)).map_or("", |(_, unit)| unit)
}

fn default_of(section: &SectionText, key: &KeyText) -> String {
    match section.defaults.get(key.name) {
        _ if key.kind == "workers" => "CPUs".to_owned(),
        Some(value) => format!("`{value}`"),
        None => "as for all".to_owned(),
    }
}

fn page() -> String {
    let mut page = HEAD.split("\n\n").map(wrapped).collect::<Vec<_>>().join("\n\n");
    page.push('\n');
    for section in sections() {
        let guide = GUIDES.iter().find(|(name, _)| *name == section.name);
        let guide = guide.map(|(_, link)| format!(" See {link}.")).unwrap_or_default();
        let about = wrapped(&format!("{}{guide}", sentence(section.about)));
        // Writing to a string does not fail.
        let _ = write!(page, "\n## `{}`\n\n{about}\n\n", section.name);
        page.push_str("| key | type | default | unit | what for |\n|---|---|---|---|---|\n");
        for key in section.keys.iter().filter(|key| !key.is_fixed) {
            let (kind, default, about) = (type_of(key), default_of(&section, key), sentence(key.about));
            let _ =
                writeln!(page, "| `{}` | {kind} | {default} | {} | {about} |", key.name, unit_of(key.name));
        }
    }
    page
}

#[test]
fn the_page_is_what_the_code_says() {
    antares_guests::golden(PAGE, &page());
}

#[test]
fn keys_in_the_docs_exist() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../..");
    let sections = sections();
    let docs = fs::read_dir(format!("{root}/docs")).unwrap().map(|entry| entry.unwrap().path());
    let docs = docs.filter(|path| path.extension().is_some_and(|end| end == "md"));
    let others = ["deploy/README.md", "deploy/RUNBOOK.md", "SECURITY.md"];
    let (mut found, mut wrong) = (0, Vec::new());
    for page in docs.chain(others.map(|name| format!("{root}/{name}").into())) {
        let text = fs::read_to_string(&page).unwrap();
        for (section, rest) in text.split('`').filter_map(|piece| piece.split_once('.')) {
            let named = |own: &&SectionText| own.name.trim_matches(['[', ']']) == section;
            let Some(own) = sections.iter().find(named) else { continue };
            let key = rest.split(|letter: char| letter != '_' && !letter.is_alphanumeric()).next().unwrap();
            // `tls.rs` is a file; `runner.config` and those with capitals are values of the chart.
            if ["rs", "config"].contains(&key) || key.contains(char::is_uppercase) {
                continue;
            }
            // `runner.compiler_*` are several.
            let is = |name: &str| name == key || key.ends_with('_') && name.starts_with(key);
            if !own.keys.iter().any(|known| !known.is_fixed && is(known.name)) {
                wrong.push(format!("{}: {section}.{key}", page.display()));
            }
            found += 1;
        }
    }
    assert!(wrong.is_empty() && found > 50, "of {found}: {wrong:#?}");
}

#[test]
fn every_key_that_is_printed_is_explained() {
    let sections = sections();
    let printed = crate::ConfigFile::default().print().unwrap();
    let shown = printed.lines().filter(|line| !line.is_empty());
    let shown: Vec<_> = shown.map(|line| line.split(" = ").next().unwrap_or_default()).collect();
    let plain = sections.iter().filter(|section| !section.name.starts_with("[["));
    let reported = plain.flat_map(|section| {
        let keys = section.keys.iter().filter(|key| !key.is_fixed);
        [section.name].into_iter().chain(keys.map(|key| key.name))
    });
    assert_eq!(shown, reported.collect::<Vec<_>>());
    for section in &sections {
        assert!(sentence(section.about).ends_with('.'), "{}", section.name);
        for key in section.keys {
            assert!(sentence(key.about).ends_with('.'), "{} {}", section.name, key.name);
        }
    }
}
