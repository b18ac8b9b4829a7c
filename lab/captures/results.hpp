// The file of what a GPU computed of many kernels, and how a run is compared with it.
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

/// Words of an output that are kept, from all over it; a short one is kept whole.
constexpr std::size_t kSampleWords = 128;
/// Words kept of approximate results, which are compared one by one.
constexpr std::size_t kApproximateWords = 1024;
constexpr std::size_t kAllWords = ~std::size_t{0};

/// How near an approximate result has to be. Results of all zeros here must be the same bits, NaN
/// aside, of which there is one.
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
  std::uint64_t identity = 0;  // of what ran: of its inputs, say
  std::uint64_t code = 0;      // of the kernel's text, where the identity does not say it
  std::string error{};         // why there are no outputs
  std::vector<OutputRecord> outputs{};
};

struct Results {
  std::string device{};     // "NVIDIA H200"
  std::string driver{};     // "13000"
  std::string commit{};     // of the sources
  std::string assembler{};  // what made machine code of the PTX
  std::map<std::string, Record> kernels{};
};

/// The word that the i-th of a sample is.
[[nodiscard]] std::size_t sampled_word(std::size_t i, std::size_t samples, std::size_t words);
[[nodiscard]] OutputRecord record_of(const Bytes& output, std::size_t most_words);

/// Throw fovea::Error that says what is wrong with the file.
[[nodiscard]] Results read_results(const std::filesystem::path& path);
/// Returns how many bytes that took.
std::size_t write_results(const std::filesystem::path& path, const Results& results);

/// How far an output is from what was kept of another.
struct Distance {
  std::size_t numbers = 0;    // that were compared
  std::size_t differing = 0;  // of them
  std::int64_t ulps = 0;      // the most between two of them
  void add(const Distance& other);
};
[[nodiscard]] Distance distance(const OutputRecord& wanted, const Bytes& output, DType format);

/// Empty where the output is that of the record; else which word differs, and how.
[[nodiscard]] std::string difference(const OutputRecord& wanted, const Bytes& output,
                                     const Tolerance& tolerance);
/// The same of several outputs, one of which is named.
[[nodiscard]] std::string difference(const Record& wanted, const std::vector<Bytes>& outputs,
                                     const Tolerance& tolerance);
/// The same, of two runs.
[[nodiscard]] std::string difference(const std::vector<Bytes>& wanted,
                                     const std::vector<Bytes>& outputs, const Tolerance& tolerance);

}  // namespace fovea::captures
