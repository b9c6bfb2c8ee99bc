/* vit.c - has the implementation of vit.h, for the libraries and for programs that link CMake's
 * target vit::vit. */
#define VIT_TEXT_ENCODER
#define VIT_IMPLEMENTATION
#include "vit.h"
