/* vit.c - the library for models in flash, with memory of the caller. No vendor's SDK has built
 * this file; a test builds it with arm-none-eabi-gcc. A CPU without fused multiply-add (Cortex-M0,
 * M3; ESP32-S2, C3) also needs VIT_NO_FMA, or the library emulates fused multiply-add in double. */
#define VIT_NO_STDIO
#define VIT_NO_MMAP
#define VIT_NO_MALLOC
#define VIT_NO_THREADS
#define VIT_IMPLEMENTATION
#include "vit.h"
