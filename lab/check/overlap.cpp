// Launches grids that begin while the preceding grid is still running.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "kernels/archs.hpp"
#include "lab/check/check_cards.hpp"

namespace fovea::lab {
namespace {

constexpr std::uint32_t kThreads = 128;

/// Returns the PTX of a kernel that rewrites `arrays` arrays without changing them, 16 bytes at a
/// time and the remainder byte by byte. Its parameters are the address and size of each array.
std::string rewriting_kernel(std::size_t arrays) {
  std::string parameters;
  std::string body;
  for (std::size_t i = 0; i < arrays; ++i) {
    parameters += fmt::format("{}.param .u64 to{}, .param .u64 bytes{}", i > 0 ? ", " : "", i, i);
    body += fmt::format(R"(
  ld.param.u64 %rd1, [to{0}];
  ld.param.u64 %rd2, [bytes{0}];
  mov.u32 %r1, %tid.x;
  cvt.u64.u32 %rd3, %r1;
  shl.b64 %rd3, %rd3, 4;
vectors{0}:
  add.s64 %rd4, %rd3, 16;
  setp.gt.u64 %p1, %rd4, %rd2;
  @%p1 bra rest{0};
  add.s64 %rd5, %rd1, %rd3;
  ld.global.v4.u32 {{%r2, %r3, %r4, %r5}}, [%rd5];
  st.global.v4.u32 [%rd5], {{%r2, %r3, %r4, %r5}};
  add.s64 %rd3, %rd3, {1};
  bra vectors{0};
rest{0}:
  setp.ge.u64 %p2, %rd3, %rd2;
  @%p2 bra done{0};
  add.s64 %rd5, %rd1, %rd3;
  ld.global.u8 %rs1, [%rd5];
  st.global.u8 [%rd5], %rs1;
  add.s64 %rd3, %rd3, 1;
  bra rest{0};
done{0}:)",
                        i, 16 * kThreads);
  }
  return fmt::format(R"(.version 8.0
.target sm_90
.address_size 64
.visible .entry fovea_writer({})
{{
  .reg .pred %p<3>;
  .reg .b16 %rs<2>;
  .reg .b32 %r<6>;
  .reg .b64 %rd<7>;
  griddepcontrol.launch_dependents;
{}
  ret;
}}
)",
                     parameters, body);
}

}  // namespace

void run_overlapping(gpu::KernelCache& kernels, const Workload& workload, const Operands& operands,
                     const Plan& plan, gpu::Stream& stream) {
  gpu::Device& device = kernels.device();
  if (!gpu::arch_up_to(device.info().arch(), gpu::kArchs).overlaps) {
    return;
  }
  std::vector<std::uint64_t> arrays;  // addresses and sizes
  for (const std::size_t input : workload.written_just_before()) {
    arrays.push_back(operands.inputs.at(input));
    arrays.push_back(workload.inputs()[input].bytes());
  }
  const std::string text = rewriting_kernel(arrays.size() / 2);
  const gpu::Kernel writer =
      device.find(device.load(std::as_bytes(std::span(text))), "fovea_writer");
  const auto bytes = std::as_bytes(std::span(arrays));
  device.launch(writer, {.block = {.x = kThreads}}, {bytes.begin(), bytes.end()}, stream);
  for (int times = 0; times < 2; ++times) {
    run(kernels, workload, operands, plan, stream);
  }
  stream.synchronize();
}

}  // namespace fovea::lab
