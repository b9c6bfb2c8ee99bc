/* wild.c - reads where there is no memory: the run must end with an error, not go on. */
#include "board.h"

int main(void) {
    (void)*(volatile const int *)0x3f000000u;
    return 0;
}
