// Messages of libfovea.so, which this program alone links: they speak C++ until a function of C is
// called.
#include <cstdlib>
#include <string>

#include <gtest/gtest.h>

#include "fovea/c/encoder.h"
#include "fovea/c/status.h"
#include "fovea/encoder.hpp"
#include "fovea/error.hpp"

namespace fovea {
namespace {

constexpr const char* kNobodyHas = "no-one/has-this";

std::string why_not_loaded() {
  try {
    const Encoder encoder(kNobodyHas);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Wording, IsThatOfCppUntilCIsCalled) {
  ::setenv("HF_HOME", "/nowhere", 1);
  const std::string cpp = why_not_loaded();
  EXPECT_NE(cpp.find("`fovea::pull({.id = \"no-one/has-this\"})`"), std::string::npos) << cpp;
  fovea_encoder* encoder = nullptr;
  ASSERT_EQ(fovea_encoder_load(kNobodyHas, "cpu", "auto", 0, &encoder), FOVEA_FAILED);
  const std::string c = fovea_last_error();
  EXPECT_NE(c.find("`fovea_pull(\"no-one/has-this\", NULL, ...)`"), std::string::npos) << c;
}

}  // namespace
}  // namespace fovea
