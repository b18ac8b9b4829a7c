// Replacement for the emulated device in builds without the emulator: reports that it is missing.
#include "core/error.hpp"
#include "gpu/emulated/emu_device.hpp"

namespace fovea::gpu {

std::unique_ptr<Device> open_emulated_device(const EmuOptions& /*options*/) {
  fail("this program was built without the emulator; scripts/build builds it");
}

}  // namespace fovea::gpu
