// Computes fingerprints: SHA-256 over the data that determines an output.
#include "pipeline/fingerprint.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <system_error>
#include <vector>

#include <fmt/format.h>

#include "core/error.hpp"
#include "io/digest.hpp"
#include "io/file.hpp"
#include "io/text.hpp"
#include "model/calibration.hpp"

namespace fovea::pipeline {
namespace {

constexpr std::size_t kHeadBytes = std::size_t{1} << 20;
constexpr std::size_t kSampleStride = std::size_t{256} << 10;
constexpr std::size_t kSampleBytes = std::size_t{4} << 10;
constexpr std::uint64_t kMaxSamples = 32768;

std::vector<std::filesystem::path> weight_files(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    const std::filesystem::path name = entry.path().filename();
    if (name.extension() == ".safetensors" &&
        !name.native().starts_with(model::kCalibrationPrefix)) {
      files.push_back(entry.path());
    }
  }
  if (error) {
    fail("{}: cannot read the folder: {}", io::escape(folder.native()), error.message());
  }
  const auto single_file = folder / "model.safetensors";
  if (std::ranges::find(files, single_file) != files.end()) {
    return {single_file};
  }
  std::ranges::sort(files);
  return files;
}

}  // namespace

void NameHash::add(std::string_view name) {
  constexpr std::uint64_t kPrime = 0x100000001b3U;
  for (const char c : name) {
    value_ = (value_ ^ static_cast<unsigned char>(c)) * kPrime;
  }
  value_ *= kPrime;  // adds the NUL byte after the name
}

std::string model_fingerprint(const std::filesystem::path& folder,
                              const std::filesystem::path& calibration, StopFlag stop) {
  io::Digest hash;
  hash.add(io::read_small_file(folder / "config.json"));
  std::vector<std::filesystem::path> files = weight_files(folder);
  if (!calibration.empty()) {
    files.push_back(calibration);
  }
  std::vector<std::byte> buffer(kHeadBytes);
  for (const std::filesystem::path& path : files) {
    const io::File file(path);
    hash.add(fmt::format("\n{} {}\n", path.filename().native(), file.size()));
    const auto add = [&](std::uint64_t offset, std::size_t limit) {
      stop.poll();
      const auto part =
          std::span(buffer).first(std::min<std::uint64_t>(limit, file.size() - offset));
      file.read_at(offset, part);
      hash.add(part);
    };
    add(0, kHeadBytes);
    // A sparse file may claim any size, so the number of samples is limited.
    const std::uint64_t stride = std::max<std::uint64_t>(kSampleStride, file.size() / kMaxSamples);
    for (std::uint64_t offset = kHeadBytes; offset < file.size(); offset += stride) {
      add(offset, kSampleBytes);
    }
  }
  return hash.hex();
}

std::string preprocessing_fingerprint(const Preprocessing& preprocessing) {
  const Preprocessing& p = preprocessing;
  io::Digest hash;
  const std::string size = p.keeps_proportions()
                               ? fmt::format("{} patches of {}", p.max_patches, p.patch)
                               : fmt::format("{}x{}", p.height, p.width);
  hash.add(fmt::format("exif rgb resize {} resample {} rescale {} mean {} {} {} std {} {} {}", size,
                       static_cast<int>(p.resample), p.rescale, p.mean[0], p.mean[1], p.mean[2],
                       p.std[0], p.std[1], p.std[2]));
  return hash.hex();
}

}  // namespace fovea::pipeline
