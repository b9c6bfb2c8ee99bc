// hello.cpp - vit.h in C++: destructors close what constructors open, and errors are exceptions.
//
//     c++ -O2 hello.cpp -o hello -lm -lpthread
//     $ ./hello models/cifar10-vit.vit examples/cat.jpg
//     cat, 82.4 %
#define STB_IMAGE_IMPLEMENTATION
#include <stb/stb_image.h>
#define VIT_IMPLEMENTATION
#include "vit.h"
#include <cstdio>
#include <stdexcept>
#include <string>

static void check(vit_result result) {
    if (result) throw std::runtime_error(vit_result_string(result));
}

struct NoCopy {
    NoCopy() = default;
    NoCopy(const NoCopy &) = delete;
    NoCopy &operator=(const NoCopy &) = delete;
};

struct Photo : NoCopy {
    explicit Photo(const std::string &path) : c(vit_image_load(path.c_str())) {
        if (!c.pixels) throw std::runtime_error(path + ": " + stbi_failure_reason());
    }
    ~Photo() { vit_image_free(&c); }
    vit_image c;
};

struct Model : NoCopy {
    explicit Model(const std::string &path) {
        if (vit_model_open(path.c_str(), 0, &c)) throw std::runtime_error(c.detail);
    }
    ~Model() { vit_model_close(&c); }
    vit_model c;
};

struct Session : NoCopy { // keeps its memory from photo to photo
    explicit Session(const Model &m) { check(vit_session_init(&c, &m.c, nullptr, nullptr, 0)); }
    ~Session() { vit_session_close(&c); }
    vit_session c;
};

int main(int argc, char **argv) try {
    if (argc != 3) return std::fputs("usage: hello MODEL.vit PHOTO\n", stderr), 2;
    const Model model(argv[1]);
    if (!vit_label(&model.c, 0)) throw std::runtime_error("the model names no classes");
    const Photo photo(argv[2]);
    Session session(model);
    vit_answer answer;
    vit_prediction best;
    check(vit_run(&session.c, &photo.c, 1, &answer));
    vit_top_k(answer.scores, model.c.config.num_classes, 1, &best);
    std::printf("%s, %.1f %%\n", vit_label(&model.c, best.index), 100.0 * double(best.score));
} catch (const std::exception &error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
}
