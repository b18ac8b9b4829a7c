// kernels/ptx/matrix.cuh on the host: ldmatrix as PTX ISA 9.7.14.5 describes its fragments.
#pragma once

#include "machine/machine.hpp"

namespace fovea::ptx {

/// Element (row, column) of matrix `i`, whose row r the thread 8 * i + r gave.
inline std::uint32_t matrix_element(int i, std::uint32_t row, std::uint32_t column) {
  const std::uint32_t address = machine::shown()[i * 8 + row].word[0];
  std::uint16_t value;
  std::memcpy(&value, machine::shared(address, 16) + column * 2, sizeof(value));
  return value;
}

template <typename Element>
void load_matrices(std::uint32_t (&r)[4], std::uint32_t address, Element element) {
  machine::shown()[machine::lane()].word[0] = address;
  machine::meet_warp();
  const std::uint32_t group = machine::lane() / 4;
  const std::uint32_t pair = machine::lane() % 4 * 2;
  std::uint32_t loaded[4];
  for (int i = 0; i < 4; ++i) {
    loaded[i] = element(i, group, pair) | element(i, group, pair + 1) << 16;
  }
  machine::meet_warp();
  std::ranges::copy(loaded, r);
}

inline void ldmatrix_x4(std::uint32_t (&r)[4], std::uint32_t address) {
  load_matrices(r, address, matrix_element);
}
inline void ldmatrix_x4_trans(std::uint32_t (&r)[4], std::uint32_t address) {
  load_matrices(r, address, [](int i, std::uint32_t column, std::uint32_t row) {
    return matrix_element(i, row, column);
  });
}

}  // namespace fovea::ptx
