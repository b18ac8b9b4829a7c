// The order of inputs, found from the rows and the failed inputs.
#include "collection/input_order.hpp"

#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "pipeline/fingerprint.hpp"

namespace fovea::collection {
namespace {

struct Job {
  std::vector<std::string> names;
  std::vector<bool> failed;
  std::vector<OrderState> states;
  std::vector<std::string> rows;
  std::vector<std::string> failures;

  // A state after each `every` inputs, as jobs write them.
  Job(std::vector<std::string> all, std::vector<bool> which, std::size_t every)
      : names(std::move(all)), failed(std::move(which)) {
    pipeline::NameHash hash;
    for (std::size_t input = 0; input < names.size(); ++input) {
      hash.add(names[input]);
      (failed[input] ? failures : rows).push_back(names[input]);
      if ((input + 1) % every == 0 || input + 1 == names.size()) {
        states.push_back({.names = hash.value(), .rows = rows.size(), .failed = failures.size()});
      }
    }
  }
  [[nodiscard]] std::optional<std::vector<bool>> order() const {
    return input_order(
        states, [&](std::uint64_t row) { return rows.at(row); },
        [&](std::uint64_t number) { return failures.at(number); });
  }
};

std::vector<std::string> sorted_names(std::size_t count, const std::string& folder = "p/") {
  std::vector<std::string> names;
  for (std::size_t number = 0; number < count; ++number) {
    names.push_back(folder + std::to_string(100000 + number));
  }
  return names;
}

TEST(InputOrderTest, FindsFailedInputsOfAFolder) {
  std::mt19937 random(5);
  for (int trial = 0; trial < 50; ++trial) {
    std::vector<bool> failed(1000);
    for (std::size_t input = 0; input < failed.size(); ++input) {
      failed[input] = random() % (2 + trial) == 0;
    }
    const Job job(sorted_names(1000), failed, 1000);
    EXPECT_EQ(job.order(), failed) << trial;
  }
}

TEST(InputOrderTest, FindsAFewFailedInputsInAnyOrder) {
  std::mt19937 random(7);
  for (int trial = 0; trial < 20; ++trial) {
    std::vector<std::string> names = sorted_names(1000);
    std::shuffle(names.begin(), names.end(), random);
    std::vector<bool> failed(1000);
    for (std::size_t input = random() % 100; input < 1000; input += 130 + random() % 130) {
      failed[input] = true;
    }
    const Job job(names, failed, 128);
    EXPECT_EQ(job.order(), failed) << trial;
  }
}

TEST(InputOrderTest, NeverGuesses) {
  // The names have another order than the hash says.
  Job job(sorted_names(20), std::vector<bool>(20), 20);
  std::swap(job.rows[3], job.rows[4]);
  EXPECT_EQ(job.order(), std::nullopt);
  // One that failed is missing.
  std::vector<bool> failed(20);
  failed[7] = true;
  Job other(sorted_names(20), failed, 20);
  other.failures[0] = "p/another";
  EXPECT_EQ(other.order(), std::nullopt);
}

TEST(InputOrderTest, GivesUpOnTooManyWays) {
  std::mt19937 random(11);
  std::vector<std::string> names = sorted_names(128);
  std::shuffle(names.begin(), names.end(), random);
  std::vector<bool> failed(128);
  for (std::size_t input = 0; input < failed.size(); input += 2) {
    failed[input] = true;
  }
  const auto order = Job(names, failed, 128).order();
  EXPECT_TRUE(!order || order == failed);
}

}  // namespace
}  // namespace fovea::collection
