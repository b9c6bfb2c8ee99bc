#include "model/parts.h"

#include <stdio.h>
#include <string.h>

#include "base/tensor.h"

bool parts_is_parameter(const char *tensor_name)
{
    return strncmp(tensor_name, "preprocess.", 11) != 0 &&
           strncmp(tensor_name, "selftest.", 9) != 0;
}

void parts_add(part_list *list, const vit_tensor *tensor)
{
    const int length = (int)strcspn(tensor->name, ".");
    char name[sizeof list->items[0].name];
    int i;
    snprintf(name, sizeof name, "%.*s", length, tensor->name);
    for (i = 0; i < list->count && strcmp(list->items[i].name, name) != 0;) i++;
    if (i == PARTS_MAX) return;
    if (i == list->count) strcpy(list->items[list->count++].name, name);
    list->items[i].parameters += tensor_count(tensor);
    list->total += tensor_count(tensor);
}
