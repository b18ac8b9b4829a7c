// Observations: the same sums whichever thread comes first, and no thread left waiting.
#include "quantize/observer.hpp"

#include <exception>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "core/tensor_view.hpp"
#include "fovea/error.hpp"

namespace fovea::quantize {
namespace {

constexpr std::int64_t kObservedImages = 6;
constexpr std::int64_t kObservedWidth = 5;

/// One row of image `image`; sums of squares of 1, 10, 100, ... depend on the order of additions.
std::vector<float> inputs_of(std::int64_t image) {
  std::vector<float> row(kObservedWidth);
  float value = 1.0F / 3.0F;
  for (std::int64_t i = 0; i < image * 5 % kObservedImages; ++i) {
    value *= 10;
  }
  for (std::int64_t i = 0; i < kObservedWidth; ++i) {
    row[static_cast<std::size_t>(i)] = value + static_cast<float>(i);
  }
  return row;
}

void observe_image(Observations& observations, std::int64_t image, std::size_t layer = 0) {
  std::vector<float> row = inputs_of(image);
  observations.add(ops::Place::kFc2, layer, {.first = image},
                   TensorView{row.data(), DType::kF32, {1, kObservedWidth}});
}

std::vector<float> lower_triangle(const Observations& observations) {
  const InputStatistics& statistics = observations.at(ops::Place::kFc2, 0);
  std::vector<float> elements;
  for (std::size_t i = 0; i < kObservedWidth; ++i) {
    for (std::size_t j = 0; j <= i; ++j) {
      elements.push_back(statistics.gram[i * kObservedWidth + j]);
    }
  }
  return elements;
}

TEST(Observations, SumsInTheOrderOfTheImagesWhicheverThreadIsFirst) {
  Observations in_order;
  for (std::int64_t image = 0; image < kObservedImages; ++image) {
    observe_image(in_order, image);
  }
  Observations at_once;
  {
    std::vector<std::jthread> threads;
    for (std::int64_t image = kObservedImages; image-- > 0;) {
      threads.emplace_back([&at_once, image] { observe_image(at_once, image); });
    }
  }
  EXPECT_EQ(lower_triangle(in_order), lower_triangle(at_once));
  EXPECT_EQ(in_order.at(ops::Place::kFc2, 0).sum, at_once.at(ops::Place::kFc2, 0).sum);
  EXPECT_EQ(at_once.at(ops::Place::kFc2, 0).rows, static_cast<std::size_t>(kObservedImages));

  // The inputs are such that another order would show.
  float backwards = 0;
  for (std::int64_t image = kObservedImages; image-- > 0;) {
    backwards += inputs_of(image)[0] * inputs_of(image)[0];
  }
  EXPECT_NE(backwards, in_order.at(ops::Place::kFc2, 0).gram[0]);
}

TEST(Observations, WhoWaitsForAnImageThatFailedGetsItsReason) {
  Observations observations;
  std::string told;
  {
    const std::jthread waits([&] {
      try {
        observe_image(observations, 1);
      } catch (const Error& error) {
        told = error.what();
      }
    });
    observations.abort(std::make_exception_ptr(Error("no memory")));
    observations.abort(std::make_exception_ptr(Error("a later reason")));
  }
  EXPECT_EQ(told, "no memory");
}

TEST(Observations, RefuseAnImageThatTheyHave) {
  Observations observations;
  observe_image(observations, 0);
  EXPECT_THROW(observe_image(observations, 0), Error);
  EXPECT_NO_THROW(observe_image(observations, 0, 1));
}

}  // namespace
}  // namespace fovea::quantize
