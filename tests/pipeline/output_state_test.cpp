// States that earlier runs left: proven before they are believed, and gone back to when damaged.
#include <algorithm>
#include <fstream>
#include <random>
#include <string>
#include <thread>

#include <gtest/gtest.h>

#include "core/error.hpp"
#include "pipeline/journal.hpp"
#include "pipeline/output.hpp"
#include "pipeline/output_lock.hpp"
#include "pipeline/output_proof.hpp"
#include "pipeline/repair.hpp"
#include "pipeline/replacement.hpp"
#include "pipeline/run.hpp"
#include "support.hpp"

namespace fovea::pipeline::testing {
namespace {

constexpr std::uint64_t kInputs = 1000;

class OutputStateTest : public FolderTest {
 protected:
  // Runs the made-up job until it has computed so many batches, or to its end.
  static void run(const fs::path& folder, const JobIdentity& identity, int batches = -1) {
    FolderOutput output(folder, identity, false);
    if (output.state().finished) {
      return;
    }
    InputStream inputs(std::make_unique<CountingSource>(kInputs), 0, 1);
    inputs.skip(output.state().inputs, output.state().names);
    output.begin();
    const Encode encode = [&](auto patches, auto images, auto out, const OnComputed& on_computed) {
      if (batches-- == 0) {
        throw Error("enough");
      }
      telling_encode()(patches, images, out, on_computed);
    };
    try {
      (void)run_job(test_run_options(), inputs, number_prepare(), [&] { return encode; }, output);
    } catch (const Error&) {
      return;  // after a checkpoint
    }
    output.finish();
  }

  static std::optional<Manifest> manifest_of(const fs::path& folder) {
    try {
      return parse_manifest(read_text(folder / "manifest.json"));
    } catch (const Error&) {
      return std::nullopt;
    }
  }

  // Of all rows, those that a file tells of: a shard's own, or all.
  static std::uint64_t first_row(const std::string& file, std::uint64_t shard_rows,
                                 std::uint64_t rows) {
    const std::size_t digits = file.find_first_of("0123456789");
    if (file == "manifest.json") {
      return rows;
    }
    return digits == std::string::npos ? 0 : std::stoul(file.substr(digits)) * shard_rows;
  }
  static std::uint64_t last_row(const std::string& file, std::uint64_t shard_rows,
                                std::uint64_t rows) {
    const bool is_shard = file.find_first_of("0123456789") != std::string::npos;
    return is_shard ? std::min(rows, first_row(file, shard_rows, rows) + shard_rows) : rows;
  }

