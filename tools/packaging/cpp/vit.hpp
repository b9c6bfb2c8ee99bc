// vit.hpp - the functions of vit.h as classes for C++17. Destructors close the objects that
// constructors open, and errors are exceptions.
//
//     #define VIT_IMPLEMENTATION // in one file
//     #include "vit.hpp"
//
//     const vit::Model model("models/cifar10-vit.vit");
//     vit::Session session(model);
//     const vit::Answer answer = session.run(vit_image{ pixels, 640, 480, 0, VIT_PIXEL_RGB8 });
//     std::puts(model.label(answer.top(1)[0].index));
//
// vit.h must be in the same folder as this file. Structs, enums and outputs are those of vit.h,
// whose comments describe them. Objects of all classes can be moved but not copied. A moved-from
// object can only be assigned to or destroyed. A Session keeps its model and its pool open. Any
// number of threads may use a Model or a Pool at once; only one thread at a time may use a Session.
// Functions that are not noexcept may throw std::bad_alloc, or vit::Error, whose what() returns the
// message of vit.h.
#ifndef VIT_HPP
#define VIT_HPP
#include "vit.h"
#if defined(VIT_NO_MALLOC)
#error "vit.hpp allocates: without VIT_NO_MALLOC and VIT_BARE_METAL"
#endif
#include <atomic>
#include <csetjmp>
#include <cstddef>
#include <exception>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace vit {

class Error : public std::runtime_error {
  public:
    explicit Error(vit_result result, const std::string &what = {})
        : std::runtime_error(what.empty() ? vit_result_string(result) : what), result_(result) {}
    vit_result result() const noexcept { return result_; }

  private:
    vit_result result_;
};

// The exception that is thrown if Options::stop has ended a forward pass. It is not a vit::Error,
// because nothing has failed.
class Cancelled : public std::exception {
  public:
    const char *what() const noexcept override { return "the forward pass was cancelled"; }
};

inline void check(vit_result result) {
    if (result) throw Error(result);
}

// An array of floats in the memory of another object. It is valid as long as this memory.
class Floats {
  public:
    Floats(const float *data, std::size_t size) noexcept : data_(data), size_(size) {}
    const float *data() const noexcept { return data_; }
    std::size_t size() const noexcept { return size_; }
    bool empty() const noexcept { return size_ == 0; }
    const float *begin() const noexcept { return data_; }
    const float *end() const noexcept { return data_ + size_; }
    float operator[](std::size_t i) const noexcept { return data_[i]; }
    explicit operator std::vector<float>() const { return { begin(), end() }; }

  private:
    const float *data_;
    std::size_t size_;
};

// Returns the k highest scores with their indices, the highest first.
inline std::vector<vit_prediction> top(Floats scores, int k) {
    if (k < 0) throw Error(VIT_ERROR_ARGUMENT);
    std::vector<vit_prediction> best(std::size_t(k) < scores.size() ? std::size_t(k)
                                                                    : scores.size());
    vit_top_k(scores.data(), int(scores.size()), int(best.size()), best.data());
    return best;
}

class Model {
  public:
#ifndef VIT_NO_STDIO
    explicit Model(const std::string &path, unsigned flags = 0) : file_(std::make_shared<File>()) {
        const vit_result result = vit_model_open(path.c_str(), flags, &file_->c);
        if (result) throw Error(result, file_->c.detail);
    }
#endif
    // Opens a .vit file in memory. The memory must outlive the model and every session of the
    // model.
    Model(const void *data, std::size_t size, unsigned flags = 0)
        : file_(std::make_shared<File>()) {
        const vit_result result = vit_model_open_memory(data, size, flags, &file_->c);
        if (result) throw Error(result, file_->c.detail);
    }
    Model(Model &&) noexcept = default;
    Model &operator=(Model &&) noexcept = default;

