// Micro-kernels of loads by the TMA: every swizzle, type and rank, bases and coordinates anywhere,
// and loads to two blocks of a cluster at once.
#include <optional>

#include <fmt/format.h>

#include "emulator/captures/tensor.hpp"

namespace captures {
namespace {

constexpr std::uint32_t kThreads = 64;
constexpr std::uint32_t kBlocks = 8;
constexpr std::size_t kDataOffset = 1024;  // of the box; the barrier lies before it
constexpr std::size_t kOutBytes = 10240;   // of each block: the box, and what is around it

// From a box that ends before the tensor to one that begins behind it. Rows begin at multiples of
// 16 bytes.
Bytes places(const TensorMap& map, std::uint64_t seed) {
  Random random(seed);
  const auto unit = static_cast<std::int32_t>(16 / element_bytes(map.element));
  std::vector<std::int32_t> words(kBlocks * 8);
  for (std::size_t block = 0; block < kBlocks; ++block) {
    for (std::size_t d = 0; d < static_cast<std::size_t>(map.rank); ++d) {
      const auto dim = static_cast<std::int32_t>(map.dims.at(d));
      const auto box = static_cast<std::int32_t>(map.box.at(d));
      const std::int32_t least = block == 0 ? 0 : -box - 1;
      const std::int32_t most = block == 0 ? 1 : dim + 2;
      words[block * 8 + d] =
          least + static_cast<std::int32_t>(random.below(static_cast<std::uint64_t>(most - least)));
      if (d == 0) {
        words[block * 8] = words[block * 8] / unit * unit;
      }
    }
  }
  return bytes_of(words);
}

std::array<std::int32_t, 5> place_of(const std::vector<std::int32_t>& words, std::size_t block) {
  std::array<std::int32_t, 5> at{};
  std::copy_n(words.begin() + static_cast<std::ptrdiff_t>(block * 8), 5, at.begin());
  return at;
}

// Shared memory from kDataOffset on is full of bytes that the box replaces.
constexpr std::string_view kFill = R"(
  mov.u32 %r30, 0x5A5A5A5A;
  shl.b32 %r31, %r1, 4;
FILL:
  setp.ge.u32 %p1, %r31, {};
  @%p1 bra FILL_END;
  add.u32 %r32, %r10, %r31;
  st.shared.v4.u32 [%r32+1024], {%r30, %r30, %r30, %r30};
  add.u32 %r31, %r31, 1024;
  bra FILL;
FILL_END:
  fence.proxy.async.shared::cta;
  bar.sync 0;
)";

std::string fill() {
  return replaced(std::string(kFill), "{}", std::to_string(kOutBytes));
}

void put_box(Bytes& shared, const TensorMap& map, const Bytes& tensor,
             const std::array<std::int32_t, 5>& at, std::size_t offset) {
  for_each_byte(map, at, [&](std::size_t byte, std::int64_t place) {
    shared[swizzled(kDataOffset + offset + byte, map.swizzle) - kDataOffset] =
        place < 0 ? std::byte{0} : tensor[map.offset + static_cast<std::size_t>(place)];
  });
}

// Rows that begin at no multiple of 16 bytes, or before the tensor: `at` in the first dimension.
Bytes one_place(std::int32_t at) {
  std::vector<std::int32_t> words(kBlocks * 8);
  for (std::size_t block = 0; block < kBlocks; ++block) {
    words[block * 8] = at;
  }
  return bytes_of(words);
}

// `offset`: of the box in shared memory, from a multiple of 1024 bytes on.
void add(MicroKernels& to, TensorMap map, std::size_t offset, bool has_hint,
         std::optional<std::int32_t> first = std::nullopt) {
  map.buffer = 0;
  MicroKernel kernel{
      .name = fmt::format("tma.load.{}d.{}.{}{}.{}{}{}", map.rank, name_of(map.element),
                          name_of(map.swizzle), width_of(map), to.size(), has_hint ? "" : ".plain",
                          first ? fmt::format(".at{}", *first) : ""),
      .family = "tma-load",
      .ptx = {}};
  kernel.block = {kThreads, 1, 1};
  kernel.grid = {kBlocks, 1, 1};
  kernel.dynamic_shared_bytes = kDataOffset + kOutBytes;
  kernel.maps = {map};
  kernel.is_illegal = first.has_value();
  const std::uint64_t seed = to.size() * 4;
  kernel.inputs.emplace_back([=] { return random_bytes(map.offset + tensor_bytes(map), seed); });
  kernel.inputs.emplace_back([=] { return first ? one_place(*first) : places(map, seed + 1); });
  kernel.outputs = {kBlocks * kOutBytes};
  std::string body = "  mov.u32 %r10, buffer;\n";
  body += fmt::format("  add.u32 %r11, %r10, {};\n", kDataOffset + offset);
  body += fill() + load_coordinates("%rd2", "%r2") + map_address("%rd72", 0);
  body += fmt::format(R"(
  setp.ne.u32 %p2, %r1, 0;
  @%p2 bra READY;
  mbarrier.init.shared::cta.b64 [%r10], 1;
  fence.mbarrier_init.release.cluster;
READY:
  bar.sync 0;
  @%p2 bra WAIT;
  mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r10], {};
  mov.u64 %rd73, 0x1000000000000000;
  cp.async.bulk.tensor.{}d.shared::cluster.global.tile.mbarrier::complete_tx::bytes{} [%r11], [%rd72, {}], [%r10]{};
)",
                      box_bytes(map), map.rank, has_hint ? ".L2::cache_hint" : "",
                      coordinates(map.rank), has_hint ? ", %rd73" : "");
  body += wait_for("%r10", "0", "WAIT");
  body += fmt::format(
      "  mul.wide.u32 %rd74, %r2, {};\n  add.s64 %rd75, %rd3, %rd74;\n"
      "  add.u32 %r12, %r10, {};\n",
      kOutBytes, kDataOffset);
  body += copy_from_shared("%r12", "%rd75", kOutBytes, kThreads, "OUT");
  set_text(kernel, body, kTensorBuffer);
  kernel.model = [=](const std::vector<Bytes>& inputs) {
    const auto words = values_of<std::int32_t>(inputs[1]);
    Bytes result;
    for (std::size_t block = 0; block < kBlocks; ++block) {
      Bytes shared(kOutBytes, std::byte{0x5A});
      put_box(shared, map, inputs[0], place_of(words, block), offset);
      result.insert(result.end(), shared.begin(), shared.end());
    }
    return std::vector<Bytes>{result};
  };
  to.push_back(std::move(kernel));
}

