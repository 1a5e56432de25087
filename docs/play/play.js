// The page: hands a file to the worker, shows what comes back.

const at = (id) => document.getElementById(id);
const ROWS_MAX = 30, BARS_MAX = 2000, ROW_PIXELS = 21;
let worker;

at('form').addEventListener('submit', async (event) => {
  event.preventDefault();
  worker?.terminate();
  worker = new Worker('worker.js');
  worker.onmessage = ({ data }) => {
    if (data.failure !== undefined) at('verdict').textContent = data.failure;
    if (data.verdict) showVerdict(data.verdict);
    if (data.flame !== undefined) showFlame(data.flame);
  };
  at('verdict').textContent = 'Running';
  at('log').hidden = at('counted').hidden = at('functions').hidden = true;
  at('flame').replaceChildren();
  at('flame').style.height = 0;
  const read = async (file) => [file.name, new Uint8Array(await file.arrayBuffer())];
  const given = await Promise.all([...at('file').files].map(read));
  const args = at('args').value.trim().split(/\s+/).filter(Boolean);
  worker.postMessage({ given, script: at('script').value, args });
});

function showVerdict({ status, out, err }) {
  const lines = out.split('\n');
  const told = (begin) => lines.findLast((line) => line.startsWith(begin))?.slice(begin.length);
  const [result, cycles] = [told('Run result: '), told('All cycles: ')];
  at('verdict').textContent = result === undefined ? 'Not run'
    : status === 0 ? `Accepted: exit 0, ${cycles} cycles`
    : cycles === undefined ? `Refused: ${result}` : `Refused: exit ${result}, ${cycles} cycles`;
  const rest = lines.filter((line) => line && !/^(Run result|All cycles): /.test(line)).concat(err ? [err] : []);
  at('log').textContent = rest.join('\n');
  at('log').hidden = rest.length === 0;
}

// Lines `a; b; c CYCLES`: each what c took by itself there.
function showFlame(text) {
  const root = { name: '', cycles: 0, total: 0, children: new Map() };
  const own = new Map(), totals = new Map();
  for (const line of text.split('\n').filter(Boolean)) {
    const cut = line.lastIndexOf(' ');
    const cycles = Number(line.slice(cut + 1));
    const names = line.slice(0, cut).split('; ').map((name) => name.split(':').pop() || name);
    let node = root;
    root.total += cycles;
    for (const name of names) {
      if (!node.children.has(name)) node.children.set(name, { name, cycles: 0, total: 0, children: new Map() });
      node = node.children.get(name);
      node.total += cycles;
    }
    node.cycles += cycles;
    own.set(node.name, (own.get(node.name) ?? 0) + cycles);
    for (const name of new Set(names)) totals.set(name, (totals.get(name) ?? 0) + cycles);
  }
  if (root.total === 0) return;
  const body = at('functions').tBodies[0];
  body.replaceChildren();
  const rows = [...totals].filter(([, total]) => total > 0);
  rows.sort((a, b) => (own.get(b[0]) ?? 0) - (own.get(a[0]) ?? 0) || b[1] - a[1]);
  for (const [name, total] of rows.slice(0, ROWS_MAX)) {
    const row = body.insertRow();
    for (const cell of [(own.get(name) ?? 0).toLocaleString('en'), total.toLocaleString('en'), name]) row.insertCell().textContent = cell;
    row.lastChild.title = name;
  }
  at('counted').textContent = `In functions of the first VM: ${root.total.toLocaleString('en')} cycles. `
    + 'Loading programs, starting other VMs and what those do take the rest.';
  at('counted').hidden = at('functions').hidden = false;
  draw(root);
}

function draw(root) {
  const flame = at('flame'), bars = [];
  let deepest = 0;
  const place = (node, left, depth) => {
    if (depth > 0) bars.push([node, left, depth - 1]);
    deepest = Math.max(deepest, depth);
    for (const child of [...node.children.values()].sort((a, b) => b.total - a.total)) {
      if (child.total / root.total > 0.002) place(child, left, depth + 1);
      left += child.total;
    }
  };
  place(root, 0, 0);
  for (const [node, left, depth] of bars.slice(0, BARS_MAX)) {
    const bar = document.createElement('div');
    const share = (cycles) => `${(100 * cycles) / root.total}%`;
    Object.assign(bar.style, { left: share(left), width: share(node.total), top: `${depth * ROW_PIXELS}px` });
    bar.textContent = node.name;
    bar.title = `${node.name}: ${node.total.toLocaleString('en')} cycles, ${node.cycles.toLocaleString('en')} of its own`;
    flame.append(bar);
  }
  flame.style.height = `${deepest * ROW_PIXELS}px`;
}
