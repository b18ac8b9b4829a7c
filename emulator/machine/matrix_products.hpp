// Warpgroup matrix products (wgmma) that a warp has in flight, and the registers that they use.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "emulator/program/program.hpp"

namespace emu {

/// Use of a register by products, as accumulator or for A.
struct RegisterUse {
  std::uint64_t product = 0;  // last product that uses the register; 0: none
  const Op* op = nullptr;     // operation of that product
  std::uint64_t fences = 0;   // number of wgmma.fence instructions before the product
  bool is_accumulator = false;
  /// Number of wgmma.fence instructions before the last write by another instruction, plus 1; 0: no
  /// write.
  std::uint64_t fences_before_write = 0;
  const Op* writer = nullptr;
  bool is_constant = false;  // the last write was of a constant
  /// Number of wgmma.fence instructions before the last read by another instruction, plus 1; 0: no
  /// read.
  std::uint64_t fences_before_read = 0;
  const Op* reader = nullptr;
};

/// Instructions that the four warps of a warpgroup have issued; all four must issue the same ones.
struct WarpgroupInstructions {
  struct Entry {
    const Op* op = nullptr;
    std::array<std::uint64_t, 2> descriptors{};
  };
  std::uint64_t first = 0;  // number of the first entry
  std::deque<Entry> entries{};
  std::array<std::uint64_t, 4> next{};  // number of each warp's next instruction
};

struct MatrixProducts {
  struct Product {
    std::uint64_t number = 0;
    const Op* op = nullptr;
  };
  std::vector<RegisterUse> uses{};  // indexed by Op::async_registers
  std::uint64_t fences = 0;         // number of wgmma.fence instructions executed
  std::uint64_t issued_count = 0;  // number of products issued so far; products are numbered from 1
  std::uint64_t last_finished =
      0;  // number of the last product that is computed; products finish in order
  std::uint64_t last_completed =
      0;  // number of the last product that a wgmma.wait_group has waited for
  std::deque<Product> pending{};  // products that are issued and not completed
  std::deque<std::uint64_t>
      groups{};  // number of the last product in each committed group that is not completed
  WarpgroupInstructions warpgroup{};  // only that of the warpgroup's first warp is used

  [[nodiscard]] bool is_in_flight(const RegisterUse& use) const {
    return use.product > last_completed;
  }
};

}  // namespace emu
