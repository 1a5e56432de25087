//! Coverage as one HTML page: a table of files, and the lines of each file. It loads nothing, sends nothing
//! and needs no scripts.

use std::{collections::BTreeMap, fmt::Write as _, iter};

use crate::{
    coverage::{CoverageFigures, CoverageShare, CoveredFile},
    limits::{COVERAGE_LINE_BYTES_MAX, COVERAGE_LINES_MAX},
    printable::is_command,
};

const HEAD: &str = include_str!("coverage.html");

/// A page about `files`. `source` returns the text of a file by the compiler's name; without it, only lines
/// with code are listed.
#[must_use]
pub fn coverage_page(
    title: &str,
    files: &BTreeMap<String, CoveredFile>,
    source: &dyn Fn(&str) -> Option<String>,
) -> String {
    let mut page = HEAD.replacen("{{title}}", &escaped(title), 2);
    let all = shares(CoverageFigures::of(files.values()));
    page.push_str("<dl>");
    for (name, share) in ["lines", "functions", "branches"].into_iter().zip(all) {
        // Writing to a string does not fail.
        let _ = write!(
            page,
            "<div><dt>{name}</dt><dd>{}</dd><dd>{} of {}</dd></div>",
            percent(share),
            share.hit,
            share.found
        );
    }
    page.push_str("</dl></header>\n<main><table>\n<tr><th>file</th><th>lines</th><th>functions</th><th>branches</th></tr>\n");
    for (number, (name, file)) in files.iter().enumerate() {
        let [lines, functions, branches] = shares(CoverageFigures::of(iter::once(file))).map(percent);
        let _ = writeln!(
            page,
            "<tr><td><a href=\"#f{number}\">{}</a></td><td>{lines}</td><td>{functions}</td><td>{branches}</td></tr>",
            escaped(name)
        );
    }
    page.push_str("</table>\n");
    for (number, (name, file)) in files.iter().enumerate() {
        let _ = writeln!(page, "<section id=\"f{number}\"><h2>{}</h2>", escaped(name));
        write_file(&mut page, file, source(name).as_deref());
        page.push_str("</section>\n");
    }
    page.push_str("</main>\n</body>\n</html>\n");
    page
}

/// Lines, functions, branches.
fn shares(of: CoverageFigures) -> [CoverageShare; 3] {
    [of.lines, of.functions, of.branches]
}

fn write_file(page: &mut String, file: &CoveredFile, text: Option<&str>) {
    let missed: Vec<_> = file.functions.iter().filter(|(_, (_, count))| *count == 0).collect();
    if !missed.is_empty() {
        let names = missed.iter().map(|(name, (line, _))| format!("<code>{}</code> ({line})", escaped(name)));
        let _ = writeln!(page, "<p>never called: {}</p>", names.collect::<Vec<_>>().join(", "));
    }
    if file.undecided > 0 {
        let _ = writeln!(page, "<p>branches whose way cannot be told: {}</p>", file.undecided);
    }
    page.push_str("<div class=\"code\">");
    match text {
        Some(text) => {
            let numbered = text.lines().zip(1_u32..).take(COVERAGE_LINES_MAX);
            numbered.for_each(|(text, number)| write_line(page, file, number, text));
        }
        None => {
            let numbers = file.lines.keys().take(COVERAGE_LINES_MAX);
            numbers.for_each(|number| write_line(page, file, *number, ""));
        }
    }
    page.push_str("</div>");
}

fn write_line(page: &mut String, file: &CoveredFile, number: u32, text: &str) {
    let count = file.lines.get(&number).copied();
    let branches: Vec<_> = file.branches.range((number, 0)..=(number, u32::MAX)).map(|(_, it)| it).collect();
    let ran: Vec<_> = branches.iter().filter(|branch| branch.ran > 0).collect();
    let is_partial = ran.iter().any(|branch| branch.sides.contains(&0));
    let class = match count {
        None => "",
        Some(0) => " class=\"miss\"",
        Some(_) if is_partial => " class=\"part\"",
        Some(_) => " class=\"hit\"",
    };
    // Words in addition to colours.
    let mark = match count {
        Some(0) => "never".to_owned(),
        Some(count) => count.to_string(),
        None => String::new(),
    };
    let ways: Vec<String> =
        ran.iter().map(|branch| format!("{}/{}", branch.sides[0], branch.sides[1])).collect();
    let title = match &*ways {
        [] => String::new(),
        ways => format!(" title=\"branches, went on / jumped: {}\"", ways.join(", ")),
    };
    let flag = if is_partial { "!" } else { "" };
    let text = &text[..text.floor_char_boundary(COVERAGE_LINE_BYTES_MAX)];
    let _ = writeln!(
        page,
        "<div{class}{title}><i>{number}</i><b>{mark}{flag}</b><span>{}</span></div>",
        escaped(text)
    );
}

fn percent(share: CoverageShare) -> String {
    share.percent().unwrap_or_else(|| "–".to_owned())
}

/// Escapes text of a script or source for elements and attributes.
fn escaped(text: &str) -> String {
    let text = text.replace(|letter| letter != '\t' && is_command(letter), "\u{fffd}");
    let marks = [('&', "&amp;"), ('<', "&lt;"), ('>', "&gt;"), ('"', "&quot;"), ('\'', "&#39;")];
    marks.into_iter().fold(text, |text, (mark, name)| text.replace(mark, name))
}