    const vit_model *get() const noexcept { return &file_->c; }
    const vit_config &config() const noexcept { return file_->c.config; }
    int num_classes() const noexcept { return config().num_classes; }
    int embedding_dim() const noexcept { return vit_embedding_dim(get()); }
    std::size_t input_size() const noexcept { return vit_input_size(get()); }
    const char *label(int index) const noexcept { return vit_label(get(), index); } // or nullptr

#ifndef VIT_NO_DOUBLE
    // Returns a model of the same file for another input size. Throws vit::Error if the config of
    // the file does not have dynamic_img_size.
    Model resized(int height, int width) const {
        Model other(std::make_shared<File>(file_));
        const vit_result result = vit_model_resize(&other.file_->c, height, width);
        if (result) throw Error(result, other.file_->c.detail);
        return other;
    }
#endif
#ifndef VIT_NO_PREPROCESS
    // Preprocesses a photo. Returns the input for Session::forward.
    std::vector<float> preprocess(const vit_image &photo) const {
        std::vector<float> input(input_size());
        check(vit_preprocess(get(), &photo, input.data(), nullptr, 0));
        return input;
    }
    // Runs the model on one photo, without a session. Returns the k most likely classes.
    std::vector<vit_prediction> classify(const vit_image &photo, int k) const {
        if (k < 0) throw Error(VIT_ERROR_ARGUMENT);
        std::vector<vit_prediction> best(std::size_t(k < num_classes() ? k : num_classes()));
        check(vit_classify(get(), &photo, int(best.size()), best.data()));
        return best;
    }
    std::vector<float> embed(const vit_image &photo) const {
        std::vector<float> embedding(static_cast<std::size_t>(embedding_dim()));
        check(vit_embed(get(), &photo, embedding.data()));
        return embedding;
    }
#endif
#ifdef VIT_TEXT_ENCODER
    std::vector<float> embed(const std::string &text) const {
        std::vector<float> embedding(static_cast<std::size_t>(embedding_dim()));
        check(vit_text_embed(get(), text.c_str(), embedding.data()));
        return embedding;
    }
#endif

  private:
    friend class Session;
    // The vit_model. Its address never changes, because sessions have a pointer to it.
    struct File {
        File() = default;
        explicit File(std::shared_ptr<File> from) noexcept : c(from->c), owner(std::move(from)) {}
        File(const File &) = delete;
        File &operator=(const File &) = delete;
        ~File() {
            if (!owner) vit_model_close(&c);
        }
        vit_model c{};
        std::shared_ptr<File> owner; // owns the bytes if c is a resized copy
    };
    explicit Model(std::shared_ptr<File> file) noexcept : file_(std::move(file)) {}
    std::shared_ptr<File> file_;
};

#if !defined(VIT_NO_THREADS)
// Threads that several sessions may use. num_threads includes the calling thread; 0 means one
// thread per core.
class Pool {
  public:
    explicit Pool(int num_threads = 0) {
        vit_threads *threads = nullptr;
        check(vit_threads_create(num_threads, &threads, &executor_));
        threads_.reset(threads, vit_threads_destroy);
    }
    Pool(Pool &&) noexcept = default;
    Pool &operator=(Pool &&) noexcept = default;
    int num_threads() const noexcept { return executor_.num_threads; }

  private:
    friend class Session;
    vit_executor executor_{};
    std::shared_ptr<vit_threads> threads_;
};
#endif

// Makes an executor from the program's own threads. parallel_for(count, task) must call task(i)
// once for every i from 0 to count - 1, with at most num_threads calls at a time. It must return
// after the last call has ended. An exception from parallel_for ends the program. The object
// parallel_for must outlive the sessions.
template <class ParallelFor> vit_executor executor(ParallelFor &parallel_for, int num_threads) {
    const auto call = [](void *user, int count, vit_task *task, void *arg) noexcept {
        (*static_cast<ParallelFor *>(user))(count, [task, arg](int i) { task(arg, i); });
    };
    return { call, const_cast<void *>(static_cast<const void *>(&parallel_for)), num_threads };
}

struct Options {
    vit_isa isa = VIT_ISA_AUTO;
#if !defined(VIT_NO_THREADS)
    const Pool *pool = nullptr;
#endif
    vit_executor executor = { nullptr, nullptr, 0 }; // used if there is no pool
    bool low_memory = false;
    int batch = 0;
#if !defined(VIT_NO_TRACE)
    // A flag that cancels forward passes; nullptr for none. While it is true, Session::run and
    // Session::forward throw Cancelled, at the latest at the end of the current phase
    // (VIT_PHASE_LIST). If the model has VIT_CROP_ASPECT, a run that has begun completes first. Any
    // thread may set the flag. The flag must outlive the session, which can be used again.
    const std::atomic<bool> *stop = nullptr;
#endif
};

#ifndef VIT_NO_PREPROCESS
// The answer of a run. It points to memory of the session, and is valid until the next run of the
// session or until the end of the session.
class Answer {
  public:
    int count() const noexcept { return count_; } // number of photos
    Floats scores(int photo = 0) const noexcept { return row(answer_.scores, photo, classes_); }
    Floats embedding(int photo = 0) const noexcept { return row(answer_.embedding, photo, dim_); }
    std::vector<vit_prediction> top(int k, int photo = 0) const {
        return vit::top(scores(photo), k);
    }

