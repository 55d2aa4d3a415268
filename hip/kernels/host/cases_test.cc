// Runs the kernels on the cases of a folder (cases.h), with each array between two guard pages, and compares what they
// have written with what they must write.
//
// usage: cases_test FOLDER
#include "cases.h"
#include "../all.hip"
#include "guarded_memory.h"
#include <cmath>
#include <ctime>
#include <map>
#include <memory>
#include <set>

// An element of an array.
static double element_at(const std::string& type, const u8* bytes, size_t index) {
    if (type == "f32") return load_bytes<float>(bytes + 4 * index);
    if (type == "f16") return half_value(load_bytes<u16>(bytes + 2 * index));
    if (type == "bf16") return float_of_bits((u32)load_bytes<u16>(bytes + 2 * index) << 16);
    if (type == "i8") return (i8)bytes[index];
#ifdef FP8_LARGEST
    if (type == (FP8_FNUZ ? "f8z" : "f8")) return fp8_value(bytes[index]);
#endif
    cases::fail("no element has the type " + type);
}

static size_t size_of_element(const std::string& type) {
    return type == "f32" ? 4 : type == "f16" || type == "bf16" ? 2 : 1;
}

// The largest error of an array after a launch as a share of what is allowed.
static double largest_error(const cases::Case& of, const cases::Array& array, const u8* after) {
    auto fault = [&](size_t byte, const std::string& what) {
        cases::fail(of.kernel + ", " + of.shape + ": byte " + std::to_string(byte) + " of an array of " +
                    std::to_string(array.bytes.size()) + " " + what);
    };
    double worst = 0.0;
    size_t place = 0;
    const size_t size = size_of_element(array.element);
    for (size_t i = 0; i < array.expected.values.size(); i++, place += size) {
        const double expected = array.expected.values[i];
        if (std::isnan(expected)) {
            if (std::memcmp(after + place, array.bytes.data() + place, size) != 0)
                fault(place, "was written, but lies between the rows of a result");
            continue;
        }
        const double found = element_at(array.element, after, i);
        const double error = std::fabs(found - expected) / std::fmax(array.expected.least, std::fabs(expected));
        if (!(error <= array.expected.allowed))
            fault(place, "is " + std::to_string(found) + " instead of " + std::to_string(expected));
        worst = std::fmax(worst, error / array.expected.allowed);
    }
    for (; place < array.bytes.size(); place++)
        if (after[place] != array.bytes[place]) fault(place, "was written, but belongs to no result");
    return worst;
}

static double run(const host::Kernel& kernel, const cases::Case& of) {
    if (kernel.threads != of.threads) cases::fail(of.kernel + " has other threads than its case");
    if (kernel.bytes != of.arguments.size()) cases::fail(of.kernel + " has other arguments than its case");
    std::vector<std::unique_ptr<host::GuardedMemory>> memory;
    for (const cases::Array& array : of.arrays) memory.push_back(std::make_unique<host::GuardedMemory>(array.bytes));
    std::vector<u8> arguments = of.arguments;
    for (const cases::Pointer& to : of.pointers) {
        const u8* address = memory[to.array]->data() + to.array_offset;
        std::memcpy(arguments.data() + to.offset, &address, sizeof address);
    }
    // Every other launch runs the threads in reverse order.
    static bool reverse = false;
    reverse = !reverse;
    for (i32 y = 0; y < of.grid_y; y++)
        for (i32 x = 0; x < of.grid_x; x++)
            host::Block::current().run(of.threads, WAVE, x, y, reverse, [&] { kernel.call(arguments.data()); });
    double worst = 0.0;
    for (size_t i = 0; i < memory.size(); i++)
        worst = std::fmax(worst, largest_error(of, of.arrays[i], memory[i]->data()));
    return worst;
}

// Whether the results of a case hold for this machine's variant of e4m3.
static bool holds(const cases::Case& of) {
#ifdef FP8_LARGEST
    return of.fp8.empty() || of.fp8 == (FP8_FNUZ ? "fnuz" : "ocp");
#else
    return of.fp8.empty();
#endif
}

// Every byte becomes the number that it stands for.
template <class T>
static void check_widening() {
    for (u32 first = 0; first < 256; first += 4) {
        const Words2 words = widen_four(T(), first | (first + 1) << 8 | (first + 2) << 16 | (first + 3) << 24);
        for (u32 i = 0; i < 4; i++) {
            const T element = {(u16)(words.word[i / 2] >> 16 * (i % 2))};
            if (load_one(&element) != (float)(first + i) - 128.0f) cases::fail("a byte is another number");
        }
    }
}

int main(int count, char** words) {
    if (count != 2) cases::fail("usage: cases_test FOLDER");
    check_widening<Half>();
    check_widening<Bfloat>();
    cases::Reader reader(words[1]);
    std::map<std::string, const host::Kernel*> kernels;
    for (const host::Kernel& kernel : host::kernels()) kernels[kernel.name] = &kernel;
    std::set<std::string> examined;
    struct Family {
        size_t cases = 0;
        double worst = 0.0, seconds = 0.0;
    };
    std::map<std::string, Family> families;
    for (size_t i = 0; i < reader.count(); i++) {
        const cases::Case head = reader.head(i);
        const auto kernel = kernels.find(head.kernel);
        if (kernel == kernels.end()) {
            if (!head.is_optional) cases::fail("the source lacks " + head.kernel);
            continue;
        }
        if (!holds(head)) continue;
        examined.insert(head.kernel);
        Family& family = families[head.family];
        family.cases++;
        const clock_t start = clock();
        family.worst = std::fmax(family.worst, run(*kernel->second, reader.whole(i)));
        family.seconds += (double)(clock() - start) / CLOCKS_PER_SEC;
    }
    for (const auto& [name, kernel] : kernels)
        if (!examined.count(name)) cases::fail(name + " has no case");
    for (const auto& [name, family] : families)
        std::printf("%-24s %4zu cases, errors of at most %.2f of what is allowed, %5.1f s\n", name.c_str(),
                    family.cases, family.worst, family.seconds);
    return 0;
}
