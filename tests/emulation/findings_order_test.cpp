// Findings as they are listed: with the callers of their lines.
#include "lab/emulation/findings_order.hpp"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "lab/emulation/findings_text.hpp"

namespace fovea::emulation {
namespace {

TEST(FindingsOrderTest, PlacesOfASource) {
  const std::vector<SourceLine> lines =
      source_lines("/my (old)/a.cu:8 (inlined at a.cu:20) (inlined at b.cu:30) (inside crt/m.h:4)",
                   {.file = "a.cu", .is_kept = false}, 50);
  ASSERT_EQ(lines.size(), 4U);
  EXPECT_EQ(lines[0].file + lines[1].file + lines[2].file + lines[3].file,
            "/my (old)/a.cua.cub.cucrt/m.h");
  EXPECT_EQ(lines[0].line, 8);
  EXPECT_EQ(lines[1].line, 20);
  EXPECT_EQ(lines[2].line, 30);
  EXPECT_EQ(lines[3].line, 4);
  EXPECT_EQ(lines[2].note, "inlined here");
  EXPECT_NE(lines[3].note, lines[2].note);
}

}  // namespace
}  // namespace fovea::emulation
