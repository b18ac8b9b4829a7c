// Page-locked buffers are known by their addresses, freed once, and outlive who handed them out.
#include "gpu/page_locked.hpp"

#include <cstdlib>
#include <memory>
#include <set>
#include <utility>

#include <gtest/gtest.h>

#include "gpu/bare_device.hpp"

namespace fovea::gpu {
namespace {

/// A device that has page-locked memory and nothing else.
class MemoryDevice final : public BareDevice {
 public:
  explicit MemoryDevice(std::set<void*>& alive, std::size_t most) : alive_(alive), most_(most) {}

  [[nodiscard]] void* allocate_pinned(std::size_t bytes) override {
    if (bytes > most_) {
      throw OutOfMemory("no page-locked memory left");
    }
    void* const data = std::malloc(bytes);
    alive_.insert(data);
    return data;
  }
  void free_pinned(void* address) noexcept override {
    alive_.erase(address);
    std::free(address);
  }

 private:
  std::set<void*>& alive_;
  std::size_t most_;
};

class PageLockedTest : public testing::Test {
 protected:
  static constexpr std::size_t kMost = 4096;
  std::set<void*> alive_;
  std::shared_ptr<PageLocked> memory_ =
      std::make_shared<PageLocked>(std::make_shared<MemoryDevice>(alive_, kMost));
};

TEST_F(PageLockedTest, KnowsItsBuffersAndTheirParts) {
  HostBuffer first = memory_->allocate(1000);
  const HostBuffer second = memory_->allocate(500);
  const auto bytes = std::as_bytes(std::as_const(first).span());
  EXPECT_TRUE(memory_->holds(bytes));
  EXPECT_TRUE(memory_->holds(bytes.subspan(999)));
  EXPECT_TRUE(memory_->holds(std::as_bytes(second.span())));
  EXPECT_FALSE(memory_->holds({bytes.data(), 1001}));
  const HostBuffer plain(1000);
  EXPECT_FALSE(memory_->holds(std::as_bytes(plain.span())));
}

TEST_F(PageLockedTest, ForgetsWhatWasFreed) {
  std::span<const std::byte> bytes;
  {
    const HostBuffer buffer = memory_->allocate(100);
    bytes = std::as_bytes(buffer.span());
    EXPECT_EQ(alive_.size(), 1U);
  }
  EXPECT_TRUE(alive_.empty());
  EXPECT_FALSE(memory_->holds(bytes));
}

TEST_F(PageLockedTest, BuffersOutliveTheirMaker) {
  HostBuffer buffer = memory_->allocate(100);
  memory_.reset();
  EXPECT_EQ(alive_.size(), 1U);
  buffer.data()[99] = 1;
  buffer = HostBuffer();
  EXPECT_TRUE(alive_.empty());
}

TEST_F(PageLockedTest, GivesPlainMemoryWhenThereIsNoOther) {
  HostBuffer buffer = memory_->allocate(kMost + 1);
  buffer.data()[kMost] = 1;
  EXPECT_TRUE(alive_.empty());
  EXPECT_FALSE(memory_->holds(std::as_bytes(std::as_const(buffer).span())));
}

}  // namespace
}  // namespace fovea::gpu
