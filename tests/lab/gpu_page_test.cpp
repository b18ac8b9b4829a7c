// The table of docs/gpu.md says what runs where: it is held to the list of kernels, and the README
// refers to it.
#include <algorithm>
#include <fstream>
#include <iterator>
#include <regex>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "gpu/device/kernel_image.hpp"

namespace fovea::lab {
namespace {

std::string text_of(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// How an operator runs on an architecture, by the kernels whose names begin so and have the part.
std::string code_for(std::string_view begin, std::string_view part, int arch) {
  std::string found;
  for (const gpu::KernelInfo& info : gpu::kernels()) {
    if (!info.name.starts_with(begin) || info.name.find(part) == std::string_view::npos) {
      continue;
    }
    for (const gpu::Target& target : info.targets) {
      if (target.arch != 0 && gpu::runs_on(target, arch)) {
        const bool is_ptx = target.code == gpu::Code::kPtx;
        found = is_ptx && !found.empty() ? found : is_ptx ? "PTX" : "machine code";
      }
    }
  }
  return found;
}

TEST(GpuPage, TableIsThatOfTheKernels) {
  const std::string page = text_of(FOVEA_GPU_PAGE);
  const std::size_t table = page.find("## What runs where");
  ASSERT_NE(table, std::string::npos);
  const std::string rows = page.substr(table, page.find("\n## ", table + 1) - table);
  struct Column {
    std::size_t number;
    std::string_view begin;
    std::string_view part;
  };
  const std::vector<Column> columns = {{1, "layer_norm_", "bf16"},
                                       {2, "gemm_", "_bf16_bias_"},
                                       {3, "gemm_", "_s8s8_"},
                                       {4, "gemm_", "_mxfp8_"},
                                       {5, "attention_", "bf16"}};
  int compared = 0;
  const std::regex version("\\b(\\d+)\\.(\\d)\\b");
  std::size_t place = 0;
  while ((place = rows.find("\n| ", place)) != std::string::npos) {
    ++place;
    const std::string row = rows.substr(place, rows.find('\n', place) - place);
    std::vector<std::string> cells;
    for (std::size_t begin = 2; begin < row.size();) {
      const std::size_t end = std::min(row.find(" |", begin), row.size());
      cells.push_back(row.substr(begin, end - begin));
      begin = end + 3;
    }
    if (cells.size() < 6 || cells[0].starts_with("older")) {
      continue;
    }
    for (auto found = std::sregex_iterator(cells[0].begin(), cells[0].end(), version);
         found != std::sregex_iterator(); ++found) {
      const int arch = 10 * std::stoi((*found)[1]) + std::stoi((*found)[2]);
      for (const Column& column : columns) {
        const std::string code = code_for(column.begin, column.part, arch);
        const std::string& said = cells[column.number];
        EXPECT_TRUE(code.empty() ? said.starts_with("cuBLASLt") || said.starts_with("an error")
                                 : said.starts_with(code))
            << "sm_" << arch << ", " << column.part << ": docs/gpu.md says '" << said
            << "', and the kernels are '" << code << "'";
        ++compared;
      }
    }
  }
  EXPECT_GE(compared, 5 * 9) << "the table was not read";
}

TEST(GpuPage, TheReadmeSaysWhereItIs) {
  const std::string readme = text_of(FOVEA_README);
  EXPECT_NE(readme.find("docs/gpu.md#what-runs-where"), std::string::npos);
  // What it says by itself is said of whole generations: Blackwell's products are kernels.
  EXPECT_EQ(readme.find("B200 GPUs run the same operators through cuBLASLt"), std::string::npos);
}

}  // namespace
}  // namespace fovea::lab
