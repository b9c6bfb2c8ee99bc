/* vit.c - the one file of the tools and examples that expands vit.h's implementation. */
#define VIT_IMPLEMENTATION
#include "vit.h"

