// cpp.cpp - tests vit.hpp for packages/cpp.sh: cpp MODEL PHOTO NAFLEX. vit.hpp must give the bits
// of vit.h on the calling thread, on a pool and on the program's own threads. A pass is cancelled
// at each of its steps, and the session must then give the same bits again. The last line is "cat
// 0.7876 N", where N is the number of steps. `cpp figures MODEL PHOTO` prints the figures of
// tools/packaging/README.md.
#include <stb/stb_image.h>
#include "vit.hpp"
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <type_traits>

static_assert(!std::is_copy_constructible_v<vit::Model> &&
              std::is_nothrow_move_assignable_v<vit::Model>);
static_assert(!std::is_copy_constructible_v<vit::Pool> &&
              std::is_nothrow_move_assignable_v<vit::Pool>);
static_assert(!std::is_copy_constructible_v<vit::Session> &&
              std::is_nothrow_move_constructible_v<vit::Session>);
static_assert(!std::is_copy_constructible_v<vit::Photo> &&
              std::is_nothrow_move_constructible_v<vit::Photo>);

static void require(bool holds, int line, const char *what) {
    if (!holds) std::fprintf(stderr, "cpp.cpp:%d: %s\n", line, what), std::exit(1);
}
#define REQUIRE(what) require(what, __LINE__, #what)

using Vector = std::vector<float>;

static bool same(vit::Floats a, const Vector &b) {
    return a.size() == b.size() && !std::memcmp(a.data(), b.data(), b.size() * sizeof(float));
}

template <class Throws> static std::string message(vit_result expected, const Throws &throws) {
    try {
        throws();
    } catch (const vit::Error &error) {
        if (error.result() != expected) std::fprintf(stderr, "%s\n", error.what());
        REQUIRE(error.result() == expected);
        return error.what();
    }
    require(false, __LINE__, "nothing is thrown");
    return {};
}

// An executor that starts a second thread for each loop, which no real program should do. Sets
// `stop` in loop number `last`.
struct Loops {
    int count = 0, last = 0;
    std::atomic<bool> stop{ false };
    template <class Task> void operator()(int n, const Task &task) {
        if (++count == last) stop = true;
        std::thread other([&] {
            for (int i = 1; i < n; i += 2) task(i);
        });
        for (int i = 0; i < n; i += 2) task(i);
        other.join();
    }
};

static void test_errors(const vit::Model &model, const vit::Photo &photo) {
    REQUIRE(message(VIT_ERROR_IO, [] { vit::Model("no such.vit"); }).find("no such.vit: ") == 0);
    alignas(16) static const char cut[16] = "VIT";
    REQUIRE(message(VIT_ERROR_TRUNCATED, [] { vit::Model(cut, 3); }).size() > 10);
    REQUIRE(message(VIT_ERROR_IO, [] { vit::Photo("no.ppm"); }).find("no.ppm: ") == 0);
    REQUIRE(message(VIT_ERROR_UNSUPPORTED, [&] { model.resized(64, 64); }).size() > 10);
    REQUIRE(message(VIT_ERROR_ARGUMENT, [&] { model.classify(photo, -1); }) == "invalid argument");
    REQUIRE(message(VIT_ERROR_ARGUMENT, [] { vit::Pool(-1); }) == "invalid argument");
    vit::Session session(model);
    message(VIT_ERROR_ARGUMENT, [&] { session.run(vit_image{}); });
    message(VIT_ERROR_ARGUMENT, [&] { session.run(std::vector<vit_image>()); });
    message(VIT_ERROR_ARGUMENT, [&] { session.forward(vit_input{}, vit_outputs{}); });
    vit::Options wrong;
    wrong.batch = -1;
    message(VIT_ERROR_ARGUMENT, [&] { vit::Session(model, wrong); });
}

