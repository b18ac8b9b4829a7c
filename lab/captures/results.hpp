// The file of results that a GPU computed, and the comparison of a run with it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "core/dtype.hpp"

namespace fovea::captures {

using Bytes = std::vector<std::byte>;

/// Number of 32-bit words recorded per output, at even distances; a shorter output is recorded
/// completely.
constexpr std::size_t kSampleWords = 128;
/// Number of words recorded per output of a kernel with approximate instructions, whose outputs are
/// compared word by word.
constexpr std::size_t kApproximateWords = 1024;
constexpr std::size_t kAllWords = ~std::size_t{0};

/// Maximum difference between an approximate result and the captured one. If all tolerances are
/// zero, the bits must be equal, except that any NaN equals any other.
struct Tolerance {
  using Format = DType;
  Format format = Format::kF32;
  int ulps = 0;
  double relative = 0;
  double absolute = 0;

  [[nodiscard]] bool is_exact() const { return ulps == 0 && relative == 0 && absolute == 0; }
};

struct OutputRecord {
  std::uint64_t bytes = 0;
  std::uint64_t hash = 0;
  std::vector<std::uint32_t> sample{};
};

struct Record {
  std::uint64_t identity = 0;  // identifies the case and its inputs
  std::uint64_t code = 0;      // hash of the kernel's PTX, where `identity` does not include it
  std::string error{};         // why there are no outputs; empty otherwise
  std::vector<OutputRecord> outputs{};
};

struct Results {
  std::string device{};     // "NVIDIA H200"
  std::string driver{};     // "13000"
  std::string commit{};     // commit that the program was built from
  std::string assembler{};  // version of the assembler that compiled the PTX
  std::map<std::string, Record> kernels{};
};

/// Returns the index of the i-th recorded word when `samples` of `words` words are recorded.
[[nodiscard]] std::size_t sampled_word(std::size_t i, std::size_t samples, std::size_t words);
[[nodiscard]] OutputRecord record_of(const Bytes& output, std::size_t max_words);

/// Reads the file. Throws fovea::Error that says what is wrong with it.
[[nodiscard]] Results read_results(const std::filesystem::path& path);
/// Writes the file and returns its size in bytes.
std::size_t write_results(const std::filesystem::path& path, const Results& results);

/// Distance between an output and the captured one.
struct Distance {
  std::size_t numbers = 0;    // numbers compared
  std::size_t differing = 0;  // numbers that differ
  std::int64_t ulps = 0;      // the largest difference in units in the last place
  void add(const Distance& other);
};
[[nodiscard]] Distance distance(const OutputRecord& expected, const Bytes& output, DType format);

/// Compares an output with the record. Returns "" if they agree, or else a description of the first
/// differing words.
[[nodiscard]] std::string difference(const OutputRecord& expected, const Bytes& output,
                                     const Tolerance& tolerance);
/// Compares all outputs of a run with the record; the message names the output that differs.
[[nodiscard]] std::string difference(const Record& expected, const std::vector<Bytes>& outputs,
                                     const Tolerance& tolerance);
/// Compares the outputs of two runs.
[[nodiscard]] std::string difference(const std::vector<Bytes>& expected,
                                     const std::vector<Bytes>& outputs, const Tolerance& tolerance);

}  // namespace fovea::captures
