// Typed arrays, big integers, floating point, exceptions.
const bytes = new Uint8Array(1024);
for (let i = 0; i < bytes.length; i++) bytes[i] = (i * 31) ^ (i >> 3);
let crc = 0xffffffff;
for (const byte of bytes) {
    crc ^= byte;
    for (let bit = 0; bit < 8; bit++) crc = (crc >>> 1) ^ (crc & 1 ? 0xedb88320 : 0);
}
let product = 1n;
for (let i = 1n; i <= 60n; i++) product *= i;
let caught = 0;
for (let i = 0; i < 50; i++) {
    try { if (i % 3 === 0) null.property; else throw new RangeError(String(i)); } catch (error) { caught += error instanceof TypeError ? 100 : 1; }
}
const half = Number("1.5e3") / 4 + Math.floor(-2.5);
// Wilson: 60! is -1 modulo 61.
if (product % 61n !== 60n || crc >>> 0 !== 810182198 || caught !== 17 * 100 + 33 || half !== 372) throw new Error(`${crc >>> 0} ${caught} ${half}`);
