// DeviceOutput: GPU memory for results, which outlives the batch.
#include "gpu/device_output.hpp"

#include <utility>

#include "core/address.hpp"
#include "core/error.hpp"

namespace fovea::gpu {

DeviceOutput::DeviceOutput(std::shared_ptr<Device> device, std::size_t bytes)
    : device_(std::move(device)), buffer_(*device_, bytes), bytes_(bytes) {}

DeviceOutput::~DeviceOutput() {
  const ContextGuard context_guard = device_->hold_context();
  try {
    device_->synchronize();
  } catch (const Error&) {  // NOLINT(bugprone-empty-catch): a destructor cannot report errors
  }
  buffer_ = DeviceBuffer();
}

std::span<std::byte> DeviceOutput::bytes() const {
  return {pointer<std::byte>(buffer_.address()), bytes_};
}

void DeviceOutput::copy_to(std::span<std::byte> host) const {
  if (host.size() > bytes_) {
    fail("cannot copy {} bytes of results: there are only {}", host.size(), bytes_);
  }
  const ContextGuard context_guard = device_->hold_context();
  const std::unique_ptr<Stream> stream = device_->make_stream();
  device_->copy_to_host(host, buffer_.address(), *stream);
  stream->synchronize();
}

}  // namespace fovea::gpu
