// hello.cpp - classifies a photo in C++17 with the classes of vit.hpp. Errors are exceptions.
//
//     c++ -O2 hello.cpp -o hello -lm -lpthread
//     $ ./hello models/cifar10-vit.vit examples/cat.jpg
//     cat, 82.4 %
#define STB_IMAGE_IMPLEMENTATION
#include <stb/stb_image.h>
#define VIT_IMPLEMENTATION
#include "vit.hpp"
#include <cstdio>

int main(int argc, char **argv) try {
    if (argc != 3) return std::fputs("usage: hello MODEL.vit PHOTO\n", stderr), 2;
    const vit::Model model(argv[1]);
    if (!model.label(0)) throw std::runtime_error("the model names no classes");
    const vit::Photo photo(argv[2]);
    vit::Session session(model); // keeps its memory from photo to photo
    const vit_prediction best = session.run(photo).top(1)[0];
    std::printf("%s, %.1f %%\n", model.label(best.index), 100.0 * double(best.score));
} catch (const std::exception &error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
}
