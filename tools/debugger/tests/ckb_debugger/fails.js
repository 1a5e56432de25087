function inner() { throw new Error("no"); }
function outer() { inner(); }
outer();
