// What runs operators: the names by which an operator declares its part for each device.
#pragma once

namespace fovea::cpu {
class CpuExecutor;
class HostThreads;
struct CpuTypes;
}  // namespace fovea::cpu

namespace fovea::gpu {
class CallerStream;
class Device;
class GpuExecutor;
class Uploader;
}  // namespace fovea::gpu

namespace fovea::ops::reference {
class ReferenceExecutor;
class Storage;
}  // namespace fovea::ops::reference
