// Runs a block's threads as fibers on one CPU thread. A fiber hands over to the next at a barrier and at an exchange
// between lanes. Waves run one after another, each as far as it can, in index order or in reverse. A missing barrier
// makes results depend on this order, so a test fails.
//
// A barrier that not all threads reach, or an exchange with a lane that has left, would hang or be undefined on a GPU.
// Here it ends the program with a message.
#pragma once
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <ucontext.h>
#include <vector>

#ifndef __has_feature
#define __has_feature(feature) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || __has_feature(address_sanitizer)
#include <sanitizer/common_interface_defs.h>
#define FIBERS_ANNOTATED 1
#else
#define FIBERS_ANNOTATED 0
#endif

namespace host {

[[noreturn]] inline void fail(const char* what, int thread) {
    std::fprintf(stderr, "%s (thread %d)\n", what, thread);
    std::abort();
}

// The most bytes that a lane can offer in an exchange.
constexpr size_t PARCEL_BYTES = 64;

// A barrier for a group of threads.
struct Barrier {
    int members = 0, arrived = 0;
    unsigned generation = 0;

    void release_if_complete() {
        if (arrived > 0 && arrived == members) {
            arrived = 0;
            generation++;
        }
    }
};

class Block {
  public:
    static Block& current() {
        static Block block;
        return block;
    }

    // Registers shared memory, which is filled with NaNs before each block.
    void share(void* memory, size_t bytes) {
        shared.push_back({memory, bytes});
        std::memset(memory, 0xff, bytes);
    }

    void run(int threads, int wave_size, int x, int y, bool reverse, const std::function<void()>& kernel) {
        for (auto [memory, bytes] : shared) std::memset(memory, 0xff, bytes);
        wave = wave_size;
        block_x = x;
        block_y = y;
        body = &kernel;
        while ((int)fibers.size() < threads) fibers.push_back(std::make_unique<Fiber>());
        everyone = {threads};
        waves.assign((threads + wave - 1) / wave, Barrier{});
        groups.assign((threads + GROUP - 1) / GROUP, Barrier{});
        for (int i = 0; i < threads; i++) {
            waves[i / wave].members++;
            groups[i / GROUP].members++;
            start(*fibers[i]);
        }
        // A wave runs as far as it can before the next wave gets a turn. No GPU lets waves drift further apart than
        // this.
        const int count = (int)waves.size();
        for (bool moved = true; moved;) {
            moved = false;
            for (int i = 0; i < count; i++)
                while (run_wave(reverse ? count - 1 - i : i, threads, reverse)) moved = true;
        }
        for (int i = 0; i < threads; i++)
            if (!fibers[i]->done) fail("threads wait at different barriers or exchanges", i);
    }

    void wait_for_block() { wait_at(everyone); }

    // Offers `bytes` at `own` to the wave, or to 32 lanes of it. `read` then looks at other lanes' bytes with
    // `parcel_of`. The two halves of a wave of 64 lanes may exchange at different places, because neither reads the
    // other.
    template <class Read>
    void exchange(bool whole_wave, const void* own, size_t bytes, Read read) {
        if (bytes > PARCEL_BYTES) fail("an exchange of too many bytes", thread);
        Fiber& fiber = *fibers[thread];
        Barrier& barrier = whole_wave ? waves[thread / wave] : groups[thread / GROUP];
        std::memcpy(fiber.parcel, own, bytes);
        fiber.exchanges++;
        wait_at(barrier);
        read();
        wait_at(barrier);
    }
    const void* parcel_of(int lane) {
        const int other = thread / wave * wave + lane;
        if (fibers[other]->done || fibers[other]->exchanges != fibers[thread]->exchanges)
            fail("exchange with a lane that does not take part", thread);
        return fibers[other]->parcel;
    }

    int thread = 0, block_x = 0, block_y = 0;

  private:
    static constexpr int GROUP = 32;
    struct Fiber {
        ucontext_t context;
        std::vector<char> stack = std::vector<char>(256 << 10);
        void* sanitizer_stack = nullptr;
        bool done = true;
        Barrier* waits_for = nullptr;
        unsigned generation = 0, exchanges = 0;
        alignas(16) char parcel[PARCEL_BYTES];
    };

    // Gives each of a wave's lanes one turn. Returns whether any lane could move.
    bool run_wave(int number, int threads, bool reverse) {
        bool moved = false;
        const int first = number * wave, count = threads - first < wave ? threads - first : wave;
        for (int i = 0; i < count; i++) {
            thread = first + (reverse ? count - 1 - i : i);
            Fiber& fiber = *fibers[thread];
            if (fiber.done || (fiber.waits_for && fiber.waits_for->generation == fiber.generation)) continue;
            moved = true;
            enter(fiber);
            if (!fiber.done) continue;
            for (Barrier* barrier : {&everyone, &waves[thread / wave], &groups[thread / GROUP]}) {
                barrier->members--;
                barrier->release_if_complete();
            }
        }
        return moved;
    }

    void wait_at(Barrier& barrier) {
        Fiber& fiber = *fibers[thread];
        const unsigned generation = barrier.generation;
        barrier.arrived++;
        barrier.release_if_complete();
        if (barrier.generation != generation) return;
        fiber.waits_for = &barrier;
        fiber.generation = generation;
        leave(fiber, false);
        fiber.waits_for = nullptr;
    }

    void start(Fiber& fiber) {
        fiber.done = false;
        fiber.waits_for = nullptr;
        fiber.exchanges = 0;
        getcontext(&fiber.context);
        fiber.context.uc_stack.ss_sp = fiber.stack.data();
        fiber.context.uc_stack.ss_size = fiber.stack.size();
        fiber.context.uc_link = nullptr;
        makecontext(&fiber.context, [] { current().entry(); }, 0);
    }

    void entry() {
#if FIBERS_ANNOTATED
        __sanitizer_finish_switch_fiber(nullptr, &main_stack, &main_stack_size);
#endif
        (*body)();
        Fiber& fiber = *fibers[thread];
        fiber.done = true;
        leave(fiber, true);
    }

    void enter(Fiber& fiber) {
#if FIBERS_ANNOTATED
        void* saved = nullptr;
        __sanitizer_start_switch_fiber(&saved, fiber.stack.data(), fiber.stack.size());
#endif
        swapcontext(&main_context, &fiber.context);
#if FIBERS_ANNOTATED
        __sanitizer_finish_switch_fiber(saved, nullptr, nullptr);
#endif
    }

    void leave(Fiber& fiber, [[maybe_unused]] bool forever) {
#if FIBERS_ANNOTATED
        __sanitizer_start_switch_fiber(forever ? nullptr : &fiber.sanitizer_stack, main_stack, main_stack_size);
#endif
        swapcontext(&fiber.context, &main_context);
#if FIBERS_ANNOTATED
        __sanitizer_finish_switch_fiber(fiber.sanitizer_stack, &main_stack, &main_stack_size);
#endif
    }

    std::vector<std::pair<void*, size_t>> shared;
    std::vector<std::unique_ptr<Fiber>> fibers;
    std::vector<Barrier> waves, groups;
    Barrier everyone;
    int wave = 32;
    const std::function<void()>* body = nullptr;
    ucontext_t main_context;
    [[maybe_unused]] const void* main_stack = nullptr;
    [[maybe_unused]] size_t main_stack_size = 0;
};

// A block's shared memory.
template <class T, int COUNT>
struct Shared {
    alignas(16) T values[COUNT];
    Shared() { Block::current().share(values, sizeof values); }
};

}  // namespace host
