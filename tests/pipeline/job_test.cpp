// Whole jobs with a made-up encoder: what is written, and that nothing is lost when they die.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <limits>
#include <random>
#include <set>
#include <string>
#include <thread>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/error.hpp"
#include "io/npy.hpp"
#include "pipeline/index_line.hpp"
#include "pipeline/output.hpp"
#include "pipeline/run.hpp"
#include "support.hpp"

namespace fovea::pipeline::testing {
namespace {

constexpr std::uint64_t kCount = 1000;

class JobTest : public FolderTest {
 protected:
  // Runs the made-up job once. Returns whether it came to its end.
  static bool run(const fs::path& folder, const JobIdentity& identity, const RunOptions& options,
                  const Encode& encode = telling_encode(), std::uint64_t count = kCount,
                  std::chrono::milliseconds interval = std::chrono::milliseconds(20)) {
    FolderOutput output(folder, identity, false, interval);
    if (output.state().finished) {
      return true;
    }
    InputStream inputs(std::make_unique<CountingSource>(count), 0, 1);
    inputs.skip(output.state().inputs, output.state().names);
    RunOptions resumed = options;
    resumed.rows_before = output.state().rows;
    resumed.failed_before = output.state().failed;
    output.begin();
    const JobReport report =
        run_job(resumed, inputs, number_prepare(), [&] { return encode; }, output);
    if (!report.interrupted) {
      output.finish();
    }
    return !report.interrupted;
  }

