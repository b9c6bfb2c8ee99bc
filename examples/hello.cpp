// hello.cpp - vit.h in C++: what is opened is closed by destructors, and a forward pass runs on
// threads of this program's own, named and pinned by it.
//
//    c++ -O2 -DVIT_IMPLEMENTATION -I. examples/hello.cpp -o hello -pthread    the header alone
//    c++ -O2 examples/hello.cpp $(pkg-config --cflags --libs libvit) -o hello -pthread
//    ./hello models/cifar10-vit.vit examples/cat.ppm
#include "vit.h"

#include <condition_variable>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>
#if defined(__linux__)
#    include <pthread.h>
#    include <sched.h>
#endif

static void check(vit_result result, const std::string &what) {
    if (result != VIT_OK) throw std::runtime_error(what + ": " + vit_result_string(result));
}

class Model {
public:
    explicit Model(const std::string &path) {
        if (vit_model_open(path.c_str(), 0, &model)) throw std::runtime_error(model.detail);
    }
    ~Model() { vit_model_close(&model); }
    Model(const Model &) = delete; // sessions point to it
    Model &operator=(const Model &) = delete;
    vit_model model;
};

// Threads that wait for work; the calling thread works too. parallel_for serves one session.
class Threads {
public:
    explicit Threads(int all) { // with the calling thread
        for (int i = 1; i < all; i++) workers.emplace_back([this, i] { work(i); });
    }
    ~Threads() {
        {
            std::lock_guard<std::mutex> lock(mutex);
            stop = true;
        }
        wake.notify_all();
        for (std::thread &worker : workers) worker.join();
    }
    Threads(const Threads &) = delete;
    Threads &operator=(const Threads &) = delete;

    vit_executor executor() { return { parallel_for, this, int(workers.size()) + 1 }; }

private:
    static void parallel_for(void *user, int count, vit_task *task, void *arg) {
        Threads &t = *static_cast<Threads *>(user);
        std::unique_lock<std::mutex> lock(t.mutex);
        t.task = task;
        t.arg = arg;
        t.count = count;
        t.next = 0;
        t.running = 0;
        t.wake.notify_all();
        t.take(lock);
        t.done.wait(lock, [&t] { return t.running == 0; });
    }

    // Indices, one at a time, until none is left. The lock is held but for the calls.
    void take(std::unique_lock<std::mutex> &lock) {
        while (next < count) {
            const int index = next++;
            running++;
            lock.unlock();
            task(arg, index);
            lock.lock();
            running--;
        }
    }

    void work(int number) {
#if defined(__linux__)
        cpu_set_t mine;
        const unsigned cores = std::thread::hardware_concurrency();
        const unsigned core = cores ? static_cast<unsigned>(number) % cores : 0;
        CPU_ZERO(&mine);
        CPU_SET(core, &mine);
        pthread_setname_np(pthread_self(), ("hello-" + std::to_string(number)).c_str());
        if (pthread_setaffinity_np(pthread_self(), sizeof mine, &mine)) // not ours: anywhere, then
            std::fprintf(stderr, "hello: thread %d is not pinned to core %u\n", number, core);
#endif
        std::unique_lock<std::mutex> lock(mutex);
        while (!stop) {
            take(lock);
            if (running == 0) done.notify_one();
            wake.wait(lock, [this] { return stop || next < count; });
        }
    }

    std::mutex mutex;
    std::condition_variable wake, done;
    std::vector<std::thread> workers;
    vit_task *task = nullptr;
    void *arg = nullptr;
    int count = 0, next = 0, running = 0;
    bool stop = false;
};

class Session {
public:
    Session(const Model &m, vit_executor executor) : model(m.model) {
        vit_params params = {};
        params.executor = executor;
        workspace.resize(vit_workspace_size(&model, &params));
        check(vit_session_init(&session, &model, &params, workspace.data(), workspace.size()),
              "session");
    }
    std::vector<float> scores(const vit_image &photo) {
        std::vector<float> input(vit_input_size(&model));
        std::vector<float> logits(size_t(model.config.num_classes));
        vit_input in = {};
        vit_outputs outputs = {};
        in.pixels = input.data();
        outputs.logits = logits.data();
        check(vit_preprocess(&model, &photo, input.data(), nullptr, 0), "photo");
        check(vit_forward(&session, &in, &outputs), "forward pass");
        vit_scores(&model, logits.data());
        return logits;
    }

private:
    const vit_model &model;
    std::vector<unsigned char> workspace;
    vit_session session;
};

static std::vector<uint8_t> read_ppm(const char *path, vit_image &photo) {
    std::ifstream file(path, std::ios::binary);
    std::string magic;
    int width = 0, height = 0, max = 0;
    file >> magic >> width >> height >> max;
    if (magic != "P6" || max != 255 || width < 1 || height < 1 || width > 16384 || height > 16384)
        throw std::runtime_error(std::string(path) + ": not a PPM file of 8 bits a colour");
    std::vector<uint8_t> pixels(size_t(width) * size_t(height) * 3);
    file.get();
    if (!file.read(reinterpret_cast<char *>(pixels.data()), std::streamsize(pixels.size())))
        throw std::runtime_error(std::string(path) + ": cut off");
    photo = { pixels.data(), width, height, 0, VIT_PIXEL_RGB8 };
    return pixels;
}

int main(int argc, char **argv) try {
    if (argc != 3) {
        std::cerr << "usage: hello MODEL.vit PHOTO.ppm\n";
        return 2;
    }
    const Model model(argv[1]);
    vit_image photo;
    const std::vector<uint8_t> pixels = read_ppm(argv[2], photo);
    Threads threads(2);
    const std::vector<float> scores = Session(model, threads.executor()).scores(photo);
    vit_prediction best;
    vit_top_k(scores.data(), int(scores.size()), 1, &best);
    std::printf("%s, %.1f %%\n", vit_label(&model.model, best.index), 100.0 * double(best.score));
    return 0;
} catch (const std::exception &e) {
    std::cerr << "hello: " << e.what() << '\n';
    return 1;
}
