// Uploads inputs by doubling the drawn block on the device; reads outputs back tile by tile.
#include "lab/check/placement.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/error.hpp"

namespace fovea::lab {
namespace {

constexpr std::size_t kGuard = 4096;  // bytes of the guard regions before and after each output
constexpr std::size_t kFingerprint = 32ULL
                                     << 20;  // maximal number of bytes of an output that are hashed
constexpr std::size_t kReadWhole = 256ULL
                                   << 20;  // maximal size of outputs that are read completely

/// Counts the elements whose bits, masked with `mask`, are above `limit`, such as NaN.
template <typename Bits>
std::size_t count_above(std::span<const std::byte> bytes, Bits mask, Bits limit) {
  std::size_t count = 0;
  for (std::size_t offset = 0; offset < bytes.size(); offset += sizeof(Bits)) {
    Bits bits;
    std::memcpy(&bits, bytes.data() + offset, sizeof bits);
    count += (bits & mask) > limit ? 1U : 0U;
  }
  return count;
}

std::size_t count_nan(DType type, std::span<const std::byte> bytes) {
  switch (type) {
    case DType::kU8:
    case DType::kI8:
      return 0;
    case DType::kE4M3:
      return count_above<std::uint8_t>(bytes, 0x7f, 0x7e);
    case DType::kF16:
      return count_above<std::uint16_t>(bytes, 0x7fff, 0x7c00);
    case DType::kBF16:
      return count_above<std::uint16_t>(bytes, 0x7fff, 0x7f80);
    case DType::kF32:
      return count_above<std::uint32_t>(bytes, 0x7fffffffU, 0x7f800000U);
    case DType::kMXFP8:
    case DType::kF64:
      break;
  }
  fail("outputs in {} are not supported", to_string(type));
}

}  // namespace

gpu::DeviceBuffer upload(gpu::Device& device, const Tensor& tensor, gpu::Stream& stream) {
  gpu::DeviceBuffer buffer(device, tensor.bytes());
  const gpu::DevicePtr address = buffer.address();
  std::size_t filled = std::min(tensor.block().size(), tensor.bytes());
  device.copy_to_device(address, tensor.block().first(filled), stream);
  while (filled < tensor.bytes()) {
    const std::size_t count = std::min(filled, tensor.bytes() - filled);
    device.copy_on_device(address + filled, address, count, stream);
    filled += count;
  }
  stream.synchronize();  // the tensor may be destroyed after the return
  return buffer;
}

Placement::Placement(gpu::Device& device, const Workload& workload, gpu::Stream& stream)
    : device_(device), spec_(workload.output()) {
  for (const Tensor& input : workload.inputs()) {
    buffers_.push_back(upload(device, input, stream));
    operands_.inputs.push_back(buffers_.back().address());
  }
  operands_.output = guarded(spec_.bytes());
  if (spec_.row_scale) {
    operands_.row_scale = guarded(row_scale_bytes());
  }
  if (spec_.block_scales) {
    operands_.block_scales = guarded(static_cast<std::size_t>(block_scales().bytes()));
  }
  if (const std::size_t scratch = workload.scratch_bytes(); scratch > 0) {
    buffers_.emplace_back(device, scratch);
    operands_.scratch = buffers_.back().address();
    device.fill(operands_.scratch, kPoison, scratch, stream);
  }
  reset(stream);
}

gpu::DevicePtr Placement::guarded(std::size_t bytes) {
  buffers_.emplace_back(device_, bytes + 2 * kGuard);
  return buffers_.back().address() + kGuard;
}

void Placement::reset(gpu::Stream& stream, std::uint8_t poison) {
  for (const auto& [address, bytes] : outputs_at()) {
    device_.fill(address - kGuard, poison, bytes + 2 * kGuard, stream);
  }
  if (spec_.initial >= 0) {
    device_.copy_on_device(operands_.output,
                           operands_.inputs[static_cast<std::size_t>(spec_.initial)], spec_.bytes(),
                           stream);
  }
}

std::vector<std::pair<gpu::DevicePtr, std::size_t>> Placement::outputs_at() const {
  std::vector<std::pair<gpu::DevicePtr, std::size_t>> all = {{operands_.output, spec_.bytes()}};
  if (operands_.row_scale != 0) {
    all.emplace_back(operands_.row_scale, row_scale_bytes());
  }
  if (operands_.block_scales != 0) {
    all.emplace_back(operands_.block_scales, static_cast<std::size_t>(block_scales().bytes()));
  }
  return all;
}

std::vector<std::byte> Placement::download(gpu::DevicePtr from, std::size_t bytes,
                                           gpu::Stream& stream) const {
  const std::span<const std::byte> data = peek(from, bytes, stream);
  return {data.begin(), data.end()};
}

std::span<const std::byte> Placement::peek(gpu::DevicePtr from, std::size_t bytes,
                                           gpu::Stream& stream) const {
  if (peeked_.size() < bytes) {
    peeked_.resize(bytes);
  }
  const std::span<std::byte> data = std::span(peeked_).first(bytes);
  device_.copy_to_host(data, from, stream);
  stream.synchronize();
  return data;
}

void Placement::read(std::span<TileValues> tiles, gpu::Stream& stream) const {
  const std::size_t size = size_of(spec_.type);
  const auto row_bytes = static_cast<std::size_t>(spec_.columns) * size;
  // Tiles are sorted by row, so that a band of rows is copied only once for all of its tiles.
  std::int64_t band_row = -1;
  std::int64_t band_rows = 0;
  std::vector<std::byte> band;
  std::vector<std::byte> scales;
  std::vector<std::byte> blocks;
  for (TileValues& values : tiles) {
    const Tile& tile = values.tile;
    if (tile.row != band_row || tile.rows != band_rows) {
      band_row = tile.row;
      band_rows = tile.rows;
      band = download(operands_.output + static_cast<std::size_t>(band_row) * row_bytes,
                      static_cast<std::size_t>(band_rows) * row_bytes, stream);
      if (operands_.row_scale != 0) {
        scales = download(operands_.row_scale + static_cast<std::size_t>(band_row) * sizeof(float),
                          static_cast<std::size_t>(band_rows) * sizeof(float), stream);
      }
      if (operands_.block_scales != 0) {  // each band begins at an atom
        const ops::BlockScales preceding_scales{band_row, spec_.columns};
        const ops::BlockScales band_scales{band_rows, spec_.columns};
        blocks =
            download(operands_.block_scales + static_cast<std::size_t>(preceding_scales.bytes()),
                     static_cast<std::size_t>(band_scales.bytes()), stream);
      }
    }
    values.actual.resize(tile.count());
    auto value = values.actual.begin();
    for (std::int64_t row = 0; row < tile.rows; ++row) {
      const auto first =
          static_cast<std::size_t>(row) * row_bytes + static_cast<std::size_t>(tile.column) * size;
      double scale = spec_.scale;
      if (!scales.empty()) {
        scale *= double{
            decode(DType::kF32, scales.data() + static_cast<std::size_t>(row) * sizeof(float))};
      }
      for (std::int64_t column = 0; column < tile.columns; ++column) {
        if (!blocks.empty()) {
          const std::int64_t place = ops::BlockScales{band_rows, spec_.columns}.place(
              row, (tile.column + column) / ops::kScaleBlock);
          const auto bits = static_cast<std::uint8_t>(blocks[static_cast<std::size_t>(place)]);
          scale = double{to_float(Float8E8M0{bits})};
        }
        *value++ =
            scale * (spec_.offset +
                     double{decode(spec_.type,
                                   band.data() + first + static_cast<std::size_t>(column) * size)});
      }
    }
  }
}

std::string Placement::fault(gpu::Stream& stream) const {
  const auto untouched = [](std::span<const std::byte> bytes) {
    return std::ranges::all_of(bytes, [](std::byte b) { return b == std::byte{kPoison}; });
  };
  for (const auto& [address, bytes] : outputs_at()) {
    if (!untouched(download(address - kGuard, kGuard, stream)) ||
        !untouched(download(address + bytes, kGuard, stream))) {
      return fmt::format("the kernel wrote outside of the {}",
                         address == operands_.output ? "output" : "output's scales");
    }
  }
  if (std::string scales = scales_fault(stream); !scales.empty()) {
    return scales;
  }
  if (spec_.bytes() > kReadWhole) {
    return {};
  }
  const std::size_t count = spec_.bytes() / size_of(spec_.type);
  const std::span<const std::byte> all = peek(operands_.output, spec_.bytes(), stream);
  const auto unwritten = static_cast<std::int64_t>(count_nan(spec_.type, all));
  if (unwritten == 0) {
    return {};
  }
  std::size_t index = 0;
  while (index + 1 < count && !std::isnan(decode(spec_.type, &all[index * size_of(spec_.type)]))) {
    ++index;
  }
  const auto first = static_cast<std::int64_t>(index);
  return fmt::format("{} elements are NaN or were never written, the first at row {}, column {}",
                     unwritten, first / spec_.columns, first % spec_.columns);
}

std::string Placement::scales_fault(gpu::Stream& stream) const {
  if (operands_.row_scale != 0) {
    const std::span<const std::byte> scales = peek(operands_.row_scale, row_scale_bytes(), stream);
    for (std::size_t offset = 0; offset < scales.size(); offset += sizeof(float)) {
      if (std::isnan(decode(DType::kF32, &scales[offset]))) {
        return fmt::format("the scale of row {} is NaN or was never written",
                           offset / sizeof(float));
      }
    }
  }
  if (operands_.block_scales != 0) {
    const std::span<const std::byte> scales =
        peek(operands_.block_scales, static_cast<std::size_t>(block_scales().bytes()), stream);
    const auto match = std::ranges::find(scales, std::byte{0xff});
    if (match != scales.end()) {
      return fmt::format("byte {} of the block scales is NaN or was never written",
                         match - scales.begin());
    }
  }
  return {};
}

std::vector<std::vector<std::byte>> Placement::outputs(gpu::Stream& stream) const {
  std::vector<std::vector<std::byte>> all;
  for (const auto& [address, bytes] : outputs_at()) {
    all.push_back(download(address, bytes, stream));
  }
  return all;
}

std::uint64_t Placement::fingerprint(gpu::Stream& stream) const {
  const std::size_t bytes = std::min(spec_.bytes(), kFingerprint);
  std::uint64_t hash = 0xcbf29ce484222325U;  // FNV-1a on 64-bit words
  const auto add = [&hash](std::span<const std::byte> data) {
    for (std::size_t offset = 0; offset < data.size(); offset += sizeof(std::uint64_t)) {
      std::uint64_t word = 0;
      std::memcpy(&word, &data[offset], std::min(sizeof word, data.size() - offset));
      hash = (hash ^ word) * 0x100000001b3U;
    }
  };
  for (const auto& [address, whole] : outputs_at()) {
    add(peek(address, address == operands_.output ? bytes : whole, stream));
  }
  return hash;
}

}  // namespace fovea::lab