  std::map<std::string, std::string> uninterrupted(const JobIdentity& identity) const {
    EXPECT_TRUE(run(folder_ / "whole", identity, test_run_options()));
    return read_folder(folder_ / "whole");
  }
};

TEST_F(JobTest, EveryRowIsItsImagesRowAndEveryFailureIsListedOnce) {
  ASSERT_TRUE(run(folder_, test_identity(), test_run_options()));
  std::uint64_t expected = 0;
  std::uint64_t shard = 0;
  std::set<std::string> names;
  while (fs::exists(folder_ / fmt::format("embeddings-{:05}.npy", shard))) {
    const io::NpyFile array(folder_ / fmt::format("embeddings-{:05}.npy", shard));
    const std::vector<float> values = elements_of<float>(array);
    std::istringstream index(read_text(folder_ / fmt::format("index-{:05}.jsonl", shard)));
    std::string text;
    std::int64_t row = 0;
    for (; std::getline(index, text); ++row, ++expected) {
      while (damaged(expected)) {
        ++expected;
      }
      const IndexLine line = parse_index_line(text);
      EXPECT_EQ(line.row, static_cast<std::uint64_t>(row));
      EXPECT_EQ(line.source, item_name(expected));
      EXPECT_EQ(line.width, static_cast<int>(expected % 1000) + 1);
      EXPECT_EQ(values[static_cast<std::size_t>(row) * 4], static_cast<float>(expected));
      names.insert(line.source);
    }
    EXPECT_EQ(array.shape(), (Shape{row, kDimension}));
    EXPECT_TRUE(row == 100 || row == static_cast<std::int64_t>(923 % 100));
    ++shard;
  }
  EXPECT_EQ(names.size(), 923U);
  EXPECT_EQ(shard, 10U);
  std::istringstream errors(read_text(folder_ / "errors.jsonl"));
  std::string text;
  std::uint64_t failed = 0;
  for (; std::getline(errors, text); ++failed) {
    EXPECT_EQ(parse_error_source(text), item_name(failed * 13 + 5));
    EXPECT_PRED2(contains, text, "damaged on purpose");
  }
  EXPECT_EQ(failed, 77U);
  const Manifest manifest = parse_manifest(read_text(folder_ / "manifest.json"));
  EXPECT_TRUE(manifest.state.finished);
  EXPECT_EQ(manifest.state.rows, 923U);
  EXPECT_EQ(manifest.state.failed, 77U);
  EXPECT_EQ(manifest.state.inputs, kCount);
  EXPECT_EQ(manifest.state.shards, 10U);
}

// The heart of it: a process killed at random moments, again and again, leaves the same bytes.
TEST_F(JobTest, KilledAtRandomMomentsItComesOutTheSame) {
  std::mt19937 random(1);
  for (const auto format : {OutputFormat::kNpy, OutputFormat::kJsonl}) {
    JobIdentity identity = test_identity(37);  // files end inside batches, several a batch at times
    identity.format = format;
    const fs::path whole_folder = folder_ / to_string(format);
    const auto started = std::chrono::steady_clock::now();
    ASSERT_TRUE(run(whole_folder, identity, test_run_options()));
    // Later and later, or on a machine that becomes busy no job would come to its first file.
    auto latest = std::chrono::duration_cast<std::chrono::microseconds>(
                      std::chrono::steady_clock::now() - started) /
                  2;
    const auto whole = read_folder(whole_folder);
    const fs::path folder = folder_ / ("killed-" + std::string(to_string(format)));
    int kills = 0;
    for (;; ++kills) {
      ASSERT_LT(kills, 2000) << "no progress";
      const pid_t child = ::fork();
      ASSERT_GE(child, 0);
      if (child == 0) {
        ::_exit(run(folder, identity, test_run_options()) ? 0 : 1);
      }
      std::this_thread::sleep_for(std::chrono::microseconds(random() % latest.count()));
      latest += latest / 50;
      ::kill(child, SIGKILL);
      int status = 0;
      ASSERT_EQ(::waitpid(child, &status, 0), child);
      if (WIFEXITED(status)) {
        ASSERT_EQ(WEXITSTATUS(status), 0);
        break;
      }
    }
    EXPECT_GT(kills, 0);
    EXPECT_EQ(read_folder(folder), whole) << kills << " kills";
  }
}

// What random kills seldom meet: files renamed, or grown, after the manifest was last written.
TEST_F(JobTest, FilesAheadOfTheManifestAreTakenBack) {
  const JobIdentity identity = test_identity(37);
  std::vector<std::string> manifests;
  const Encode noting = [&](auto patches, auto images, auto out, const OnComputed& on_computed) {
    manifests.push_back(read_text(folder_ / "whole/manifest.json"));
    telling_encode()(patches, images, out, on_computed);
  };
  ASSERT_TRUE(run(folder_ / "whole", identity, test_run_options(), noting, kCount,
                  std::chrono::milliseconds(0)));
  const auto whole = read_folder(folder_ / "whole");
  for (std::size_t index = 0; index < manifests.size(); index += 30) {
    const fs::path folder = folder_ / fmt::format("crash-{}", index);
    fs::copy(folder_ / "whole", folder, fs::copy_options::recursive);
    std::ofstream(folder / "manifest.json") << manifests[index];
    {
      FolderOutput output(folder, identity, false);
      output.begin();
      const std::uint64_t shards = output.state().shards;
      for (std::uint64_t number = 0; number < 25; ++number) {
        const bool complete = number < shards;
        EXPECT_EQ(fs::exists(folder / fmt::format("embeddings-{:05}.npy", number)), complete);
        EXPECT_EQ(fs::exists(folder / fmt::format("index-{:05}.jsonl", number)), complete);
      }
      EXPECT_FALSE(fs::exists(folder / "errors.jsonl"));
      const fs::path open = folder / fmt::format("embeddings-{:05}.npy.partial", shards);
      EXPECT_EQ(fs::exists(open), output.state().open_rows > 0);
      if (fs::exists(open)) {
        EXPECT_EQ(fs::file_size(open), output.state().open_bytes);
      }
    }
    ASSERT_TRUE(run(folder, identity, test_run_options()));
    EXPECT_EQ(read_folder(folder), whole) << manifests[index];
  }
}

TEST_F(JobTest, FailureOfTheEncoderOrTheWriterLeavesAResumableState) {
  const auto whole = uninterrupted(test_identity());
  for (int batches = 0; batches < 40; batches += 7) {
    int left = batches;
    const Encode failing = [&left](auto patches, auto images, auto out,
                                   const OnComputed& on_computed) {
      if (left-- == 0) {
        throw Error("the encoder broke");
      }
      telling_encode()(patches, images, out, on_computed);
    };
    EXPECT_THROW(run(folder_ / "broken", test_identity(), test_run_options(), failing), Error);
  }
  ASSERT_TRUE(run(folder_ / "broken", test_identity(), test_run_options()));
  EXPECT_EQ(read_folder(folder_ / "broken"), whole);
}

TEST_F(JobTest, StopEndsAfterTheBatchAndResumes) {
  const auto whole = uninterrupted(test_identity());
  std::atomic<bool> stop = false;
  RunOptions options = test_run_options();
  options.control.stop = &stop;
  int batches = 0;
  const Encode stopping = [&](auto patches, auto images, auto out, const OnComputed& on_computed) {
    telling_encode()(patches, images, out, on_computed);
    stop = ++batches == 3;
  };
  EXPECT_FALSE(run(folder_ / "stopped", test_identity(), options, stopping));
  const JobState state = parse_manifest(read_text(folder_ / "stopped/manifest.json")).state;
  EXPECT_FALSE(state.finished);
  EXPECT_EQ(state.inputs, 24U);  // the batch being computed is kept, those only decoded are not
  stop = false;
  EXPECT_TRUE(run(folder_ / "stopped", test_identity(), test_run_options()));
  EXPECT_EQ(read_folder(folder_ / "stopped"), whole);
}

TEST_F(JobTest, TooManyErrorsEndTheJobBeforeTheirBatch) {
  RunOptions options = test_run_options();
  options.max_errors = 0;
  try {
    run(folder_ / "strict", test_identity(), options);
    FAIL();
  } catch (const Error& error) {
    EXPECT_PRED2(contains, error.what(), "item-5");
  }
  options.max_errors = 3;
  EXPECT_THROW(run(folder_ / "strict", test_identity(), options), Error);
  const JobState state = parse_manifest(read_text(folder_ / "strict/manifest.json")).state;
  EXPECT_LE(state.failed, 3U);
  EXPECT_GT(state.failed, 0U);
  options.max_errors = 77;
  EXPECT_TRUE(run(folder_ / "strict", test_identity(), options));
  EXPECT_EQ(read_folder(folder_ / "strict"), uninterrupted(test_identity()));
}

TEST_F(JobTest, TwoRunsOnOneOutputAndOtherJobsAreRefused) {
  ASSERT_TRUE(run(folder_ / "out", test_identity(), test_run_options()));
  {
    const FolderOutput first(folder_ / "out", test_identity(), false);
    EXPECT_THROW(FolderOutput(folder_ / "out", test_identity(), false), Error);
    EXPECT_THROW(FolderOutput(folder_ / "out", test_identity(), true), Error);
  }
  const auto refusal = [&](auto change) {
    JobIdentity identity = test_identity();
    change(identity);
    try {
      const FolderOutput output(folder_ / "out", identity, false);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("no refusal");
  };
  EXPECT_PRED2(contains, refusal([](JobIdentity& i) { i.model_sha256 = "other"; }), "the model is");
  EXPECT_PRED2(contains, refusal([](JobIdentity& i) { i.precision = "bf16"; }),
               "the precision is fp32 there and bf16 now");
  EXPECT_PRED2(contains, refusal([](JobIdentity& i) { i.dtype = OutputDType::kF16; }),
               "the dtype is f32 there and f16 now");
  EXPECT_PRED2(contains, refusal([](JobIdentity& i) { i.normalize = true; }), "normalisation");
  EXPECT_PRED2(contains, refusal([](JobIdentity& i) { i.preprocessing_sha256 = "o"; }),
               "preprocessing");
  EXPECT_PRED2(contains, refusal([](JobIdentity& i) { i.format = OutputFormat::kJsonl; }),
               "--overwrite");
  EXPECT_PRED2(contains, refusal([](JobIdentity& i) { i.shard_rows = 7; }), "rows per file");
  EXPECT_PRED2(contains, refusal([](JobIdentity& i) { i.shard_count = 2; }), "the shard is 0/1");
  EXPECT_EQ(refusal([](JobIdentity& i) { i.model = "same weights, other name"; }), "no refusal");
  fs::remove(folder_ / "out/manifest.json");
  EXPECT_PRED2(contains, refusal([](JobIdentity& /*same*/) {}), "no manifest.json");
  write("out/manifest.json", "{\"format_version\": 99}");
  EXPECT_PRED2(contains, refusal([](JobIdentity& /*same*/) {}), "format version 99");
  const FolderOutput anew(folder_ / "out", test_identity(), true);
  EXPECT_TRUE(read_folder(folder_ / "out").empty());
}

TEST_F(JobTest, MissingPartOfAnUnfinishedOutputIsAnError) {
  std::atomic<bool> stop = false;
  RunOptions options = test_run_options();
  options.control.stop = &stop;
  EXPECT_FALSE(run(folder_ / "out", test_identity(), options,
                   [&](auto p, auto n, auto out, const OnComputed& done) {
                     telling_encode()(p, n, out, done);
                     stop = true;
                   }));
  fs::resize_file(folder_ / "out/embeddings-00000.npy.partial", 130);
  try {
    run(folder_ / "out", test_identity(), test_run_options());
    FAIL();
  } catch (const Error& error) {
    EXPECT_PRED2(contains, error.what(), "embeddings-00000.npy.partial");
    EXPECT_PRED2(contains, error.what(), "--overwrite");
  }
}

TEST_F(JobTest, NoRowsAtAllGiveAnEmptyArray) {
  ASSERT_TRUE(run(folder_, test_identity(), test_run_options(), telling_encode(), 0));
  EXPECT_EQ(io::NpyFile(folder_ / "embeddings-00000.npy").shape(), (Shape{0, kDimension}));
  EXPECT_EQ(read_text(folder_ / "index-00000.jsonl"), "");
}

TEST_F(JobTest, HalfPrecisionAndJson) {
  JobIdentity identity = test_identity();
  identity.dtype = OutputDType::kF16;
  RunOptions options = test_run_options();
  options.dtype = OutputDType::kF16;
  ASSERT_TRUE(run(folder_ / "f16", identity, options, telling_encode(), 5));
  const io::NpyFile array(folder_ / "f16/embeddings-00000.npy");
  EXPECT_EQ(array.dtype(), DType::kF16);
  EXPECT_EQ(to_float(elements_of<Float16>(array)[4]), 1.0F);
  identity = test_identity();
  identity.format = OutputFormat::kJsonl;
  ASSERT_TRUE(run(folder_ / "json", identity, test_run_options(), telling_encode(), 2));
  EXPECT_EQ(read_text(folder_ / "json/embeddings-00000.jsonl"),
            "{\"row\": 0, \"source\": \"item-0\", \"width\": 1, \"height\": 7, "
            "\"embedding\": [0, 0, 2, 1]}\n"
            "{\"row\": 1, \"source\": \"item-1\", \"width\": 2, \"height\": 7, "
            "\"embedding\": [1, 1, 2, 1]}\n");
}

TEST_F(JobTest, EmbeddingsThatAreNotFiniteAreFailedInputs) {
  const Encode broken = [](auto patches, auto images, auto out, const OnComputed& on_computed) {
    telling_encode()(patches, images, out, on_computed);
    as_floats(out)[kDimension] = std::numeric_limits<float>::quiet_NaN();  // of the second image
  };
  ASSERT_TRUE(run(folder_, test_identity(), test_run_options(), broken, 4));
  EXPECT_EQ(io::NpyFile(folder_ / "embeddings-00000.npy").shape(), (Shape{3, kDimension}));
  EXPECT_PRED2(contains, read_text(folder_ / "errors.jsonl"), "item-1");
  const io::NpyFile array(folder_ / "embeddings-00000.npy");
  EXPECT_EQ(elements_of<float>(array)[4], 2.0F);  // the third image's row is the second now
}

TEST(StoreEmbedding, ScalesToLengthOne) {
  const std::vector<float> embedding{3, 0, -4, 0};
  std::vector<float> stored(4);
  ASSERT_TRUE(store_embedding(embedding, true, OutputDType::kF32,
                              reinterpret_cast<std::byte*>(stored.data())));
  EXPECT_EQ(stored, (std::vector<float>{0.6F, 0, -0.8F, 0}));
  const std::vector<float> zero(4);
  const std::vector<float> large{70000, 0, 0, 0};
  auto* bytes = reinterpret_cast<std::byte*>(stored.data());
  EXPECT_FALSE(store_embedding(zero, true, OutputDType::kF32, bytes));
  EXPECT_TRUE(store_embedding(zero, false, OutputDType::kF32, bytes));
  EXPECT_FALSE(store_embedding(large, false, OutputDType::kF16, bytes));  // beyond binary16
}

TEST_F(JobTest, SingleFile) {
  InputStream inputs(std::make_unique<CountingSource>(20), 0, 1);
  {
    FileOutput output(folder_ / "x.npy", DType::kF32, {kDimension});
    (void)run_job(
        test_run_options(), inputs, number_prepare(), [] { return telling_encode(); }, output);
    EXPECT_FALSE(fs::exists(folder_ / "x.npy"));
    output.finish();
  }
  EXPECT_EQ(io::NpyFile(folder_ / "x.npy").shape(), (Shape{18, kDimension}));
  EXPECT_EQ(std::ranges::count(read_text(folder_ / "x.index.jsonl"), '\n'), 18);
  EXPECT_EQ(std::ranges::count(read_text(folder_ / "x.errors.jsonl"), '\n'), 2);
}

TEST_F(JobTest, ProgressIsReported) {
  std::atomic<int> calls = 0;
  RunOptions options = test_run_options();
  options.control.progress_interval = std::chrono::milliseconds(5);
  options.control.on_progress = [&](const JobProgress& progress) {
    ++calls;
    EXPECT_LE(progress.rows + progress.failed, kCount);
  };
  options.count_inputs = [](StopFlag /*stop*/) { return kCount; };
  std::vector<std::string> failures;
  options.control.on_failure = [&](const JobFailure& failure) {
    failures.push_back(failure.source);
  };
  const Encode slow = [](auto patches, auto images, auto out, const OnComputed& on_computed) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    telling_encode()(patches, images, out, on_computed);
  };
  ASSERT_TRUE(run(folder_, test_identity(), options, slow));
  EXPECT_GT(calls, 0);
  EXPECT_EQ(failures.size(), 77U);
}

TEST_F(JobTest, ImagesAreCountedWithinABatch) {
  constexpr std::uint64_t kSeen = 3;  // of the first batch
  std::atomic<std::uint64_t> seen = 0;
  RunOptions options = test_run_options();
  options.control.progress_interval = std::chrono::milliseconds(1);
  options.control.on_progress = [&](const JobProgress& progress) { seen = progress.rows; };
  const Encode waiting = [&](auto patches, auto images, auto out, const OnComputed& on_computed) {
    if (seen < kSeen) {
      on_computed(1);
      on_computed(kSeen - 1);
      const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
      while (seen < kSeen && std::chrono::steady_clock::now() < end) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
      EXPECT_EQ(seen, kSeen);
    }
    telling_encode()(patches, images, out, on_computed);
  };
  EXPECT_TRUE(run(folder_, test_identity(), options, waiting));  // which checks all counts
}

}  // namespace
}  // namespace fovea::pipeline::testing
