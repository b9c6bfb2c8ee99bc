/* vit.c - the implementation of vit.h as a source file of its own: of the libraries, and of
   programs that CMake's target vit::vit gives it to. */
#define VIT_IMPLEMENTATION
#include "vit.h"
