// kernels/ptx/mma.cuh on the host: m16n8k16 and m16n8k32 by their fragments (PTX ISA 9.7.14.5), and
// cp.async.
#pragma once

#include "core/dtype.hpp"
#include "machine/machine.hpp"

namespace fovea::ptx {

template <typename Element>
void multiply_16_8_16(float (&d)[4], std::uint32_t a0, std::uint32_t a1, std::uint32_t a2,
                      std::uint32_t a3, std::uint32_t b0, std::uint32_t b1) {
  machine::Shown* const shown = machine::shown();
  shown[machine::lane()] = {{a0, a1, a2, a3, b0, b1}};
  machine::meet_warp();
  const std::uint32_t group = machine::lane() / 4;
  const std::uint32_t pair = machine::lane() % 4 * 2;
  const auto half = [](std::uint32_t word, std::uint32_t which) {
    return to_float(Element{static_cast<std::uint16_t>(word >> (16 * which))});
  };
  for (std::uint32_t i = 0; i < 4; ++i) {
    const std::uint32_t column = pair + i % 2;
    for (std::uint32_t k = 0; k < 16; ++k) {
      const std::uint32_t thread = k % 8 / 2;  // of the quad that holds the row, or the column
      const std::uint32_t a = shown[group * 4 + thread].word[i / 2 + k / 8 * 2];
      const std::uint32_t b = shown[column * 4 + thread].word[4 + k / 8];
      d[i] += half(a, k % 2) * half(b, k % 2);
    }
  }
  machine::meet_warp();
}

inline void mma_m16n8k16_bf16(float (&d)[4], std::uint32_t a0, std::uint32_t a1, std::uint32_t a2,
                              std::uint32_t a3, std::uint32_t b0, std::uint32_t b1) {
  multiply_16_8_16<BFloat16>(d, a0, a1, a2, a3, b0, b1);
}
inline void mma_m16n8k16_f16(float (&d)[4], std::uint32_t a0, std::uint32_t a1, std::uint32_t a2,
                             std::uint32_t a3, std::uint32_t b0, std::uint32_t b1) {
  multiply_16_8_16<Float16>(d, a0, a1, a2, a3, b0, b1);
}

inline void mma_m16n8k32_s8u8(int (&d)[4], std::uint32_t a0, std::uint32_t a1, std::uint32_t a2,
                              std::uint32_t a3, std::uint32_t b0, std::uint32_t b1) {
  machine::Shown* const shown = machine::shown();
  shown[machine::lane()] = {{a0, a1, a2, a3, b0, b1}};
  machine::meet_warp();
  const std::uint32_t group = machine::lane() / 4;
  const std::uint32_t pair = machine::lane() % 4 * 2;
  for (std::uint32_t i = 0; i < 4; ++i) {
    const std::uint32_t column = pair + i % 2;
    for (std::uint32_t k = 0; k < 32; ++k) {
      const std::uint32_t thread = k % 16 / 4;  // of the quad that holds the row, or the column
      const std::uint32_t a = shown[group * 4 + thread].word[i / 2 + k / 16 * 2];
      const std::uint32_t b = shown[column * 4 + thread].word[4 + k / 16];
      const auto left = static_cast<std::int8_t>(a >> (8 * (k % 4)));
      const auto right = static_cast<std::uint8_t>(b >> (8 * (k % 4)));
      d[i] += int{left} * int{right};
    }
  }
  machine::meet_warp();
}

inline void cp_async_16(std::uint32_t shared, const void* global, std::uint32_t source_bytes) {
  machine::start_copy(shared, global, source_bytes);
}
inline void cp_async_commit_group() {
  machine::end_group();
}
template <int kPending>
void cp_async_wait_group() {
  machine::wait_for_groups(kPending);
}
inline void cp_async_wait_all() {
  machine::end_group();
  machine::wait_for_groups(0);
}

}  // namespace fovea::ptx
