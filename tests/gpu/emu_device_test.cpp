// EmuDevice: memory, order of work, what becomes of findings, and kernels of this program on it.
#include "gpu/emulated/emu_device.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "core/error.hpp"
#include "gpu/device/kernel_image.hpp"
#include "gpu/launch/gemm.hpp"
#include "gpu/launch/norm.hpp"
#include "gpu/launch/pixels.hpp"
#include "ops/rounding.hpp"

namespace fovea::gpu {
namespace {

// Changes the number of each thread of a block of 32: the parameter is where they are.
std::string changing(std::string_view how, int number, std::string_view before = "",
                     std::string_view address = "[%rd3]") {
  return fmt::format(R"(.version 9.0
.target sm_90
.address_size 64
.visible .entry change(.param .u64 memory)
{{
  .reg .pred %p<2>;
  .reg .b32 %r<8>;
  .reg .b64 %rd<8>;
  ld.param.u64 %rd1, [memory];
  mov.u32 %r1, %tid.x;
  mul.wide.u32 %rd2, %r1, 4;
  add.s64 %rd3, %rd1, %rd2;
  {0}
  ld.global.u32 %r2, {1};
  {2} %r3, %r2, {3};
  st.global.u32 {1}, %r3;
  ret;
}}
)",
                     before, address, how, number);
}

using Numbers = std::array<std::uint32_t, 32>;

class EmuDeviceTest : public ::testing::Test {
 protected:
  Kernel load(const std::string& ptx) {
    return device_->find(device_->load(std::as_bytes(std::span(ptx))), "change");
  }
  void launch(Kernel kernel, Stream& stream, const LaunchConfig& config = {.block = {.x = 32}}) {
    const DevicePtr address = memory_.address();
    device_->launch(kernel, config, std::as_bytes(std::span(&address, 1)), stream);
  }
  void put(const Numbers& numbers) {
    device_->copy_to_device(memory_.address(), std::as_bytes(std::span(numbers)), *stream_);
  }
  Numbers get() {
    Numbers numbers{};
    device_->copy_to_host(std::as_writable_bytes(std::span(numbers)), memory_.address(), *stream_);
    return numbers;
  }
  static Numbers all(std::uint32_t number) {
    Numbers numbers{};
    numbers.fill(number);
    return numbers;
  }

  std::unique_ptr<Device> device_ = open_emulated_device({.arch = 90, .seed = 3});
  std::unique_ptr<Stream> stream_ = device_->make_stream();
  DeviceBuffer memory_{*device_, sizeof(Numbers)};
};

TEST_F(EmuDeviceTest, CopiesAndFillsInOrder) {
  const std::unique_ptr<Stream> other = device_->make_stream();
  const std::unique_ptr<Event> event = device_->make_event();
  const DeviceBuffer second(*device_, sizeof(Numbers));
  put(all(7));
  device_->copy_on_device(second.address(), memory_.address(), sizeof(Numbers), *stream_);
  device_->fill(memory_.address(), 1, sizeof(Numbers) / 2, *stream_);
  event->record(*stream_);
  other->wait_for(*event);
  device_->copy_on_device(memory_.address() + sizeof(Numbers) / 2, second.address(), 4, *other);
  other->synchronize();
  EXPECT_TRUE(event->done());
  Numbers expected = all(7);
  std::fill_n(expected.begin(), 16, 0x01010101U);
  EXPECT_EQ(get(), expected);
}

TEST_F(EmuDeviceTest, PageLockedMemoryIsReadLateAndOtherMemoryAtOnce) {
  const PinnedBuffer pinned(*device_, sizeof(Numbers));
  Numbers numbers = all(1);
  std::memcpy(pinned.bytes().data(), numbers.data(), sizeof(Numbers));
  const DeviceBuffer second(*device_, sizeof(Numbers));
  put(numbers);
  device_->copy_to_device(second.address(), pinned.bytes(), *stream_);
  numbers = all(2);
  std::memcpy(pinned.bytes().data(), numbers.data(), sizeof(Numbers));
  EXPECT_EQ(get(), all(1));
  device_->copy_on_device(memory_.address(), second.address(), sizeof(Numbers), *stream_);
  EXPECT_EQ(get(), all(2));
}

TEST_F(EmuDeviceTest, MemoryIsLimitedAndNothingOutsideIsTouched) {
  const std::size_t free = device_->free_memory();
  EXPECT_THROW((void)device_->allocate(free + 1), OutOfMemory);
  const DevicePtr gone = DeviceBuffer(*device_, 64).address();
  EXPECT_EQ(device_->free_memory(), free);
  for (const auto& [address, bytes] :
       {std::pair<DevicePtr, std::size_t>{gone, 64}, {memory_.address(), sizeof(Numbers) + 1}}) {
    device_->fill(address, 0, bytes, *stream_);
    EXPECT_THROW(stream_->synchronize(), Error);
  }
}

TEST_F(EmuDeviceTest, WhatAKernelDoesWrongIsAnErrorAndTheRestIsDropped) {
  const Kernel wrong = load(changing("add.u32", 1, "", "[%rd3+4]"));
  put(all(1));
  launch(wrong, *stream_);
  device_->fill(memory_.address(), 0, 4, *stream_);
  try {
    stream_->synchronize();
    FAIL() << "it found nothing";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("change: out of bounds"), std::string::npos)
        << error.what();
  }
  EXPECT_EQ(get()[0], 1U) << "what came behind it ran";
  put(all(5));
  launch(load(changing("add.u32", 1)), *stream_);
  EXPECT_EQ(get(), all(6)) << "the device is of use again";
  launch(wrong, *stream_);
  {
    const DeviceBuffer freed(*device_, 16);
  }  // which waits and cannot tell
  EXPECT_THROW(device_->synchronize(), Error);
}

