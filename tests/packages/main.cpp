#include <iostream>
#include <vit.h>

int main(int argc, char **argv) {
    vit_model model;
    if (argc < 2 || vit_model_open(argv[1], 0, &model)) return 1;
    std::cout << vit_label(&model, 3) << ", one of " << model.config.num_classes << '\n';
    vit_model_close(&model);
}
