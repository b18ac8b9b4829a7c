// What workloads without levels say of them.
#include "lab/workload.hpp"

#include "core/error.hpp"

namespace fovea::lab {

std::string Workload::plan_of_level(const gpu::DeviceInfo& /*device*/,
                                    std::string_view level) const {
  fail("{} has no levels to take '{}' from", describe(), level);
}

}  // namespace fovea::lab
