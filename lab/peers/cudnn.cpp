// Calls cuDNN's backend API, and reports its error messages.
#include "lab/peers/cudnn.hpp"

#include <algorithm>
#include <array>

#include "core/error.hpp"
#include "gpu/nvidia/cublaslt.hpp"

namespace fovea::lab::cudnn {
namespace {

// Engines of older versions expect another value for masked scores.
constexpr std::size_t kMinVersion = 91000;
constexpr std::size_t kMessageBytes = 1024;

}  // namespace

Api open_api() {
  // cuDNN opens cuBLASLt by its bare name and aborts the process on failure, but finds a library
  // that is already open.
  (void)gpu::open_cublaslt_library();
  constexpr std::array<std::string_view, 2> kNames = {"libcudnn.so.9", "libcudnn.so"};
  constexpr std::array<std::string_view, 1> kPackages = {"nvidia/cudnn/lib"};
  // Prefers PyTorch's copy, which users compare with and which is usually newer than the system's.
  const auto library =
      gpu::Library::open("cuDNN", "FOVEA_CUDNN", kNames, kPackages, gpu::LookFirst::kPython);
  std::size_t (*const version)() = library.function("cudnnGetVersion");
  if (version() < kMinVersion) {
    fail("{} is cuDNN {}, but cuDNN {} or newer is needed", library.path(), version_text(version()),
         version_text(kMinVersion));
  }
  return {library};
}

std::string version_text(std::size_t number) {
  // Up to version 8, version numbers have one digit fewer.
  const std::size_t major = number < 10000 ? 1000 : 10000;
  return fmt::format("{}.{}.{}", number / major, number % major / 100, number % 100);
}

std::string last_reason(const Api& api) {
  std::array<char, kMessageBytes> message{};
  api.last_error(message.data(), message.size());
  std::string_view text = message.data();
  constexpr std::string_view kBefore = "Reason: ";
  if (const std::size_t position = text.find(kBefore); position != text.npos) {
    text.remove_prefix(position + kBefore.size());
  }
  return std::string(text.substr(0, text.find('\n')));
}

void check(const Api& api, int status, std::string_view what) {
  if (status != kSuccess) {
    fail("cuDNN: {} failed: {}, {}", what, api.error_string(status), last_reason(api));
  }
}

Descriptor::Descriptor(const Api& api, DescriptorType type) : api_(&api) {
  check(api, api.create_descriptor(static_cast<int>(type), &handle_),
        fmt::format("making a descriptor of type {}", static_cast<int>(type)));
}

Descriptor::~Descriptor() {
  if (handle_ != nullptr) {
    api_->destroy_descriptor(handle_);
  }
}

void Descriptor::set(Attribute attribute, AttributeType type, std::int64_t count,
                     const void* values) {
  check(*api_,
        api_->set_attribute(handle_, static_cast<int>(attribute), static_cast<int>(type), count,
                            values),
        fmt::format("setting attribute {}", static_cast<int>(attribute)));
}

std::size_t Descriptor::get(Attribute attribute, AttributeType type, std::int64_t room,
                            void* values) const {
  std::int64_t count = 0;
  check(*api_,
        api_->get_attribute(handle_, static_cast<int>(attribute), static_cast<int>(type), room,
                            &count, values),
        fmt::format("reading attribute {}", static_cast<int>(attribute)));
  return static_cast<std::size_t>(count);
}

std::int64_t Descriptor::number(Attribute attribute) const {
  std::int64_t value = 0;
  (void)get(attribute, AttributeType::kInt64, 1, &value);
  return value;
}

std::vector<Descriptor> Descriptor::descriptors(Attribute attribute, DescriptorType type) const {
  // The library fills in descriptors that its caller has created.
  const std::size_t count = get(attribute, AttributeType::kDescriptor, 0, nullptr);
  std::vector<Handle> handles;
  handles.reserve(count);
  std::vector<Descriptor> results;
  results.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    handles.push_back(results.emplace_back(*api_, type).handle());
  }
  if (count > 0) {
    const std::size_t filled = get(attribute, AttributeType::kDescriptor, std::ssize(handles),
                                   static_cast<void*>(handles.data()));
    results.erase(results.begin() + static_cast<std::ptrdiff_t>(std::min(count, filled)),
                  results.end());
  }
  return results;
}

}  // namespace fovea::lab::cudnn
