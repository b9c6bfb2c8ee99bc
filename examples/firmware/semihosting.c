/* semihosting.c - a board's text, camera, flash and exit, provided by the debugger. Under QEMU the
 * camera and the flash are files of the host. -semihosting-config arg=FILE sets the camera's file.
 * The flash is FILE.flash.
 */
#include "board.h"

enum {
    SYS_OPEN = 0x01,
    SYS_CLOSE = 0x02,
    SYS_WRITE0 = 0x04,
    SYS_WRITE = 0x05,
    SYS_READ = 0x06,
    SYS_GET_CMDLINE = 0x15,
    SYS_EXIT_EXTENDED = 0x20,
    OPEN_READ_BINARY = 1,
    OPEN_WRITE_BINARY = 5,
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

/* Opens the file whose name is the command line followed by `ending`. Returns -1 on failure. */
static uintptr_t open_file(const char *ending, uintptr_t mode) {
    char path[128 + 8];
    uintptr_t command_line[2], argument[3], i;
    command_line[0] = argument[0] = (uintptr_t)path;
    command_line[1] = 128;
    if (call(SYS_GET_CMDLINE, command_line)) return (uintptr_t)-1;
    for (i = 0; (path[command_line[1] + i] = ending[i]) != 0; i++) {}
    argument[1] = mode;
    argument[2] = command_line[1] + i;
    return call(SYS_OPEN, argument);
}

/* Returns 1 if all bytes were transferred, else 0. SYS_READ and SYS_WRITE return how many bytes
 * were not transferred. */
static int transfer(int operation, uintptr_t file, uintptr_t bytes, size_t size) {
    uintptr_t argument[3];
    argument[0] = file;
    argument[1] = bytes;
    argument[2] = size;
    return file != (uintptr_t)-1 && call(operation, argument) == 0;
}

static int use_flash(int operation, uintptr_t mode, uintptr_t bytes, size_t size) {
    const uintptr_t file = open_file(".flash", mode);
    const int done = transfer(operation, file, bytes, size);
    if (file != (uintptr_t)-1) call(SYS_CLOSE, &file);
    return done;
}

int board_keep(const void *bytes, size_t size) {
    return use_flash(SYS_WRITE, OPEN_WRITE_BINARY, (uintptr_t)bytes, size);
}

int board_recall(void *bytes, size_t size) {
    return use_flash(SYS_READ, OPEN_READ_BINARY, (uintptr_t)bytes, size);
}

int board_read(void *bytes, size_t size) {
    static uintptr_t camera; /* a handle is not 0 */
    if (!camera) camera = open_file("", OPEN_READ_BINARY);
    return transfer(SYS_READ, camera, (uintptr_t)bytes, size);
}
