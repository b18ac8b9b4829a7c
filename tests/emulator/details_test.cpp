// Details of an operation: what was set is read as the same type alone.
#include "emulator/program/details.hpp"

#include <cstdint>
#include <stdexcept>

#include <gtest/gtest.h>

namespace emu {
namespace {

struct Wait {
  std::uint64_t groups = 0;
  bool is_all = false;
};
struct Arrival {
  std::uint64_t groups = 0;
  bool is_all = false;
};

TEST(DetailsTest, HoldWhatWasSet) {
  Details details;
  EXPECT_FALSE(details.holds<Wait>());
  details.set(Wait{.groups = 7, .is_all = true});
  const Details copy = details;
  EXPECT_TRUE(copy.holds<Wait>());
  EXPECT_EQ(copy.get<Wait>().groups, 7U);
  EXPECT_TRUE(copy.get<Wait>().is_all);
}

TEST(DetailsTest, RefuseToBeReadAsAnotherType) {
  Details details;
  EXPECT_THROW(static_cast<void>(details.get<Wait>()), std::logic_error);
  details.set(Wait{.groups = 7});
  EXPECT_FALSE(details.holds<Arrival>());  // though it has the same fields
  EXPECT_THROW(static_cast<void>(details.get<Arrival>()), std::logic_error);
  details.set(Arrival{.groups = 8});
  EXPECT_EQ(details.get<Arrival>().groups, 8U);
  EXPECT_THROW(static_cast<void>(details.get<Wait>()), std::logic_error);
}

}  // namespace
}  // namespace emu
