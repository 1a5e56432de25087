//! The page `docs/reference/command-line.md`, generated from the definitions of the commands. `BLESS=1`
//! writes it.

use std::{collections::BTreeMap, fmt::Write as _};

use clap::{Arg, Command, CommandFactory as _};

use crate::{args::Cli, groups::GROUPS};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/reference/command-line.md");

const HEAD: &str = "# Command-line reference

How options combine, the keys of `--json` and exit statuses: [the command line](../cli.md).

This page is generated from the code by a test of `cli`.
";

/// Columns of prose, as everywhere in the docs.
const COLUMNS: usize = 110;
/// Commands that must share an argument for its row to be in the common table only.
const SHARED_BY_MIN: usize = 3;
const TABLE: &str = "\n| argument | default | meaning |\n|---|---|---|\n";

/// An argument.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Row {
    name: String,
    form: String,
    default: String,
    about: String,
}

/// A command and its own arguments.
struct Section {
    name: String,
    about: String,
    rows: Vec<Row>,
}

/// `text` in lines of at most [`COLUMNS`].
fn wrapped(text: &str) -> String {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut().filter(|line| line.chars().count() + 1 + word.chars().count() <= COLUMNS) {
            Some(line) => {
                line.push(' ');
                line.push_str(word);
            }
            None => lines.push(word.to_owned()),
        }
    }
    lines.join("\n")
}

/// `text` within a table.
fn cell(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|").replace('<', "\\<")
}

impl Row {
    fn new(arg: &Arg) -> Self {
        let takes = arg.get_num_args().is_some_and(|number| number.takes_values());
        let names = arg.get_value_names().unwrap_or_default();
        let value = names.iter().map(|name| name.as_str()).collect::<Vec<_>>().join(" ");
        let value = if takes { value } else { String::new() };
        let mut flags = Vec::new();
        flags.extend(arg.get_short().map(|short| format!("-{short}")));
        flags.extend(arg.get_long().map(|long| format!("--{long}")));
        let form = match flags.is_empty() {
            true => format!("`{value}`"),
            false => format!("`{} {value}", flags.join("`, `")).trim_end().to_owned() + "`",
        };
        let defaults = arg.get_default_values().iter().filter(|_| takes && !arg.is_hide_default_value_set());
        let defaults = defaults.map(|value| format!("`{}`", value.to_string_lossy()));
        Self {
            name: flags.pop().unwrap_or(value),
            form: form.replace('|', "\\|"),
            default: defaults.collect::<Vec<_>>().join(" "),
            about: about(arg, takes),
        }
    }

    fn write(&self, page: &mut String) {
        // Writing to a string does not fail.
        let _ = writeln!(page, "| {} | {} | {} |", self.form, self.default, self.about);
    }
}

fn about(arg: &Arg, takes: bool) -> String {
    let help = arg.get_long_help().or(arg.get_help()).map(ToString::to_string).unwrap_or_default();
    let values = arg.get_possible_values();
    let shown = values.iter().filter(|value| !value.is_hide_set());
    let shown: Vec<_> = shown.map(|value| format!("`{}`", value.get_name())).collect();
    if shown.is_empty() || !takes || arg.is_hide_possible_values_set() {
        return cell(&help);
    }
    format!("{}: {}", cell(&help), shown.join(", "))
}

/// The sections of a command called `name` and of its subcommands. Global arguments belong to the command
/// that declares them.
fn sections(name: &str, command: &Command, is_top: bool) -> Vec<Section> {
    let about = command.get_long_about().or(command.get_about()).map(ToString::to_string).unwrap_or_default();
    let is_shown = |arg: &&Arg| {
        let is_own = !arg.is_global_set() || (is_top && arg.get_id() != "color");
        !arg.is_hide_set() && is_own && arg.get_id() != "help"
    };
    let (options, operands): (Vec<_>, Vec<_>) =
        command.get_arguments().filter(is_shown).partition(|arg| arg.get_long().is_some());
    let rows = operands.into_iter().chain(options).map(Row::new).collect();
    let own = Section { name: name.to_owned(), about, rows };
    let below = command.get_subcommands().filter(|one| !one.is_hide_set() && one.get_name() != "help");
    let below = below.flat_map(|one| sections(&format!("{name} {}", one.get_name()), one, false));
    std::iter::once(own).chain(below).collect()
}

fn write_section(page: &mut String, section: &Section, common: &[Row]) {
    let level = if section.name.split(' ').count() > 2 { "###" } else { "##" };
    let paragraphs = section.about.split("\n\n").map(|text| {
        let text = text.trim();
        wrapped(&if text.ends_with(['.', ':']) { text.to_owned() } else { format!("{text}.") })
    });
    let paragraphs: Vec<_> = paragraphs.collect();
    let _ = write!(page, "\n{level} `{}`\n\n{}\n", section.name, paragraphs.join("\n\n"));
    let (shared, own): (Vec<_>, Vec<_>) = section.rows.iter().partition(|row| common.contains(row));
    if !own.is_empty() {
        page.push_str(TABLE);
    }
    for row in own {
        row.write(page);
    }
    if !shared.is_empty() {
        let names: Vec<_> = shared.iter().map(|row| format!("`{}`", row.name)).collect();
        let _ = write!(page, "\n{}\n", wrapped(&format!("Common: {}.", names.join(", "))));
    }
}

/// The page generated from the definitions.
fn page() -> String {
    let mut command = Cli::command();
    command.build();
    let names = GROUPS.iter().flat_map(|(_, names)| *names).filter(|name| **name != "help");
    let find = |name: &&str| {
        sections(&format!("antares {name}"), command.find_subcommand(name).expect("a command"), true)
    };
    let sections: Vec<_> = names.flat_map(find).collect();
    let mut counts = BTreeMap::<&Row, usize>::new();
    for row in sections.iter().flat_map(|section| &section.rows) {
        *counts.entry(row).or_default() += 1;
    }
    let shared = counts.into_iter().filter(|(_, count)| *count >= SHARED_BY_MIN);
    let common: Vec<_> = shared.map(|(row, _)| row.clone()).collect();
    let everywhere = command.get_arguments().filter(|arg| arg.is_global_set()).map(Row::new);
    let mut page = HEAD.to_owned() + "\n## Common arguments\n" + TABLE;
    for row in everywhere.chain(common.iter().cloned()) {
        row.write(&mut page);
    }
    for section in &sections {
        write_section(&mut page, section, &common);
    }
    page
}

#[test]
fn the_page_is_what_the_command_takes() {
    antares_guests::golden(PAGE, &page());
}
