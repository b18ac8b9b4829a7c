// Grids that begin while the one before them still runs.
#include "lab/overlap.hpp"

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "lab/check_cards.hpp"

namespace fovea::lab {
namespace {

constexpr int kFirstArchThatOverlaps = 90;
constexpr std::uint32_t kThreads = 128;

/// Writes bytes as they are, 16 at a time and the rest one by one.
constexpr std::string_view kWriter = R"(.version 8.0
.target sm_90
.address_size 64
.visible .entry fovea_writer(.param .u64 to, .param .u64 bytes)
{
  .reg .pred %p<3>;
  .reg .b16 %rs<2>;
  .reg .b32 %r<6>;
  .reg .b64 %rd<7>;
  griddepcontrol.launch_dependents;
  ld.param.u64 %rd1, [to];
  ld.param.u64 %rd2, [bytes];
  mov.u32 %r1, %tid.x;
  cvt.u64.u32 %rd3, %r1;
  shl.b64 %rd3, %rd3, 4;
vectors:
  add.s64 %rd4, %rd3, 16;
  setp.gt.u64 %p1, %rd4, %rd2;
  @%p1 bra rest;
  add.s64 %rd5, %rd1, %rd3;
  ld.global.v4.u32 {%r2, %r3, %r4, %r5}, [%rd5];
  st.global.v4.u32 [%rd5], {%r2, %r3, %r4, %r5};
  add.s64 %rd3, %rd3, 2048;
  bra vectors;
rest:
  setp.ge.u64 %p2, %rd3, %rd2;
  @%p2 bra done;
  add.s64 %rd5, %rd1, %rd3;
  ld.global.u8 %rs1, [%rd5];
  st.global.u8 [%rd5], %rs1;
  add.s64 %rd3, %rd3, 1;
  bra rest;
done:
  ret;
}
)";

struct WriterParams {
  gpu::DevicePtr to = 0;
  std::uint64_t bytes = 0;
};

}  // namespace

void run_overlapping(gpu::KernelCache& kernels, const Workload& workload, const Operands& operands,
                     const Plan& plan, gpu::Stream& stream) {
  gpu::Device& device = kernels.device();
  if (device.info().arch() < kFirstArchThatOverlaps) {
    return;
  }
  const gpu::Kernel writer =
      device.find(device.load(std::as_bytes(std::span(kWriter))), "fovea_writer");
  for (const std::size_t input : workload.written_just_before()) {
    const WriterParams params{.to = operands.inputs.at(input),
                              .bytes = workload.inputs()[input].bytes()};
    device.launch(writer, {.block = {.x = kThreads}}, gpu::to_bytes(params), stream);
  }
  for (int times = 0; times < 2; ++times) {
    run(kernels, workload, operands, plan, stream);
  }
  stream.synchronize();
}

}  // namespace fovea::lab
