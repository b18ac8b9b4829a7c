// Drawn tensors: the block that repeats, and scalar conversions of every element type.
#include "lab/tensor.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <utility>

#include "core/error.hpp"

namespace fovea::lab {
namespace {

constexpr std::int64_t kDrawBlock = 4'194'301;  // the largest prime below 2^22

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

}  // namespace

float decode(DType type, const std::byte* data) {
  switch (type) {
    case DType::kU8:
      return static_cast<float>(std::to_integer<std::uint8_t>(*data));
    case DType::kI8:
      return static_cast<float>(load_as<std::int8_t>(data));
    case DType::kE4M3:
      return to_float(load_as<Float8E4M3>(data));
    case DType::kF16:
      return to_float(load_as<Float16>(data));
    case DType::kBF16:
      return to_float(load_as<BFloat16>(data));
    case DType::kF32:
      return load_as<float>(data);
    case DType::kF64:
      return static_cast<float>(load_as<double>(data));
  }
  fail("no such element type");
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
    case DType::kF16:
      return store_as(to_float16(narrow), data);
    case DType::kBF16:
      return store_as(to_bfloat16(narrow), data);
    case DType::kF32:
      return store_as(narrow, data);
    case DType::kF64:
      return store_as(value, data);
  }
}

float rounded(DType type, double value) {
  std::array<std::byte, sizeof(double)> storage{};
  encode(type, value, storage.data());
  return decode(type, storage.data());
}

Tensor Tensor::random(std::string name, DType type, std::int64_t rows, std::int64_t columns,
                      Draw draw, std::uint64_t seed) {
  Tensor tensor = uniform(std::move(name), type, rows, columns, 0.0);
  const std::int64_t elements = std::min(tensor.count(), kDrawBlock);
  const std::size_t size = size_of(type);
  std::vector<std::byte> block(static_cast<std::size_t>(elements) * size);
  std::mt19937_64 engine(seed * 0x9e3779b97f4a7c15U + 1);
  std::normal_distribution<float> normal(static_cast<float>(draw.mean),
                                         static_cast<float>(draw.deviation));
  for (std::byte* at = block.data(); at != block.data() + block.size(); at += size) {
    encode(type, clamped(type, double{normal(engine)}), at);
  }
  tensor.block_ = std::make_shared<const std::vector<std::byte>>(std::move(block));
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
  tensor.block_ = std::make_shared<const std::vector<std::byte>>(std::move(element));
  return tensor;
}

Tensor Tensor::raw(std::string name, std::span<const std::byte> bytes) {
  Tensor tensor =
      uniform(std::move(name), DType::kU8, 1, static_cast<std::int64_t>(bytes.size()), 0.0);
  tensor.block_ = std::make_shared<const std::vector<std::byte>>(bytes.begin(), bytes.end());
  return tensor;
}

Tensor Tensor::of(std::string name, DType type, std::int64_t rows, std::int64_t columns,
                  std::span<const double> values) {
  Tensor tensor = uniform(std::move(name), type, rows, columns, 0.0);
  if (static_cast<std::int64_t>(values.size()) != tensor.count()) {
    fail("tensor {} takes {} values, not {}", tensor.name_, tensor.count(), values.size());
  }
  const std::size_t size = size_of(type);
  std::vector<std::byte> block(values.size() * size);
  for (std::size_t i = 0; i < values.size(); ++i) {
    encode(type, values[i], block.data() + i * size);
  }
  tensor.block_ = std::make_shared<const std::vector<std::byte>>(std::move(block));
  return tensor;
}

double Tensor::at(std::int64_t row, std::int64_t column) const {
  const std::int64_t element = (row * columns_ + column) % block_elements();
  return double{decode(type_, block_->data() + static_cast<std::size_t>(element) * size_of(type_))};
}

void Tensor::read(std::int64_t first, std::span<float> to) const {
  const std::size_t size = size_of(type_);
  const auto elements = static_cast<std::size_t>(block_elements());
  auto element = static_cast<std::size_t>(first) % elements;
  for (float& value : to) {
    value = decode(type_, block_->data() + element * size);
    element = element + 1 == elements ? 0 : element + 1;
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
  std::vector<std::byte> block(bytes());
  std::byte* to = block.data();
  for (std::int64_t row = 0; row < rows_; ++row) {
    for (std::int64_t column = 0; column < columns_; ++column, to += size) {
      const std::int64_t from = source_element(row, column) % elements;
      std::memcpy(to, block_->data() + static_cast<std::size_t>(from) * size, size);
    }
  }
  tensor.block_ = std::make_shared<const std::vector<std::byte>>(std::move(block));
  return tensor;
}

Tensor Tensor::rows_moved(std::int64_t by) const {
  return rearranged([this, by](std::int64_t row, std::int64_t column) {
    return (row + by) % rows_ * columns_ + column;
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

Tensor Tensor::with(std::int64_t row, std::int64_t column, double value) const {
  const Tensor whole = rearranged(
      [this](std::int64_t r, std::int64_t c) { return r * columns_ + c; });  // its own block
  std::vector<std::byte> block(whole.block().begin(), whole.block().end());
  encode(type_, value,
         block.data() + static_cast<std::size_t>(row * columns_ + column) * size_of(type_));
  Tensor tensor = *this;
  tensor.block_ = std::make_shared<const std::vector<std::byte>>(std::move(block));
  return tensor;
}

}  // namespace fovea::lab
