/* vit.c - the only file of tools/ and examples/ that compiles the implementation of vit.h. */
#define VIT_IMPLEMENTATION
#include "vit.h"
