// BatchRows, and OutputMemory in host memory.
#include "ops/backend.hpp"

#include <cstring>
#include <utility>

#include "core/error.hpp"

namespace fovea::ops {

BatchRows::BatchRows(const Batch& batch) : batch_(batch), tokens_(batch.tokens) {
  if (batch.grids.empty()) {
    return;
  }
  if (std::cmp_not_equal(batch.grids.size(), batch.images)) {
    fail("{} images have {} sizes", batch.images, batch.grids.size());
  }
  starts_.reserve(batch.grids.size() + 1);
  starts_.push_back(0);
  for (const PatchGrid& grid : batch.grids) {
    if (grid.height < 1 || grid.width < 1 || grid.patches() > tokens_) {
      fail("an image has {} x {} patches; expected 1 to {} patches", grid.height, grid.width,
           tokens_);
    }
    starts_.push_back(starts_.back() + grid.patches());
  }
}

std::span<const std::uint8_t> BatchRows::input(std::int64_t first, std::int64_t images) const {
  const std::size_t unit = batch_.input.size() / units(batch_.images);
  return batch_.input.subspan(units(first) * unit, (units(first + images) - units(first)) * unit);
}

std::size_t BatchRows::max_input_bytes() const {
  return batch_.input.size() / units(batch_.images) *
         (starts_.empty() ? 1 : static_cast<std::size_t>(tokens_));
}

void BatchRows::shapes(std::int64_t first, std::int64_t images, std::int32_t* starts,
                       std::int32_t* grids) const {
  for (std::int64_t image = 0; image <= images; ++image) {
    starts[image] = static_cast<std::int32_t>(before(first + image) - before(first));
  }
  for (std::int64_t image = 0; image < images; ++image) {
    const PatchGrid& grid = batch_.grids[static_cast<std::size_t>(first + image)];
    grids[2 * image] = grid.height;
    grids[2 * image + 1] = grid.width;
  }
}

namespace {

class HostOutput final : public OutputMemory {
 public:
  explicit HostOutput(std::size_t bytes) : buffer_(bytes) {}

  [[nodiscard]] std::span<std::byte> bytes() const override {
    return std::as_writable_bytes(std::span(buffer_.data(), buffer_.size()));
  }
  [[nodiscard]] int device() const override { return kHost; }
  void copy_to(std::span<std::byte> host) const override {
    if (host.size() > buffer_.size()) {
      fail("cannot copy {} bytes of results: there are only {}", host.size(), buffer_.size());
    }
    std::memcpy(host.data(), buffer_.data(), host.size());
  }

 private:
  mutable HostBuffer buffer_;  // mutable, since its contents are not part of the object's state
};

}  // namespace

std::shared_ptr<OutputMemory> Backend::allocate_output(std::size_t bytes) {
  return std::make_shared<HostOutput>(bytes);
}

}  // namespace fovea::ops
