// Strings, regular expressions, JSON, sorting, maps.
const words = [];
for (let i = 0; i < 300; i++) words.push(`word-${(i * 7919) % 1009}`);
words.sort();
const counts = new Map();
for (const word of words) {
    const [, number] = /^word-(\d+)$/.exec(word);
    counts.set(number.length, (counts.get(number.length) ?? 0) + 1);
}
const text = JSON.stringify({ words, counts: [...counts].sort() });
const again = JSON.parse(text);
if (again.words.length !== 300 || text.replace(/word-/g, "").length !== text.length - 1500) throw new Error(text);
