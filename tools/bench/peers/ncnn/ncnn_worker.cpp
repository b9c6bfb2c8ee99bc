// ncnn_worker.cpp MODEL.param MODEL.bin INPUT IMAGE THREADS BATCH DTYPE
// Runs ncnn by the line protocol of workers.py. It takes the images of a batch one after
// another.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <chrono>
#include <string>
#include <vector>

#include "net.h"

static ncnn::Net net;

static int unavailable(const char *reason) {
    printf("unavailable %s\n", reason);
    return 1;
}

static double now_ms() {
    auto now = std::chrono::steady_clock::now().time_since_epoch();
    return std::chrono::duration<double, std::milli>(now).count();
}

static bool open_net(char **argv) {
    bool bf16 = strcmp(argv[7], "bf16") == 0;
    net.opt.num_threads = atoi(argv[5]);
    net.opt.use_bf16_storage = net.opt.use_bf16_packed = bf16;
    // Options for f16 are off: they are for other CPUs, and with them the results would not be f32.
    net.opt.use_fp16_packed = net.opt.use_fp16_storage = net.opt.use_fp16_arithmetic = false;
    return !net.load_param(argv[1]) && !net.load_model(argv[2]);
}

static ncnn::Mat forward(const ncnn::Mat &input, const char *output) {
    ncnn::Mat result;
    ncnn::Extractor extractor = net.create_extractor();
    extractor.input("input", input);
    extractor.extract(output, result);
    return result;
}

// Writes the outputs of every image into a file.
static bool write_outputs(const std::vector<ncnn::Mat> &images, const char *output,
                          const char *path) {
    FILE *to = fopen(path, "wb");
    bool good = to != NULL;
    for (size_t i = 0; good && i < images.size(); i++) {
        ncnn::Mat values = forward(images[i], output);
        size_t n = (size_t)values.w;
        good = n > 0 && fwrite((const float *)values, sizeof(float), n, to) == n;
    }
    return to && !fclose(to) && good;
}

// Up to `most` images.
static std::vector<ncnn::Mat> read_images(const char *path, int side, size_t most) {
    std::vector<ncnn::Mat> images;
    FILE *file = fopen(path, "rb");
    while (file && images.size() < most) {
        ncnn::Mat image(side, side, 3);
        size_t plane = (size_t)side * (size_t)side, read = 0;
        for (int c = 0; c < 3; c++)
            read += fread((float *)image.channel(c), sizeof(float), plane, file);
        if (read != 3 * plane) break;
        images.push_back(image);
    }
    if (file) fclose(file);
    return images;
}

int main(int argc, char **argv) {
    static char line[4096];
    if (argc != 8)
        return unavailable("usage: ncnn_worker PARAM BIN INPUT IMAGE THREADS BATCH DTYPE");
    if (!open_net(argv)) return unavailable("the model cannot be loaded");
    int side = atoi(argv[4]);
    size_t batch = (size_t)atoi(argv[6]);
    std::vector<ncnn::Mat> images = read_images(argv[3], side, batch);
    if (images.size() != batch) return unavailable("the input cannot be read");

    printf("ready ncnn %s\n", NCNN_VERSION_STRING);
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        line[strcspn(line, "\n")] = '\0';
        char *path = strchr(line, ' ');
        if (path) {
            *path++ = '\0';
            puts(write_outputs(read_images(argv[3], side, (size_t)-1), line, path) ? "ok"
                                                                                   : "failed");
        } else {
            double start = now_ms();
            for (const ncnn::Mat &image : images) forward(image, "logits");
            printf("%.4f\n", now_ms() - start);
        }
        fflush(stdout);
    }
    return 0;
}