// Which blocks of each cluster of two load, and for whom. Each loads its box to a place of its own.
struct Cast {
  std::array<std::uint16_t, 2> masks{};
  [[nodiscard]] std::size_t boxes_for(std::size_t rank) const {
    return static_cast<std::size_t>((masks[0] >> rank & 1U) + (masks[1] >> rank & 1U));
  }
};

void add_multicast(MicroKernels& to, TensorMap map, Cast cast) {
  map.buffer = 0;
  MicroKernel kernel{
      .name = fmt::format("tma.multicast.{}d.{}.{}{}.{}.{}", map.rank, name_of(map.element),
                          name_of(map.swizzle), width_of(map), cast.masks[0], cast.masks[1]),
      .family = "tma-multicast",
      .ptx = {}};
  kernel.block = {kThreads, 1, 1};
  kernel.grid = {kBlocks, 1, 1};
  kernel.cluster = {2, 1, 1};
  kernel.dynamic_shared_bytes = kDataOffset + kOutBytes;
  kernel.maps = {map};
  const std::uint64_t seed = to.size() * 4;
  kernel.inputs.emplace_back([=] { return random_bytes(map.offset + tensor_bytes(map), seed); });
  kernel.inputs.emplace_back([=] { return places(map, seed + 1); });
  kernel.outputs = {kBlocks * kOutBytes};
  constexpr std::size_t kHalf = kOutBytes / 2;  // where the second block's box goes
  const std::size_t bytes = box_bytes(map);
  std::string body = "  mov.u32 %r10, buffer;\n  mov.u32 %r13, %cluster_ctarank;\n";
  body += fmt::format("  mad.lo.u32 %r11, %r13, {}, %r10;\n  add.u32 %r11, %r11, {};\n", kHalf,
                      kDataOffset);
  body += fill() + load_coordinates("%rd2", "%r2") + map_address("%rd72", 0);
  body += fmt::format(R"(
  setp.eq.u32 %p3, %r13, 0;
  selp.u32 %r14, {0}, {1}, %p3;
  selp.u32 %r15, {2}, {3}, %p3;
  setp.ne.u32 %p2, %r1, 0;
  @%p2 bra READY;
  mbarrier.init.shared::cta.b64 [%r10], 1;
  fence.mbarrier_init.release.cluster;
  mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r10], %r14;
READY:
  bar.sync 0;
  barrier.cluster.arrive.release.aligned;
  barrier.cluster.wait.acquire.aligned;
  @%p2 bra WAIT;
  setp.eq.u32 %p4, %r15, 0;
  @%p4 bra WAIT;
  mov.u64 %rd73, 0x1000000000000000;
  cvt.u16.u32 %h1, %r15;
  cp.async.bulk.tensor.{4}d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster.L2::cache_hint [%r11], [%rd72, {5}], [%r10], %h1, %rd73;
)",
                      bytes * cast.boxes_for(0), bytes * cast.boxes_for(1), cast.masks[0],
                      cast.masks[1], map.rank, coordinates(map.rank));
  body += wait_for("%r10", "0", "WAIT");
  body += fmt::format(
      "  mul.wide.u32 %rd74, %r2, {};\n  add.s64 %rd75, %rd3, %rd74;\n"
      "  add.u32 %r12, %r10, {};\n",
      kOutBytes, kDataOffset);
  body += copy_from_shared("%r12", "%rd75", kOutBytes, kThreads, "OUT");
  body += "  barrier.cluster.arrive.release.aligned;\n  barrier.cluster.wait.acquire.aligned;";
  set_text(kernel, body, kTensorBuffer);
  kernel.model = [=](const std::vector<Bytes>& inputs) {
    const auto words = values_of<std::int32_t>(inputs[1]);
    Bytes result;
    for (std::size_t block = 0; block < kBlocks; ++block) {
      Bytes shared(kOutBytes, std::byte{0x5A});
      for (std::size_t from = 0; from < 2; ++from) {
        if ((cast.masks.at(from) >> block % 2 & 1U) != 0) {
          put_box(shared, map, inputs[0], place_of(words, block / 2 * 2 + from), from * kHalf);
        }
      }
      result.insert(result.end(), shared.begin(), shared.end());
    }
    return std::vector<Bytes>{result};
  };
  to.push_back(std::move(kernel));
}

}  // namespace

