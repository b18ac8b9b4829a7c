// The file that calibration leaves: read back as written, and refused when it is not the model's.
#include "model/calibration.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "files.hpp"
#include "fovea/model.hpp"

namespace fovea::model {
namespace {

/// A layer's numbers, all different.
struct Numbers {
  std::vector<std::uint8_t> rounded;
  std::vector<float> scale;
  std::vector<float> bias;
  std::vector<float> divisor;

  Numbers(std::int64_t out, std::int64_t in, int seed) {
    for (std::int64_t i = 0; i < out * in; ++i) {
      rounded.push_back(static_cast<std::uint8_t>(i * 7 + seed));
    }
    for (std::int64_t i = 0; i < out; ++i) {
      scale.push_back(0.001F * static_cast<float>(i + seed + 1));
      bias.push_back(0.5F - static_cast<float>(i));
    }
    for (std::int64_t i = 0; i < in; ++i) {
      divisor.push_back(0.25F * static_cast<float>(i + 1));
    }
  }
};

class CalibrationTest : public testing::Test {
 protected:
  static constexpr std::int64_t kOut = 6;
  static constexpr std::int64_t kIn = 4;

  CalibrationTest() : numbers_(kOut, kIn, 3) {
    model_ = folder_.path() / "m";
    init_checkpoint({.preset = "tiny", .folder = model_, .threads = 1});
    checkpoint_ = std::make_unique<Checkpoint>(model_);
  }

  void write(ops::Place place, float input_scale, Precision precision = Precision::kInt8,
             std::int64_t bf16_layers = 0) const {
    std::vector<LayerToStore> layers = {{.name = calibrated_name(checkpoint_->tower(), place, 1),
                                         .out = kOut,
                                         .in = kIn,
                                         .type = calibrated_type(place, precision),
                                         .rounded = numbers_.rounded,
                                         .scale = numbers_.scale,
                                         .bias = numbers_.bias,
                                         .input_scale = input_scale}};
    if (place != kPlaceOfStaticInputs) {
      layers.front().divisor = numbers_.divisor;
    }
    write_calibration(*checkpoint_, precision, layers, 32, bf16_layers);
  }

