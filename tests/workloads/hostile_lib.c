/* A library to be damaged by tests: one function that needs no data, debug info, and a section that
 * claims to be Go's. */
static const unsigned char table[65536] __attribute__((section(".gopclntab"), used)) = {
    0xf1, 0xff, 0xff, 0xff, 0, 0, 1, 8, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f,
    0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 1};

void hostile_spin(void)
{
    unsigned long x = 1;

    for (unsigned i = 0; i < 200000; i++)
        x = x * 6364136223846793005ul + 1442695040888963407ul;
    __asm__ volatile("" : : "r"(x));
}
