// The gates on compiled kernels, on made-up ones: what they read and what they refuse.
#include "lab/code/resources.hpp"

#include <array>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "core/error.hpp"
#include "lab/code/machine_code.hpp"

namespace fovea::lab {
namespace {

constexpr std::string_view kListing = R"(
	.section	.text.kernel,"ax",@progbits
.text.kernel:
        /*0000*/                   LDC R1, c[0x0][0x28] ;
                                                          /* 0x00000a00ff017b82 */
        /*0010*/              @!P0 LDG.E.128 R4, desc[UR4][R2.64] ;
        /*0020*/         {    @P1  QGMMA.64x128x32.F32.E4M3.E4M3 R24, gdesc[UR12], R24 ;
        /*0030*/                   LDG.E.128 R8, desc[UR4][R2.64+0x10]  }
	//## File "/x/kernels/gemm/a.cu", line 14
        /*0040*/                   EXIT ;
)";

Card card_for(KernelLimits limits) {
  Card card;
  card.name = "made_up";
  card.kernels.push_back(std::move(limits));
  return card;
}

gpu::KernelImage image_of(int registers) {
  gpu::KernelImage image;
  image.name = "gemm_made_up_128";
  image.arch = 90;
  image.registers = registers;
  return image;
}

std::vector<std::string> faults_of(const Card& card, const gpu::KernelImage& image) {
  const std::array<const Card*, 1> cards = {&card};
  return check_resources(cards, std::span(&image, 1)).front().faults;
}

TEST(Resources, LimitsAreHeldAgainstTheImage) {
  KernelLimits limits;
  limits.kernel = "gemm_made_up_*";
  limits.registers = 168;
  limits.shared_bytes = 1024;
  const Card card = card_for(limits);
  EXPECT_TRUE(faults_of(card, image_of(168)).empty());
  EXPECT_EQ(faults_of(card, image_of(169)), std::vector<std::string>{"169 registers, 168 allowed"});
  gpu::KernelImage shared = image_of(100);
  shared.shared_bytes = 1025;
  EXPECT_EQ(faults_of(card, shared).size(), 1U);
}

TEST(Resources, SpillsAndLocalMemoryAreNeverAllowed) {
  const Card other = card_for({.kernel = "attention_*"});
  gpu::KernelImage image = image_of(200);
  EXPECT_TRUE(faults_of(other, image).empty());
  image.spill_store_bytes = 4;
  image.spill_load_bytes = 8;
  image.stack_bytes = 32;
  EXPECT_EQ(faults_of(other, image).size(), 3U);
}

TEST(Resources, CoversByNameOrBeginning) {
  EXPECT_TRUE((KernelLimits{.kernel = "gemm_*"}.covers("gemm_a")));
  EXPECT_FALSE((KernelLimits{.kernel = "gemm_*"}.covers("pool_a")));
  EXPECT_TRUE((KernelLimits{.kernel = "gemm_a"}.covers("gemm_a")));
  EXPECT_FALSE((KernelLimits{.kernel = "gemm_a"}.covers("gemm_ab")));
}

TEST(MachineCode, InstructionsAreCountedByName) {
  const auto counts = count_instructions(kListing);
  EXPECT_EQ(counts.size(), 4U);
  EXPECT_EQ(counts.at("LDG.E.128"), 2);
  EXPECT_EQ(counts.at("QGMMA.64x128x32.F32.E4M3.E4M3"), 1);
  EXPECT_EQ(counts.at("LDC"), 1);
  EXPECT_EQ(counts.at("EXIT"), 1);
}

// Kernels are disassembled together, and each is judged by its own instructions.
TEST(MachineCode, AListingOfSeveralKernelsIsSplitByTheirSizes) {
  const std::vector<std::size_t> sizes = {0x30, 0x20, 0x10};
  const std::vector<std::string_view> parts = split_listing(kListing, sizes);
  ASSERT_EQ(parts.size(), sizes.size());
  EXPECT_EQ(count_instructions(parts[0]).size(), 3U);
  EXPECT_EQ(count_instructions(parts[0]).at("LDG.E.128"), 1);
  EXPECT_EQ(count_instructions(parts[1]),
            (std::map<std::string, int>{{"LDG.E.128", 1}, {"EXIT", 1}}));
  EXPECT_TRUE(parts[2].empty()) << "nothing was read of it, which is a fault";
}

TEST(MachineCode, InstructionsAreThoseOfTheCubin) {
  std::vector<std::byte> file(100);
  EXPECT_THROW((void)kernel_instructions(file, "kernel"), Error);
  if (gpu::kernel_images().empty()) {
    GTEST_SKIP() << "this program has no kernels: scripts/build --test builds them";
  }
  for (const gpu::KernelImage& image : gpu::kernel_images()) {
    const std::vector<std::byte> cubin = gpu::unpack(image);
    const std::size_t size = kernel_instructions(cubin, image.name).size();
    EXPECT_GT(size, 0U) << image.name;
    EXPECT_EQ(size % 16, 0U) << image.name;
    EXPECT_TRUE(kernel_instructions(cubin, image.name.substr(1)).empty());
    EXPECT_THROW((void)kernel_instructions(std::span(cubin).first(cubin.size() / 2), image.name),
                 Error);
  }
}

TEST(MachineCode, DemandsAreHeldAgainstIt) {
  const auto check = [](const KernelLimits& limits, std::string_view listing) {
    const Card card = card_for(limits);
    const std::array<const Card*, 1> cards = {&card};
    return check_instructions(cards, image_of(100), count_instructions(listing));
  };
  EXPECT_TRUE(check({.kernel = "gemm_*", .sass_has = {"QGMMA", "LDG.E.128"}}, kListing).empty());
  EXPECT_EQ(check({.kernel = "gemm_*", .sass_has = {"HGMMA"}}, kListing),
            std::vector<std::string>{"no HGMMA"});
  EXPECT_EQ(check({.kernel = "gemm_*", .sass_lacks = {"LDG"}}, kListing).size(), 1U);
  // "LD" is another instruction than "LDG", not its beginning.
  EXPECT_TRUE(check({.kernel = "gemm_*", .sass_lacks = {"LD"}}, kListing).empty());
  // Another architecture's demands are none of this image's.
  EXPECT_TRUE(check({.kernel = "gemm_*", .arch = 100, .sass_has = {"UTCMMA"}}, kListing).empty());
  EXPECT_EQ(check({.kernel = "gemm_*"}, "        /*0000*/  LDL R1, [R2] ;\n").size(), 1U);
  EXPECT_EQ(check({.kernel = "gemm_*"}, "").size(), 1U);
}

}  // namespace
}  // namespace fovea::lab