TEST_F(EmuDeviceTest, AGraphRunsWhenItIsLaunched) {
  const Kernel kernel = load(changing("add.u32", 3));
  put(all(0));
  device_->begin_capture(*stream_);
  launch(kernel, *stream_);
  launch(kernel, *stream_);
  const std::unique_ptr<Graph> graph = device_->end_capture(*stream_);
  EXPECT_EQ(get(), all(0));
  graph->launch(*stream_);
  graph->launch(*stream_);
  EXPECT_EQ(get(), all(12));
}

// A grid that lets the next one start before it has written: that one sees it only when it waits.
TEST_F(EmuDeviceTest, DependentGridsOverlap) {
  const auto runs_late = [&](bool dependent) {
    int late = 0;
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
      memory_ = DeviceBuffer();
      device_ = open_emulated_device({.arch = 90, .seed = seed});
      stream_ = device_->make_stream();
      memory_ = DeviceBuffer(*device_, sizeof(Numbers));
      const Kernel first = load(changing("add.u32", 1, R"(griddepcontrol.launch_dependents;
  mov.u32 %r4, 200;
WAIT:
  sub.u32 %r4, %r4, 1;
  setp.ne.u32 %p1, %r4, 0;
  @%p1 bra WAIT;)"));
      const Kernel second = load(changing("mul.lo.u32", 3));
      put(all(0));
      launch(first, *stream_);
      launch(second, *stream_, {.block = {.x = 32}, .dependent = dependent});
      try {
        late += get() == all(3) ? 0 : 1;
      } catch (const Error&) {  // it found the race
        ++late;
      }
    }
    return late;
  };
  EXPECT_EQ(runs_late(false), 0);
  EXPECT_GT(runs_late(true), 0);
}

TEST_F(EmuDeviceTest, RefusesWhatItDoesNotHave) {
  EXPECT_THROW((void)open_emulated_device({.arch = 70}), Error);
  EXPECT_THROW((void)device_->native_handle(*stream_), Error);
  EXPECT_THROW((void)load("a cubin"), Error);
  const std::string text = changing("add.u32", 1);
  EXPECT_THROW((void)device_->find(device_->load(std::as_bytes(std::span(text))), "other"), Error);
  EXPECT_THROW(launch(load(text), *stream_,
                      {.block = {.x = 32},
                       .dynamic_shared_bytes = device_->info().shared_bytes_per_block + 1}),
               Error);
}

double value_of(std::uint16_t bits) {
  return double{std::bit_cast<float>(std::uint32_t{bits} << 16U)};
}

std::vector<std::uint16_t> drawn(std::size_t count, std::mt19937& random) {
  std::normal_distribution<float> draw(0.1F, 0.7F);
  std::vector<std::uint16_t> values(count);
  for (std::uint16_t& value : values) {
    value = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(draw(random)) >> 16U);
  }
  return values;
}

// The kernels of this program, where it has any.
class EmulatedKernelTest : public ::testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    if (kernel_images().empty()) {
      GTEST_SKIP() << "this program has no kernels: scripts/build --test builds them";
    }
  }

  DeviceBuffer upload(std::span<const std::byte> bytes) {
    DeviceBuffer buffer(*device_, bytes.size());
    device_->copy_to_device(buffer.address(), bytes, *stream_);
    return buffer;
  }
  template <typename T>
  std::vector<T> download(const DeviceBuffer& buffer) {
    std::vector<T> values(buffer.bytes() / sizeof(T));
    device_->copy_to_host(std::as_writable_bytes(std::span(values)), buffer.address(), *stream_);
    return values;
  }

  std::unique_ptr<Device> device_ = open_emulated_device({.arch = GetParam()});
  std::unique_ptr<Stream> stream_ = device_->make_stream();
  KernelCache kernels_{*device_};
};

