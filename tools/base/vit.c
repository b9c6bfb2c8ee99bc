/* vit.c - the one file of tools/ and examples/ that compiles vit.h's implementation. */
#define VIT_IMPLEMENTATION
#include "vit.h"