// Returns a session after it was moved, and after its model and its pool have gone out of scope. A
// session must own everything that it needs.
static vit::Session moved_session(const char *path) {
    vit::Model first(path);
    vit::Model model(std::move(first));
    vit::Pool pool(3);
    vit::Options options;
    options.pool = &pool;
    vit::Session session(model, options), other(model);
    std::swap(session, other);
    return other;
}

// Cancels a pass in its first loop, the next pass in its second loop, and so on. Returns the number
// of loops.
static int test_stop(const vit::Model &model, const vit_image &photo, const Vector &expected) {
    Loops loops;
    vit::Options options;
    options.executor = vit::executor(loops, 2);
    options.stop = &loops.stop;
    vit::Session session(model, options);
    for (int step = 1;; step++) {
        bool cancelled = false;
        loops.count = 0;
        loops.last = step;
        try {
            REQUIRE(same(session.run(photo).embedding(), expected));
        } catch (const vit::Cancelled &) {
            cancelled = true;
        }
        REQUIRE(loops.count >= step || !loops.stop);
        if (!cancelled && !loops.stop) return step - 1;
        REQUIRE(cancelled || loops.count == step); // the last loop ends with the pass
        loops.count = loops.last = 0;
        try {
            session.run(photo);
            require(false, __LINE__, "a stopped session runs");
        } catch (const vit::Cancelled &) {}
        REQUIRE(loops.count == 0);
        loops.stop = false;
        REQUIRE(same(session.run(photo).embedding(), expected));
    }
}

static double now() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
}

// Prints how long a pass continues after it was cancelled. The moments of cancelling are spread
// over the pass.
static void measure_stop(const vit::Model &model, const vit_image &photo) {
    std::atomic<bool> stop{ false };
    vit::Options options;
    options.stop = &stop;
    vit::Session session(model, options);
    session.run(photo);
    const double begin = now();
    session.run(photo);
    const double whole = now() - begin;
    const int count = 40;
    int ended = 0;
    double worst = 0, sum = 0;
    for (int i = 0; i < count; i++) {
        double set = 0, end = 0;
        stop = false;
        std::thread other([&] {
            std::this_thread::sleep_for(
                std::chrono::duration<double>(whole * (i + 0.5) / (count + 1)));
            set = now();
            stop = true;
        });
        try {
            session.run(photo);
        } catch (const vit::Cancelled &) {
            end = now();
        }
        other.join();
        if (end <= 0) continue;
        ended++;
        sum += end - set;
        worst = end - set > worst ? end - set : worst;
    }
    std::printf("pass %.1f ms; %d of %d end early, after %.2f ms on average, %.2f ms at most\n",
                1e3 * whole, ended, count, 1e3 * sum / ended, 1e3 * worst);
}

// Prints photos per second: the best of five rounds. In each round, each session computes 16
// photos, `at_once` of them in each run.
static void measure_speed(const char *what, const vit::Model &model, const vit_image &photo,
                          int sessions, int threads, int at_once) {
    const vit::Pool pool(threads);
    const std::vector<vit_image> photos(std::size_t(at_once), photo);
    const int count = 16 / at_once;
    vit::Options options;
    if (threads > 1) options.pool = &pool;
    double best = 1e9;
    for (int round = 0; round < 5; round++) {
        std::vector<std::thread> callers;
        std::vector<vit::Session> each;
        for (int i = 0; i < sessions; i++) {
            each.emplace_back(model, options);
            each.back().run(photos);
        }
        const double begin = now();
        for (int i = 0; i < sessions; i++)
            callers.emplace_back([&, i] {
                for (int n = 0; n < count; n++) each[std::size_t(i)].run(photos);
            });
        for (std::thread &caller : callers) caller.join();
        const double took = now() - begin;
        best = took < best ? took : best;
    }
    std::printf("%s: %.1f photos/s, %.0f ms from call to answer\n", what, 16 * sessions / best,
                1e3 * best / count);
}

