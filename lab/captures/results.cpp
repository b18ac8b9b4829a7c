// Reads and writes the file of captured GPU results: numbers and texts in sequence, compressed with
// zstd.
#include "lab/captures/results.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <string_view>

#include <fmt/format.h>
#include <zstd.h>

#include "core/error.hpp"
#include "io/atomic_file.hpp"
#include "io/file.hpp"
#include "io/text.hpp"
#include "lab/captures/hash.hpp"

namespace fovea::captures {
namespace {

constexpr std::string_view kMagic = "fovea captures 2";
constexpr std::string_view kMagicWithoutCode = "fovea captures 1";
constexpr std::size_t kMaxFileBytes = std::size_t{1} << 30U;

class Writer {
 public:
  void number(std::uint64_t value) { raw(&value, sizeof(value)); }
  void text(std::string_view value) {
    number(value.size());
    raw(value.data(), value.size());
  }
  void raw(const void* data, std::size_t bytes) {
    if (bytes > 0) {
      bytes_.append(static_cast<const char*>(data), bytes);
    }
  }
  [[nodiscard]] const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}
  std::uint64_t number() {
    std::uint64_t value = 0;
    raw(&value, sizeof(value));
    return value;
  }
  std::string text() {
    std::string value(size(1), '\0');
    raw(value.data(), value.size());
    return value;
  }
  std::size_t size(std::size_t each) {
    const std::uint64_t count = number();
    if (count > bytes_.size() / each) {
      fail("the captures file is truncated");
    }
    return count;
  }
  void raw(void* to, std::size_t bytes) {
    if (bytes > bytes_.size()) {
      fail("the captures file is truncated");
    }
    if (bytes > 0) {
      std::memcpy(to, bytes_.data(), bytes);
    }
    bytes_.remove_prefix(bytes);
  }

 private:
  std::string_view bytes_;
};

std::vector<std::uint32_t> to_words(const Bytes& bytes) {
  std::vector<std::uint32_t> words((bytes.size() + 3) / 4);
  std::memcpy(words.data(), bytes.data(), bytes.size());
  return words;
}

}  // namespace

std::size_t sampled_word(std::size_t i, std::size_t samples, std::size_t words) {
  return samples == words ? i : i * words / samples;
}

OutputRecord record_of(const Bytes& output, std::size_t max_words) {
  Hash hash;
  hash.add(output);
  OutputRecord record{.bytes = output.size(), .hash = hash.value()};
  const std::vector<std::uint32_t> words = to_words(output);
  const std::size_t samples = std::min(words.size(), max_words);
  for (std::size_t i = 0; i < samples; ++i) {
    record.sample.push_back(words[sampled_word(i, samples, words.size())]);
  }
  return record;
}

Results read_results(const std::filesystem::path& path) {
  const std::string name = io::escape(path.native());
  const std::string packed = io::read_small_file(path, kMaxFileBytes);
  const unsigned long long size = ZSTD_getFrameContentSize(packed.data(), packed.size());
  if (size > kMaxFileBytes) {  // includes zstd's error codes, which are larger
    fail("{} is not a captures file", name);
  }
  std::string bytes(size, '\0');
  const std::size_t decompressed_size =
      ZSTD_decompress(bytes.data(), bytes.size(), packed.data(), packed.size());
  if (ZSTD_isError(decompressed_size) != 0 || decompressed_size != size) {
    fail("{} is damaged", name);
  }
  Reader reader(bytes);
  const std::string magic = reader.text();
  if (magic != kMagic && magic != kMagicWithoutCode) {
    fail("{} is not a captures file", name);
  }
  Results results;
  results.device = reader.text();
  results.driver = reader.text();
  results.commit = reader.text();
  results.assembler = reader.text();
  const std::size_t kernels = reader.size(8);
  for (std::size_t i = 0; i < kernels; ++i) {
    Record& record = results.kernels[reader.text()];
    record.identity = reader.number();
    record.code = magic == kMagic ? reader.number() : 0;
    record.error = reader.text();
    record.outputs.resize(reader.size(8));
    for (OutputRecord& output : record.outputs) {
      output.bytes = reader.number();
      output.hash = reader.number();
      output.sample.resize(reader.size(4));
      reader.raw(output.sample.data(), output.sample.size() * 4);
    }
  }
  return results;
}

std::size_t write_results(const std::filesystem::path& path, const Results& results) {
  Writer writer;
  writer.text(kMagic);
  writer.text(results.device);
  writer.text(results.driver);
  writer.text(results.commit);
  writer.text(results.assembler);
  writer.number(results.kernels.size());
  for (const auto& [name, record] : results.kernels) {
    writer.text(name);
    writer.number(record.identity);
    writer.number(record.code);
    writer.text(record.error);
    writer.number(record.outputs.size());
    for (const OutputRecord& output : record.outputs) {
      writer.number(output.bytes);
      writer.number(output.hash);
      writer.number(output.sample.size());
      writer.raw(output.sample.data(), output.sample.size() * 4);
    }
  }
  constexpr int kLevel = 19;
  const std::string& bytes = writer.bytes();
  std::string packed(ZSTD_compressBound(bytes.size()), '\0');
  const std::size_t size =
      ZSTD_compress(packed.data(), packed.size(), bytes.data(), bytes.size(), kLevel);
  if (ZSTD_isError(size) != 0) {
    fail("cannot compress the results: {}", ZSTD_getErrorName(size));
  }
  packed.resize(size);
  io::write_file_atomically(path, packed);
  return packed.size();
}

namespace {

// Numbers packed into a 32-bit word: one of 32 bits, two of 16, or four of 8.
struct Numbers {
  std::size_t count = 0;
  std::array<double, 4> values{};
  std::array<std::int64_t, 4> steps{};  // the values' ordinals: adjacent values differ by 1

