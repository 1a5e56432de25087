//! `antares size`: the size of each part of a script, and a smaller version of the script.

use std::{fmt::Write as _, path::Path};

use antares_analysis::size::{Part, Shrunk, Sizes, shrink};
use anyhow::anyhow;
use serde_json::json;

use crate::{
    args::{percent::share, size::SizeArgs},
    failure::Failure,
    input, output,
    output::report::{Numbers, change_row, changes, grouped},
};

/// Longest file to analyse, bytes: builds with debug information are longer than scripts.
const BYTES_MAX: u64 = 256 << 20;

/// Reports sizes, or writes a smaller script.
pub(crate) fn size(args: &SizeArgs) -> Result<(), Failure> {
    let elf = input::read(&args.elf, BYTES_MAX)?;
    if let Some(path) = args.output.as_deref().filter(|_| args.shrink) {
        return shrunk(&elf, path, args.json);
    }
    let read = |elf: &[u8], path: &Path| {
        let sizes = Sizes::of(elf, args.machine.options());
        let why = if elf.starts_with(b"\x7fELF\x02") {
            "has broken section headers"
        } else {
            "is no ELF of 64 bits"
        };
        sizes.ok_or_else(|| Failure::Usage(anyhow!("{} {why}", path.display())))
    };
    let sizes = read(&elf, &args.elf)?;
    let text = match &args.before {
        Some(path) => {
            let before = read(&input::read(path, BYTES_MAX)?, path)?;
            match args.json {
                true => json!({ "before": before, "after": sizes }).to_string() + "\n",
                false => compared(&before, &sizes, args.top),
            }
        }
        None if args.json => serde_json::to_string(&sizes).unwrap_or_default() + "\n",
        None => listed(&sizes, args.top),
    };
    output::print(output::printable(&text).as_bytes())
}

fn shrunk(elf: &[u8], path: &Path, is_json: bool) -> Result<(), Failure> {
    let Shrunk { elf: smaller, is_packed, header_bytes } =
        shrink(elf).map_err(|error| Failure::Usage(error.into()))?;
    output::write(path, &smaller)?;
    let (before, after) = (elf.len() as u64, smaller.len() as u64);
    let text = if is_json {
        let value = json!({
            "before_bytes": before, "after_bytes": after, "is_packed": is_packed, "header_bytes": header_bytes,
        });
        value.to_string() + "\n"
    } else {
        let mut text = format!(
            "{} bytes, {} before: {} CKBytes less\n",
            grouped(after),
            grouped(before),
            grouped(before.saturating_sub(after))
        );
        if !is_packed {
            text += "  left: the file up to the end of its last segment, since the first one has the headers in it\n";
        }
        if header_bytes > 0 {
            let _ = writeln!(
                text,
                "  differs: {header_bytes} bytes of the ELF header in memory, which told of sections"
            );
        }
        text
    };
    // The script itself may be on standard output.
    if input::is_stdio(path) {
        eprint!("{text}");
        return Ok(());
    }
    output::print(text.as_bytes())
}

fn listed(sizes: &Sizes, top: usize) -> String {
    let row = |bytes| format!("{:>12} {:>7}", grouped(bytes), share(bytes, sizes.bytes));
    let mut text =
        format!("{} bytes: {} CKBytes as a cell's data\n\n", grouped(sizes.bytes), grouped(sizes.bytes));
    let _ = writeln!(text, "{:>12} {:>7}", "bytes", "%");
    for (name, bytes) in [
        ("loaded by the VM", sizes.loaded_bytes),
        ("headers and padding", sizes.padding_bytes),
        ("never loaded: antares size --shrink takes it", sizes.strippable_bytes),
    ] {
        let _ = writeln!(text, "{}  {name}", row(bytes));
    }
    for (title, parts) in tables(sizes) {
        if parts.is_empty() {
            continue;
        }
        let _ = writeln!(text, "\n{title}");
        for part in parts.iter().take(top) {
            let _ = writeln!(text, "{}  {}", row(part.bytes), part.name);
        }
        if parts.len() > top {
            let rest = parts[top..].iter().map(|part| part.bytes).sum();
            let _ = writeln!(text, "{}  {} more", row(rest), parts.len() - top);
        }
    }
    text
}

fn tables(sizes: &Sizes) -> [(&'static str, &Vec<Part>); 4] {
    [
        ("sections", &sizes.sections),
        ("functions", &sizes.functions),
        ("files of code", &sizes.files),
        ("functions with the same bytes", &sizes.duplicates),
    ]
}

/// The differences, in Markdown.
fn compared(before: &Sizes, after: &Sizes, top: usize) -> String {
    let mut text = String::from("| | before | after | change |\n|---|---:|---:|---:|\n");
    for (name, old, new) in [
        ("file", before.bytes, after.bytes),
        ("loaded", before.loaded_bytes, after.loaded_bytes),
        ("never loaded", before.strippable_bytes, after.strippable_bytes),
    ] {
        text += &change_row(name, old, new, "");
    }
    for ((title, old), (_, new)) in tables(before).into_iter().zip(tables(after)).take(3) {
        let by_name = |parts: &[Part]| {
            let mut sums = Numbers::new();
            parts.iter().for_each(|part| *sums.entry(part.name.clone()).or_default() += part.bytes);
            sums
        };
        for (name, old, new) in changes(&by_name(old), &by_name(new)).into_iter().take(top) {
            text += &change_row(&format!("{title}: {}", name.replace('|', "\\|")), old, new, "");
        }
    }
    text
}
