/* start.c - from reset to main() on a Cortex-M without a C library: vectors, memory, faults, clock.
 */
#include "board.h"

#if defined(__ARM_FP)
#define CPACR (*(volatile uint32_t *)0xe000ed88u)
#endif
#define SYSTICK_CONTROL (*(volatile uint32_t *)0xe000e010u)
#define SYSTICK_RELOAD  (*(volatile uint32_t *)0xe000e014u)
#define SYSTICK_VALUE   (*(volatile uint32_t *)0xe000e018u)
#define SYSTICK_MAX     0xffffffu

enum { UNUSED_STACK = 0xa5 };

/* Defined in sections.ld. */
extern unsigned char data_start[], data_end[], data_in_flash[], bss_start[], bss_end[];
extern unsigned char stack_end[], stack_top[];

int main(void);
void reset(void);

static volatile uint32_t rounds; /* overflows of the 24-bit SysTick */

/* Fills the unused stack with one value, so that its deepest use can be found. */
static void paint_stack(void) {
    const unsigned char *here = __builtin_frame_address(0);
    volatile unsigned char *p;
    for (p = stack_end; p < here - 64; p++) *p = UNUSED_STACK;
}

size_t board_stack_used(void) {
    const unsigned char *p = stack_end;
    while (*p == UNUSED_STACK) p++;
    return (size_t)(stack_top - p);
}

void reset(void) {
    size_t i;
#if defined(__ARM_FP)
    CPACR |= 0xfu << 20; /* the FPU and Helium are off at reset */
    __asm volatile("dsb\n isb" ::: "memory");
#endif
    for (i = 0; i < (size_t)(data_end - data_start); i++) data_start[i] = data_in_flash[i];
    for (i = 0; i < (size_t)(bss_end - bss_start); i++) bss_start[i] = 0;
    paint_stack();
    board_exit(main());
}

void stop(void);

void stop(void) {
    board_print("fault\n");
    board_exit(1);
}

/* Ends the run on a fresh stack after an invalid access, a stack overflow or an instruction that
   this CPU lacks. */
__attribute__((naked)) static void fault(void) {
    __asm volatile("ldr r0, =stack_top\n mov sp, r0\n b stop\n .ltorg");
}

static void tick(void) { rounds++; }

void board_clock_start(void) {
    SYSTICK_RELOAD = SYSTICK_MAX;
    SYSTICK_VALUE = 0;
    SYSTICK_CONTROL = 7; /* bits: on, interrupt at 0 (every 2^24 ticks), the CPU's clock */
    while (SYSTICK_VALUE == 0) continue; /* counting starts with the next tick */
}

uint32_t board_clock(void) {
    uint32_t before, value;
    do {
        before = rounds;
        value = SYSTICK_VALUE;
    } while (before != rounds);
    return (before << 24) + (SYSTICK_MAX - value);
}

/* clang-format off */
__attribute__((section(".vectors"), used)) static void (*const vectors[16])(void) = {
    (void (*)(void))(uintptr_t)stack_top, reset,
    fault, fault, fault, fault, fault, fault, /* the faults: NMI, hard, memory, bus, usage,
                                               * secure */
    NULL, NULL, NULL, fault, fault, NULL, fault, tick /* SVCall, debug, PendSV, SysTick */
};
/* clang-format on */