void add_tensor_loads(MicroKernels& to) {
  using enum Swizzle;
  constexpr std::array<Element, 4> kElements = {Element::kU8, Element::kF16, Element::kBF16,
                                                Element::kF32};
  std::uint64_t seed = 1000;
  for (const int rank : {3, 4, 5}) {
    for (const Swizzle swizzle : {kNone, k32, k64, k128}) {
      for (const Element element : kElements) {
        // Every other one begins where the swizzle's pattern does not.
        const std::size_t offset = seed % 2 == 0 ? 0 : 128 * (1 + seed / 2 % 7);
        add(to, random_map(element, swizzle, rank, seed, 6144), offset, seed % 5 != 0);
        ++seed;
      }
    }
  }
  for (std::size_t step = 1; step < 8; ++step) {  // all bases of the widest pattern
    TensorMap map = random_map(Element::kBF16, k128, 3, 77, 6144);
    map.box = {64, 24, 1};
    map.dims = {100, 31, 2};
    map.strides = {208, 208 * 31};
    add(to, map, 128 * step, true);
  }
  for (const auto& [element, first] :
       {std::pair(Element::kU8, 1), std::pair(Element::kU8, 8), std::pair(Element::kU8, -1),
        std::pair(Element::kBF16, 1), std::pair(Element::kBF16, 4), std::pair(Element::kF32, 1),
        std::pair(Element::kF32, 2), std::pair(Element::kF32, 3)}) {
    for (const Swizzle swizzle : {kNone, k128}) {
      TensorMap map = random_map(element, swizzle, 3, 78, 6144);
      map.box = {64 / static_cast<std::uint32_t>(element_bytes(element)), 8, 2};
      map.dims = {256 / element_bytes(element), 9, 3};
      map.strides = {256, 256 * 9};
      add(to, map, 0, true, first);
    }
  }
  for (const Swizzle swizzle : {kNone, k128, k64}) {
    const TensorMap map = random_map(Element::kU8, swizzle, 5, seed++, 4096);
    for (const Cast cast : {Cast{{3, 0}}, Cast{{0, 3}}, Cast{{3, 3}}, Cast{{2, 1}}}) {
      add_multicast(to, map, cast);
    }
  }
}

}  // namespace captures
