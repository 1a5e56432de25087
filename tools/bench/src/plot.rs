//! The plot: a bar for our time to gcc's, program by program, and a dot for each peer, on a scale of
//! logarithms.

use std::fmt::Write as _;

use crate::report::Row;

/// Pixels of one program's line.
const LINE: usize = 22;
/// Pixels left of the bars, for names.
const LEFT: usize = 130;
/// Pixels of the scale.
const WIDTH: usize = 720;
/// Pixels above the first line.
const TOP: usize = 30;
/// The scale's ends.
const LOW: f64 = 0.5;
const HIGH: f64 = 128.0;
/// Marks of the scale.
const MARKS: [f64; 9] = [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0];
/// One for each peer, in the order in which they first appear.
const COLOURS: [&str; 9] =
    ["#e69f00", "#000000", "#cc79a7", "#56b4e9", "#0072b2", "#009e73", "#005f45", "#d55e00", "#8c3a00"];

/// The plot as SVG.
pub(crate) fn draw(rows: &[Row]) -> String {
    let mut names: Vec<&str> = Vec::new();
    for (name, _) in rows.iter().flat_map(|row| &row.peers) {
        if !names.contains(name) {
            names.push(name);
        }
    }
    let bottom = TOP + rows.len() * LINE;
    let (width, height) = (LEFT + WIDTH + 30, bottom + 30 + LINE * names.len().div_ceil(4));
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
         <text x=\"{LEFT}\" y=\"14\">time to gcc -O3 of the same C (bars: Antares; dots: others; shorter is better)</text>\n"
    );
    for mark in MARKS {
        let (x, colour) = (place(mark), if mark == 1.0 { "#444" } else { "#ddd" });
        line(&mut svg, &format!("<path d=\"M{x:.1} {TOP}V{bottom}\" stroke=\"{colour}\"/>"));
        line(
            &mut svg,
            &format!("<text x=\"{x:.1}\" y=\"{}\" text-anchor=\"middle\">{mark}</text>", bottom + 14),
        );
    }
    for (at, row) in rows.iter().enumerate() {
        let y = TOP + at * LINE;
        draw_row(&mut svg, row, y, &names);
    }
    for (at, name) in names.iter().enumerate() {
        let (x, y) = (LEFT + at % 4 * 180, bottom + 34 + at / 4 * LINE);
        line(&mut svg, &format!("<circle cx=\"{x}\" cy=\"{}\" r=\"4\" fill=\"{}\"/>", y - 4, colour(at)));
        line(&mut svg, &format!("<text x=\"{}\" y=\"{y}\">{name}</text>", x + 8));
    }
    svg.push_str("</svg>\n");
    svg
}

fn draw_row(svg: &mut String, row: &Row, y: usize, names: &[&str]) {
    let middle = y + LINE / 2;
    let (name, ratio) = (&row.name, row.gcc.median);
    line(svg, &format!("<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{name}</text>", LEFT - 8, middle + 4));
    let (start, end) = (place(LOW), place(ratio));
    line(
        svg,
        &format!(
            "<rect x=\"{start:.1}\" y=\"{}\" width=\"{:.1}\" height=\"{}\" fill=\"#9ecae1\"><title>{ratio:.3}</title></rect>",
            y + 3,
            end - start,
            LINE - 6
        ),
    );
    line(
        svg,
        &format!("<text x=\"{:.1}\" y=\"{}\" font-size=\"10\">{ratio:.2}</text>", start + 4.0, middle + 4),
    );
    for (name, ratio) in &row.peers {
        let at = names.iter().position(|other| other == name).unwrap_or(0);
        line(
            svg,
            &format!(
                "<circle cx=\"{:.1}\" cy=\"{middle}\" r=\"4\" fill=\"{}\"><title>{name} {:.2}</title></circle>",
                place(ratio.median),
                colour(at),
                ratio.median
            ),
        );
    }
}

/// Where a ratio stands on the scale; what is beyond it stands at its end.
fn place(ratio: f64) -> f64 {
    let share = (ratio.clamp(LOW, HIGH) / LOW).ln() / (HIGH / LOW).ln();
    LEFT as f64 + share * WIDTH as f64
}

fn colour(at: usize) -> &'static str {
    COLOURS[at % COLOURS.len()]
}

fn line(svg: &mut String, text: &str) {
    // Writing to a string does not fail.
    let _ = writeln!(svg, "{text}");
}
