// What a result says of the machine, and of the program that measured.
#include "lab/system/machine.hpp"

#include <cstdlib>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "core/commit.hpp"

namespace fovea::lab {
namespace {

TEST(MachineTest, TheCommitIsTheProgramsOwn) {
  ::setenv("FOVEA_BENCH_COMMIT", "decaf", 1);
  const auto machine = nlohmann::json::parse(machine_json({}, "580"));
  ::unsetenv("FOVEA_BENCH_COMMIT");
  EXPECT_EQ(machine.at("commit"), built_from_commit);
}

}  // namespace
}  // namespace fovea::lab
