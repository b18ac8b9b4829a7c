// Products of a warpgroup (wgmma) that a warp has in flight, and the registers that they use.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "emulator/program/program.hpp"

namespace emu {

/// Use of a register by products: as accumulator, or for A.
struct RegisterUse {
  std::uint64_t product = 0;  // the last one that uses it; 0: none has
  const Op* op = nullptr;     // that product
  std::uint64_t fences = 0;   // that the warp had run before it
  bool is_accumulator = false;
  /// When another instruction has written it: how many wgmma.fence the warp had run, plus 1.
  std::uint64_t written_after = 0;
  const Op* written_by = nullptr;
  bool is_constant = false;  // that it wrote
  /// The same for an instruction that has read it.
  std::uint64_t read_after = 0;
  const Op* read_by = nullptr;
};

/// Instructions that the four warps of a warpgroup have issued: all must issue the same.
struct IssuedTogether {
  struct Entry {
    const Op* op = nullptr;
    std::array<std::uint64_t, 2> descriptors{};
  };
  std::uint64_t first = 0;  // number of the first of `entries`
  std::deque<Entry> entries{};
  std::array<std::uint64_t, 4> next{};  // of each warp
};

struct MatrixProducts {
  struct Product {
    std::uint64_t number = 0;
    const Op* op = nullptr;
  };
  std::vector<RegisterUse> uses{};     // by Op::async_registers
  std::uint64_t fences = 0;            // wgmma.fence that the warp has run
  std::uint64_t issued = 0;            // products, numbered from 1
  std::uint64_t finished = 0;          // the last that is computed; they finish in their order
  std::uint64_t completed = 0;         // the last that a wgmma.wait_group has waited for
  std::deque<Product> pending{};       // issued and not completed
  std::deque<std::uint64_t> groups{};  // last products of those committed and not completed
  IssuedTogether together{};           // of the warpgroup: in its first warp

  [[nodiscard]] bool is_under_way(const RegisterUse& use) const { return use.product > completed; }
};

}  // namespace emu
