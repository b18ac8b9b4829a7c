// Micro-kernels of stores by the TMA: boxes that tile a tensor and reach beyond its end.
#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "emulator/captures/tensor.hpp"

namespace captures {
namespace {

constexpr std::uint32_t kThreads = 64;
constexpr std::size_t kDataOffset = 1024;

// Where the boxes begin: side by side, all in the tensor, as they must; the last ones end behind
// it.
std::vector<std::int32_t> tiles(const TensorMap& map, std::uint64_t seed) {
  Random random(seed);
  std::array<std::int32_t, 5> first{};
  std::array<std::int32_t, 5> count{1, 1, 1, 1, 1};
  for (std::size_t d = 0; d < static_cast<std::size_t>(map.rank); ++d) {
    const auto box = static_cast<std::int32_t>(map.box.at(d));
    first.at(d) = static_cast<std::int32_t>(
        random.below(std::min<std::uint64_t>(map.box.at(d), map.dims.at(d))));
    if (d == 0) {
      const auto unit = static_cast<std::int32_t>(16 / element_bytes(map.element));
      first[0] = first[0] / unit * unit;
    }
    count.at(d) = (static_cast<std::int32_t>(map.dims.at(d)) - first.at(d) + box - 1) / box;
  }
  std::vector<std::int32_t> words;
  const std::int32_t all = count[0] * count[1] * count[2] * count[3] * count[4];
  for (std::int32_t tile = 0; tile < all && tile < 24; ++tile) {
    std::int32_t left = tile;
    for (std::size_t d = 0; d < 8; ++d) {
      if (d < 5) {
        words.push_back(first.at(d) + left % count.at(d) *
                                          static_cast<std::int32_t>(std::max(map.box.at(d), 1U)));
        left /= count.at(d);
      } else {
        words.push_back(0);
      }
    }
  }
  return words;
}

void add(MicroKernels& to, TensorMap map, std::size_t offset,
         const std::optional<std::array<std::int32_t, 2>>& first = std::nullopt) {
  map.buffer = 2;
  const std::uint64_t seed = to.size() * 4;
  const std::vector<std::int32_t> places =
      first ? std::vector<std::int32_t>{(*first)[0], (*first)[1], 0, 0, 0, 0, 0, 0}
            : tiles(map, seed);
  const auto blocks = static_cast<std::uint32_t>(places.size() / 8);
  const std::size_t bytes = placed_bytes(map);
  const std::size_t shared_bytes = (offset + bytes + 1023) / 1024 * 1024;
  MicroKernel kernel{
      .name = fmt::format("tma.store.{}d.{}.{}{}.{}{}", map.rank, name_of(map.element),
                          name_of(map.swizzle), width_of(map), to.size(),
                          first ? fmt::format(".at{},{}", (*first)[0], (*first)[1]) : ""),
      .family = "tma-store",
      .ptx = {}};
  kernel.block = {kThreads, 1, 1};
  kernel.grid = {blocks, 1, 1};
  kernel.dynamic_shared_bytes = kDataOffset + shared_bytes;
  kernel.maps = {map};
  kernel.is_illegal = first.has_value();
  kernel.inputs.emplace_back([=] { return random_bytes(blocks * shared_bytes, seed); });
  kernel.inputs.emplace_back([=] { return bytes_of(places); });
  kernel.outputs = {map.offset + tensor_bytes(map)};
  std::string body = "  mov.u32 %r10, buffer;\n";
  body +=
      fmt::format("  add.u32 %r10, %r10, {};\n  add.u32 %r11, %r10, {};\n", kDataOffset, offset);
  body +=
      fmt::format("  mul.wide.u32 %rd74, %r2, {};\n  add.s64 %rd75, %rd1, %rd74;\n", shared_bytes);
  body += copy_to_shared("%rd75", "%r10", shared_bytes, kThreads, "FILL");
  body += load_coordinates("%rd2", "%r2") + map_address("%rd72", 0);
  body += fmt::format(R"(
  fence.proxy.async.shared::cta;
  bar.sync 0;
  setp.ne.u32 %p2, %r1, 0;
  @%p2 bra DONE;
  cp.async.bulk.tensor.{}d.global.shared::cta.tile.bulk_group [%rd72, {}], [%r11];
  cp.async.bulk.commit_group;
  cp.async.bulk.wait_group.read 0;
DONE:)",
                      map.rank, coordinates(map.rank));
  set_text(kernel, body, kTensorBuffer);
  // Units of 16 bytes are stored as a whole, beyond the end of a row too.
  TensorMap written = map;
  const std::uint64_t unit = 16 / element_bytes(map.element);
  written.dims[0] = (map.dims[0] + unit - 1) / unit * unit;
  kernel.model = [=](const std::vector<Bytes>& inputs) {
    Bytes tensor(map.offset + tensor_bytes(map), kUntouched);
    for (std::size_t block = 0; block < blocks; ++block) {
      std::array<std::int32_t, 5> at{};
      std::copy_n(places.begin() + static_cast<std::ptrdiff_t>(block * 8), 5, at.begin());
      for_each_byte(written, at, [&](std::size_t byte, std::int64_t place) {
        if (place >= 0) {
          tensor[map.offset + static_cast<std::size_t>(place)] =
              inputs[0][block * shared_bytes + swizzled(kDataOffset + offset + byte, map.swizzle) -
                        kDataOffset];
        }
      });
    }
    return std::vector<Bytes>{tensor};
  };
  to.push_back(std::move(kernel));
}

}  // namespace

void add_tensor_stores(MicroKernels& to) {
  using enum Swizzle;
  std::uint64_t seed = 2000;
  for (const int rank : {3, 4, 5}) {
    for (const Swizzle swizzle : {kNone, k32, k64, k128}) {
      for (const Element element : {Element::kBF16, Element::kU8}) {
        const std::size_t offset = seed % 2 == 0 ? 0 : 128 * (1 + seed / 2 % 7);
        add(to, random_map(element, swizzle, rank, seed++, 4096), offset);
      }
    }
  }
  using Place = std::array<std::int32_t, 2>;
  for (const auto& [element, first] :
       {std::pair(Element::kU8, Place{1, 0}), std::pair(Element::kU8, Place{8, 0}),
        std::pair(Element::kBF16, Place{4, 0}), std::pair(Element::kF32, Place{1, 0}),
        std::pair(Element::kF32, Place{-4, 0}), std::pair(Element::kU8, Place{-16, 0}),
        std::pair(Element::kU8, Place{0, -3}), std::pair(Element::kF32, Place{0, -1})}) {
    for (const Swizzle swizzle : {kNone, k128}) {
      TensorMap map = random_map(element, swizzle, 3, 79, 4096);
      map.box = {64 / static_cast<std::uint32_t>(element_bytes(element)), 8, 2};
      map.dims = {256 / element_bytes(element), 9, 3};
      map.strides = {256, 256 * 9};
      add(to, map, 0, first);
    }
  }
}

}  // namespace captures
