/* board.h - what the firmware's program needs of its board, and the board of main(). start.c and
 * semihosting.c fill it in for QEMU; on a board of your own write these over its UART, camera and
 * timer.
 */
#ifndef BOARD_H
#define BOARD_H

#include <stddef.h>
#include <stdint.h>

/* Text for whoever listens. */
void board_print(const char *text);

/* The next `size` bytes of the camera; 0 if there are none any more. */
int board_read(void *bytes, size_t size);

/* Writes the one block that a program keeps in flash, and reads it back, after a reset too. 0: there
   is no such block, or none of that size. */
int board_keep(const void *bytes, size_t size);
int board_recall(void *bytes, size_t size);

/* Ends the run: 0 is success. */
void board_exit(int status);

/* Ticks of a clock that runs from board_clock_start on. */
void board_clock_start(void);
uint32_t board_clock(void);

/* The most bytes of stack that were in use since reset. */
size_t board_stack_used(void);

#endif