static int figures(const char *path, const vit_image &photo) {
    const vit::Model model(path);
    const int cores = vit::Pool().num_threads();
    measure_speed("one thread", model, photo, 1, 1, 1);
    measure_speed("a session per thread", model, photo, cores, 1, 1);
    measure_speed("a session on a pool", model, photo, 1, cores, 1);
    measure_speed("the same, 8 photos in each run", model, photo, 1, cores, 8);
    measure_speed("two sessions on one pool", model, photo, 2, cores, 1);
    measure_stop(model, photo);
    return 0;
}

int main(int argc, char **argv) try {
    if (argc != 4) return 2;
    const vit::Photo photo(argv[argc - 2 + !std::strcmp(argv[1], "figures")]);
    const vit_image &image = photo;
    if (!std::strcmp(argv[1], "figures")) return figures(argv[2], image);
    const vit::Model model(argv[1]);
    test_errors(model, photo);

    // Model and session must give the bits of vit_embed and vit_classify.
    Vector expected(static_cast<std::size_t>(model.embedding_dim()));
    vit_prediction best;
    REQUIRE(!vit_embed(model.get(), &image, expected.data()));
    REQUIRE(!vit_classify(model.get(), &image, 1, &best));
    const Vector embedding = model.embed(photo);
    REQUIRE(same(vit::Floats(embedding.data(), embedding.size()), expected));
    REQUIRE(model.classify(photo, 5).size() == 5 &&
            model.classify(photo, 5)[0].index == best.index);
    REQUIRE(model.classify(photo, 99).size() == std::size_t(model.num_classes()));
    vit::Session session = moved_session(argv[1]);
    const vit::Answer answer = session.run({ image, image, image });
    REQUIRE(answer.count() == 3 && answer.scores(1).size() == std::size_t(model.num_classes()));
    for (int i = 0; i < answer.count(); i++) {
        REQUIRE(same(answer.embedding(i), expected));
        REQUIRE(!std::memcmp(&answer.top(1, i)[0].score, &best.score, sizeof best.score));
    }
    REQUIRE(answer.top(99).size() == std::size_t(model.num_classes()) && answer.top(0).empty());
    REQUIRE(session.isa() == session.get()->isa && session.isa() != VIT_ISA_AUTO);
    const Vector input = model.preprocess(photo);
    Vector forward(embedding.size());
    vit_input in{};
    vit_outputs out{};
    in.pixels = input.data();
    out.embedding = forward.data();
    session.forward(in, out);
    REQUIRE(same(vit::Floats(forward.data(), forward.size()), expected));

    // The model is opened from its file in memory.
    std::FILE *file = std::fopen(argv[1], "rb");
    REQUIRE(file);
    std::vector<std::max_align_t> bytes(1 << 19);
    const std::size_t size = std::fread(bytes.data(), 1, bytes.size() * sizeof bytes[0], file);
    std::fclose(file);
    REQUIRE(same(vit::Session(vit::Model(bytes.data(), size)).run(photo).embedding(), expected));

    const int steps = test_stop(model, image, expected);
    REQUIRE(steps > model.config().depth * 4);

    // This model has its own input size for each photo, so vit_run opens another session inside
    // this one.
    const vit::Model naflex(argv[3]);
    REQUIRE(naflex.config().crop_mode == VIT_CROP_ASPECT);
    Loops loops;
    vit::Options options;
    options.executor = vit::executor(loops, 2);
    options.stop = &loops.stop;
    vit::Session fitted(naflex, options);
    const Vector fits(fitted.run(photo).embedding());
    loops.last = loops.count + 2;
    REQUIRE(same(fitted.run(photo).embedding(), fits) && loops.stop);
    try {
        fitted.run(photo);
        require(false, __LINE__, "a stopped session runs");
    } catch (const vit::Cancelled &) {}

    std::printf("%s %.4f %d\n", model.label(best.index), double(best.score), steps);
} catch (const std::exception &error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
}
