#include <stdio.h>
#include <vit.h>

int main(int argc, char **argv) {
    vit_model model;
    if (argc < 2 || vit_model_open(argv[1], 0, &model)) return 1;
    printf("%s, one of %d\n", vit_label(&model, 3), model.config.num_classes);
    vit_model_close(&model);
    return 0;
}
