__attribute__((noinline)) static unsigned mix_the_numbers_of_a_very_long_function_name_that_no_phone_has_room_for(unsigned x, unsigned n) {
    for (unsigned i = 0; i < n; i++) {
        x = (x * 3 + (x >> 2)) ^ i ^ (x << 5) ^ (i << 7) ^ (x >> 11) ^ (i * 13) ^ (x * 17) ^ (i << 19) ^ (x >> 23) ^ (i * 29) ^ (x << 3);
    }
    return x;
}
int main_(void) {
    volatile unsigned sum = 1;
    for (int i = 0; i < ROUNDS; i++)
        sum += mix_the_numbers_of_a_very_long_function_name_that_no_phone_has_room_for(sum, 40);
    return sum == 0;
}
__attribute__((naked)) void _start(void) {
    __asm__("call main_\n li a7, 93\n ecall");
}
