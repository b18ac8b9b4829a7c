// Control groups limit memory and CPUs, in both versions and nested.
#include "core/control_group.hpp"

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>

#include <gtest/gtest.h>

#include "core/memory_limit.hpp"

namespace fovea {
namespace {

namespace fs = std::filesystem;

class ControlGroupTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "fovea-limit-XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    root_ = pattern;
  }
  void TearDown() override { fs::remove_all(root_); }
  void write(const std::string& name, const std::string& content) const {
    fs::create_directories((root_ / name).parent_path());
    std::ofstream(root_ / name) << content;
  }

  fs::path root_;
};

TEST_F(ControlGroupTest, MemoryIsTheMachinesWithoutOne) {
  EXPECT_GT(memory_limit(root_), std::uint64_t{1} << 28);
}

TEST_F(ControlGroupTest, MemoryIsTheLeastOfTheGroupsAround) {
  write("proc/self/cgroup", "0::/outer/inner\n");
  write("sys/fs/cgroup/outer/inner/memory.max", "max\n");
  write("sys/fs/cgroup/outer/memory.max", "100000000\n");
  EXPECT_EQ(memory_limit(root_), 100'000'000U);
}

TEST_F(ControlGroupTest, MemoryOfTheFirstVersionToo) {
  write("proc/self/cgroup", "12:cpu:/x\n4:hugetlb,memory:/docker/1f\n");
  write("sys/fs/cgroup/memory/memory.limit_in_bytes", "200000000\n");  // as seen inside
  EXPECT_EQ(memory_limit(root_), 200'000'000U);
}

TEST_F(ControlGroupTest, CpusAreUnlimitedWithoutAQuota) {
  EXPECT_EQ(cpu_quota(root_), std::numeric_limits<double>::infinity());
  write("proc/self/cgroup", "0::/outer/inner\n7:cpu,cpuacct:/docker/1f\n");
  write("sys/fs/cgroup/outer/cpu.max", "max 100000\n");
  write("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
  write("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(cpu_quota(root_), std::numeric_limits<double>::infinity());
  EXPECT_EQ(threads_within(root_), threads_within("/nowhere"));
}

TEST_F(ControlGroupTest, CpusAreTheLeastOfTheGroupsAround) {
  write("proc/self/cgroup", "0::/outer/inner\n");
  write("sys/fs/cgroup/outer/inner/cpu.max", "350000 100000\n");
  write("sys/fs/cgroup/outer/cpu.max", "125000 50000\n");
  EXPECT_EQ(cpu_quota(root_), 2.5);
  write("sys/fs/cgroup/outer/cpu.max", "50000 100000\n");
  EXPECT_EQ(cpu_quota(root_), 0.5);
  EXPECT_EQ(threads_within(root_), 1);
}

TEST_F(ControlGroupTest, CpusOfTheFirstVersionToo) {
  write("proc/self/cgroup", "9:cpuset:/a\n3:cpu,cpuacct:/docker/1f\n0::/\n");
  write("sys/fs/cgroup/cpu,cpuacct/docker/1f/cpu.cfs_quota_us", "150000\n");
  write("sys/fs/cgroup/cpu,cpuacct/docker/1f/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(cpu_quota(root_), 1.5);
  write("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "100000\n");  // as seen inside
  write("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(cpu_quota(root_), 1);
  EXPECT_EQ(threads_within(root_), 1);
}

}  // namespace
}  // namespace fovea