  void add(double value, std::int64_t step) {
    values.at(count) = value;
    steps.at(count++) = step;
  }
};

// Maps a float's bits to an integer such that consecutive floats give consecutive integers.
std::int64_t ordinal(std::uint32_t bits, std::uint32_t sign) {
  const auto magnitude = static_cast<std::int64_t>(bits & (sign - 1));
  return (bits & sign) != 0 ? -magnitude : magnitude;
}

Numbers unpack_word(std::uint32_t word, DType format) {
  Numbers numbers;
  const auto part = [&](unsigned shift, std::uint32_t mask) { return word >> shift & mask; };
  switch (format) {
    case DType::kF32:
      numbers.add(double{std::bit_cast<float>(word)}, ordinal(word, 0x80000000U));
      return numbers;
    case DType::kF16:
    case DType::kBF16:
      for (const unsigned shift : {0U, 16U}) {
        const auto bits = static_cast<std::uint16_t>(part(shift, 0xFFFFU));
        const float value =
            format == DType::kF16 ? to_float(Float16{bits}) : to_float(BFloat16{bits});
        numbers.add(double{value}, ordinal(bits, 0x8000U));
      }
      return numbers;
    case DType::kU8:
    case DType::kI8:
    case DType::kE4M3:
      for (const unsigned shift : {0U, 8U, 16U, 24U}) {
        const auto bits = static_cast<std::uint8_t>(part(shift, 0xFFU));
        if (format == DType::kE4M3) {
          numbers.add(double{to_float(Float8E4M3{bits})}, ordinal(bits, 0x80U));
        } else {
          const int value = format == DType::kU8 ? int{bits} : int{static_cast<std::int8_t>(bits)};
          numbers.add(value, value);
        }
      }
      return numbers;
    case DType::kMXFP8:
    case DType::kF64:
      break;
  }
  fail("approximate results in {} cannot be compared", to_string(format));
}

bool is_near(std::uint32_t expected, std::uint32_t actual, const Tolerance& tolerance) {
  if (expected == actual) {
    return true;
  }
  if (tolerance.is_exact()) {
    return false;
  }
  const Numbers a = unpack_word(expected, tolerance.format);
  const Numbers b = unpack_word(actual, tolerance.format);
  for (std::size_t i = 0; i < a.count; ++i) {
    const double x = a.values.at(i);
    const double y = b.values.at(i);
    if (std::isnan(x) || std::isnan(y)) {
      if (std::isnan(x) != std::isnan(y)) {
        return false;
      }
      continue;
    }
    const double error = std::abs(x - y);
    if (std::abs(a.steps.at(i) - b.steps.at(i)) > tolerance.ulps &&
        (!(error <= tolerance.absolute) && !(error <= tolerance.relative * std::abs(x)))) {
      return false;
    }
  }
  return true;
}

}  // namespace

void Distance::add(const Distance& other) {
  numbers += other.numbers;
  differing += other.differing;
  ulps = std::max(ulps, other.ulps);
}

Distance distance(const OutputRecord& expected, const Bytes& output, DType format) {
  Distance all;
  const std::vector<std::uint32_t> words = to_words(output);
  for (std::size_t i = 0; i < expected.sample.size(); ++i) {
    const Numbers a = unpack_word(expected.sample[i], format);
    const Numbers b =
        unpack_word(words.at(sampled_word(i, expected.sample.size(), words.size())), format);
    for (std::size_t k = 0; k < a.count; ++k) {
      const std::int64_t steps = std::abs(a.steps.at(k) - b.steps.at(k));
      all.add({.numbers = 1, .differing = steps == 0 ? 0U : 1U, .ulps = steps});
    }
  }
  return all;
}

std::string difference(const OutputRecord& expected, const Bytes& output,
                       const Tolerance& tolerance) {
  const std::vector<std::uint32_t> words = to_words(output);
  if (expected.bytes != output.size()) {
    return fmt::format("the output has {} bytes instead of {}", output.size(), expected.bytes);
  }
  std::size_t mismatches = 0;
  std::string first;
  for (std::size_t i = 0; i < expected.sample.size(); ++i) {
    const std::size_t index = sampled_word(i, expected.sample.size(), words.size());
    if (!is_near(expected.sample[i], words[index], tolerance) && mismatches++ < 4) {
      first += fmt::format("; word {} is {:#010x}, not {:#010x}", index, words[index],
                           expected.sample[i]);
    }
  }
  if (mismatches > 0) {
    return fmt::format("{} of {} recorded words differ{}", mismatches, expected.sample.size(),
                       first);
  }
  if (tolerance.is_exact() && record_of(output, 0).hash != expected.hash) {
    return fmt::format("the hash differs, although the {} recorded words agree",
                       expected.sample.size());
  }
  return "";
}

std::string difference(const Record& expected, const std::vector<Bytes>& outputs,
                       const Tolerance& tolerance) {
  if (expected.outputs.size() != outputs.size()) {
    return fmt::format("got {} outputs, not {}", outputs.size(), expected.outputs.size());
  }
  for (std::size_t k = 0; k < outputs.size(); ++k) {
    const std::string what = difference(expected.outputs[k], outputs[k], tolerance);
    if (!what.empty()) {
      return fmt::format("output {}: {}", k, what);
    }
  }
  return "";
}

std::string difference(const std::vector<Bytes>& expected, const std::vector<Bytes>& outputs,
                       const Tolerance& tolerance) {
  Record record;
  for (const Bytes& output : expected) {
    record.outputs.push_back(record_of(output, kAllWords));
  }
  return difference(record, outputs, tolerance);
}

}  // namespace fovea::captures
