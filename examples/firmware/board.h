/* board.h - declares the functions that the firmware's program calls on its board. The board calls
 * main(). start.c and semihosting.c implement these functions for QEMU. For your own board, write
 * them for its UART, camera and timer.
 */
#ifndef BOARD_H
#define BOARD_H

#include <stddef.h>
#include <stdint.h>

/* Prints text. */
void board_print(const char *text);

/* Reads the next `size` bytes from the camera. Returns 0 at the end of the pictures. */
int board_read(void *bytes, size_t size);

/* board_keep writes the one block that a program keeps in flash. board_recall reads it back, even
 * after a reset. Both return 0 on failure, such as a missing block or one shorter than `size`. */
int board_keep(const void *bytes, size_t size);
int board_recall(void *bytes, size_t size);

/* Ends the run. Status 0 is success. */
void board_exit(int status);

/* Starts a clock. board_clock returns the number of its ticks since the start. */
void board_clock_start(void);
uint32_t board_clock(void);

/* Returns the largest number of stack bytes in use since reset. */
size_t board_stack_used(void);

#endif
