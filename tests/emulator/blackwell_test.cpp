// What PTX for sm_100a has beside tcgen05: pairs of floats, powers of two as scales, redux, clocks,
// hints to caches.
#include <algorithm>
#include <bit>
#include <cmath>
#include <set>

#include "device_fixture.hpp"
#include "fovea_emulator/error.hpp"

namespace emu {
namespace {

class BlackwellTest : public DeviceTest {
 protected:
  // The words that each of 32 lanes has in memory, and leaves there.
  std::vector<std::uint32_t> after_words(std::string_view body,
                                         const std::vector<std::uint32_t>& values) {
    return after(body, values, 32);
  }
};

TEST_F(BlackwellTest, ComputesWithPairsOfFloats) {
  std::vector<std::uint32_t> words(128);
  for (std::size_t i = 0; i < words.size(); ++i) {
    words[i] = std::bit_cast<std::uint32_t>(static_cast<float>(i) * 0.75F - 20.1F);
  }
  const auto value = [&](std::size_t i) { return std::bit_cast<float>(words[i]); };
  const auto computed = [&](std::string_view operation) {
    return after_words(fmt::format(R"(
  add.s64 %rd4, %rd1, %rd2;
  add.s64 %rd4, %rd4, %rd2;
  ld.global.b64 %rd5, [%rd4];
  ld.global.b64 %rd6, [%rd4+256];
  {};
  st.global.b64 [%rd4], %rd7;)",
                                   operation),
                       words);
  };
  const auto sums = computed("add.rn.f32x2 %rd7, %rd5, %rd6");
  const auto differences = computed("sub.rn.f32x2 %rd7, %rd5, %rd6");
  const auto multiples = computed("mul.rn.ftz.f32x2 %rd7, %rd5, %rd6");
  const auto fused = computed("fma.rn.f32x2 %rd7, %rd5, %rd6, %rd5");
  for (std::size_t i = 0; i < 64; ++i) {
    EXPECT_EQ(std::bit_cast<float>(sums[i]), value(i) + value(i + 64));
    EXPECT_EQ(std::bit_cast<float>(differences[i]), value(i) - value(i + 64));
    EXPECT_EQ(std::bit_cast<float>(multiples[i]), value(i) * value(i + 64));
    EXPECT_EQ(std::bit_cast<float>(fused[i]), std::fma(value(i), value(i + 64), value(i)));
  }
  words[1] = words[65] = std::bit_cast<std::uint32_t>(0x1p-70F);
  EXPECT_EQ(computed("mul.rn.ftz.f32x2 %rd7, %rd5, %rd6")[1], 0U);
  EXPECT_EQ(computed("mul.rn.f32x2 %rd7, %rd5, %rd6")[1], 1U << 9U);
  EXPECT_THROW(device_.load(kernel("max.f32x2 %rd7, %rd5, %rd6;")), Error);
}

TEST_F(BlackwellTest, RoundsToPowersOfTwo) {
  struct Case {
    float value;
    std::uint32_t up;
    std::uint32_t down;
  };
  const std::vector<Case> cases = {{1.0F, 127, 127},       {1.5F, 128, 127},
                                   {-1.5F, 128, 127},      {0.0F, 0, 0},
                                   {0x1p-127F, 0, 0},      {0x1.8p-127F, 1, 0},
                                   {0x1p-149F, 0, 0},      {0x1p-126F, 1, 1},
                                   {0x1p127F, 254, 254},   {0x1.8p127F, 254, 254},
                                   {INFINITY, 254, 254},   {NAN, 255, 255},
                                   {448.0F / 3, 135, 134}, {std::nextafter(2.0F, 3.0F), 129, 128}};
  std::vector<std::uint32_t> words(32, std::bit_cast<std::uint32_t>(1.0F));
  for (std::size_t i = 0; i < cases.size(); ++i) {
    words[i] = std::bit_cast<std::uint32_t>(cases[i].value);
  }
  const auto rounded = [&](std::string_view rounding) {
    return after_words(fmt::format(R"(
  ld.global.b32 %f1, [%rd3];
  mov.b32 %f2, 0f40800000;
  cvt.{}.satfinite.ue8m0x2.f32 %rs1, %f2, %f1;
  cvt.u32.u16 %r2, %rs1;
  st.global.b32 [%rd3], %r2;)",
                                   rounding),
                       words);
  };
  const auto up = rounded("rp");
  const auto down = rounded("rz");
  for (std::size_t i = 0; i < cases.size(); ++i) {
    EXPECT_EQ(up[i], 129U << 8U | cases[i].up) << cases[i].value;
    EXPECT_EQ(down[i], 129U << 8U | cases[i].down) << cases[i].value;
  }
  // And back, exactly; from and to pairs of bf16.
  for (std::size_t i = 0; i < 32; ++i) {
    words[i] = static_cast<std::uint32_t>(i * 8 | (255 - i) << 8U);
  }
  const auto pairs = after_words(R"(
  ld.global.b32 %r2, [%rd3];
  cvt.u16.u32 %rs1, %r2;
  cvt.rn.bf16x2.ue8m0x2 %r3, %rs1;
  st.global.b32 [%rd3], %r3;)",
                                 words);
  const auto again = after_words(R"(
  ld.global.b32 %r2, [%rd3];
  cvt.rp.satfinite.ue8m0x2.bf16x2 %rs1, %r2;
  cvt.u32.u16 %r3, %rs1;
  st.global.b32 [%rd3], %r3;)",
                                 pairs);
  EXPECT_EQ(again, words);
  EXPECT_EQ(pairs[1] & 0xFFFFU, 8U << 7U);      // 2^(8 - 127)
  EXPECT_EQ(pairs[0], 0x7FFFU << 16U | 0x40U);  // a NaN, 2^-127
}

