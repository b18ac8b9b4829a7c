// Names of places in shared memory and of kernels in findings.
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "device_fixture.hpp"
#include "fovea_emulator/device.hpp"

namespace emu {
namespace {

constexpr std::string_view kNamedVariables =
    ".shared .align 4 .b8 first[100]; .shared .align 16 .b8 _ZZ4workvE6second[256];"
    " .extern .shared .align 16 .b8 dynamic[];";

class PlaceNameTest : public DeviceTest {
 protected:
  // Where two warps race: one stores by an instruction, the other one loads by another.
  std::string place_of(std::string_view load) {
    const std::string body = fmt::format(R"(
  mov.u32 %r2, 5;
  mov.u16 %rs1, 5;
  setp.ge.u32 %p1, %r1, 32;
  @%p1 bra LOADS;
  st.shared.u16 [first+6], %rs1;
  st.shared.u32 [_ZZ4workvE6second+64], %r2;
  st.shared.u32 [dynamic+12], %r2;
  bra DONE;
LOADS:
  {}
DONE:)",
                                         load);
    const Report report = run(kernel(body, kNamedVariables), put(std::vector<std::uint32_t>(64)),
                              LaunchConfig{.block = {64, 1, 1}, .dynamic_shared_bytes = 64},
                              {.seed = 1, .policy = Policy::kUniform});
    EXPECT_EQ(report.findings.size(), 1U);
    const std::string place = report.findings.empty() ? "" : report.findings[0].place;
    EXPECT_TRUE(report.findings.empty() ||
                report.findings[0].text().find("(" + place + ")") != std::string::npos);
    return place;
  }
};

TEST_F(PlaceNameTest, NamesTheVariableAndTheIndex) {
  EXPECT_EQ(place_of("ld.shared.u16 %rs2, [first+6];"), "first[3]");
  EXPECT_EQ(place_of("ld.shared.u32 %r3, [_ZZ4workvE6second+64];"), "second[16]");
  EXPECT_EQ(place_of("ld.shared.v2.f32 {%f1, %f2}, [_ZZ4workvE6second+64];"), "second[16]");
  EXPECT_EQ(place_of("ld.shared.u32 %r3, [dynamic+12];"), "dynamic[3]");
}

TEST_F(PlaceNameTest, NamesKernelsAsTheSourceDoes) {
  EXPECT_EQ(source_name("_Z5saxpyILi4EEvifPKfPf"),
            "void saxpy<4>(int, float, float const*, float*)");
  EXPECT_EQ(source_name("saxpy"), "saxpy");
  EXPECT_EQ(source_name("f"), "f");  // the mangled name of float
  std::string text = kernel("trap;");
  text.replace(text.find(" test("), 6, " _ZN2ns4workEPf(");
  const Report report = run(text, put(std::vector<std::uint32_t>(64)), 32);
  ASSERT_EQ(report.findings.size(), 1U);
  EXPECT_EQ(report.findings[0].kernel, "ns::work(float*)");
}

TEST_F(PlaceNameTest, DeadlocksNameTheMbarrier) {
  const Report report = run(kernel(R"(
  setp.eq.u32 %p1, %r1, 0;
  @%p1 mbarrier.init.shared::cta.b64 [full], 1;
  bar.warp.sync -1;
WAIT:
  mbarrier.try_wait.parity.shared::cta.b64 %p2, [full], 0;
  @!%p2 bra WAIT;)",
                                   ".shared .align 8 .b64 full;"),
                            put(std::vector<std::uint32_t>(64)), 32);
  ASSERT_EQ(report.findings.size(), 1U);
  EXPECT_NE(report.findings[0].message.find("(full): phase 0"), std::string::npos)
      << report.findings[0].message;
}

}  // namespace
}  // namespace emu
