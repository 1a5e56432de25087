#ifdef __cplusplus
}
struct shape { u64 side; virtual u64 area(u64 x, u64 y); virtual ~shape(); void operator delete(void *, unsigned long) {} };
u64 shape::area(u64 x, u64 y) { return (u64)((u128)x * y >> 64) ^ x * y ^ side; }
shape::~shape() { out += side; }
struct cube : shape { cube(u64 n) { side = n * 3 + running; } u64 area(u64 x, u64 y) override; };
u64 cube::area(u64 x, u64 y) { u64 s = (u64)((u128)x * side >> 64) + x * side; return shape::area(s, y) + side; }
extern "C" NOINLINE u64 virtually(shape *one, u64 x, u64 y) { u64 (shape::*member)(u64, u64) = &shape::area; return (one->*member)(x, y) + one->area(y, x); }
extern "C" NOINLINE u64 classes(u64 x, u64 y) { cube one(x); shape two; two.side = y; return virtually(x & 1 ? &one : &two, x, y); }
#else
static u64 classes(u64 x, u64 y) { return x ^ y; }
#endif
#ifdef __cplusplus
extern "C"
#endif