  // The number of rows kept, or nothing.
  static std::optional<std::uint64_t> repair(const fs::path& folder) {
    const auto opened = std::make_shared<const io::Folder>(folder);
    const auto plan = plan_repair(*opened, manifest_of(folder), {});
    if (!plan) {
      return std::nullopt;
    }
    apply_repair(*plan, opened);
    return plan->manifest.state.rows;
  }
};

// Whatever byte is lost, most rows before it are kept, and the job ends as if nothing had been.
TEST_F(OutputStateTest, RepairKeepsTheRowsBeforeTheDamage) {
  std::mt19937 random(3);
  const auto below = [&](std::size_t end) { return static_cast<std::size_t>(random() % end); };
  for (int round = 0; round < 14; ++round) {
    JobIdentity identity = test_identity(round % 2 == 0 ? 300 : 5000);
    identity.format = round % 3 == 0 ? OutputFormat::kJsonl : OutputFormat::kNpy;
    const fs::path whole = folder_ / fmt::format("whole-{}", round);
    run(whole, identity);
    const fs::path folder = folder_ / fmt::format("out-{}", round);
    run(folder, identity, round % 4 == 0 ? -1 : 60 + static_cast<int>(below(50)));
    const std::uint64_t rows = manifest_of(folder)->state.rows;
    auto files = read_folder(folder);
    std::erase_if(files, [](const auto& file) { return file.second.empty(); });
    auto damaged = files.begin();
    std::advance(damaged, below(files.size()));
    std::string content = damaged->second;
    const std::size_t at = below(content.size());
    if (round % 5 == 0) {
      content.resize(at);
    } else {
      content[at] = static_cast<char>(content[at] ^ 1);
    }
    std::ofstream(folder / damaged->first, std::ios::binary) << content;
    const std::string what =
        fmt::format("round {}: {} at {} of {}", round, damaged->first, at, damaged->second.size());
    const auto kept = repair(folder);
    // Of the rows before the damage, those since the last state but one may be lost.
    const std::uint64_t first = first_row(damaged->first, identity.shard_rows, rows);
    const double before =
        static_cast<double>(first) +
        0.9 * static_cast<double>(last_row(damaged->first, identity.shard_rows, rows) - first) *
            static_cast<double>(at) / static_cast<double>(damaged->second.size());
    EXPECT_GE(static_cast<double>(kept.value_or(0) + 2 * kStateInputs), before) << what;
    if (kept) {
      run(folder, identity);
      auto left = read_folder(folder);
      auto expected = read_folder(whole);
      if (damaged->first.starts_with("checksums")) {  // a line of it that was lost stays lost
        for (const std::string name : {"checksums.jsonl", "manifest.json"}) {
          left.erase(name);
          expected.erase(name);
        }
      }
      EXPECT_EQ(left, expected) << what;
    } else {
      EXPECT_EQ(read_text(folder / damaged->first), content);
    }
  }
}

TEST_F(OutputStateTest, ManifestIsNothingButWhatWasWritten) {
  Manifest manifest{.identity = test_identity(), .state = {}};
  manifest.identity.model = "a \"model\"\n\xff\\";
  manifest.state.inputs = 24;
  manifest.state.names = 0xfedcba9876543210U;
  const std::string text = format_manifest(manifest);
  const Manifest again = parse_manifest(text);
  EXPECT_EQ(format_manifest(again), text);
  EXPECT_EQ(again.identity.model, manifest.identity.model);
  EXPECT_EQ(again.state.names, manifest.state.names);
  // No byte can be another, be missing or be more.
  for (std::size_t at = 0; at < text.size(); ++at) {
    std::string other = text;
    other[at] = static_cast<char>(other[at] ^ 1);
    EXPECT_THROW((void)parse_manifest(other), Error) << at;
    EXPECT_THROW((void)parse_manifest(text.substr(0, at)), Error) << at;
    EXPECT_THROW((void)parse_manifest(text.substr(0, at) + " " + text.substr(at)), Error) << at;
  }
  const auto replaced = [&](const std::string& from, const std::string& to) {
    std::string other = text;
    other.replace(other.find(from), from.size(), to);
    return other;
  };
  const std::string odd[] = {replaced("\"inputs\": 24", "\"inputs\": 24.0"),
                             replaced("\"inputs\": 24", "\"inputs\": 18446744073709551640"),
                             replaced("\"inputs\": 24", "\"inputs\": -24"),
                             replaced("\"inputs\": 24", "\"inputs\": true"),
                             replaced("\"finished\": false", "\"finished\": 0"),
                             replaced("\"counts\": {", "\"counts\": {\"more\": 1,"),
                             replaced("\"dimension\": 4", "\"dimension\": 0"),
                             replaced("\"rescale\": 0.00", "\"rescale\": 1e300, \"x\": 0.00"),
                             std::string(100000, '['),
                             std::string(1 << 23, ' ')};
  for (const std::string& other : odd) {
    EXPECT_THROW((void)parse_manifest(other), Error) << other.substr(0, 200);
  }
  manifest.identity.shard_index = manifest.identity.shard_count = 3;
  EXPECT_THROW((void)parse_manifest(format_manifest(manifest)), Error);
  manifest.identity.shard_index = 2;
  EXPECT_NO_THROW((void)parse_manifest(format_manifest(manifest)));
}

TEST(Journal, LinesComeBackAsTheyWere) {
  JobState state;
  state.inputs = 300;
  state.names = 7;
  state.errors_sum = ~std::uint64_t{0};
  const JournalLine lines[] = {test_identity(), FileRecord{.number = 3, .rows = 5, .data_sum = 9},
                               state, RetryRecord{.number = 2}};
  for (const JournalLine& line : lines) {
    std::string text = format_journal_line(line);
    ASSERT_TRUE(text.ends_with("}\n"));
    text.pop_back();
    const JournalLine again = parse_journal_line(text);
    EXPECT_EQ(again.index(), line.index());
    EXPECT_EQ(format_journal_line(again), text + "\n");
    EXPECT_EQ(is_state_line(text), std::holds_alternative<JobState>(line));
    for (std::size_t at = 0; at < text.size(); ++at) {
      std::string other = text;
      other[at] = static_cast<char>(other[at] ^ 1);
      EXPECT_THROW((void)parse_journal_line(other), Error) << other;
    }
    EXPECT_THROW((void)parse_journal_line(text + " "), Error);
  }
  EXPECT_THROW((void)parse_journal_line(""), Error);
}

TEST_F(OutputStateTest, LockRemembersFilesThatNobodyTouched) {
  const auto folder = std::make_shared<const io::Folder>(folder_);
  const std::string name = "embeddings-00000.npy";
  constexpr std::uint64_t kSum = 0xabc;
  write(name, "content");
  {
    OutputLock lock(folder);
    EXPECT_FALSE(lock.is_recorded(name, kSum));
    lock.record(name, kSum, *folder->examine(name));
    std::this_thread::sleep_for(std::chrono::milliseconds(50));  // steps of the kernel's clock
    lock.flush();
    EXPECT_TRUE(lock.is_recorded(name, kSum));
    EXPECT_FALSE(lock.is_recorded(name, kSum + 1));
    EXPECT_FALSE(lock.is_recorded("embeddings-00001.npy", kSum));
  }
  const std::string remembered = read_text(folder_ / ".lock");
  EXPECT_TRUE(OutputLock(folder).is_recorded(name, kSum));
  // The same content, length, name and time of the last write, and yet another file.
  const auto time = fs::last_write_time(folder_ / name);
  write(name, "content");
  fs::last_write_time(folder_ / name, time);
  EXPECT_FALSE(OutputLock(folder).is_recorded(name, kSum));
  // One that was touched between its summing and the flush is not remembered.
  {
    OutputLock lock(folder);
    lock.record(name, kSum, *folder->examine(name));
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    write(name, "another");
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  EXPECT_FALSE(OutputLock(folder).is_recorded(name, kSum));
  // Whatever is in the file, it is no more than a cache.
  for (const std::string& text : {std::string("\0\xff\n\n x", 6), remembered.substr(0, 30),
                                  "embeddings-00000.npy zzz 1 2 3\n" + remembered}) {
    write(".lock", text);
    EXPECT_FALSE(OutputLock(folder).is_recorded(name, kSum));
  }
  {
    OutputLock lock(folder);
    lock.clear();
  }
  EXPECT_EQ(read_text(folder_ / ".lock"), "");
}

// So that a large output is not read whole by every run on it.
TEST_F(OutputStateTest, FinishedFilesAreRememberedAsTheyAreFinished) {
  run(folder_, test_identity(100));
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  run(folder_, test_identity(100));  // reads the last ones, and remembers them too
  const std::string remembered = read_text(folder_ / ".lock");
  for (int number = 0; number < 10; ++number) {
    EXPECT_PRED2(contains, remembered, fmt::format("embeddings-{:05}.npy ", number));
    EXPECT_PRED2(contains, remembered, fmt::format("index-{:05}.jsonl ", number));
  }
}

// Whoever alters a manifest can make its checksum, too.
TEST_F(OutputStateTest, AManifestThatCountsMoreFilesThanThereAreIsNotWalked) {
  run(folder_, test_identity(100));
  const auto folder = std::make_shared<const io::Folder>(folder_);
  Manifest manifest = parse_manifest(read_text(folder_ / "manifest.json"));
  manifest.state.shards = 1'000'000'000'000;
  EXPECT_TRUE(uncounted_files(*folder, OutputLayout(manifest.identity), manifest.state).empty());
  write("manifest.json", format_manifest(manifest));
  std::vector<std::string> problems;
  (void)prove(*folder, manifest, nullptr, {}, &problems);
  ASSERT_FALSE(problems.empty());
  EXPECT_PRED2(contains, problems.front(), "counts 1000000000000 complete files, but");
  // As an update leaves it that is killed while it puts its files in place.
  write(".update/new/manifest.json", format_manifest(manifest));
  fs::rename(folder_ / "embeddings-00003.npy", folder_ / ".update/new/embeddings-00003.npy");
  fs::rename(folder_ / "index-00003.jsonl", folder_ / ".update/new/index-00003.jsonl");
  finish_replacement(folder);
  EXPECT_FALSE(fs::exists(folder_ / ".update"));
  EXPECT_TRUE(fs::exists(folder_ / "embeddings-00003.npy"));
  EXPECT_TRUE(fs::exists(folder_ / "index-00003.jsonl"));
}

}  // namespace
}  // namespace fovea::pipeline::testing
