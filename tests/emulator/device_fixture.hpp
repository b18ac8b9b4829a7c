// Small kernels, written as PTX, and a device that runs them.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "fovea_emulator/device.hpp"

namespace emu {

/// A kernel `test` with one parameter, an address, which is in %rd1; a lane's own 4 bytes there are
/// at %rd3, and its number in the block is in %r1.
inline std::string kernel(std::string_view body, std::string_view variables = "") {
  return fmt::format(R"(.version 9.0
.target sm_90a
.address_size 64
{}
.visible .entry test(.param .u64 memory)
{{
  .reg .pred %p<8>;
  .reg .b16 %rs<8>;
  .reg .f32 %f<40>;
  .reg .b32 %r<40>;
  .reg .b64 %rd<20>;
  ld.param.u64 %rd1, [memory];
  mov.u32 %r1, %tid.x;
  mul.wide.u32 %rd2, %r1, 4;
  add.s64 %rd3, %rd1, %rd2;
{}
  ret;
}}
)",
                     variables, body);
}

class DeviceTest : public ::testing::Test {
 protected:
  template <typename T>
  std::uint64_t put(const std::vector<T>& values) {
    const std::uint64_t address = device_.allocate(values.size() * sizeof(T));
    device_.write(address, std::as_bytes(std::span(values)));
    return address;
  }

  template <typename T>
  std::vector<T> get(std::uint64_t address, std::size_t count) {
    std::vector<T> values(count);
    device_.read(std::as_writable_bytes(std::span(values)), address);
    return values;
  }

  /// Runs the module's first kernel with an address as its parameter.
  Report run(const std::string& ptx, std::uint64_t address, const LaunchConfig& config,
             const RunOptions& options = {}) {
    const KernelHandle loaded = device_.load(ptx).front();
    return device_.launch(loaded, config, std::bit_cast<std::array<std::byte, 8>>(address),
                          options);
  }
  Report run(const std::string& ptx, std::uint64_t address, std::uint32_t threads,
             const RunOptions& options = {}) {
    return run(ptx, address, LaunchConfig{.block = {threads, 1, 1}}, options);
  }

  // Runs the body with numbers in memory, and gives what is there then.
  template <typename T>
  std::vector<T> after(std::string_view body, const std::vector<T>& values, std::uint32_t threads,
                       std::string_view variables = "") {
    const std::uint64_t address = put(values);
    const Report report = run(kernel(body, variables), address, threads);
    EXPECT_TRUE(report.is_clean()) << report.findings.front().text();
    return get<T>(address, values.size());
  }

  // The finding of a run of the body with 32 numbers in memory.
  FindingKind finding_of(std::string_view body, std::uint32_t threads = 32,
                         std::string_view variables = "", const RunOptions& options = {}) {
    const Report report =
        run(kernel(body, variables), put(std::vector<std::uint32_t>(32, 1)), threads, options);
    if (report.findings.size() != 1) {
      ADD_FAILURE() << report.findings.size() << " findings of " << body;
      return FindingKind::kTrap;
    }
    EXPECT_GT(report.findings.front().line, 0);
    EXPECT_EQ(report.findings.front().kernel, "test");
    return report.findings.front().kind;
  }

  /// The kinds of findings of the schedules of so many seeds; run_seed(seed) gives a report.
  template <typename RunSeed>
  std::set<FindingKind> kinds_over(std::uint64_t seeds, RunSeed&& run_seed) {
    std::set<FindingKind> kinds;
    clean_ = 0;
    for (std::uint64_t seed = 0; seed < seeds; ++seed) {
      const Report report = run_seed(seed);
      clean_ += report.is_clean() ? 1 : 0;
      for (const Finding& finding : report.findings) {
        kinds.insert(finding.kind);
        last_ = finding;
      }
    }
    return kinds;
  }

  Device device_;
  Finding last_{};           // that kinds_over has seen
  std::uint64_t clean_ = 0;  // schedules of the last kinds_over without a finding
};

}  // namespace emu
