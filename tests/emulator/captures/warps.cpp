// Micro-kernels between the lanes of a warp, and of barriers between its warps.
#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "emulator/captures/builder.hpp"

namespace captures {
namespace {

using Words = std::vector<std::uint32_t>;

// Some warps have the same predicate in all lanes.
std::vector<std::uint64_t> warp_predicates(std::size_t count, int /*bits*/, Position /*position*/,
                                           std::uint64_t seed) {
  Random random(seed);
  std::vector<std::uint64_t> values(count);
  for (std::size_t i = 0; i < count; i += 32) {
    const std::uint64_t kind = random.below(4);
    for (std::size_t lane = 0; lane < 32; ++lane) {
      values[i + lane] = kind < 2 ? kind : kind == 2 ? random.below(2) : random.below(32) == 0;
    }
  }
  return values;
}

// Calls of_warp(inputs, first) for each warp, which gives 32 words.
template <typename OfWarp>
Model by_warps(OfWarp&& of_warp) {
  return [of_warp](const std::vector<Bytes>& inputs) {
    std::vector<Words> words;
    for (const Bytes& input : inputs) {
      words.push_back(values_of<std::uint32_t>(input));
    }
    Words result;
    for (std::size_t first = 0; first < words[0].size(); first += 32) {
      const std::array<std::uint32_t, 32> made = of_warp(words, first);
      result.insert(result.end(), made.begin(), made.end());
    }
    return std::vector<Bytes>{bytes_of(result)};
  };
}

constexpr std::uint32_t kOutside = 0x55555555;

// The text of PTX ISA 9.0, section shfl.sync, in its own words.
std::array<std::uint32_t, 32> shuffled(std::string_view mode, std::uint32_t c,
                                       const std::vector<Words>& words, std::size_t first) {
  std::array<std::uint32_t, 32> result{};
  for (std::uint32_t lane = 0; lane < 32; ++lane) {
    const std::uint32_t segment = c >> 8U & 31U;
    const std::uint32_t clamp = c & 31U;
    const std::uint32_t b = words[1][first + lane] & 31U;
    const std::uint32_t most = (lane & segment) | (clamp & ~segment & 31U);
    const std::uint32_t least = lane & segment;
    std::int64_t j = 0;
    bool p = false;
    if (mode == "up") {
      j = std::int64_t{lane} - b;
      p = j >= std::int64_t{most};
    } else if (mode == "down") {
      j = std::int64_t{lane} + b;
      p = j <= std::int64_t{most};
    } else if (mode == "bfly") {
      j = lane ^ b;
      p = j <= std::int64_t{most};
    } else {
      j = least | (b & ~segment & 31U);
      p = j <= std::int64_t{most};
    }
    const std::size_t from = p ? static_cast<std::size_t>(j) : lane;
    result.at(lane) = words[0][first + from] ^ (p ? 0 : kOutside);
  }
  return result;
}

void add_shuffles(MicroKernels& to) {
  for (const std::string_view mode : {"idx", "up", "down", "bfly"}) {
    const std::uint32_t clamp = mode == "up" ? 0 : 31;
    for (const std::uint32_t c : {clamp, 16U << 8U | clamp, 24U << 8U | clamp, 28U << 8U | clamp,
                                  30U << 8U | clamp, 20U, 7U << 8U | 12U}) {
      LaneOperation made{.name = fmt::format("shfl.sync.{}.{:#x}", mode, c), .family = "shuffle"};
      made.text = fmt::format(
          "shfl.sync.{}.b32 $d|%p12, $a, $b, {}, -1;\n  selp.u32 %r51, 0, {}, %p12;\n"
          "  xor.b32 $d, $d, %r51;",
          mode, c, kOutside);
      made.operands = {{32, &integers}, {32, &shifts}};
      add_lane_operation(to, made);
      to.back().model = by_warps([mode, c](const std::vector<Words>& words, std::size_t first) {
        return shuffled(mode, c, words, first);
      });
    }
  }
}

// With all lanes, or those of a mask alone, where the others have 0.
void add_votes(MicroKernels& to) {
  for (const std::string_view mode : {"all", "any", "uni", "ballot"}) {
    for (const std::uint32_t mask : {0xFFFFFFFFU, 0x0000FFF0U, 0x80000001U}) {
      const bool is_ballot = mode == "ballot";
      const std::string vote = is_ballot
                                   ? fmt::format("vote.sync.ballot.b32 $d, $a, {:#x};", mask)
                                   : fmt::format("vote.sync.{}.pred %p12, $a, {:#x};", mode, mask);
      LaneOperation made{.name = fmt::format("vote.sync.{}.{:#x}", mode, mask), .family = "vote"};
      made.text = fmt::format(
          "mov.u32 $d, 0;\n  and.b32 %r51, %r1, 31;\n  shr.u32 %r52, {0:#x}, %r51;\n"
          "  and.b32 %r52, %r52, 1;\n  setp.ne.u32 %p13, %r52, 0;\n  @%p13 {1}\n  {2}",
          mask, vote, is_ballot ? "" : "@%p13 selp.u32 $d, 1, 2, %p12;");
      made.operands = {{1, &warp_predicates}};
      add_lane_operation(to, made);
      to.back().model = by_warps([mode, mask](const std::vector<Words>& words, std::size_t first) {
        std::uint32_t votes = 0;
        for (std::uint32_t lane = 0; lane < 32; ++lane) {
          votes |= words[0][first + lane] << lane;
        }
        votes &= mask;
        const bool holds = mode == "all"   ? votes == mask
                           : mode == "any" ? votes != 0
                                           : votes == 0 || votes == mask;
        std::array<std::uint32_t, 32> result{};
        for (std::uint32_t lane = 0; lane < 32; ++lane) {
          const std::uint32_t given = mode == "ballot" ? votes : holds ? 1 : 2;
          result.at(lane) = (mask >> lane & 1U) != 0 ? given : 0;
        }
        return result;
      });
    }
  }
}

void add_elections(MicroKernels& to) {
  for (const std::uint32_t mask : {0xFFFFFFFFU, 0x0000FFF0U, 0xC0000000U}) {
    LaneOperation made{.name = fmt::format("elect.sync.{:#x}", mask), .family = "elect"};
    made.text = fmt::format(
        "mov.u32 $d, 0;\n  and.b32 %r51, %r1, 31;\n  shr.u32 %r52, {0:#x}, %r51;\n"
        "  and.b32 %r52, %r52, 1;\n  setp.ne.u32 %p13, %r52, 0;\n"
        "  @%p13 bra ELECT;\n  bra DONE;\nELECT:\n  elect.sync %r53|%p12, {0:#x};\n"
        "  selp.u32 %r54, 64, 32, %p12;\n  add.u32 $d, %r53, %r54;\nDONE:\n"
        "  add.u32 $d, $d, $a;",
        mask);
    made.count = 128;
    made.operands = {{32, &integers}};
    add_lane_operation(to, made);
  }
}

// Numbers turned round through shared memory.
void add_barrier(MicroKernels& to, std::string_view name, std::string_view barrier,
                 std::uint32_t threads) {
  MicroKernel kernel{.name = std::string(name), .family = "barrier", .ptx = {}};
  kernel.block = {threads, 1, 1};
  kernel.grid = {4, 1, 1};
  kernel.dynamic_shared_bytes = threads * 4;
  const std::size_t count = std::size_t{threads} * 4;
  kernel.inputs.emplace_back([count] { return random_bytes(count * 4, 77); });
  kernel.outputs = {count * 4};
  set_text(kernel,
           fmt::format(R"(
  mul.wide.u32 %rd10, %r3, 4;
  add.s64 %rd11, %rd1, %rd10;
  ld.global.u32 %r10, [%rd11];
  mov.u32 %r11, buffer;
  mad.lo.s32 %r12, %r1, 4, %r11;
  st.shared.u32 [%r12], %r10;
{}
  sub.u32 %r13, {}, %r1;
  mad.lo.s32 %r14, %r13, 4, %r11;
  ld.shared.u32 %r15, [%r14];
  add.s64 %rd12, %rd2, %rd10;
  st.global.u32 [%rd12], %r15;)",
                       barrier, threads - 1),
           ".extern .shared .align 1024 .b8 buffer[];");
  kernel.model = [threads](const std::vector<Bytes>& inputs) {
    Words words = values_of<std::uint32_t>(inputs[0]);
    for (auto first = words.begin(); first != words.end(); first += threads) {
      std::reverse(first, first + threads);
    }
    return std::vector<Bytes>{bytes_of(words)};
  };
  to.push_back(std::move(kernel));
}

}  // namespace

void add_warps(MicroKernels& to) {
  add_shuffles(to);
  add_votes(to);
  add_elections(to);
  add_barrier(to, "bar.sync", "  bar.sync 0;", 256);
  add_barrier(to, "bar.sync.count", "  bar.sync 5, 128;", 128);
  add_barrier(to, "bar.warp.sync", "  bar.warp.sync -1;", 32);
  add_barrier(to, "bar.arrive", R"(
  setp.ge.u32 %p1, %r1, 64;
  @%p1 bar.arrive 1, 128;
  @%p1 bar.sync 2, 128;
  @!%p1 bar.sync 1, 128;
  @!%p1 bar.arrive 2, 128;)",
              128);
  // Registers go from one warpgroup to the others.
  add_barrier(to, "setmaxnreg", R"(
  setp.lt.u32 %p1, %r1, 128;
  @%p1 bra FEW;
  setmaxnreg.inc.sync.aligned.u32 232;
  bra MEET;
FEW:
  setmaxnreg.dec.sync.aligned.u32 40;
MEET:
  bar.sync 0;)",
              384);
}

}  // namespace captures
