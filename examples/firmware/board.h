/* board.h - the functions of a board that the firmware's program calls, and main(), which the board
 * calls. start.c and semihosting.c implement it for QEMU; on your own board, write these functions
 * for its UART, camera and timer.
 */
#ifndef BOARD_H
#define BOARD_H

#include <stddef.h>
#include <stdint.h>

/* Prints text. */
void board_print(const char *text);

/* Reads the next `size` bytes of the camera; 0 at its end. */
int board_read(void *bytes, size_t size);

/* Write the one block that a program keeps in flash, and read it back, even after a reset. They
 * return 0 if there is no such block, or none of that size. */
int board_keep(const void *bytes, size_t size);
int board_recall(void *bytes, size_t size);

/* Ends the run: 0 is success. */
void board_exit(int status);

/* Starts a clock; board_clock counts its ticks. */
void board_clock_start(void);
uint32_t board_clock(void);

/* The largest number of bytes of stack in use since reset. */
size_t board_stack_used(void);

#endif
