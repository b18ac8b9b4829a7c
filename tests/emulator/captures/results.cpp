// The file of what a card computed of the micro-kernels: zstd over numbers and texts, one after the
// other.
#include "emulator/captures/results.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <stdexcept>

#include <fmt/format.h>
#include <zstd.h>

#include "emulator/captures/formats.hpp"
#include "emulator/captures/hash.hpp"

namespace captures {
namespace {

constexpr std::string_view kMagic = "fovea captures 1";

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
      throw std::runtime_error("the file of captures ends too early");
    }
    return count;
  }
  void raw(void* to, std::size_t bytes) {
    if (bytes > bytes_.size()) {
      throw std::runtime_error("the file of captures ends too early");
    }
    if (bytes > 0) {
      std::memcpy(to, bytes_.data(), bytes);
    }
    bytes_.remove_prefix(bytes);
  }

 private:
  std::string_view bytes_;
};

std::vector<std::uint32_t> words_of(const Bytes& bytes) {
  std::vector<std::uint32_t> words((bytes.size() + 3) / 4);
  std::memcpy(words.data(), bytes.data(), bytes.size());
  return words;
}

}  // namespace

std::size_t sampled_word(std::size_t i, std::size_t samples, std::size_t words) {
  return samples == words ? i : i * words / samples;
}

OutputRecord record_of(const Bytes& output, std::size_t most_words) {
  Hash hash;
  hash.add(output);
  OutputRecord record{.bytes = output.size(), .hash = hash.value()};
  const std::vector<std::uint32_t> words = words_of(output);
  const std::size_t samples = std::min(words.size(), most_words);
  for (std::size_t i = 0; i < samples; ++i) {
    record.sample.push_back(words[sampled_word(i, samples, words.size())]);
  }
  return record;
}

Record record_of(const MicroKernel& kernel, std::uint64_t identity,
                 const std::vector<Bytes>& outputs, std::size_t most_words) {
  if (most_words == 0) {
    most_words = kernel.tolerance.is_exact() ? kSampleWords : kApproximateWords;
  }
  Record record{.identity = identity};
  for (const Bytes& output : outputs) {
    record.outputs.push_back(record_of(output, most_words));
  }
  return record;
}

Results read_results(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    throw std::runtime_error(fmt::format("{} cannot be read", path.string()));
  }
  const std::string packed{std::istreambuf_iterator<char>(file), {}};
  const unsigned long long size = ZSTD_getFrameContentSize(packed.data(), packed.size());
  constexpr unsigned long long kMost = 1ULL << 30U;
  if (size > kMost) {  // the values that mean an error are, too
    throw std::runtime_error(fmt::format("{} is no file of captures", path.string()));
  }
  std::string bytes(size, '\0');
  const std::size_t done =
      ZSTD_decompress(bytes.data(), bytes.size(), packed.data(), packed.size());
  if (ZSTD_isError(done) != 0 || done != size) {
    throw std::runtime_error(fmt::format("{} is damaged", path.string()));
  }
  Reader reader(bytes);
  if (reader.text() != kMagic) {
    throw std::runtime_error(fmt::format("{} is no file of captures", path.string()));
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

void write_results(const std::filesystem::path& path, const Results& results) {
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
    throw std::runtime_error("the results cannot be packed");
  }
  std::ofstream file(path, std::ios::binary);
  file.write(packed.data(), static_cast<std::streamsize>(size));
  if (!file.flush()) {
    throw std::runtime_error(fmt::format("{} cannot be written", path.string()));
  }
}

namespace {

// Numbers of a word by the format: one, or two of 16 bits.
struct Numbers {
  std::vector<double> values{};
  std::vector<std::int64_t> steps{};  // in order, a step apart when they are neighbours
};

Numbers numbers_of(std::uint32_t word, Tolerance::Format format) {
  Numbers numbers;
  const bool is_wide = format == Tolerance::Format::kF32;
  for (unsigned at = 0; at < 32; at += is_wide ? 32U : 16U) {
    const std::uint32_t bits = is_wide ? word : word >> at & 0xFFFFU;
    const std::uint32_t sign = is_wide ? 0x80000000U : 0x8000U;
    const ShortFormat& half = format == Tolerance::Format::kF16 ? kBinary16 : kBFloat16;
    numbers.values.push_back(is_wide ? double{std::bit_cast<float>(bits)}
                                     : static_cast<double>(half.value(bits)));
    const auto magnitude = static_cast<std::int64_t>(bits & (sign - 1));
    numbers.steps.push_back((bits & sign) != 0 ? -magnitude : magnitude);
  }
  return numbers;
}

bool is_near(std::uint32_t wanted, std::uint32_t found, const Tolerance& tolerance) {
  if (wanted == found) {
    return true;
  }
  if (tolerance.is_exact()) {
    return false;
  }
  const Numbers a = numbers_of(wanted, tolerance.format);
  const Numbers b = numbers_of(found, tolerance.format);
  for (std::size_t i = 0; i < a.values.size(); ++i) {
    const double x = a.values[i];
    const double y = b.values[i];
    if (std::isnan(x) || std::isnan(y)) {
      if (std::isnan(x) != std::isnan(y)) {
        return false;
      }
      continue;
    }
    const double apart = std::abs(x - y);
    if (std::abs(a.steps[i] - b.steps[i]) > tolerance.ulps &&
        !(apart <= tolerance.absolute || apart <= tolerance.relative * std::abs(x))) {
      return false;
    }
  }
  return true;
}

}  // namespace

std::string difference(const Record& wanted, const std::vector<Bytes>& outputs,
                       const Tolerance& tolerance) {
  for (std::size_t k = 0; k < outputs.size(); ++k) {
    const OutputRecord& record = wanted.outputs.at(k);
    const std::vector<std::uint32_t> words = words_of(outputs[k]);
    if (record.bytes != outputs[k].size()) {
      return fmt::format("output {} has {} bytes, not {}", k, outputs[k].size(), record.bytes);
    }
    std::size_t wrong = 0;
    std::string first;
    for (std::size_t i = 0; i < record.sample.size(); ++i) {
      const std::size_t at = sampled_word(i, record.sample.size(), words.size());
      if (!is_near(record.sample[i], words[at], tolerance)) {
        if (wrong++ < 4) {
          first +=
              fmt::format("; word {} is {:#010x}, not {:#010x}", at, words[at], record.sample[i]);
        }
      }
    }
    if (wrong > 0) {
      return fmt::format("{} of {} words of output {} that were kept differ{}", wrong,
                         record.sample.size(), k, first);
    }
    if (tolerance.is_exact()) {
      Hash hash;
      hash.add(outputs[k]);
      if (hash.value() != record.hash) {
        return fmt::format("output {} differs, but not in the {} words that were kept", k,
                           record.sample.size());
      }
    }
  }
  return "";
}

std::string difference(const std::vector<Bytes>& wanted, const std::vector<Bytes>& outputs,
                       const Tolerance& tolerance) {
  Record record;
  for (const Bytes& output : wanted) {
    record.outputs.push_back(record_of(output, kAllWords));
  }
  return difference(record, outputs, tolerance);
}

}  // namespace captures