  TemporaryFolder folder_;
  std::filesystem::path model_;
  std::unique_ptr<Checkpoint> checkpoint_;
  Numbers numbers_;
};

TEST_F(CalibrationTest, IsReadBackAsWritten) {
  for (const Precision precision : {Precision::kInt8, Precision::kFp8}) {
    write(ops::Place::kFc2, 0.25F, precision);
    const Calibration calibration(*checkpoint_, precision);
    const CalibratedLayer layer = calibration.layer(ops::Place::kFc2, 1, kOut, kIn);
    EXPECT_TRUE(std::ranges::equal(layer.rounded.span(), numbers_.rounded));
    EXPECT_EQ(layer.scale, numbers_.scale);
    EXPECT_EQ(layer.bias, numbers_.bias);
    EXPECT_EQ(layer.input_scale, 0.25F);
    EXPECT_TRUE(contains(error_of([&] { (void)calibration.divisor(ops::Place::kFc2, 1, kIn); }),
                         "missing"));
  }
}

TEST_F(CalibrationTest, LayersBehindNormsHaveDivisors) {
  write(ops::Place::kFc1, 0.0F);
  const Calibration calibration(*checkpoint_, Precision::kInt8);
  EXPECT_EQ(calibration.divisor(ops::Place::kFc1, 1, kIn), numbers_.divisor);
  EXPECT_EQ(calibration.layer(ops::Place::kFc1, 1, kOut, kIn).input_scale, 0.0F);
}

// e4m3 is for what one scale has to reach; rows with scales of their own are more exact in int8.
TEST_F(CalibrationTest, OnlyInputsWithOneScaleAreE4M3) {
  EXPECT_EQ(calibrated_type(ops::Place::kFc2, Precision::kFp8), DType::kE4M3);
  EXPECT_EQ(calibrated_type(ops::Place::kQkv, Precision::kFp8), DType::kI8);
  EXPECT_EQ(calibrated_type(ops::Place::kFc1, Precision::kFp8), DType::kI8);
  EXPECT_EQ(calibrated_type(ops::Place::kFc2, Precision::kInt8), DType::kI8);
}

TEST_F(CalibrationTest, WithoutItTheMessageNamesTheCommand) {
  const std::string message = error_of([&] { Calibration(*checkpoint_, Precision::kInt8); });
  EXPECT_TRUE(contains(message, "fovea calibrate " + model_.native())) << message;
  EXPECT_TRUE(contains(message, "--precision int8")) << message;
}

TEST_F(CalibrationTest, OfADamagedFileTheMessageNamesTheCommandToo) {
  write(ops::Place::kFc2, 0.25F);
  const std::filesystem::path path = find_calibration(*checkpoint_, Precision::kInt8);
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - 1);
  const std::string message = error_of([&] { Calibration(*checkpoint_, Precision::kInt8); });
  EXPECT_TRUE(contains(message, path.native())) << message;
  EXPECT_TRUE(contains(message, "fovea calibrate " + model_.native())) << message;
}

TEST_F(CalibrationTest, APipeIsRefusedAtOnce) {
  const std::filesystem::path path = find_calibration(*checkpoint_, Precision::kInt8);
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  const std::string message = error_of([&] { Calibration(*checkpoint_, Precision::kInt8); });
  EXPECT_TRUE(contains(message, path.native() + ": not a regular file")) << message;
}

TEST_F(CalibrationTest, CutOffWhileItIsReadIsNamed) {
  write(ops::Place::kFc1, 0.0F);
  const Calibration calibration(*checkpoint_, Precision::kInt8);
  const std::filesystem::path path = find_calibration(*checkpoint_, Precision::kInt8);
  std::filesystem::resize_file(path, 500);
  for (const std::string& message :
       {error_of([&] { (void)calibration.layer(ops::Place::kFc1, 1, kOut, kIn); }),
        error_of([&] { (void)calibration.divisor(ops::Place::kFc1, 1, kIn); })}) {
    EXPECT_TRUE(contains(message, path.native() + ": shrank to 500 bytes")) << message;
  }
}

TEST_F(CalibrationTest, OfOtherWeightsIsRefused) {
  write(ops::Place::kFc2, 0.25F);
  const std::filesystem::path other = folder_.path() / "other";
  init_checkpoint({.preset = "tiny", .folder = other, .seed = 1, .threads = 1});
  std::filesystem::copy(find_calibration(*checkpoint_, Precision::kInt8), other);
  const Checkpoint checkpoint(other);
  const std::string message = error_of([&] { Calibration(checkpoint, Precision::kInt8); });
  EXPECT_TRUE(contains(message, "weights other than those of the model")) << message;
  EXPECT_TRUE(contains(message, "fovea calibrate")) << message;
}

TEST_F(CalibrationTest, LayersThatLackOrHaveOtherShapesAreRefused) {
  write(ops::Place::kFc2, 0.25F);
  const Calibration calibration(*checkpoint_, Precision::kInt8);
  const auto message = [&](ops::Place place, std::int64_t layer, std::int64_t in) {
    return error_of([&] { (void)calibration.layer(place, layer, kOut, in); });
  };
  EXPECT_TRUE(contains(message(ops::Place::kFc2, 0, kIn), "layers.0.mlp.fc2.weight\" is missing"));
  EXPECT_TRUE(contains(message(ops::Place::kQkv, 1, kIn), "self_attn.qkv"));
  EXPECT_TRUE(contains(message(ops::Place::kFc2, 1, kIn + 1), "expected I8 [6, 5]"));
}

TEST_F(CalibrationTest, SaysHowManyOfTheFirstLayersAreInBf16) {
  for (const std::int64_t layers : {0, 1}) {
    write(ops::Place::kFc2, 0.25F, Precision::kInt8, layers);
    const Calibration calibration(*checkpoint_, Precision::kInt8);
    EXPECT_EQ(calibration.bf16_layers(), layers);
    EXPECT_EQ(calibration.layer(ops::Place::kFc2, 1, kOut, kIn).bias, numbers_.bias);
  }
}

// Files from before there were any do not say it, nor do those that have none.
TEST_F(CalibrationTest, LayersOfWhichNothingIsSaidAreMissing) {
  write(ops::Place::kFc2, 0.25F);
  EXPECT_FALSE(
      contains(read_text(find_calibration(*checkpoint_, Precision::kInt8)), "bf16_layers"));
  const Calibration calibration(*checkpoint_, Precision::kInt8);
  EXPECT_EQ(calibration.bf16_layers(), 0);
  EXPECT_TRUE(contains(error_of([&] { (void)calibration.layer(ops::Place::kQkv, 0, kOut, kIn); }),
                       "missing"));
}

TEST_F(CalibrationTest, LayersInBf16ThatCannotBeAreRefused) {
  const auto message = [&](std::int64_t layers) {
    write(ops::Place::kFc2, 0.25F, Precision::kInt8, layers);
    return error_of([&] { Calibration(*checkpoint_, Precision::kInt8); });
  };
  EXPECT_TRUE(contains(message(4), "bf16_layers is 4; expected 0 to 3")) << message(4);
  EXPECT_TRUE(contains(message(2), "layers.1.mlp.fc2 is stored in 8 bits")) << message(2);
  // A count that no file is written with.
  const std::filesystem::path path = find_calibration(*checkpoint_, Precision::kInt8);
  write(ops::Place::kFc2, 0.25F, Precision::kInt8, 1);
  std::string file = read_text(path);
  const std::size_t data = 8 + header_length(file);
  file[data + 2 * sizeof(std::int64_t) + 7] = '\xff';  // behind the fingerprint and the images
  write_text(path, file);
  EXPECT_TRUE(
      contains(error_of([&] { Calibration(*checkpoint_, Precision::kInt8); }), "expected 0 to 3"));
}

// Kernels would turn them into numbers, which would go unnoticed.
TEST_F(CalibrationTest, InvalidNumbersAreRefused) {
  const auto message = [&](ops::Place place, float input_scale) {
    write(place, input_scale);
    const Calibration calibration(*checkpoint_, Precision::kInt8);
    return error_of([&] { (void)calibration.layer(place, 1, kOut, kIn); });
  };
  EXPECT_TRUE(contains(message(ops::Place::kFc2, 0.0F), "no scale for its inputs"));
  EXPECT_TRUE(contains(message(ops::Place::kFc2, -1.0F), "invalid scale"));
  EXPECT_TRUE(contains(message(ops::Place::kFc2, 0.001F), "a scale for other 8-bit numbers"));
  EXPECT_TRUE(contains(message(ops::Place::kQkv, std::nanf("")), "invalid scale"));
  const auto of_divisor = [&](float value) {
    numbers_.divisor[1] = value;
    write(ops::Place::kQkv, 0.0F);
    const Calibration calibration(*checkpoint_, Precision::kInt8);
    return error_of([&] { (void)calibration.divisor(ops::Place::kQkv, 1, kIn); });
  };
  EXPECT_TRUE(contains(of_divisor(0.0F), "an invalid divisor"));
  EXPECT_TRUE(contains(of_divisor(std::nanf("")), "an invalid divisor"));
  numbers_.scale[2] = std::numeric_limits<float>::infinity();
  EXPECT_TRUE(contains(message(ops::Place::kQkv, 0.0F), "invalid scale"));
}

}  // namespace
}  // namespace fovea::model
