/* windows_hold.c - opens a file without sharing it, prints a line, and keeps the file open until
 * standard input ends:
 *
 *     windows_hold FILE
 */
#include <stdio.h>
#include <windows.h>

int main(void) {
    int argc;
    wchar_t **argv = CommandLineToArgvW(GetCommandLineW(), &argc);
    HANDLE file = argc == 2 ? CreateFileW(argv[1], GENERIC_READ, 0, NULL, OPEN_EXISTING, 0, NULL)
                            : INVALID_HANDLE_VALUE;
    puts(file == INVALID_HANDLE_VALUE ? "failed" : "open");
    fflush(stdout);
    while (getchar() != EOF) continue;
    return file == INVALID_HANDLE_VALUE;
}
