#include "layout/tables/tables.h"

#include <stddef.h>

const char *const layout_wrappers[] = {
    "module.", "_orig_mod.", "model.", "backbone.", "net.", "vit.", NULL
};

const layout *const layout_all[] = {
#define X(name) &layout_##name,
    LAYOUT_LIST(X)
#undef X
    NULL
};
