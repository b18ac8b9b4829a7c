// The judge against the figures that python/fovea/lab/_numerics.py is held to as well.
#include <cmath>
#include <cstdint>
#include <fstream>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/ops/compared.hpp"

namespace fovea::ops::reference {
namespace {

const std::map<std::string, DType> kTypes = {
    {"f32", DType::kF32}, {"f16", DType::kF16}, {"bf16", DType::kBF16}};

nlohmann::json contract() {
  std::ifstream file(FOVEA_CONTRACT);
  return nlohmann::json::parse(file);
}

double stored(DType type, double value) {
  const auto narrow = static_cast<float>(value);
  return double{type == DType::kF16    ? to_float(to_float16(narrow))
                : type == DType::kBF16 ? to_float(to_bfloat16(narrow))
                                       : narrow};
}

struct Data {
  std::vector<double> got, want, peer;
};

/// As python/tests/test_numerics.py makes it.
Data data(const nlohmann::json& described, DType type) {
  const std::int64_t columns = described["columns"];
  const std::int64_t count = described["rows"].get<std::int64_t>() * columns;
  const double noise = described["noise"];
  const std::string spoil = described["spoil"];
  std::uint64_t state = 1;
  const auto drawn = [&state] {
    state = state * 6364136223846793005U + 1442695040888963407U;
    return static_cast<double>(state >> 40U) / 16777216.0;
  };
  Data data;
  for (std::int64_t i = 0; i < count; ++i) {
    const double a = drawn();
    const double b = drawn();
    const double want = (a - 0.3) * std::ldexp(1.0, static_cast<int>(i % 5) - 2);
    data.want.push_back(want);
    data.peer.push_back(stored(type, want));
    data.got.push_back(stored(type, want * (1 + (b - 0.5) * noise)));
    if (spoil == "tile" && i / columns < kTile && i % columns < kTile) {
      data.got.back() = 0.0;
    }
  }
  if (spoil == "far") {
    data.got[5] = stored(type, data.want[5] + 0.01);
  } else if (spoil == "nan") {
    data.got[5] = std::numeric_limits<double>::quiet_NaN();
  } else if (spoil == "neighbour") {
    data.want[5] = data.peer[5] = 3.0;
    data.got[5] = 3.0 + unit_in_last_place(type, 3.0);
  }
  return data;
}

TEST(Contract, TheNumbersAreThoseOfPython) {
  const nlohmann::json asked = contract();
  EXPECT_EQ(kTile, asked["tile"].get<std::int64_t>());
  EXPECT_EQ(Tolerance{}.framework_factor, asked["framework_factor"].get<double>());
  for (const auto& [name, limit] : asked["difference_limit"].items()) {
    EXPECT_EQ(tolerance_of(kTypes.at(name)).difference, limit.get<double>()) << name;
    EXPECT_EQ(tolerance_of(kTypes.at(name)).tile_difference, limit.get<double>()) << name;
  }
}

TEST(Contract, VerdictsAreThoseOfPython) {
  const nlohmann::json asked = contract();
  ASSERT_FALSE(asked["cases"].empty());
  for (const nlohmann::json& one : asked["cases"]) {
    SCOPED_TRACE(one.dump());
    const DType type = kTypes.at(one["type"]);
    const Data made = data(one, type);
    const Compared matrix{.rows = one["rows"],
                          .columns = one["columns"],
                          .type = type,
                          .actual = made.got,
                          .expected = made.want,
                          .framework = made.peer};
    const Verdict verdict = judge(matrix, tolerance_of(type));
    EXPECT_EQ(verdict.passes(), one["passes"].get<bool>()) << verdict.reason;
    const auto same = [&](const char* figure, double value) {
      const nlohmann::json& want = one[figure];
      if (want.is_null()) {
        EXPECT_TRUE(std::isnan(value)) << figure;
      } else {
        EXPECT_NEAR(value, want.get<double>(), 1e-9 * want.get<double>()) << figure;
      }
    };
    same("error", verdict.error);
    same("framework_error", verdict.framework_error);
    same("worst", verdict.worst);
    same("framework_worst", verdict.framework_worst);
    same("difference", verdict.difference);
    same("tile_difference", verdict.tile_difference);
  }
}

}  // namespace
}  // namespace fovea::ops::reference
