/* wild.c - reads from an address without memory; the run must end with an error. */
#include "board.h"

int main(void) {
    (void)*(volatile const int *)0x3f000000u;
    return 0;
}
