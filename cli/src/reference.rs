//! The page `docs/reference/command-line.md`, from the words that the command takes. `BLESS=1` writes it.

use std::{env, fmt::Write as _, fs};

use clap::{Arg, Command, CommandFactory as _};

use crate::{args::Cli, groups::GROUPS};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/reference/command-line.md");

const HEAD: &str = "# Command line

All words of all commands. What they mean together, `--json` and exit statuses: [the command line](../cli.md).

This page is made from the code, by a test of `cli`.
";

/// Columns of prose, as everywhere in the docs.
const COLUMNS: usize = 110;

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

/// How an argument is written.
fn form(arg: &Arg) -> String {
    let names = arg.get_value_names().unwrap_or_default();
    let value = names.iter().map(|name| name.as_str()).collect::<Vec<_>>().join(" ");
    let takes = arg.get_num_args().is_some_and(|number| number.takes_values());
    let value = if takes { value } else { String::new() };
    let mut words = Vec::new();
    words.extend(arg.get_short().map(|short| format!("-{short}")));
    words.extend(arg.get_long().map(|long| format!("--{long}")));
    if words.is_empty() {
        return format!("`{value}`").replace('|', "\\|");
    }
    format!("`{} {value}", words.join("`, `")).trim_end().replace('|', "\\|") + "`"
}

/// What an argument is where it is not given.
fn default_of(arg: &Arg) -> String {
    let values = arg.get_default_values().iter().map(|value| format!("`{}`", value.to_string_lossy()));
    let takes = arg.get_num_args().is_some_and(|number| number.takes_values());
    if !takes { String::new() } else { values.collect::<Vec<_>>().join(" ") }
}

fn about(arg: &Arg) -> String {
    let help = arg.get_long_help().or(arg.get_help()).map(ToString::to_string).unwrap_or_default();
    let shown =
        arg.get_possible_values().iter().filter(|value| !value.is_hide_set()).cloned().collect::<Vec<_>>();
    let takes = arg.get_num_args().is_some_and(|number| number.takes_values());
    if shown.is_empty() || !takes || arg.is_hide_possible_values_set() {
        return cell(&help);
    }
    let shown = shown.iter().map(|value| format!("`{}`", value.get_name())).collect::<Vec<_>>().join(", ");
    format!("{}; one of {shown}", cell(&help))
}

/// Writes a command called `name` and what is below it.
fn write_command(page: &mut String, name: &str, command: &Command) {
    let level = if name.split(' ').count() > 2 { "###" } else { "##" };
    let about = command.get_long_about().or(command.get_about()).map(ToString::to_string).unwrap_or_default();
    let paragraphs = about.split("\n\n").map(|text| {
        let text = text.trim();
        wrapped(&if text.ends_with(['.', ':']) { text.to_owned() } else { format!("{text}.") })
    });
    // Writing to a string does not fail.
    let _ = write!(page, "\n{level} `{name}`\n\n{}\n", paragraphs.collect::<Vec<_>>().join("\n\n"));
    let is_told = |arg: &&Arg| !arg.is_hide_set() && !arg.is_global_set() && arg.get_id() != "help";
    let (options, words): (Vec<_>, Vec<_>) =
        command.get_arguments().filter(is_told).partition(|arg| arg.get_long().is_some());
    if !options.is_empty() || !words.is_empty() {
        page.push_str("\n| word | default | what for |\n|---|---|---|\n");
    }
    for arg in words.into_iter().chain(options) {
        let _ = writeln!(page, "| {} | {} | {} |", form(arg), default_of(arg), self::about(arg));
    }
    for below in command.get_subcommands().filter(|below| !below.is_hide_set() && below.get_name() != "help")
    {
        write_command(page, &format!("{name} {}", below.get_name()), below);
    }
}

#[test]
fn the_page_is_what_the_command_takes() {
    let mut command = Cli::command();
    command.build();
    let mut page = HEAD.to_owned();
    for name in GROUPS.iter().flat_map(|(_, names)| *names).filter(|name| **name != "help") {
        write_command(&mut page, &format!("antares {name}"), command.find_subcommand(name).unwrap());
    }
    if env::var_os("BLESS").is_some() {
        fs::write(PAGE, &page).unwrap();
    }
    let kept = fs::read_to_string(PAGE).unwrap_or_default();
    for (at, (kept, now)) in kept.lines().zip(page.lines()).enumerate() {
        assert_eq!(kept, now, "docs/reference/command-line.md:{}; BLESS=1 writes it", at + 1);
    }
    assert_eq!(kept.len(), page.len(), "docs/reference/command-line.md; BLESS=1 writes it");
}
