/* semihosting.c - the board's text, camera and end, by way of the debugger: under QEMU that is the
 * machine which runs it. The camera is the file that -semihosting-config arg=FILE names.
 */
#include "board.h"

enum {
    SYS_OPEN = 0x01,
    SYS_WRITE0 = 0x04,
    SYS_READ = 0x06,
    SYS_GET_CMDLINE = 0x15,
    SYS_EXIT_EXTENDED = 0x20,
    OPEN_READ_BINARY = 1,
    APPLICATION_EXIT = 0x20026
};

static uintptr_t call(int operation, const void *argument) {
    register uintptr_t r0 __asm("r0") = (uintptr_t)operation;
    register const void *r1 __asm("r1") = argument;
    __asm volatile("bkpt 0xab" : "+r"(r0) : "r"(r1) : "memory");
    return r0;
}

void board_print(const char *text) { call(SYS_WRITE0, text); }

void board_exit(int status) {
    const uintptr_t argument[2] = { APPLICATION_EXIT, (uintptr_t)status };
    for (;;) call(SYS_EXIT_EXTENDED, argument);
}

/* A handle of the file that the command line consists of, -1 if there is none. */
static uintptr_t open_camera(void) {
    char path[128];
    uintptr_t command_line[2], argument[3];
    command_line[0] = argument[0] = (uintptr_t)path;
    command_line[1] = sizeof path;
    if (call(SYS_GET_CMDLINE, command_line)) return (uintptr_t)-1;
    argument[1] = OPEN_READ_BINARY;
    argument[2] = command_line[1];
    return call(SYS_OPEN, argument);
}

int board_read(void *bytes, size_t size) {
    static uintptr_t camera; /* a handle is not 0 */
    uintptr_t argument[3];
    if (!camera) camera = open_camera();
    argument[0] = camera;
    argument[1] = (uintptr_t)bytes;
    argument[2] = size;
    return camera != (uintptr_t)-1 && call(SYS_READ, argument) == 0; /* the bytes not read */
}
