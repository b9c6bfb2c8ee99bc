// vit.cpp - the implementation of vit.h for projects without a C compiler.
#include "vit.c"
