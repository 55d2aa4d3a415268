// Device memory between guard pages.
#pragma once
#include "fibers.h"
#include <algorithm>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>
#if FIBERS_ANNOTATED
#include <sanitizer/asan_interface.h>
#endif

namespace host {

// Device memory between two guard pages. Its start is a multiple of 16 bytes, and it ends less than 16 bytes before the
// second guard page.
class GuardedMemory {
  public:
    explicit GuardedMemory(const std::vector<unsigned char>& contents) {
        const size_t page = (size_t)sysconf(_SC_PAGESIZE), bytes = contents.size();
        const size_t inside = (bytes + 15 + page) / page * page;
        total = inside + 2 * page;
        base = (char*)mmap(nullptr, total, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (base == MAP_FAILED) fail("no memory", 0);
        mprotect(base, page, PROT_NONE);
        mprotect(base + page + inside, page, PROT_NONE);
        start = base + page + (inside - bytes) / 16 * 16;
        std::copy(contents.begin(), contents.end(), start);
#if FIBERS_ANNOTATED
        char* end = start + bytes;
        __asan_poison_memory_region(base + page, (size_t)(start - base) - page);
        __asan_poison_memory_region(end, (size_t)(base + page + inside - end));
#endif
    }
    GuardedMemory(const GuardedMemory&) = delete;
    ~GuardedMemory() {
#if FIBERS_ANNOTATED
        __asan_unpoison_memory_region(base, total);
#endif
        munmap(base, total);
    }
    unsigned char* data() const { return (unsigned char*)start; }

  private:
    char *base, *start;
    size_t total;
};

}  // namespace host
