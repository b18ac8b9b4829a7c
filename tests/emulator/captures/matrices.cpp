// Micro-kernels of ldmatrix and stmatrix, with rows anywhere.
#include <fmt/format.h>

#include "emulator/captures/builder.hpp"

namespace captures {
namespace {

constexpr std::uint32_t kBlocks = 8;
constexpr std::size_t kSharedBytes = 2048;
constexpr std::string_view kBuffer = ".extern .shared .align 1024 .b8 buffer[];";

// A row of 16 bytes for each lane of each block: any for loads, another one each for stores.
Bytes rows(bool is_load, std::uint64_t seed) {
  Random random(seed);
  std::vector<std::uint32_t> offsets;
  for (std::uint32_t block = 0; block < kBlocks; ++block) {
    std::vector<std::uint32_t> order(kSharedBytes / 16);
    for (std::uint32_t i = 0; i < order.size(); ++i) {
      order[i] = i;
    }
    for (std::size_t lane = 0; lane < 32; ++lane) {
      std::swap(order[lane], order[lane + random.below(order.size() - lane)]);
      offsets.push_back(16 * (is_load ? static_cast<std::uint32_t>(random.below(kSharedBytes / 16))
                                      : order[lane]));
    }
  }
  return bytes_of(offsets);
}

std::string_view registers(int count) {
  return count == 1 ? "{%r20}" : count == 2 ? "{%r20, %r21}" : "{%r20, %r21, %r22, %r23}";
}

// What lane l has in its register: of row l / 4 the columns 2 * (l % 4) and the next, of the
// transposed matrix for .trans.
std::size_t byte_of(const std::vector<std::uint32_t>& offsets, std::size_t block,
                    std::size_t matrix, std::size_t lane, std::size_t half, bool is_transposed) {
  const std::size_t first = lane / 4;
  const std::size_t second = lane % 4 * 2 + half;
  const std::size_t row = is_transposed ? second : first;
  const std::size_t column = is_transposed ? first : second;
  return offsets[block * 32 + matrix * 8 + row] + column * 2;
}

void add(MicroKernels& to, bool is_load, int count, bool is_transposed) {
  const auto matrices = static_cast<std::size_t>(count);
  MicroKernel kernel{.name = fmt::format("{}matrix.x{}{}", is_load ? "ld" : "st", count,
                                         is_transposed ? ".trans" : ""),
                     .family = is_load ? "ldmatrix" : "stmatrix",
                     .ptx = {}};
  kernel.block = {32, 1, 1};
  kernel.grid = {kBlocks, 1, 1};
  kernel.dynamic_shared_bytes = kSharedBytes;
  const std::uint64_t seed = to.size();
  kernel.inputs.emplace_back([seed] { return random_bytes(kSharedBytes, seed); });
  kernel.inputs.emplace_back([=] { return rows(is_load, seed + 1); });
  if (!is_load) {
    kernel.inputs.emplace_back([=] { return random_bytes(kBlocks * 32 * 16, seed + 2); });
  }
  kernel.outputs = {is_load ? kBlocks * 32 * matrices * 4 : kBlocks * kSharedBytes};
  const std::string instruction =
      fmt::format("{}matrix.sync.aligned.m8n8.x{}{}.shared.b16", is_load ? "ld" : "st", count,
                  is_transposed ? ".trans" : "");
  std::string body =
      "  mov.u32 %r10, buffer;" + copy_to_shared("%rd1", "%r10", kSharedBytes, 32, "FILL") + R"(
  bar.sync 0;
  mul.wide.u32 %rd10, %r3, 4;
  add.s64 %rd11, %rd2, %rd10;
  ld.global.u32 %r11, [%rd11];
  add.u32 %r12, %r10, %r11;
)";
  if (is_load) {
    body += fmt::format("  {} {}, [%r12];\n", instruction, registers(count));
    body +=
        fmt::format("  mul.wide.u32 %rd12, %r3, {};\n  add.s64 %rd13, %rd3, %rd12;\n", count * 4);
    for (int i = 0; i < count; ++i) {
      body += fmt::format("  st.global.u32 [%rd13+{}], %r{};\n", i * 4, 20 + i);
    }
  } else {
    body +=
        "  mul.wide.u32 %rd12, %r3, 16;\n  add.s64 %rd13, %rd3, %rd12;\n"
        "  ld.global.v4.u32 {%r20, %r21, %r22, %r23}, [%rd13];\n";
    body += fmt::format("  {} [%r12], {};\n  bar.sync 0;\n", instruction, registers(count));
    body += fmt::format("  mul.wide.u32 %rd14, %r2, {};\n  add.s64 %rd15, %rd4, %rd14;\n",
                        kSharedBytes);
    body += copy_from_shared("%r10", "%rd15", kSharedBytes, 32, "OUT");
  }
  set_text(kernel, body, kBuffer);
  kernel.model = [=](const std::vector<Bytes>& inputs) {
    const auto offsets = values_of<std::uint32_t>(inputs[1]);
    Bytes result;
    if (is_load) {
      result.resize(kBlocks * 32 * matrices * 4);
    } else {
      for (std::uint32_t block = 0; block < kBlocks; ++block) {
        result.insert(result.end(), inputs[0].begin(), inputs[0].end());
      }
    }
    for (std::size_t i = 0; i < kBlocks * 32 * matrices * 2; ++i) {
      const std::size_t half = i % 2;
      const std::size_t matrix = i / 2 % matrices;
      const std::size_t lane = i / 2 / matrices % 32;
      const std::size_t block = i / 2 / matrices / 32;
      const std::size_t shared = byte_of(offsets, block, matrix, lane, half, is_transposed);
      if (is_load) {
        std::memcpy(&result[((block * 32 + lane) * matrices + matrix) * 4 + half * 2],
                    &inputs[0][shared], 2);
      } else {
        std::memcpy(&result[block * kSharedBytes + shared],
                    &inputs[2][(block * 32 + lane) * 16 + matrix * 4 + half * 2], 2);
      }
    }
    return std::vector<Bytes>{result};
  };
  to.push_back(std::move(kernel));
}

}  // namespace

void add_matrices(MicroKernels& to) {
  for (const bool is_load : {true, false}) {
    for (const int count : {1, 2, 4}) {
      add(to, is_load, count, false);
      add(to, is_load, count, true);
    }
  }
}

}  // namespace captures
