noinline fn wide(x: u64, y: u64) struct { high: u64, low: u64 } {
    const product = @as(u128, x) * y;
    return .{ .high = @truncate(product >> 64), .low = @truncate(product) };
}
noinline fn f0(a: u64, b: u64) u64 { var x = a; var y = b; STATEMENTS return x ^ y; }
noinline fn f1(a: u64, b: u64) u64 { var x = a; var y = b; STATEMENTS const p = wide(x, y); return p.high +% p.low; }
noinline fn odd(a: u64, b: u64) error{ Odd, Even }!u64 {
    var x = a; var y = b; STATEMENTS
    if (x & 7 == 3) return error.Odd;
    if (y & 7 == 4) return error.Even;
    return x *% y;
}
noinline fn tail(a: u64, b: u64) u64 { var x = a; var y = b; STATEMENTS return @call(.always_tail, f0, .{ y, x }); }
noinline fn cases(k: u64, a: u64, b: u64) u64 {
    var x = a; var y = b; STATEMENTS
    return switch (k & 7) { 0 => x +% y, 1 => x ^ 5, 2 => f0(y, x), 3 => x -% y, 4 => y ^ x >> 7, 5 => x *% y, 6 => y, else => f1(x, y) };
}
noinline fn fold(v: []const u64, comptime f: fn (u64, u64) u64) u64 {
    var s: u64 = 1;
    for (v) |b| { var x = s; var y = b; STATEMENTS s = s *% 31 +% f(x, y); }
    return s;
}
var table = [_]*const fn (u64, u64) u64{ &f0, &f1, &tail };
export fn main(argc: usize, argv: [*]const [*:0]const u8) c_int {
    var n: u64 = 0;
    var at: usize = 0;
    while (argv[argc - 1][at] != 0) : (at += 1) n = n *% 10 +% argv[argc - 1][at];
    var v: [4]u64 = undefined;
    for (&v, 1..) |*one, i| one.* = 0x9e3779b97f4a7c15 *% i ^ n;
    var s = n +% 1;
    for (0..6) |i| {
        s = s *% 31 +% (odd(s, i) catch |why| if (why == error.Odd) @as(u64, 9) else 11);
        s ^= table[i % 3](s, n) +% cases(i, s, n) +% fold(v[i % 4 ..], f1);
    }
    return @intCast((s ^ s >> 7) & 63);
}
