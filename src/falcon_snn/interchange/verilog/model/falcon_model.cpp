// What the behavioural macro computes: sums of an array. Integers, no noise.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace {

std::vector<int32_t> read_hex(const char* file) {
    std::FILE* handle = std::fopen(file, "r");
    if (!handle) {
        std::fprintf(stderr, "%s: cannot be read\n", file);
        std::exit(2);
    }
    std::vector<int32_t> numbers;
    for (unsigned number; std::fscanf(handle, "%x", &number) == 1;)
        numbers.push_back(static_cast<int32_t>(number));
    std::fclose(handle);
    return numbers;
}

void demand(bool right, const char* file) {
    if (right) return;
    std::fprintf(stderr, "%s: not as many numbers as its module needs\n", file);
    std::exit(2);
}

struct Macro {
    int lines, pixels, channels, outputs, kernel[2], stride[2], padding[2];
    std::vector<int8_t> weights;  // [place in the kernel][channel][output]
    std::vector<uint8_t> spikes;
    std::vector<int32_t> sums;

    void run() {
        const int height = (lines + 2 * padding[0] - kernel[0]) / stride[0] + 1;
        const int width = (pixels + 2 * padding[1] - kernel[1]) / stride[1] + 1;
        sums.assign(static_cast<size_t>(height) * width * outputs, 0);
        int32_t* sum = sums.data();
        for (int y = 0; y < height; ++y)
            for (int x = 0; x < width; ++x, sum += outputs)
                for (int i = 0; i < kernel[0]; ++i)
                    for (int j = 0; j < kernel[1]; ++j)
                        add(y * stride[0] - padding[0] + i, x * stride[1] - padding[1] + j,
                            i * kernel[1] + j, sum);
    }

    void add(int line, int pixel, int place, int32_t* sum) const {
        if (line < 0 || line >= lines || pixel < 0 || pixel >= pixels) return;
        const uint8_t* spike = &spikes[(static_cast<size_t>(line) * pixels + pixel) * channels];
        for (int c = 0; c < channels; ++c) {
            if (!spike[c]) continue;
            const int8_t* weight = &weights[(static_cast<size_t>(place) * channels + c) * outputs];
            for (int o = 0; o < outputs; ++o) sum[o] += weight[o];
        }
    }
};

std::vector<Macro> macros;

}  // namespace

extern "C" {

int falcon_macro_new(const char* file, int lines, int pixels, int channels, int outputs,
                     int kernel0, int kernel1, int stride0, int stride1, int padding0,
                     int padding1) {
    Macro macro{lines, pixels, channels, outputs, {kernel0, kernel1}, {stride0, stride1},
                {padding0, padding1}, {}, {}, {}};
    const auto numbers = read_hex(file);  // [output][place in the kernel][channel]
    const size_t inputs = static_cast<size_t>(kernel0) * kernel1 * channels;
    demand(numbers.size() == inputs * outputs, file);
    macro.weights.resize(numbers.size());
    for (int o = 0; o < outputs; ++o)
        for (size_t i = 0; i < inputs; ++i)
            macro.weights[i * outputs + o] = static_cast<int8_t>(numbers[o * inputs + i]);
    macro.spikes.assign((static_cast<size_t>(lines) * pixels * channels + 31) / 32 * 32, 0);
    macros.push_back(std::move(macro));
    return static_cast<int>(macros.size()) - 1;
}

void falcon_macro_spikes(int macro, int first, int bits) {
    for (int i = 0; i < 32; ++i) macros[macro].spikes[first + i] = (unsigned(bits) >> i) & 1;
}

void falcon_macro_run(int macro) { macros[macro].run(); }

int falcon_macro_sum(int macro, int index) { return macros[macro].sums[index]; }
}