TEST_F(BlackwellTest, Reduces) {
  std::vector<std::uint32_t> words(32);
  for (std::size_t i = 0; i < 32; ++i) {
    words[i] = static_cast<std::uint32_t>(i * 2654435761U);
  }
  const auto reduced = [&](std::string_view operation) {
    const auto all = after_words(fmt::format(R"(
  ld.global.b32 %r2, [%rd3];
  redux.sync.{} %r3, %r2, 0xffffffff;
  st.global.b32 [%rd3], %r3;)",
                                             operation),
                                 words);
    EXPECT_EQ(std::set(all.begin(), all.end()).size(), 1U) << operation;
    return all[0];
  };
  std::uint32_t sum = 0;
  std::uint32_t all_bits = ~0U;
  std::uint32_t any_bit = 0;
  std::uint32_t odd_bits = 0;
  for (const std::uint32_t word : words) {
    sum += word;
    all_bits &= word;
    any_bit |= word;
    odd_bits ^= word;
  }
  EXPECT_EQ(reduced("add.u32"), sum);
  EXPECT_EQ(reduced("add.s32"), sum);
  EXPECT_EQ(reduced("and.b32"), all_bits);
  EXPECT_EQ(reduced("or.b32"), any_bit);
  EXPECT_EQ(reduced("xor.b32"), odd_bits);
  EXPECT_EQ(reduced("min.u32"), std::ranges::min(words));
  EXPECT_EQ(reduced("max.u32"), std::ranges::max(words));
  const auto is_less = [](std::uint32_t a, std::uint32_t b) {
    return static_cast<std::int32_t>(a) < static_cast<std::int32_t>(b);
  };
  EXPECT_EQ(reduced("min.s32"), std::ranges::min(words, is_less));
  EXPECT_EQ(reduced("max.s32"), std::ranges::max(words, is_less));

  const auto of_floats = [&](std::string_view operation) {
    return after(
        fmt::format(R"(
  ld.global.b32 %f2, [%rd3];
  redux.sync.{}.f32 %f3, %f2, 0xffffffff;
  st.global.b32 [%rd3], %f3;)",
                    operation),
        [&] {
          std::vector<float> floats(words.size());
          for (std::size_t i = 0; i < floats.size(); ++i) {
            floats[i] = i == 4 ? NAN : i == 9 ? -77.0F : static_cast<float>(i);
          }
          return floats;
        }(),
        32)[0];
  };
  EXPECT_EQ(of_floats("max"), 31.0F);
  EXPECT_EQ(of_floats("min"), -77.0F);
  EXPECT_EQ(of_floats("max.abs"), 77.0F);
  EXPECT_EQ(of_floats("min.abs"), 0.0F);
  EXPECT_EQ(std::bit_cast<std::uint32_t>(of_floats("max.NaN")), 0x7FFFFFFFU);
  EXPECT_THROW(device_.load(kernel("redux.sync.max.abs.u32 %r2, %r3, 1;")), Error);
}

TEST_F(BlackwellTest, ReadsClocksThatGoOn) {
  const auto words = after_words(R"(
  mov.u64 %rd5, %clock64;
  mov.u32 %r5, %clock;
  mov.u64 %rd6, %globaltimer;
  setp.lt.u64 %p1, %rd5, %rd6;
  selp.u32 %r6, 1, 0, %p1;
  st.global.b32 [%rd3], %r6;)",
                                 std::vector<std::uint32_t>(32));
  EXPECT_EQ(words, std::vector<std::uint32_t>(32, 1));
  EXPECT_THROW(device_.load(kernel("mov.u32 %r5, %clock64;")), Error);
}

TEST_F(BlackwellTest, AccessesThirtyTwoBytes) {
  std::vector<std::uint32_t> words(512);
  for (std::size_t i = 0; i < words.size(); ++i) {
    words[i] = static_cast<std::uint32_t>(i);
  }
  const auto moved = after_words(R"(
  mul.wide.u32 %rd4, %r1, 32;
  add.s64 %rd4, %rd1, %rd4;
  mov.u64 %rd9, 0;
  ld.global.L1::no_allocate.L2::evict_first.v4.b64 {%rd5, %rd6, %rd7, %rd8}, [%rd4];
  ld.global.L2::cache_hint.L2::256B.v8.b32 {%r2, %r3, %r4, %r5, %r6, %r7, %r8, %r9}, [%rd4], %rd9;
  st.global.L2::cache_hint.v8.b32 [%rd4+1024], {%r9, %r8, %r7, %r6, %r5, %r4, %r3, %r2}, %rd9;)",
                                 words);
  for (std::size_t i = 0; i < 256; ++i) {
    EXPECT_EQ(moved[256 + i], i / 8 * 8 + 7 - i % 8);
  }
  EXPECT_EQ(finding_of("mul.wide.u32 %rd4, %r1, 0; add.s64 %rd4, %rd1, 16;"
                       "ld.global.v4.b64 {%rd5, %rd6, %rd7, %rd8}, [%rd4];"),
            FindingKind::kMisaligned);
  EXPECT_THROW(device_.load(kernel("ld.global.v8.b64 {%rd2, %rd3, %rd4, %rd5, %rd6, %rd7, %rd8, "
                                   "%rd9}, [%rd1];")),
               Error);
}

TEST_F(BlackwellTest, TakesEveryTarget) {
  for (const std::string_view target : {"sm_100a", "sm_100f", "sm_103a"}) {
    std::string text = kernel("");
    text.replace(text.find("sm_90a"), 6, target);
    EXPECT_NO_THROW(device_.load(text)) << target;
  }
}

}  // namespace
}  // namespace emu
