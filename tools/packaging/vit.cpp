// vit.cpp - the same for projects without a C compiler.
#include "vit.c"
