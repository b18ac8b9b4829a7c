// Measures the writing of an output: output_bench FOLDER ROWS BATCH [TOKENS WIDTH] writes rows of
// random f16 values from memory into a new folder, as `fovea embed --features` would, and removes
// the folder. Prints one line of JSON: the seconds until the output is finished and synced, and
// those of the checksum, the copy into the page cache, and the sync, each measured alone.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <iostream>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "io/digest.hpp"
#include "io/folder.hpp"
#include "io/partial_file.hpp"
#include "pipeline/batch.hpp"
#include "pipeline/input_stream.hpp"
#include "pipeline/manifest.hpp"
#include "pipeline/output.hpp"

namespace {

using Clock = std::chrono::steady_clock;
using Json = nlohmann::ordered_json;
namespace fs = std::filesystem;
namespace pipeline = fovea::pipeline;

// Size of a shard in `fovea embed --features`.
constexpr std::uint64_t kShardBytes = std::uint64_t{256} << 20;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// Returns the seconds of calls of part(bytes) that process `total` bytes together.
template <typename Part>
double timed(std::span<const std::byte> batch, std::uint64_t total, const Part& part) {
  const auto start = Clock::now();
  for (std::uint64_t done = 0; done < total; done += batch.size()) {
    part(batch.first(std::min<std::size_t>(batch.size(), total - done)));
  }
  return seconds_since(start);
}

int run(const std::vector<std::string>& arguments) {
  if (arguments.size() != 3 && arguments.size() != 5) {
    std::cerr << "usage: output_bench FOLDER ROWS BATCH [TOKENS WIDTH]\n";
    return 2;
  }
  const fs::path folder = arguments[0];
  if (fs::exists(folder)) {
    std::cerr << "output_bench: " << folder << " already exists; FOLDER must be new\n";
    return 2;
  }
  const std::uint64_t rows = std::stoull(arguments[1]);
  const std::size_t batch_rows = std::stoull(arguments[2]);
  const std::int64_t tokens = arguments.size() > 3 ? std::stoll(arguments[3]) : 196;
  const std::int64_t width = arguments.size() > 3 ? std::stoll(arguments[4]) : 768;
  const std::uint64_t row_bytes = static_cast<std::uint64_t>(tokens * width) * 2;

  fovea::AlignedBuffer<std::byte> bytes(batch_rows * row_bytes);
  std::minstd_rand random(1);
  std::generate_n(bytes.data(), bytes.size(),
                  [&] { return static_cast<std::byte>(random() >> 9); });
  const std::span<const std::byte> all(bytes.data(), bytes.size());

  pipeline::JobIdentity identity;
  identity.dimension = width;
  identity.tokens = tokens;
  identity.features = "last";
  identity.dtype = fovea::OutputDType::kF16;
  identity.shard_rows = std::max<std::uint64_t>(1, kShardBytes / row_bytes);
  pipeline::Batch batch;
  batch.slots.resize(batch_rows);
  auto start = Clock::now();
  {
    pipeline::FolderOutput output(folder, identity, false);
    output.begin();
    for (std::uint64_t row = 0; row < rows; row += batch.count) {
      batch.count = std::min<std::uint64_t>(batch_rows, rows - row);
      for (std::size_t i = 0; i < batch.count; ++i) {
        batch.slots[i].name = "photos/" + std::to_string(row + i) + ".jpg";
      }
      output.append(batch, all.first(batch.count * row_bytes));
    }
    output.checkpoint();
    output.finish();
  }
  const double seconds = seconds_since(start);
  fs::remove_all(folder);

  const std::uint64_t total = rows * row_bytes;
  fovea::io::Digest sum;
  const double digest = timed(all, total, [&](std::span<const std::byte> part) { sum.add(part); });
  double copy = 0;
  double sync = 0;
  {
    fovea::io::PartialFile file(fovea::io::Folder::make(folder), "rows", 0);
    copy = timed(all, total, [&](std::span<const std::byte> part) { file.write(part); });
    start = Clock::now();
    file.sync();
    sync = seconds_since(start);
  }
  fs::remove_all(folder);
  std::cout << Json{{"rows", rows},
                    {"bytes", total},
                    {"seconds", seconds},
                    {"rows_per_second", static_cast<double>(rows) / seconds},
                    {"bytes_per_second", static_cast<double>(total) / seconds},
                    {"digest_seconds", digest},
                    {"copy_seconds", copy},
                    {"sync_seconds", sync}}
                   .dump()
            << '\n';
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run({argv + 1, argv + argc});
  } catch (const std::exception& error) {
    std::cerr << "output_bench: " << error.what() << '\n';
    return 1;
  }
}
