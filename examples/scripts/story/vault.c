/* A lock with a limit for a day. Its args are the limit, four bytes. The witness has what was spent in each of
 * the last days, two bytes each. It opens while the sum is not beyond the limit.
 *
 * It has a mistake: docs/story.md finds it.
 *
 * Exit codes: 0 it opens, 1 args or witness cannot be read, 5 too much was spent. */
typedef unsigned char byte;
typedef unsigned long word;

enum { OK = 0, UNREADABLE = 1, TOO_MUCH = 5 };
enum { LOAD_SCRIPT = 2052, LOAD_WITNESS = 2074, DEBUG = 2177, EXIT = 93 };
enum { GROUP_INPUT_HIGH = 0x01000000, DAYS = 7 };

static word call(word number, word a, word b, word c, word d, word e) {
    register word a0 __asm__("a0") = a;
    register word a1 __asm__("a1") = b;
    register word a2 __asm__("a2") = c;
    register word a3 __asm__("a3") = d;
    register word a4 __asm__("a4") = e;
    register word a7 __asm__("a7") = number;
    __asm__ volatile("ecall" : "+r"(a0) : "r"(a1), "r"(a2), "r"(a3), "r"(a4), "r"(a7) : "memory");
    return a0;
}

static struct {
    word spent[DAYS];
    word limit;
} vault;

static int read_limit(void) {
    byte script[256];
    word length = sizeof script;
    if (call(LOAD_SCRIPT, (word)script, (word)&length, 0, 0, 0)) return UNREADABLE;
    /* Its args come last: four bytes behind their length. */
    if (length > sizeof script || length < 8) return UNREADABLE;
    const byte *args = script + length - 4;
    vault.limit = args[0] | args[1] << 8 | args[2] << 16 | (word)args[3] << 24;
    return OK;
}

__attribute__((noinline)) static void note(word day, word amount) {
    vault.spent[day] = amount;
}

static int read_days(void) {
    byte days[2 * DAYS + 2];
    word length = sizeof days;
    if (call(LOAD_WITNESS, (word)days, (word)&length, 0, 0, (word)GROUP_INPUT_HIGH << 32 | 1)) return UNREADABLE;
    if (length > sizeof days) return UNREADABLE;
    for (word day = 0; day <= length / 2; day++) note(day, days[2 * day] | days[2 * day + 1] << 8);
    return OK;
}

__attribute__((noinline)) static int check(void) {
    word sum = 0;
    for (word day = 0; day < DAYS; day++) sum += vault.spent[day];
    return sum <= vault.limit ? OK : TOO_MUCH;
}

static int unlock(void) {
    int result = read_limit();
    if (!result) result = read_days();
    return result ? result : check();
}

__attribute__((naked, section(".text.start"))) void _start(void) {
    __asm__ volatile(".option push\n.option norelax\nla gp, __global_pointer$\n.option pop\ncall begin");
}

__attribute__((used)) static void begin(void) { call(EXIT, (word)unlock(), 0, 0, 0, 0); }
