console.log("hello", 1 + 2);
