// Randomly drawn tensors: the repeating block, and scalar conversions for every element type.
#include "lab/cards/tensor.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <utility>

#include "core/error.hpp"
#include "core/thread_pool.hpp"

namespace fovea::lab {
namespace {

constexpr std::int64_t kDrawBlock = 4'194'301;  // the largest prime below 2^22
/// Number of elements that a thread draws from one seed.
constexpr std::size_t kDrawPartSize = 1U << 16;

template <typename T>
T load_as(const std::byte* data) {
  T value;
  std::memcpy(&value, data, sizeof value);
  return value;
}

template <typename T>
void store_as(T value, std::byte* data) {
  std::memcpy(data, &value, sizeof value);
}

double clamped(DType type, double value) {
  switch (type) {
    case DType::kU8:
      return std::clamp(std::nearbyint(value), 0.0, 255.0);
    case DType::kI8:
      return std::clamp(std::nearbyint(value), -127.0, 127.0);
    case DType::kE4M3:
      return std::clamp(value, -double{kE4M3Max}, double{kE4M3Max});
    default:
      return value;
  }
}

/// Decodes `to.size()` elements, with one dispatch on the type for all of them.
void decode_all(DType type, const std::byte* data, std::span<float> to) {
  const auto each = [&]<typename T>(T, const auto& value_of) {
    for (float& value : to) {
      value = static_cast<float>(value_of(load_as<T>(data)));
      data += sizeof(T);
    }
  };
  const auto number = [](auto value) { return value; };
  const auto narrow = [](auto value) { return to_float(value); };
  switch (type) {
    case DType::kU8:
      return each(std::uint8_t{}, number);
    case DType::kI8:
      return each(std::int8_t{}, number);
    case DType::kE4M3:
      return each(Float8E4M3{}, narrow);
    case DType::kMXFP8:
      break;
    case DType::kF16:
      return each(Float16{}, narrow);
    case DType::kBF16:
      return each(BFloat16{}, narrow);
    case DType::kF32:
      return each(float{}, number);
    case DType::kF64:
      return each(double{}, number);
  }
  fail("{} elements cannot be converted without their block scales", to_string(type));
}

}  // namespace

float decode(DType type, const std::byte* data) {
  float value = 0.0F;
  decode_all(type, data, {&value, 1});
  return value;
}

void encode(DType type, double value, std::byte* data) {
  const auto narrow = static_cast<float>(value);
  switch (type) {
    case DType::kU8:
      return store_as(static_cast<std::uint8_t>(clamped(type, value)), data);
    case DType::kI8:
      return store_as(static_cast<std::int8_t>(clamped(type, value)), data);
    case DType::kE4M3:
      return store_as(to_e4m3(narrow), data);
    case DType::kMXFP8:
      break;
    case DType::kF16:
      return store_as(to_float16(narrow), data);
    case DType::kBF16:
      return store_as(to_bfloat16(narrow), data);
    case DType::kF32:
      return store_as(narrow, data);
    case DType::kF64:
      return store_as(value, data);
  }
  fail("{} elements cannot be converted without their block scales", to_string(type));
}

namespace {

std::vector<std::byte> drawn(DType type, std::int64_t elements, Draw draw, std::uint64_t seed) {
  const std::size_t size = size_of(type);
  std::vector<std::byte> block(static_cast<std::size_t>(elements) * size);
  const auto draw_part = [&](std::size_t part, int) {
    std::mt19937_64 engine((seed + 1) * 0x9e3779b97f4a7c15U + part);
    std::normal_distribution<float> normal(static_cast<float>(draw.mean),
                                           static_cast<float>(draw.deviation));
    const std::size_t first = part * kDrawPartSize * size;
    const std::size_t end = std::min(first + kDrawPartSize * size, block.size());
    for (std::size_t offset = first; offset < end; offset += size) {
      encode(type, clamped(type, double{normal(engine)}), block.data() + offset);
    }
  };
  const std::size_t parts = (block.size() / size + kDrawPartSize - 1) / kDrawPartSize;
  ThreadPool pool(std::min(available_threads(), static_cast<int>(parts)));
  pool.parallel_for(parts, draw_part);
  return block;
}

}  // namespace

float rounded(DType type, double value) {
  std::array<std::byte, sizeof(double)> storage{};
  encode(type, value, storage.data());
  return decode(type, storage.data());
}

Tensor Tensor::random(std::string name, DType type, std::int64_t rows, std::int64_t columns,
                      Draw draw, std::uint64_t seed) {
  Tensor tensor = uniform(std::move(name), type, rows, columns, 0.0);
  const std::int64_t elements = std::min(tensor.count(), kDrawBlock);
  tensor.draw_ = draw;
  tensor.block_ = std::make_shared<Block>([=] { return drawn(type, elements, draw, seed); });
  return tensor;
}

Tensor Tensor::uniform(std::string name, DType type, std::int64_t rows, std::int64_t columns,
                       double value) {
  if (rows <= 0 || columns <= 0) {
    fail("tensor {} of {} x {} elements", name, rows, columns);
  }
  Tensor tensor;
  tensor.name_ = std::move(name);
  tensor.type_ = type;
  tensor.rows_ = rows;
  tensor.columns_ = columns;
  std::vector<std::byte> element(size_of(type));
  encode(type, value, element.data());
  tensor.block_ = std::make_shared<Block>(std::move(element));
  return tensor;
}

Tensor Tensor::raw(std::string name, std::span<const std::byte> bytes) {
  Tensor tensor =
      uniform(std::move(name), DType::kU8, 1, static_cast<std::int64_t>(bytes.size()), 0.0);
  tensor.block_ = std::make_shared<Block>(Block::Bytes(bytes.begin(), bytes.end()));
  return tensor;
}

Tensor Tensor::drawn_by(std::string name, DType type, std::int64_t rows, std::int64_t columns,
                        std::function<std::vector<std::byte>()> draw) {
  Tensor tensor = uniform(std::move(name), type, rows, columns, 0.0);
  tensor.block_ = std::make_shared<Block>(std::move(draw));
  return tensor;
}

Tensor Tensor::from_values(std::string name, DType type, std::int64_t rows, std::int64_t columns,
                           std::span<const double> values) {
  Tensor tensor = uniform(std::move(name), type, rows, columns, 0.0);
  if (static_cast<std::int64_t>(values.size()) != tensor.count()) {
    fail("tensor {} has {} elements, but got {} values", tensor.name_, tensor.count(),
         values.size());
  }
  const std::size_t size = size_of(type);
  std::vector<std::byte> block(values.size() * size);
  for (std::size_t i = 0; i < values.size(); ++i) {
    encode(type, values[i], block.data() + i * size);
  }
  tensor.block_ = std::make_shared<Block>(std::move(block));
  return tensor;
}

double Tensor::at(std::int64_t row, std::int64_t column) const {
  const std::int64_t element = (row * columns_ + column) % block_elements();
  return double{decode(type_, block().data() + static_cast<std::size_t>(element) * size_of(type_))};
}

void Tensor::read(std::int64_t first, std::span<float> to) const {
  const auto elements = static_cast<std::size_t>(block_elements());
  auto element = static_cast<std::size_t>(first) % elements;
  while (!to.empty()) {
    const std::size_t run = std::min(elements - element, to.size());
    decode_all(type_, block().data() + element * size_of(type_), to.first(run));
    to = to.subspan(run);
    element = 0;
  }
}

template <typename Source>
Tensor Tensor::rearranged(Source source_element) const {
  Tensor tensor = *this;
  const std::size_t size = size_of(type_);
  const std::int64_t elements = block_elements();
  if (elements < count() && elements > 1) {
    fail("tensor {} is too large to be rearranged", name_);
  }
  const std::span<const std::byte> drawn_block = block();
  std::vector<std::byte> moved(bytes());
  std::byte* to = moved.data();
  for (std::int64_t row = 0; row < rows_; ++row) {
    for (std::int64_t column = 0; column < columns_; ++column, to += size) {
      const std::int64_t from = source_element(row, column) % elements;
      std::memcpy(to, drawn_block.data() + static_cast<std::size_t>(from) * size, size);
    }
  }
  tensor.block_ = std::make_shared<Block>(std::move(moved));
  return tensor;
}

Tensor Tensor::rows_moved(std::int64_t count) const {
  return rearranged([this, count](std::int64_t row, std::int64_t column) {
    return (row + count) % rows_ * columns_ + column;
  });
}

Tensor Tensor::columns_swapped(std::int64_t first, std::int64_t second, std::int64_t width) const {
  return rearranged([=, this](std::int64_t row, std::int64_t column) {
    std::int64_t from = column;
    if (column >= first && column < first + width) {
      from = second + column - first;
    } else if (column >= second && column < second + width) {
      from = first + column - second;
    }
    return row * columns_ + from;
  });
}

Tensor Tensor::neighbours_swapped() const {
  constexpr std::int64_t kMaxCandidates = 100;
  std::int64_t best = 0;
  const auto step = [this](std::int64_t column) {
    return std::abs(at(0, column + 1) - at(0, column));
  };
  for (std::int64_t column = 1; column + 1 < std::min(columns_, kMaxCandidates); ++column) {
    best = step(column) > step(best) ? column : best;
  }
  return columns_swapped(best, best + 1, 1);
}

Tensor Tensor::with_value(std::int64_t row, std::int64_t column, double value) const {
  const Tensor whole = rearranged(
      // Stores every element, without repetition.
      [this](std::int64_t r, std::int64_t c) { return r * columns_ + c; });
  std::vector<std::byte> block(whole.block().begin(), whole.block().end());
  encode(type_, value,
         block.data() + static_cast<std::size_t>(row * columns_ + column) * size_of(type_));
  Tensor tensor = *this;
  tensor.block_ = std::make_shared<Block>(std::move(block));
  return tensor;
}

}  // namespace fovea::lab
