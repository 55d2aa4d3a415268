// The list of all kernels that a program includes.
#pragma once
#include <cstring>
#include <functional>
#include <string>
#include <vector>

namespace host {

struct Kernel {
    std::string name;
    int threads;
    size_t bytes;                           // of the structure of arguments
    std::function<void(const void*)> call;  // runs one thread with the structure at an address
};

inline std::vector<Kernel>& kernels() {
    static std::vector<Kernel> all;
    return all;
}

// Puts a kernel on the list.
struct Listed {
    template <class Arguments>
    Listed(const char* name, int threads, void (*kernel)(Arguments)) {
        kernels().push_back({name, threads, sizeof(Arguments), [kernel](const void* from) {
                                 Arguments arguments;
                                 std::memcpy(&arguments, from, sizeof arguments);
                                 kernel(arguments);
                             }});
    }
};

}  // namespace host
