// Tensor maps: validation, encoding, and the geometry of boxes.
#include "emulator/machine/tensor_map.hpp"

#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "fovea_emulator/error.hpp"

namespace emu {
namespace {

constexpr int kMaxDims = 5;
constexpr std::uint64_t kMaxElements = std::uint64_t{1} << 32U;  // maximum size of a dimension
constexpr std::uint64_t kStrideEnd = std::uint64_t{1} << 40U;
constexpr std::uint32_t kMaxBoxSize = 256;
constexpr std::uint32_t kMaxElementStride = 8;

constexpr std::string_view kMagic = "emu:map\1";  // the last byte is the version
constexpr std::size_t kChecksummedBytes = kTensorMapBytes - sizeof(std::uint64_t);

bool is_float(TensorMapType type) {
  return type >= TensorMapType::kF16;
}

[[noreturn]] void refuse(const std::string& reason) {
  throw Error("tensor map: " + reason);
}

void check_desc(const TensorMapDesc& desc) {
  if (desc.type > TensorMapType::kTF32Ftz || desc.swizzle > TensorMapSwizzle::k128Atom64 ||
      desc.fill > TensorMapFill::kNan) {
    refuse("unknown type, swizzle or fill");
  }
  if (desc.rank < 1 || desc.rank > kMaxDims) {
    refuse(fmt::format("it has {} dimensions; from 1 to {} are allowed", desc.rank, kMaxDims));
  }
  if (desc.address % 16 != 0) {
    refuse(fmt::format("its address {:#x} is not a multiple of 16", desc.address));
  }
  for (std::size_t i = 0; i < static_cast<std::size_t>(desc.rank); ++i) {
    if (desc.dims.at(i) == 0 || desc.dims.at(i) > kMaxElements) {
      refuse(fmt::format("dimension {} has {} elements; from 1 to 2^32 are allowed", i,
                         desc.dims.at(i)));
    }
    if (desc.box.at(i) == 0 || desc.box.at(i) > kMaxBoxSize) {
      refuse(fmt::format("the box has {} elements in dimension {}; from 1 to {} are allowed",
                         desc.box.at(i), i, kMaxBoxSize));
    }
    if (desc.element_strides.at(i) == 0 || desc.element_strides.at(i) > kMaxElementStride) {
      refuse(fmt::format("the element stride of dimension {} is {}; from 1 to {} are allowed", i,
                         desc.element_strides.at(i), kMaxElementStride));
    }
    if (i > 0 && (desc.strides.at(i - 1) % 16 != 0 || desc.strides.at(i - 1) >= kStrideEnd)) {
      refuse(fmt::format("the stride of dimension {} is {}; multiples of 16 below 2^40 are allowed",
                         i, desc.strides.at(i - 1)));
    }
  }
  const std::uint32_t row = desc.box[0] * bytes_of_element(desc.type);
  if (row % kBoxUnit != 0) {
    refuse(fmt::format("rows of its box have {} bytes, not a multiple of {}", row, kBoxUnit));
  }
  if (desc.swizzle != TensorMapSwizzle::kNone && row > swizzle_span(desc.swizzle)) {
    refuse(fmt::format("rows of its box have {} bytes, more than the {} of its swizzle", row,
                       swizzle_span(desc.swizzle)));
  }
  if (desc.fill == TensorMapFill::kNan && !is_float(desc.type)) {
    refuse("only floats can be filled with NaN");
  }
}

// Writes or reads the fields of a description one after the other.
template <typename Bytes>
class Fields {
 public:
  explicit Fields(Bytes bytes) : bytes_(bytes) {}

  template <typename T>
  void put(T value) {
    std::memcpy(bytes_.data() + offset_, &value, sizeof(value));
    offset_ += sizeof(value);
  }
  template <typename T>
  T take() {
    T value;
    std::memcpy(&value, bytes_.data() + offset_, sizeof(value));
    offset_ += sizeof(value);
    return value;
  }

