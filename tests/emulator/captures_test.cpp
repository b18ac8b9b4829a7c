// Micro-kernels in the emulator: compared with what a card computed of them, and with models of
// their own.
#include <atomic>
#include <filesystem>
#include <map>
#include <mutex>
#include <set>

#include <gtest/gtest.h>

#include "emulator/captures/emulate.hpp"
#include "emulator/captures/for_each_kernel.hpp"
#include "lab/captures/results.hpp"

namespace captures {
namespace {

using fovea::captures::read_results;
using fovea::captures::Results;

// Runs them all, and calls check(kernel, inputs, emulated) for each, which says what is wrong.
template <typename Check>
void expect_all(const MicroKernels& kernels, Check&& check) {
  std::mutex mutex;
  for_each_kernel(kernels.size(), [&](std::size_t i) {
    const std::vector<Bytes> inputs = kernels[i].make_inputs();
    const Emulated emulated = emulate(kernels[i], inputs, i);
    const std::string wrong = check(kernels[i], inputs, emulated);
    if (!wrong.empty()) {
      const std::lock_guard lock(mutex);
      ADD_FAILURE() << kernels[i].name << ": " << wrong;
    }
  });
}

std::vector<std::filesystem::path> files_of_cards() {
  std::vector<std::filesystem::path> files;
  if (std::filesystem::is_directory(FOVEA_CAPTURES)) {
    for (const auto& entry : std::filesystem::directory_iterator(FOVEA_CAPTURES)) {
      if (entry.path().extension() == ".captures") {
        files.push_back(entry.path());
      }
    }
  }
  return files;
}

TEST(CapturesTest, NamesDiffer) {
  std::set<std::string> names;
  std::map<std::string, int> families;
  for (const MicroKernel& kernel : all_micro_kernels()) {
    EXPECT_TRUE(names.insert(kernel.name).second) << kernel.name;
    ++families[kernel.family];
  }
  EXPECT_GE(names.size(), 300U);
  for (const auto& [family, count] : families) {
    RecordProperty(family, count);
  }
}

TEST(CapturesTest, ModelsAgree) {
  std::atomic<int> compared = 0;
  const auto check = [&](const MicroKernel& kernel, const std::vector<Bytes>& inputs,
                         const Emulated& emulated) {
    compared += kernel.model ? 1 : 0;
    return unlike_model(kernel, inputs, emulated);
  };
  expect_all(all_micro_kernels(), check);
  EXPECT_GE(compared, 250);
}

TEST(CapturesTest, ModelsOfNewerKernelsAgree) {
  std::atomic<int> compared = 0;
  std::set<std::string> names;
  const MicroKernels kernels = modelled_micro_kernels();
  for (const MicroKernel& kernel : kernels) {
    EXPECT_TRUE(names.insert(kernel.name).second) << kernel.name;
  }
  expect_all(kernels, [&](const MicroKernel& kernel, const std::vector<Bytes>& inputs,
                          const Emulated& emulated) {
    compared += kernel.model ? 1 : 0;
    return unlike_model(kernel, inputs, emulated);
  });
  EXPECT_EQ(compared, static_cast<int>(kernels.size()));
}

TEST(CapturesTest, CardsAgree) {
  const auto files = files_of_cards();
  if (files.empty()) {
    GTEST_SKIP() << "no card has run the micro-kernels yet: there is no *.captures in "
                 << FOVEA_CAPTURES << ", so nothing was compared with one";
  }
  for (const std::filesystem::path& file : files) {
    const Results results = read_results(file);
    SCOPED_TRACE(results.device);
    std::atomic<int> compared = 0;
    expect_all(all_micro_kernels(), [&](const MicroKernel& kernel, const std::vector<Bytes>& inputs,
                                        const Emulated& emulated) {
      ++compared;
      return unlike_card(results, kernel, inputs, emulated);
    });
    EXPECT_GE(compared, 300);
  }
}

}  // namespace
}  // namespace captures
