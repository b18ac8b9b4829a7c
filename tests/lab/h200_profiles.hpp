// Counters of real launches on an H200, from h200_profiles.csv: a column for each.
#pragma once

#include <algorithm>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "lab/profile/profile.hpp"

namespace fovea::lab::test {

inline constexpr std::string_view kSourcePage =
    "\"Kernel Name\",\"gemm\",\n"
    "\"Address\",\"Source\",\"# Samples\",\"Instructions Executed\",\"stall_long_sb\","
    "\"stall_wait\"\n"
    "\"0x10\",\"      LDC R1, c[0x0][0x28]\",\"1\",\"4\",\"0\",\"1\"\n"
    "\"0x20\",\"      LDG.E.128 R4, [R2]\",\"3\",\"4\",\"2\",\"1\"\n";

inline std::vector<std::string> split(const std::string& line) {
  std::vector<std::string> fields;
  std::istringstream stream(line);
  for (std::string field; std::getline(stream, field, ',');) {
    fields.push_back(field);
  }
  return fields;
}

inline std::vector<std::vector<std::string>> h200_table() {
  std::ifstream file(FOVEA_H200_PROFILES);
  std::vector<std::vector<std::string>> rows;
  for (std::string line; std::getline(file, line);) {
    rows.push_back(split(line));
  }
  EXPECT_FALSE(rows.empty()) << FOVEA_H200_PROFILES;
  return rows;
}

/// "qkv", "norm", ...
inline std::vector<std::string> h200_names() {
  const auto header = h200_table().at(0);
  return {header.begin() + 1, header.end()};
}

/// The raw page as ncu prints it.
inline std::string h200_raw(const std::string& name) {
  const auto table = h200_table();
  const auto column =
      static_cast<std::size_t>(std::ranges::find(table.at(0), name) - table.at(0).begin());
  std::string names = "\"ID\"";
  std::string units = "\"\"";
  std::string values = "\"0\"";
  for (auto row = table.begin() + 1; row != table.end(); ++row) {
    const std::string& cell = row->at(column);
    const auto space = cell.find(' ');
    names += ",\"" + row->front() + "\"";
    units += ",\"" + (space == std::string::npos ? "" : cell.substr(space + 1)) + "\"";
    values += ",\"" + cell.substr(0, space) + "\"";
  }
  return "==PROF== Connected to process 7 (/x/fovea)\n" + names + "\n" + units + "\n" + values +
         "\n";
}

inline Profile h200_profile(const std::string& name) {
  return read_profile(h200_raw(name), kSourcePage).at(0);
}

}  // namespace fovea::lab::test
