import * as ckb from "@ckb-js-std/bindings";
const script = ckb.loadScript();
console.log("script of", script.byteLength, "bytes");