TEST_P(EmulatedKernelTest, RepeatsTheTable) {
  std::vector<std::uint16_t> table(1000);
  for (std::size_t i = 0; i < table.size(); ++i) {
    table[i] = static_cast<std::uint16_t>(i * 7);
  }
  constexpr std::int64_t kCopies = 5;
  const DeviceBuffer source = upload(std::as_bytes(std::span(table)));
  const DeviceBuffer output(*device_, table.size() * 2 * kCopies);
  kernels_.run(repeat_launch(device_->info(), source.address(), output.address(), std::ssize(table),
                             kCopies),
               *stream_);
  const auto found = download<std::uint16_t>(output);
  for (std::size_t i = 0; i < found.size(); ++i) {
    ASSERT_EQ(found[i], table[i % table.size()]) << i;
  }
}

TEST_P(EmulatedKernelTest, NormalisesRows) {
  constexpr std::int64_t kRows = 9;
  constexpr std::int64_t kColumns = 776;
  std::mt19937 random(5);
  const auto input = drawn(kRows * kColumns, random);
  const std::vector<float> weight(kColumns, 2.0F);
  const std::vector<float> bias(kColumns, 0.25F);
  const DeviceBuffer rows = upload(std::as_bytes(std::span(input)));
  const DeviceBuffer scales = upload(std::as_bytes(std::span(weight)));
  const DeviceBuffer shifts = upload(std::as_bytes(std::span(bias)));
  const DeviceBuffer output(*device_, input.size() * 2);
  kernels_.run(
      layer_norm_launch(
          *device_,
          {.rows = kRows, .width = kColumns, .input = DType::kBF16, .output = DType::kBF16},
          {.input = rows.address(),
           .weight = scales.address(),
           .bias = shifts.address(),
           .output = output.address()}),
      *stream_);
  const auto found = download<std::uint16_t>(output);
  for (std::int64_t row = 0; row < kRows; ++row) {
    double sum = 0;
    double squares = 0;
    for (std::int64_t i = row * kColumns; i < (row + 1) * kColumns; ++i) {
      const double value = value_of(input[static_cast<std::size_t>(i)]);
      sum += value;
      squares += value * value;
    }
    const double mean = sum / kColumns;
    const double scale = 1 / std::sqrt(squares / kColumns - mean * mean + 1e-6);
    for (std::int64_t i = row * kColumns; i < (row + 1) * kColumns; ++i) {
      const auto at = static_cast<std::size_t>(i);
      const double expected = (value_of(input[at]) - mean) * scale * 2 + 0.25;
      ASSERT_NEAR(value_of(found[at]), expected, std::max(std::abs(expected), 0.01) / 128) << i;
    }
  }
}

// Tensor maps, copies of the TMA, mbarriers, clusters and wgmma: each kernel of the product, ragged
// in rows and columns, with more blocks of K than a ring of buffers has.
TEST_P(EmulatedKernelTest, MultipliesMatrices) {
  const GemmProblem problem{.m = 140, .n = 144, .k = 720};
  const std::vector<GemmPlan> plans = gemm_plans(problem, device_->info());
  if (GetParam() != 90) {
    EXPECT_TRUE(plans.empty());
    return;
  }
  ASSERT_FALSE(plans.empty());
  std::mt19937 random(11);
  const auto a = drawn(static_cast<std::size_t>(problem.m * problem.k), random);
  const auto b = drawn(static_cast<std::size_t>(problem.n * problem.k), random);
  const std::vector<float> bias(static_cast<std::size_t>(problem.n), 3.0F);
  const DeviceBuffer left = upload(std::as_bytes(std::span(a)));
  const DeviceBuffer right = upload(std::as_bytes(std::span(b)));
  const DeviceBuffer added = upload(std::as_bytes(std::span(bias)));
  for (const GemmPlan& plan : plans) {
    const DeviceBuffer output(*device_, static_cast<std::size_t>(problem.m * problem.n) * 2);
    kernels_.run(gemm_launch(*device_, problem,
                             {.a = left.address(),
                              .b = right.address(),
                              .output = output.address(),
                              .bias = added.address()},
                             plan),
                 *stream_);
    const auto found = download<std::uint16_t>(output);
    for (std::int64_t row = 0; row < problem.m; ++row) {
      for (std::int64_t column = 0; column < problem.n; ++column) {
        double expected = 3.0;
        for (std::int64_t k = 0; k < problem.k; ++k) {
          expected += value_of(a[static_cast<std::size_t>(row * problem.k + k)]) *
                      value_of(b[static_cast<std::size_t>(column * problem.k + k)]);
        }
        ASSERT_NEAR(value_of(found[static_cast<std::size_t>(row * problem.n + column)]), expected,
                    std::max(std::abs(expected) / 128, 0.01))
            << to_string(plan) << ": row " << row << ", column " << column;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Architectures, EmulatedKernelTest, ::testing::Values(80, 90),
                         [](const auto& info) { return fmt::format("sm_{}", info.param); });

}  // namespace
}  // namespace fovea::gpu
