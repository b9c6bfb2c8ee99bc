#include <stdio.h>
#include <vit.h>

int main(void) {
    vit_model model;
    printf("vit.h %d, %s\n", VIT_VERSION, vit_isa_name(vit_detect_isa()));
    return vit_model_open_memory("", 0, 0, &model) == VIT_OK;
}
