// Calls of functions, closures and methods.
function fib(n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
class Counter {
    constructor(step) { this.step = step; this.sum = 0; }
    add(value) { this.sum += value * this.step; return this; }
}
class Twice extends Counter { add(value) { return super.add(2 * value); } }
const adders = [1, 2, 3].map((step) => (value) => value + step);
const counter = new Twice(3);
for (let i = 0; i < 500; i++) counter.add(adders[i % 3](i));
function* squares(n) { for (let i = 0; i < n; i++) yield i * i; }
const total = [...squares(100)].reduce((a, b) => a + b, 0);
if (fib(14) !== 377 || counter.sum !== 754494 || total !== 328350) throw new Error(`${fib(14)} ${counter.sum} ${total}`);
