// Helpers for the kernels' tests: numbers of the three types, buffers between guard pages, launches, comparisons.
#pragma once
#include "../elements.h"
#include "../kernels.h"
#include <algorithm>
#include <string>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>
#if FIBERS_ANNOTATED
#include <sanitizer/asan_interface.h>
#endif

namespace testing {

inline float value_of(float x) {
    return x;
}
inline float value_of(Half x) {
    return half_value(x.bits);
}
inline float value_of(Bfloat x) {
    return float_of_bits((u32)x.bits << 16);
}
inline void assign(float& to, float x) {
    to = x;
}
inline void assign(Half& to, float x) {
    to.bits = (u16)half_bits(x);
}
inline void assign(Bfloat& to, float x) {
    to.bits = (u16)bfloat_bits(x);
}

// The relative error to allow for: the largest rounding error of a 16-bit type, and some 16 times the largest rounding
// error of f32.
template <class T>
constexpr double precision() {
    return sizeof(T) == 4 ? 1e-6 : std::is_same_v<T, Half> ? 1.0 / 2048 : 1.0 / 256;
}
template <class T>
const char* type_name() {
    return sizeof(T) == 4 ? "f32" : std::is_same_v<T, Half> ? "f16" : "bf16";
}

// Random numbers that are the same in every run.
class Random {
  public:
    explicit Random(u64 seed) : state(seed * 0x9e3779b97f4a7c15 + 1) {}
    u32 bits() {
        state = state * 6364136223846793005 + 1442695040888963407;
        return (u32)(state >> 33);
    }
    i32 below(i32 bound) { return (i32)(bits() % (u32)bound); }
    // A nearly normal distribution with standard deviation 1.
    float normal() {
        float sum = 0.0f;
        for (i32 i = 0; i < 12; i++) sum += (float)bits() / 2147483648.0f;
        return sum - 6.0f;
    }

  private:
    u64 state;
};

// Device memory between two guard pages. Its start is a multiple of 16 bytes, and it ends less than 16 bytes before the
// second guard page. At first all its bits are set, which is a NaN in every type.
template <class T>
class Buffer {
  public:
    explicit Buffer(size_t count) : count_(count) {
        const size_t page = (size_t)sysconf(_SC_PAGESIZE), bytes = count * sizeof(T);
        const size_t inside = (bytes + 15 + page) / page * page;
        total = inside + 2 * page;
        base = (char*)mmap(nullptr, total, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (base == MAP_FAILED) host::fail("no memory", 0);
        mprotect(base, page, PROT_NONE);
        mprotect(base + page + inside, page, PROT_NONE);
        data_ = (T*)(base + page + (inside - bytes) / 16 * 16);
        std::memset((char*)data_, 0xff, bytes);
#if FIBERS_ANNOTATED
        char* end = (char*)data_ + bytes;
        __asan_poison_memory_region(base + page, (size_t)((char*)data_ - base) - page);
        __asan_poison_memory_region(end, (size_t)(base + page + inside - end));
#endif
    }
    Buffer(const Buffer&) = delete;
    ~Buffer() {
#if FIBERS_ANNOTATED
        __asan_unpoison_memory_region(base, total);
#endif
        munmap(base, total);
    }
    // Random numbers around `mean`.
    static void fill(Buffer& buffer, Random& random, float deviation, float mean = 0.0f) {
        for (size_t i = 0; i < buffer.count_; i++) assign(buffer.data_[i], mean + deviation * random.normal());
    }
    T* data() const { return data_; }
    size_t count() const { return count_; }
    T& operator[](size_t i) const { return data_[i]; }
    double value(size_t i) const { return value_of(data_[i]); }

  private:
    char* base;
    size_t total, count_;
    T* data_;
};

template <class T>
struct Filled : Buffer<T> {
    Filled(size_t count, Random& random, float deviation = 1.0f, float mean = 0.0f) : Buffer<T>(count) {
        Buffer<T>::fill(*this, random, deviation, mean);
    }
};

// Runs every block of a grid. Every other launch runs the threads in reverse order.
template <class Arguments>
void launch(void (*kernel)(Arguments), const Arguments& arguments, i32 grid_x, i32 grid_y, i32 threads) {
    static bool reverse = false;
    reverse = !reverse;
    for (i32 y = 0; y < grid_y; y++)
        for (i32 x = 0; x < grid_x; x++)
            host::Block::current().run(threads, WAVE, x, y, reverse, [&] { kernel(arguments); });
}

// The comparisons of one test. The destructor prints how many numbers were compared, and the largest error as a share
// of its limit.
struct Check {
    std::string name;
    size_t numbers = 0;
    double worst = 0.0;

    // Ends the program if the absolute error is larger than `limit`.
    void compare(double found, double expected, double limit, const char* what, size_t where) {
        numbers++;
        const double share = std::abs(found - expected) / limit;
        if (!(share <= 1.0)) {
            std::fprintf(stderr, "%s: %s[%zu] is %.9g, not %.9g within %.3g\n", name.c_str(), what, where, found, expected,
                         limit);
            std::exit(1);
        }
        worst = std::max(worst, share);
    }
    ~Check() { std::printf("%-40s %9zu numbers, at most %.2f of the limit\n", name.c_str(), numbers, worst); }
};

// Softmax in place.
inline void softmax(std::vector<double>& x) {
    const double largest = *std::max_element(x.begin(), x.end());
    double sum = 0.0;
    for (double& v : x) sum += v = std::exp(v - largest);
    for (double& v : x) v /= sum;
}

inline double activated(i32 activation, double x) {
    switch (activation) {
        case ACTIVATION_RELU: return std::max(x, 0.0);
        case ACTIVATION_RELU_2: return std::max(x, 0.0) * std::max(x, 0.0);
        case ACTIVATION_TANH: return std::tanh(x);
        case ACTIVATION_SIGMOID: return 1.0 / (1.0 + std::exp(-x));
        case ACTIVATION_SELU: return 1.0507009873554805 * (x > 0.0 ? x : 1.6732632423543772 * std::expm1(x));
        case ACTIVATION_MISH: return x * std::tanh(std::log1p(std::exp(x)));
        case ACTIVATION_SWISH: return x / (1.0 + std::exp(-x));
        default: return x;
    }
}

}  // namespace testing