 private:
  Bytes bytes_;
  std::size_t offset_ = 0;
};

std::uint64_t checksum(std::span<const std::byte> bytes) {  // FNV-1a
  std::uint64_t sum = 0xCBF2'9CE4'8422'2325;
  for (const std::byte byte : bytes) {
    sum = (sum ^ static_cast<std::uint64_t>(byte)) * 0x100'0000'01B3;
  }
  return sum;
}

}  // namespace

std::uint32_t bytes_of_element(TensorMapType type) {
  constexpr std::array<std::uint32_t, 13> kBytes = {1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4};
  return kBytes.at(static_cast<std::size_t>(type));
}

std::array<std::byte, kTensorMapBytes> encode(const TensorMapDesc& desc) {
  check_desc(desc);
  std::array<std::byte, kTensorMapBytes> bytes{};
  Fields fields{std::span(bytes)};
  for (const char letter : kMagic) {
    fields.put(letter);
  }
  fields.put(static_cast<std::uint8_t>(desc.type));
  fields.put(static_cast<std::uint8_t>(desc.swizzle));
  fields.put(static_cast<std::uint8_t>(desc.fill));
  fields.put(static_cast<std::uint8_t>(desc.rank));
  fields.put(desc.address);
  for (std::size_t i = 0; i < static_cast<std::size_t>(desc.rank); ++i) {
    fields.put(static_cast<std::uint32_t>(desc.dims.at(i) - 1));
    fields.put(static_cast<std::uint8_t>(desc.box.at(i) - 1));
    fields.put(static_cast<std::uint8_t>(desc.element_strides.at(i)));
    fields.put(i == 0 ? std::uint64_t{0} : desc.strides.at(i - 1));
  }
  const std::uint64_t sum = checksum(std::span(bytes).first(kChecksummedBytes));
  std::memcpy(bytes.data() + kChecksummedBytes, &sum, sizeof(sum));
  return bytes;
}

TensorMapDesc decode_tensor_map(std::span<const std::byte> bytes) {
  if (bytes.size() != kTensorMapBytes ||
      std::memcmp(bytes.data(), kMagic.data(), kMagic.size()) != 0) {
    refuse("the bytes are not an encoded tensor map");
  }
  std::uint64_t sum = 0;
  std::memcpy(&sum, bytes.data() + kChecksummedBytes, sizeof(sum));
  if (sum != checksum(bytes.first(kChecksummedBytes))) {
    refuse("its bytes were changed after it was encoded");
  }
  Fields fields{bytes.subspan(kMagic.size())};
  TensorMapDesc desc;
  desc.type = static_cast<TensorMapType>(fields.template take<std::uint8_t>());
  desc.swizzle = static_cast<TensorMapSwizzle>(fields.template take<std::uint8_t>());
  desc.fill = static_cast<TensorMapFill>(fields.template take<std::uint8_t>());
  desc.rank = fields.template take<std::uint8_t>();
  desc.address = fields.template take<std::uint64_t>();
  for (std::size_t i = 0; i < static_cast<std::size_t>(std::min(desc.rank, kMaxDims)); ++i) {
    desc.dims.at(i) = std::uint64_t{fields.template take<std::uint32_t>()} + 1;
    desc.box.at(i) = std::uint32_t{fields.template take<std::uint8_t>()} + 1;
    desc.element_strides.at(i) = fields.template take<std::uint8_t>();
    const auto stride = fields.template take<std::uint64_t>();
    if (i > 0) {
      desc.strides.at(i - 1) = stride;
    }
  }
  check_desc(desc);
  return desc;
}

BoxShape box_shape(const TensorMapDesc& map) {
  BoxShape shape;
  shape.counts = {map.box[0], 1, 1, 1, 1};
  shape.rows = 1;
  for (std::size_t i = 1; i < static_cast<std::size_t>(map.rank); ++i) {
    const std::uint32_t stride = map.element_strides.at(i);
    shape.counts.at(i) = (map.box.at(i) + stride - 1) / stride;
    shape.rows *= shape.counts.at(i);
  }
  shape.row_bytes = map.box[0] * bytes_of_element(map.type);
  shape.row_pitch =
      map.swizzle == TensorMapSwizzle::kNone ? shape.row_bytes : swizzle_span(map.swizzle);
  return shape;
}

std::vector<CopyPiece> split_box(const TensorMapDesc& map, std::uint32_t shared,
                                 const std::array<std::int32_t, 5>& coordinates, bool is_store) {
  const BoxShape shape = box_shape(map);
  const std::int64_t element = bytes_of_element(map.type);
  const auto rank = static_cast<std::size_t>(map.rank);
  // Finds the bytes of each row that are inside the tensor.
  const std::int64_t begin = coordinates[0] * element;
  const auto end = static_cast<std::int64_t>(map.dims[0]) * element;
  const std::int64_t row_bytes = shape.row_bytes;
  const std::int64_t row_first = std::clamp<std::int64_t>(-begin, 0, row_bytes);
  const std::int64_t inside =
      is_store ? (end - begin + kBoxUnit - 1) / kBoxUnit * kBoxUnit : end - begin;
  const std::int64_t row_last = std::clamp<std::int64_t>(inside, row_first, row_bytes);

  std::vector<CopyPiece> pieces;
  pieces.reserve(shape.rows * ((shape.row_bytes + kMaxPiece - 1) / kMaxPiece));
  std::array<std::uint32_t, 5> position{};
  for (std::uint64_t row = 0; row < shape.rows; ++row) {
    bool is_inside = true;
    std::uint64_t address = map.address + static_cast<std::uint64_t>(begin);
    for (std::size_t i = 1; i < rank; ++i) {
      const std::int64_t coordinate =
          coordinates.at(i) + std::int64_t{position.at(i)} * map.element_strides.at(i);
      is_inside &= coordinate >= 0 && coordinate < static_cast<std::int64_t>(map.dims.at(i));
      address += static_cast<std::uint64_t>(coordinate) * map.strides.at(i - 1);
    }
    const auto row_shared = shared + static_cast<std::uint32_t>(row * shape.row_pitch);
    for (std::int64_t offset = 0; offset < row_bytes; offset += kMaxPiece) {
      const std::int64_t bytes = std::min<std::int64_t>(kMaxPiece, row_bytes - offset);
      const std::int64_t first =
          is_inside ? std::clamp<std::int64_t>(row_first - offset, 0, bytes) : bytes;
      const std::int64_t last =
          is_inside ? std::clamp<std::int64_t>(row_last - offset, first, bytes) : bytes;
      pieces.push_back({.shared = row_shared + static_cast<std::uint32_t>(offset),
                        .bytes = static_cast<std::uint32_t>(bytes),
                        .first = static_cast<std::uint32_t>(first),
                        .last = static_cast<std::uint32_t>(last),
                        .global = address + static_cast<std::uint64_t>(offset + first)});
    }
    for (std::size_t i = 1; i < rank && ++position.at(i) == shape.counts.at(i); ++i) {
      position.at(i) = 0;
    }
  }
  return pieces;
}

std::vector<CopyPiece> split_bytes(std::uint64_t global, std::uint32_t shared,
                                   std::uint32_t bytes) {
  std::vector<CopyPiece> pieces;
  pieces.reserve((bytes + kMaxPiece - 1) / kMaxPiece);
  for (std::uint32_t offset = 0; offset < bytes; offset += kMaxPiece) {
    const std::uint32_t count = std::min(kMaxPiece, bytes - offset);
    pieces.push_back({.shared = shared + offset,
                      .bytes = count,
                      .first = 0,
                      .last = count,
                      .global = global + offset});
  }
  return pieces;
}

std::byte fill_byte(const TensorMapDesc& map, std::uint32_t index) {
  if (map.fill == TensorMapFill::kZero) {
    return std::byte{0};
  }
  return std::byte{static_cast<std::uint8_t>(
      index % bytes_of_element(map.type) == bytes_of_element(map.type) - 1 ? 0x7F : 0xFF)};
}

}  // namespace emu