  private:
    friend class Session;
    Answer(const vit_answer &answer, int count, int classes, int dim) noexcept
        : answer_(answer), count_(count), classes_(answer.scores ? std::size_t(classes) : 0),
          dim_(std::size_t(dim)) {}
    static Floats row(const float *rows, int photo, std::size_t size) noexcept {
        return { size ? rows + std::size_t(photo) * size : rows, size };
    }
    vit_answer answer_;
    int count_;
    std::size_t classes_, dim_;
};
#endif

class Session {
  public:
    explicit Session(const Model &model, const Options &options = {})
        : state_(std::make_unique<State>()) {
        State &s = *state_;
        vit_params params{};
        params.isa = options.isa;
        params.executor = options.executor;
        params.low_memory = options.low_memory;
        params.batch = options.batch;
#if !defined(VIT_NO_THREADS)
        if (options.pool) {
            params.executor = options.pool->executor_;
            s.threads = options.pool->threads_;
        }
#endif
#if !defined(VIT_NO_TRACE)
        s.stop = options.stop;
        // For VIT_CROP_ASPECT, vit_run opens its own sessions, whose memory a jump would leak.
        if (s.stop && model.config().crop_mode != VIT_CROP_ASPECT) {
            params.on_phase = on_phase;
            params.phase_user = &s;
        }
#endif
        s.file = model.file_;
        check(vit_session_init(&s.c, &s.file->c, &params, nullptr, 0));
    }
    Session(Session &&) noexcept = default;
    Session &operator=(Session &&) noexcept = default;

    const vit_session *get() const noexcept { return &state_->c; }
    vit_isa isa() const noexcept { return state_->c.isa; }

#ifndef VIT_NO_PREPROCESS
    Answer run(const vit_image *photos, int count) {
        vit_answer answer{};
        attempt([&] { return vit_run(&state_->c, photos, count, &answer); });
        return { answer, count, state_->file->c.config.num_classes,
                 vit_embedding_dim(&state_->file->c) };
    }
    Answer run(const std::vector<vit_image> &photos) {
        return run(photos.data(), int(photos.size()));
    }
    Answer run(const vit_image &photo) { return run(&photo, 1); }
#endif
    void forward(const vit_input &input, const vit_outputs &outputs) {
        attempt([&] { return vit_forward(&state_->c, &input, &outputs); });
    }

  private:
    struct State { // its address must not change, because vit_params has a pointer to it
        State() = default;
        State(const State &) = delete;
        State &operator=(const State &) = delete;
        ~State() { vit_session_close(&c); }
        std::shared_ptr<Model::File> file;
#if !defined(VIT_NO_THREADS)
        std::shared_ptr<vit_threads> threads;
#endif
        const std::atomic<bool> *stop = nullptr;
        std::jmp_buf leave;
        vit_session c{};
    };

    // vit.h calls this between two phases. At such a moment, no other thread works for the session, and nothing
    // is locked or allocated, so longjmp is safe.
    static void on_phase(void *user, vit_phase) {
        State *s = static_cast<State *>(user);
        if (s->stop->load(std::memory_order_relaxed)) std::longjmp(s->leave, 1);
    }

    // The stack frames that longjmp skips have no objects with destructors.
    template <class Call> void attempt(const Call &call) {
        State *const s = state_.get();
        if (s->stop && (s->stop->load(std::memory_order_relaxed) || setjmp(s->leave)))
            throw Cancelled();
        check(call());
    }

    std::unique_ptr<State> state_;
};

#if defined(VIT_HAS_IMAGE_LOAD)
// A photo that vit_image_load decodes. This class exists only if stb_image.h is included before
// this file. It ignores the EXIF orientation, like vit_image_load.
class Photo {
  public:
    explicit Photo(const std::string &path) : c_(vit_image_load(path.c_str())) {
        if (!c_.pixels) throw Error(VIT_ERROR_IO, path + ": " + stbi_failure_reason());
    }
    Photo(Photo &&other) noexcept : c_(other.c_) { other.c_.pixels = nullptr; }
    Photo &operator=(Photo &&other) noexcept {
        std::swap(c_, other.c_);
        return *this;
    }
    ~Photo() { vit_image_free(&c_); }
    operator const vit_image &() const noexcept { return c_; }

  private:
    vit_image c_;
};
#endif

} // namespace vit
#endif // VIT_HPP
