// Findings as they are listed: causes first, one for each line of the source, with its callers.
#include "lab/emulation/findings_order.hpp"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "lab/emulation/findings_text.hpp"

namespace fovea::emulation {
namespace {

// A race of an access of warp 1 with one of another warp.
emu::Finding race(int warp, const std::string& source = "", int line = 0,
                  const std::string& instruction = "ld.shared.f32") {
  return {.kind = emu::FindingKind::kRace,
          .message = "",
          .kernel = "sum",
          .instruction = instruction,
          .line = line,
          .source = source,
          .warp = 1,
          .other = emu::EarlierAccess{.kernel = "sum",
                                      .instruction = "st.shared.f32",
                                      .line = 7,
                                      .source = source.empty() ? "" : "a.cu:5",
                                      .warp = warp}};
}

TEST(FindingsOrderTest, RacesBetweenWarpsComeFirst) {
  std::vector<emu::Finding> findings = {{.kind = emu::FindingKind::kUninitialized, .message = ""},
                                        race(1, "within"),
                                        race(2, "between"),
                                        race(1, "copy", 0, "cp.async.ca.shared.global")};
  put_causes_first(findings);
  ASSERT_EQ(findings.size(), 4U);
  EXPECT_EQ(findings[0].source, "between");
  EXPECT_EQ(findings[1].source, "copy");
  EXPECT_EQ(findings[2].source, "within");
  EXPECT_EQ(findings[3].kind, emu::FindingKind::kUninitialized);
}

TEST(FindingsOrderTest, ALineOfTheSourceHasOneFinding) {
  std::vector<emu::Finding> findings = {race(2, "a.cu:8 (inlined at a.cu:20)", 50),
                                        race(2, "a.cu:8 (inlined at a.cu:30)", 60),
                                        race(2, "a.cu:9", 70),
                                        race(2, "", 80),
                                        race(2, "", 90),
                                        race(2, "a.cu:8", 100)};
  findings[1].count = 5;
  const std::vector<emu::Finding> merged = merged_by_line(findings);
  ASSERT_EQ(merged.size(), 4U);
  EXPECT_EQ(merged[0].line, 50);
  EXPECT_EQ(merged[0].count, 7U);
  EXPECT_EQ(merged[1].count, 1U);
  // The other access, the kernel and the kind belong to it as well.
  findings = {race(2, "a.cu:8"), race(2, "a.cu:8"), race(2, "a.cu:8"), race(2, "a.cu:8")};
  findings[1].other->source = "a.cu:6";
  findings[2].kernel = "other";
  findings[3].kind = emu::FindingKind::kNoProxyFence;
  EXPECT_EQ(merged_by_line(findings).size(), 4U);
}

TEST(FindingsOrderTest, ALimitNamesTheOptionThatRaisesIt) {
  std::vector<emu::Finding> findings = {
      {.kind = emu::FindingKind::kNoProgress, .message = "it has not ended"}, race(2)};
  say_what_raises_limits(findings);
  EXPECT_EQ(findings[0].message, "it has not ended; --most-operations allows more");
  EXPECT_EQ(findings[1].message, "");
}

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
