// Attributes of launches, which the runtime and the driver share.
#include "lab/programs/stand_in/launch_attributes.hpp"

#include <algorithm>

#include <fmt/format.h>

namespace fovea::programs {
namespace {

constexpr int kCooperative = 2;
// Orders parts of two grids by events, or lets the GPU change the launch: unlike all others no
// hint.
constexpr int kProgrammaticEvent = 7;
constexpr int kLaunchCompletionEvent = 12;
constexpr int kDeviceUpdatable = 13;

}  // namespace

void apply_attributes(LaunchRequest& request,
                      std::span<const gpu::driver::LaunchAttribute> attributes) {
  for (const gpu::driver::LaunchAttribute& attribute : attributes) {
    switch (attribute.id) {
      case gpu::driver::kLaunchAttributeClusterDimension:
        request.config.cluster = {attribute.value.cluster.x, attribute.value.cluster.y,
                                  attribute.value.cluster.z};
        if (std::ranges::count(request.config.cluster, 0U) != 0) {
          throw CallError{kInvalidValue, "a cluster has no blocks"};
        }
        break;
      case gpu::driver::kLaunchAttributeProgrammaticStreamSerialization:
        request.config.is_dependent = attribute.value.flag != 0;
        break;
      case kCooperative:
        request.is_cooperative = attribute.value.flag != 0;
        break;
      case kProgrammaticEvent:
      case kLaunchCompletionEvent:
      case kDeviceUpdatable:
        throw CallError{kNotSupported,
                        fmt::format("the launch attribute {} is not supported", attribute.id)};
      default:
        break;
    }
  }
}

}  // namespace fovea::programs
