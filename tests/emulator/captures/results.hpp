// The file of what a card computed of the micro-kernels, and how a run is compared with it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "emulator/captures/micro_kernel.hpp"

namespace captures {

/// Words of an output that are kept, from all over it; a short one is kept whole.
constexpr std::size_t kSampleWords = 128;
/// Of approximate results, which are compared one by one.
constexpr std::size_t kApproximateWords = 1024;
constexpr std::size_t kAllWords = ~std::size_t{0};

struct OutputRecord {
  std::uint64_t bytes = 0;
  std::uint64_t hash = 0;
  std::vector<std::uint32_t> sample{};
};

struct Record {
  std::uint64_t identity = 0;
  std::string error{};  // why there are no outputs
  std::vector<OutputRecord> outputs{};
};

struct Results {
  std::string device{};     // "NVIDIA H200"
  std::string driver{};     // "13000"
  std::string commit{};     // of the sources
  std::string assembler{};  // what made machine code of the PTX
  std::map<std::string, Record> kernels{};
};

/// Of which word the i-th of a sample is.
std::size_t sampled_word(std::size_t i, std::size_t samples, std::size_t words);
OutputRecord record_of(const Bytes& output, std::size_t most_words);
Record record_of(const MicroKernel& kernel, std::uint64_t identity,
                 const std::vector<Bytes>& outputs, std::size_t most_words = 0);

/// Throw std::runtime_error that says what is wrong with the file.
Results read_results(const std::filesystem::path& path);
void write_results(const std::filesystem::path& path, const Results& results);

/// Empty where the outputs are those of the record; else which word differs, and how.
std::string difference(const Record& wanted, const std::vector<Bytes>& outputs,
                       const Tolerance& tolerance);
/// The same, of two runs.
std::string difference(const std::vector<Bytes>& wanted, const std::vector<Bytes>& outputs,
                       const Tolerance& tolerance);

}  // namespace captures
