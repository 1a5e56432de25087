//! callgrind's text: cycles and instructions for each address and line, and the cost of calls.

use std::{collections::BTreeMap, fmt::Write};

use antares_profile::{Node, NodeId, Value};

use crate::{View, formats::interned::Interned, printable::is_command};

/// A non-inlined function: its file and its name.
type Home = (String, String);
/// Location of an instruction: its address, file and line.
type Position = (u64, String, u32);

#[derive(Default)]
struct Costs {
    own: BTreeMap<Position, Value>,
    /// By callee: number of calls and their cost.
    calls: BTreeMap<(Position, Home), (u64, Value)>,
}

pub(crate) fn write(view: &View<'_>) -> String {
    let functions = collect(view);
    let mut text = String::from("# callgrind format\nversion: 1\ncreator: antares\n");
    text.push_str("positions: instr line\nevent: Cycles : cycles of CKB-VM\nevents: Cycles Instructions\n");
    let sum = view.profile().sum();
    // Writing to a string does not fail.
    let _ = writeln!(text, "summary: {} {}\n", sum.cycles, sum.instructions);
    let (mut files, mut names) = (Interned::default(), Interned::default());
    for ((file, name), costs) in &functions {
        let _ = writeln!(text, "fl={}", named(&mut files, file));
        let _ = writeln!(text, "fn={}", named(&mut names, name));
        let mut current = file;
        let own = costs.own.iter().map(|(position, value)| (position, None, value));
        let calls = costs.calls.iter();
        let calls =
            calls.map(|((position, callee), (count, value))| (position, Some((callee, count)), value));
        for ((pc, line_file, line), call, value) in own.chain(calls) {
            if line_file != current {
                let word = if line_file == file { "fe" } else { "fi" };
                let _ = writeln!(text, "{word}={}", named(&mut files, line_file));
                current = line_file;
            }
            if let Some(((callee_file, callee), count)) = call {
                let _ = writeln!(text, "cfi={}", named(&mut files, callee_file));
                let _ = writeln!(text, "cfn={}", named(&mut names, callee));
                let _ = writeln!(text, "calls={count} 0 0");
            }
            let _ = writeln!(text, "{pc:#x} {line} {} {}", value.cycles, value.instructions);
        }
        text.push('\n');
    }
    let _ = writeln!(text, "totals: {} {}", sum.cycles, sum.instructions);
    text
}

fn collect(view: &View<'_>) -> BTreeMap<Home, Costs> {
    let mut functions: BTreeMap<Home, Costs> = BTreeMap::new();
    let totals = view.profile().subtree();
    let nodes = view.profile().nodes();
    for ((node, total), id) in nodes.iter().zip(totals).zip(0..) {
        let home = home(view, NodeId(id));
        let own = functions.entry(home.clone()).or_default().own.entry(position(view, node, NodeId(id)));
        let own = own.or_default();
        *own = own.plus(node.value);
        let Some(parent) = node.parent else { continue };
        // A node is an instruction; the node above a call is the callee, once for each instruction of it.
        let caller = self::home(view, parent);
        let site = &nodes[parent.0 as usize];
        let calls = &mut functions.entry(caller).or_default().calls;
        let call = calls.entry((position(view, site, parent), home)).or_default();
        call.1 = call.1.plus(total);
    }
    // A call instruction's executions are the number of calls; several callees of one site share them.
    for (id, node) in (0..).zip(nodes) {
        let home = home(view, NodeId(id));
        let site = position(view, node, NodeId(id));
        if let Some(costs) = functions.get_mut(&home) {
            let callees = costs.calls.range_mut((site.clone(), Home::default())..);
            for (_, call) in callees.take_while(|((other, _), _)| *other == site) {
                call.0 = call.0.saturating_add(node.value.instructions);
            }
        }
    }
    functions
}

fn home(view: &View<'_>, id: NodeId) -> Home {
    let function = view.named(id).first().map(|(function, _)| view.function(*function));
    function.map(|function| (function.file.clone(), function.name.clone())).unwrap_or_default()
}

fn position(view: &View<'_>, node: &Node, id: NodeId) -> Position {
    let pc = node.frame.code().map_or(0, |(_, pc)| pc);
    let line = view.named(id).last().and_then(|(_, line)| line.as_ref());
    let file = line.map_or_else(|| home(view, id).0, |line| line.file.clone());
    (pc, file, line.map_or(0, |line| line.line))
}

/// A name in callgrind's compression: in full the first time, then by number.
fn named(names: &mut Interned, name: &str) -> String {
    let known = names.texts.len();
    let number = names.number(name);
    let name = if name.is_empty() { "???".to_owned() } else { name.replace(is_command, "?") };
    if number == known { format!("({}) {name}", number + 1) } else { format!("({})", number + 1) }
}
