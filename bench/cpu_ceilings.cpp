// Measures the peak rates of this CPU, on all threads at once:
//   cpu_ceilings [THREADS]
// Prints one JSON object: the rate of matrix products whose operands stay in the L1 cache, for each
// precision that the CPU supports, and the rate of memory copies, counting bytes read and written.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <exception>
#include <random>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "core/buffer.hpp"
#include "core/thread_pool.hpp"
#include "cpu/isa.hpp"
#include "cpu/page_buffer.hpp"
#include "cpu/product.hpp"

namespace {

using namespace fovea;
using namespace fovea::cpu;
using Clock = std::chrono::steady_clock;

constexpr int kRounds = 7;  // the best round is reported
constexpr double kSeconds = 0.2;
// Inner dimension in units: both operands together take 32 KiB at most.
constexpr std::int64_t kUnits = 128;
constexpr std::size_t kCopyBytes = std::size_t{64} << 20;

/// Returns the work per second of all threads together; each call does the amount `work`.
template <typename Call>
double rate(ThreadPool& pool, double work, const Call& call) {
  double best = 0;
  for (int round = 0; round < kRounds; ++round) {
    std::vector<double> rates(static_cast<std::size_t>(pool.threads()));
    pool.parallel_for(rates.size(), [&](std::size_t thread, int) {
      const auto start = Clock::now();
      double calls = 0;
      double seconds = 0;
      do {
        call(thread);
        ++calls;
        seconds = std::chrono::duration<double>(Clock::now() - start).count();
      } while (seconds < kSeconds);
      rates[thread] = calls * work / seconds;
    });
    double sum = 0;
    for (const double rate : rates) {
      sum += rate;
    }
    best = std::max(best, sum);
  }
  return best;
}

double matrix_rate(ThreadPool& pool, DType type) {
  constexpr int kCalls = 200;
  const TileKernel& kernel = tile_kernel(type);
  const std::int64_t height = kernel.max_height();
  struct Operands {
    AlignedBuffer<Unit> a, b, sums;
  };
  std::vector<Operands> operands(static_cast<std::size_t>(pool.threads()));
  std::minstd_rand random(1);
  const auto fill = [&](AlignedBuffer<Unit>& units, std::int64_t count) {
    units = AlignedBuffer<Unit>(static_cast<std::size_t>(count));
    // Integers are small, and floats lie between 1/2 and 2.
    const Unit base = type == DType::kF32 ? 0x3f000000U : type == DType::kBF16 ? 0x3f003f00U : 0;
    const Unit mask = type == DType::kF32    ? 0x00ffffffU
                      : type == DType::kBF16 ? 0x00ff00ffU
                                             : 0x3f3f3f3fU;
    std::generate_n(units.data(), count,
                    [&] { return base | (static_cast<Unit>(random()) & mask); });
  };
  for (Operands& buffers : operands) {
    fill(buffers.a, height * kUnits);
    fill(buffers.b, kernel.columns * kUnits);
    fill(buffers.sums, height * kernel.columns);
  }
  const double products = static_cast<double>(height * kernel.columns * kUnits) *
                          static_cast<double>(numbers_in_unit(kernel.type));
  return rate(pool, 2 * kCalls * products, [&](std::size_t thread) {
    const TileSession session(kernel);
    Operands& buffers = operands[thread];
    for (int i = 0; i < kCalls; ++i) {
      tile_function(kernel, height)(buffers.a.data(), kernel.packed_layout(height),
                                    buffers.b.data(), kUnits, buffers.sums.data());
    }
  });
}

double copy_rate(ThreadPool& pool) {
  struct Memory {
    PageBuffer from{kCopyBytes}, to{kCopyBytes};
  };
  std::vector<Memory> memory(static_cast<std::size_t>(pool.threads()));
  pool.parallel_for(memory.size(), [&](std::size_t thread, int) {
    std::memset(memory[thread].from.data(), 1, kCopyBytes);
  });
  return rate(pool, 2.0 * kCopyBytes, [&](std::size_t thread) {
    std::memcpy(memory[thread].to.data(), memory[thread].from.data(), kCopyBytes);
  });
}

}  // namespace

int main(int argc, char** argv) {
  try {
    ThreadPool pool(argc > 1 && std::stoi(argv[1]) > 0 ? std::stoi(argv[1]) : available_threads());
    std::string rates = fmt::format("\"fp32\": {:.1f}", matrix_rate(pool, DType::kF32) * 1e-9);
    if (has_bf16()) {
      rates += fmt::format(", \"bf16\": {:.1f}", matrix_rate(pool, DType::kBF16) * 1e-9);
    }
    if (has_int8()) {
      rates += fmt::format(", \"int8\": {:.1f}", matrix_rate(pool, DType::kI8) * 1e-9);
    }
    fmt::print(
        "{{\"isa\": \"{}\", \"threads\": {}, \"matrix_gigaops\": {{{}}}, \"copy_gigabytes\": "
        "{:.1f}}}\n",
        isa_name(), pool.threads(), rates, copy_rate(pool) * 1e-9);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
