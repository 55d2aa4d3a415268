// Reads the cases that the example kernel_cases of the package rukh-gpu has written; the example documents their
// format.
#pragma once
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

namespace cases {

[[noreturn]] inline void fail(const std::string& what) {
    std::fprintf(stderr, "%s\n", what.c_str());
    std::exit(1);
}

// A value of JSON. Texts have no escapes but \" and \\.
struct Json {
    bool is_null = false, truth = false;
    double number = 0.0;
    std::string text;
    std::vector<Json> items;
    std::vector<std::pair<std::string, Json>> fields;

    const Json& operator[](const char* name) const {
        for (const auto& [key, value] : fields)
            if (key == name) return value;
        fail(std::string("a case lacks ") + name);
    }
    size_t size() const { return (size_t)number; }
};

class Parser {
  public:
    explicit Parser(const std::string& text) : at(text.c_str()) {}

    Json value() {
        Json json;
        switch (skip()) {
            case '{':
                list('}', [&] {
                    std::string key = string();
                    expect(':');
                    json.fields.emplace_back(std::move(key), value());
                });
                break;
            case '[': list(']', [&] { json.items.push_back(value()); }); break;
            case '"': json.text = string(); break;
            case 'n': word("null"), json.is_null = true; break;
            case 't': word("true"), json.truth = true; break;
            case 'f': word("false"); break;
            default: {
                char* end;
                json.number = std::strtod(at, &end);
                if (end == at) fail("the cases are no JSON");
                at = end;
            }
        }
        return json;
    }

  private:
    char skip() {
        while (std::isspace((unsigned char)*at)) at++;
        return *at;
    }
    void expect(char c) {
        if (skip() != c) fail(std::string("the cases lack a ") + c);
        at++;
    }
    void word(const char* letters) {
        for (; *letters; letters++) expect(*letters);
    }
    std::string string() {
        expect('"');
        std::string text;
        for (; *at != '"'; at++) {
            if (*at == '\\') at++;
            if (*at == 0) fail("a text has no end");
            text += *at;
        }
        at++;
        return text;
    }
    template <class Item>
    void list(char end, Item item) {
        at++;
        while (skip() != end) {
            item();
            if (skip() == ',') at++;
        }
        at++;
    }

    const char* at;
};

struct Expected {
    std::vector<double> values;
    double allowed, least;
};
struct Array {
    std::vector<unsigned char> bytes;
    std::string element;
    bool is_result;
    Expected expected;
};
struct Pointer {
    size_t offset, array, array_offset;
};
struct Case {
    std::string kernel, family, shape, fp8;
    bool is_optional;
    int grid_x, grid_y, threads;
    std::vector<unsigned char> arguments;
    std::vector<Pointer> pointers;
    std::vector<Array> arrays;
};

class Reader {
  public:
    explicit Reader(const std::string& folder) : arrays(folder + "/arrays.bin", std::ios::binary) {
        std::ifstream file(folder + "/cases.json");
        if (!file || !arrays) fail(folder + " has no cases");
        const std::string text{std::istreambuf_iterator<char>(file), {}};
        all = Parser(text).value();
    }
    size_t count() const { return all.items.size(); }

    // A case without its arrays.
    Case head(size_t index) const {
        const Json& json = all.items[index];
        Case found;
        found.kernel = json["kernel"].text;
        found.family = json["family"].text;
        found.shape = json["shape"].text;
        found.fp8 = json["fp8"].text;
        found.is_optional = json["is_optional"].truth;
        found.grid_x = (int)json["grid"].items[0].number;
        found.grid_y = (int)json["grid"].items[1].number;
        found.threads = (int)json["threads"].number;
        return found;
    }
    Case whole(size_t index) {
        const Json& json = all.items[index];
        Case found = head(index);
        const std::string& digits = json["arguments"].text;
        for (size_t i = 0; i + 1 < digits.size(); i += 2)
            found.arguments.push_back((unsigned char)std::stoi(digits.substr(i, 2), nullptr, 16));
        for (const Json& to : json["pointers"].items)
            found.pointers.push_back({to.items[0].size(), to.items[1].size(), to.items[2].size()});
        for (const Json& from : json["arrays"].items) {
            const Json& expected = from["expected"];
            Array array;
            array.bytes = read<unsigned char>(from["start"].size(), from["bytes"].size());
            array.element = from["element"].text;
            array.is_result = !expected.is_null;
            if (array.is_result)
                array.expected = {read<double>(expected["start"].size(), expected["count"].size()),
                                  expected["allowed"].number, expected["least"].number};
            found.arrays.push_back(std::move(array));
        }
        return found;
    }

  private:
    template <class T>
    std::vector<T> read(size_t start, size_t count) {
        std::vector<T> values(count);
        arrays.seekg((std::streamoff)start);
        arrays.read((char*)values.data(), (std::streamsize)(count * sizeof(T)));
        if (!arrays) fail("arrays.bin is too short");
        return values;
    }

    std::ifstream arrays;
    Json all;
};

}  // namespace cases
