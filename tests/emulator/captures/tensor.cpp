// Tensor maps of micro-kernels, and what a box of one holds in shared memory.
#include "emulator/captures/tensor.hpp"

#include <algorithm>

#include <fmt/format.h>

namespace captures {

std::size_t element_bytes(Element element) {
  return element == Element::kU8 ? 1 : element == Element::kF32 ? 4 : 2;
}
std::string_view name_of(Element element) {
  constexpr std::array<std::string_view, 4> kNames = {"u8", "f16", "bf16", "f32"};
  return kNames.at(static_cast<std::size_t>(element));
}
std::string_view name_of(Swizzle swizzle) {
  constexpr std::array<std::string_view, 4> kNames = {"none", "32B", "64B", "128B"};
  return kNames.at(static_cast<std::size_t>(swizzle));
}

std::string_view width_of(const TensorMap& map) {
  return row_pitch(map) > map.box[0] * element_bytes(map.element) ? ".narrow" : "";
}

std::size_t box_bytes(const TensorMap& map) {
  std::size_t bytes = element_bytes(map.element);
  for (std::size_t d = 0; d < static_cast<std::size_t>(map.rank); ++d) {
    bytes *= map.box.at(d);
  }
  return bytes;
}
std::size_t row_pitch(const TensorMap& map) {
  const std::size_t row = map.box[0] * element_bytes(map.element);
  return map.swizzle == Swizzle::kNone ? row
                                       : std::size_t{16} << static_cast<unsigned>(map.swizzle);
}
std::size_t placed_bytes(const TensorMap& map) {
  return box_bytes(map) / (map.box[0] * element_bytes(map.element)) * row_pitch(map);
}
std::size_t tensor_bytes(const TensorMap& map) {
  const auto last = static_cast<std::size_t>(map.rank - 1);
  return map.strides.at(last - 1) * map.dims.at(last);
}

TensorMap random_map(Element element, Swizzle swizzle, int rank, std::uint64_t seed,
                     std::size_t max_bytes) {
  Random random(seed);
  const std::size_t size = element_bytes(element);
  const std::size_t span = swizzle == Swizzle::kNone ? 192
                           : swizzle == Swizzle::k32 ? 32
                           : swizzle == Swizzle::k64 ? 64
                                                     : 128;
  TensorMap map{.element = element, .rank = rank, .swizzle = swizzle};
  // Mostly as wide as the swizzle; else some units of 16 bytes.
  const std::size_t row = random.below(3) != 0 ? span : 16 * (1 + random.below(span / 16));
  map.box[0] = static_cast<std::uint32_t>(row / size);
  std::size_t bytes = row_pitch(map);
  for (std::size_t d = 1; d < static_cast<std::size_t>(rank); ++d) {
    const std::size_t room = std::min<std::size_t>(max_bytes / bytes, d == 1 ? 40 : 6);
    map.box.at(d) = static_cast<std::uint32_t>(1 + random.below(room));
    bytes *= map.box.at(d);
  }
  for (std::size_t d = 0; d < static_cast<std::size_t>(rank); ++d) {
    const std::uint64_t most = d == 0 ? map.box[0] * 2U : map.box.at(d) + 3U;
    map.dims.at(d) = 1 + random.below(most);
  }
  map.strides[0] = (map.dims[0] * size + 15) / 16 * 16 + 16 * random.below(2);
  for (std::size_t d = 1; d + 1 < static_cast<std::size_t>(rank); ++d) {
    map.strides.at(d) = map.strides.at(d - 1) * (map.dims.at(d) + random.below(2));
  }
  map.offset = 16 * random.below(5);
  return map;
}

// Units of 16 bytes change places within each group of 2, 4 or 8, by the number of the group of 128
// bytes that they are in.
std::size_t swizzled(std::size_t address, Swizzle swizzle) {
  const std::size_t mask = swizzle == Swizzle::kNone ? 0
                           : swizzle == Swizzle::k32 ? 1
                           : swizzle == Swizzle::k64 ? 3
                                                     : 7;
  return address ^ ((address / 128 & mask) * 16);
}

std::string map_address(std::string_view to, std::size_t index) {
  return fmt::format("  mov.b64 {0}, args;\n  add.s64 {0}, {0}, {1};\n  cvta.param.u64 {0}, {0};\n",
                     to, kMapsOffset + index * kTensorMapBytes);
}

std::string load_coordinates(std::string_view from, std::string_view index) {
  return fmt::format(
      "  mul.wide.u32 %rd70, {}, 32;\n  add.s64 %rd71, {}, %rd70;\n"
      "  ld.global.v4.u32 {{%r20, %r21, %r22, %r23}}, [%rd71];\n"
      "  ld.global.u32 %r24, [%rd71+16];\n",
      index, from);
}

std::string coordinates(int rank) {
  std::string text = "{%r20";
  for (int d = 1; d < rank; ++d) {
    text += fmt::format(", %r{}", 20 + d);
  }
  return text + "}";
}

std::string wait_for(std::string_view barrier, std::string_view parity, std::string_view label) {
  return fmt::format(
      "{2}:\n  mbarrier.try_wait.parity.shared::cta.b64 %p14, [{0}], {1};\n  @%p14 bra {2}_DONE;\n"
      "  bra {2};\n{2}_DONE:\n",
      barrier, parity, label);
}

}  // namespace captures
