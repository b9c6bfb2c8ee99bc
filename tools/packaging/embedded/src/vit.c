/* vit.c - vit.h as a library that reads models in flash and works in memory of the caller.
 * No vendor's SDK has built this file; a test builds it with arm-none-eabi-gcc. For a CPU without
 * fused multiply-add (Cortex-M0, M3; ESP32-S2, C3), also define VIT_NO_FMA; otherwise the library
 * emulates fused multiply-add in double. */
#define VIT_NO_STDIO
#define VIT_NO_MMAP
#define VIT_NO_MALLOC
#define VIT_NO_THREADS
#define VIT_IMPLEMENTATION
#include "vit.h"
