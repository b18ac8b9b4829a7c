// Micro-kernels of clusters: ranks, distributed shared memory, barriers that other blocks arrive
// at.
#include <fmt/format.h>

#include "emulator/captures/tensor.hpp"

namespace captures {
namespace {

constexpr std::uint32_t kThreads = 64;
constexpr std::string_view kMeet =
    "  barrier.cluster.arrive.release.aligned;\n  barrier.cluster.wait.acquire.aligned;\n";

MicroKernel kernel_of(std::string name, std::uint32_t cluster, std::uint32_t words,
                      std::uint64_t seed) {
  MicroKernel kernel{.name = std::move(name), .family = "cluster", .ptx = {}};
  kernel.block = {kThreads, 1, 1};
  kernel.grid = {2 * cluster, 1, 1};
  kernel.cluster = {cluster, 1, 1};
  kernel.dynamic_shared_bytes = 4096;
  const std::size_t bytes = std::size_t{kThreads} * 2 * cluster * words * 4;
  kernel.inputs.emplace_back([=] { return random_bytes(bytes, seed); });
  kernel.outputs = {bytes};
  return kernel;
}

// What thread t of block b writes: what thread t of the block `by` ranks further had.
Model turned(std::uint32_t cluster, std::uint32_t by, std::uint32_t words) {
  return [=](const std::vector<Bytes>& inputs) {
    const std::size_t block_bytes = std::size_t{kThreads} * words * 4;
    Bytes result(inputs[0].size());
    for (std::size_t block = 0; block < 2 * std::size_t{cluster}; ++block) {
      const std::size_t first = block / cluster * cluster;
      const std::size_t from = first + (block - first + by) % cluster;
      std::copy_n(inputs[0].begin() + static_cast<std::ptrdiff_t>(from * block_bytes), block_bytes,
                  result.begin() + static_cast<std::ptrdiff_t>(block * block_bytes));
    }
    return std::vector<Bytes>{result};
  };
}

std::string_view registers(std::uint32_t words) {
  return words == 1 ? "%r30" : words == 2 ? "{%r30, %r31}" : "{%r30, %r31, %r32, %r33}";
}
std::string_view vector_of(std::uint32_t words) {
  return words == 1 ? "" : words == 2 ? ".v2" : ".v4";
}

// %r12: this thread's place in shared memory; %rd11 and %rd12: in the input and the output; %r14:
// the block whose shared memory is read or written.
std::string start(std::uint32_t cluster, std::uint32_t by, std::uint32_t words) {
  return fmt::format(R"(
  mov.u32 %r10, buffer;
  mul.lo.u32 %r11, %r1, {0};
  add.u32 %r12, %r10, %r11;
  mul.wide.u32 %rd10, %r3, {0};
  add.s64 %rd11, %rd1, %rd10;
  add.s64 %rd12, %rd2, %rd10;
  mov.u32 %r13, %cluster_ctarank;
  add.u32 %r14, %r13, {1};
  rem.u32 %r14, %r14, {2};
  ld.global{3}.u32 {4}, [%rd11];
)",
                     words * 4, by, cluster, vector_of(words), registers(words));
}

void add_reads(MicroKernels& to, std::uint32_t cluster, std::uint32_t by, std::uint32_t words) {
  MicroKernel kernel = kernel_of(fmt::format("dsmem.ld.{}.{}{}", cluster, by, vector_of(words)),
                                 cluster, words, to.size());
  std::string body = start(cluster, by, words);
  body += fmt::format(
      "  st.shared{0}.u32 [%r12], {1};\n{2}"
      "  mapa.shared::cluster.u32 %r15, %r12, %r14;\n"
      "  ld.shared::cluster{0}.u32 {1}, [%r15];\n"
      "  st.global{0}.u32 [%rd12], {1};\n{2}",
      vector_of(words), registers(words), kMeet);
  set_text(kernel, body, kTensorBuffer);
  kernel.model = turned(cluster, by, words);
  to.push_back(std::move(kernel));
}

void add_writes(MicroKernels& to, std::uint32_t cluster, std::uint32_t by, std::uint32_t words) {
  MicroKernel kernel = kernel_of(fmt::format("dsmem.st.{}.{}{}", cluster, by, vector_of(words)),
                                 cluster, words, to.size());
  std::string body = start(cluster, by, words);
  body += fmt::format(
      "{2}  mapa.shared::cluster.u32 %r15, %r12, %r14;\n"
      "  st.shared::cluster{0}.u32 [%r15], {1};\n{2}"
      "  ld.shared{0}.u32 {1}, [%r12];\n"
      "  st.global{0}.u32 [%rd12], {1};\n",
      vector_of(words), registers(words), kMeet);
  set_text(kernel, body, kTensorBuffer);
  kernel.model = turned(cluster, cluster - by, words);
  to.push_back(std::move(kernel));
}

// Every block writes to the one before it, and arrives at its barrier; several laps.
void add_remote_arrivals(MicroKernels& to, std::uint32_t cluster) {
  MicroKernel kernel = kernel_of(fmt::format("mbarrier.remote.{}", cluster), cluster, 1, to.size());
  std::string body = start(cluster, 1, 1);
  body += fmt::format(R"(
  add.u32 %r16, %r10, 2048;
  setp.ne.u32 %p1, %r1, 0;
  @%p1 bra READY;
  mbarrier.init.shared::cta.b64 [%r16], {0};
  fence.mbarrier_init.release.cluster;
READY:
  bar.sync 0;
{1}
  mapa.shared::cluster.u32 %r15, %r12, %r14;
  mapa.shared::cluster.u32 %r17, %r16, %r14;
  mov.u32 %r18, 0;
LAP:
  st.shared::cluster.u32 [%r15], %r30;
  mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r17];
  and.b32 %r19, %r18, 1;
WAIT:
  mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p14, [%r16], %r19;
  @%p14 bra WAIT_DONE;
  bra WAIT;
WAIT_DONE:
  ld.shared.u32 %r30, [%r12];
  barrier.cluster.arrive.release.aligned;
  barrier.cluster.wait.acquire.aligned;
  add.u32 %r18, %r18, 1;
  setp.lt.u32 %p2, %r18, 3;
  @%p2 bra LAP;
  st.global.u32 [%rd12], %r30;
)",
                      kThreads, kMeet);
  set_text(kernel, body, kTensorBuffer);
  kernel.model = turned(cluster, cluster * 3 - 3, 1);
  to.push_back(std::move(kernel));
}

// Ranks as the hardware deals them out.
void add_ranks(MicroKernels& to, std::uint32_t cluster) {
  MicroKernel kernel = kernel_of(fmt::format("cluster.ranks.{}", cluster), cluster, 1, to.size());
  set_text(kernel, R"(
  mov.u32 %r10, %cluster_ctarank;
  mov.u32 %r11, %cluster_nctarank;
  mov.u32 %r12, %cluster_ctaid.x;
  mov.u32 %r13, %clusterid.x;
  mad.lo.u32 %r14, %r10, 16, %r11;
  mad.lo.u32 %r14, %r14, 16, %r12;
  mad.lo.u32 %r14, %r14, 16, %r13;
  mul.wide.u32 %rd10, %r3, 4;
  add.s64 %rd11, %rd2, %rd10;
  st.global.u32 [%rd11], %r14;)");
  kernel.model = [=](const std::vector<Bytes>& /*inputs*/) {
    std::vector<std::uint32_t> words;
    for (std::uint32_t thread = 0; thread < kThreads * 2 * cluster; ++thread) {
      const std::uint32_t block = thread / kThreads;
      const std::uint32_t rank = block % cluster;
      words.push_back(((rank * 16 + cluster) * 16 + rank) * 16 + block / cluster);
    }
    return std::vector<Bytes>{bytes_of(words)};
  };
  to.push_back(std::move(kernel));
}

// Warps take turns at a barrier of their block, four laps and more.
void add_phases(MicroKernels& to, std::uint32_t laps) {
  MicroKernel kernel{
      .name = fmt::format("mbarrier.phases.{}", laps), .family = "mbarrier", .ptx = {}};
  kernel.block = {128, 1, 1};
  kernel.grid = {2, 1, 1};
  kernel.dynamic_shared_bytes = 4096;
  kernel.inputs.emplace_back([] { return random_bytes(256 * 4, 5); });
  kernel.outputs = {256 * 4};
  set_text(kernel,
           fmt::format(R"(
  mov.u32 %r10, buffer;
  add.u32 %r11, %r10, 1024;
  mad.lo.u32 %r12, %r1, 4, %r11;
  add.u32 %r13, %r1, 37;
  and.b32 %r13, %r13, 127;
  mad.lo.u32 %r14, %r13, 4, %r11;
  mul.wide.u32 %rd10, %r3, 4;
  add.s64 %rd11, %rd1, %rd10;
  add.s64 %rd12, %rd2, %rd10;
  ld.global.u32 %r30, [%rd11];
  setp.ne.u32 %p1, %r1, 0;
  @%p1 bra READY;
  mbarrier.init.shared::cta.b64 [%r10], 128;
READY:
  bar.sync 0;
  mov.u32 %r18, 0;
LAP:
  st.shared.u32 [%r12], %r30;
  mbarrier.arrive.shared::cta.b64 _, [%r10];
  and.b32 %r19, %r18, 1;
{}
  ld.shared.u32 %r30, [%r14];
  bar.sync 0;
  add.u32 %r18, %r18, 1;
  setp.lt.u32 %p2, %r18, {};
  @%p2 bra LAP;
  st.global.u32 [%rd12], %r30;)",
                       wait_for("%r10", "%r19", "WAIT"), laps),
           kTensorBuffer);
  kernel.model = [=](const std::vector<Bytes>& inputs) {
    const auto words = values_of<std::uint32_t>(inputs[0]);
    std::vector<std::uint32_t> result(256);
    for (std::size_t i = 0; i < 256; ++i) {
      result[i] = words[i / 128 * 128 + (i + 37 * std::size_t{laps}) % 128];
    }
    return std::vector<Bytes>{bytes_of(result)};
  };
  to.push_back(std::move(kernel));
}

}  // namespace

void add_clusters(MicroKernels& to) {
  for (const std::uint32_t cluster : {2U, 4U, 8U}) {
    add_ranks(to, cluster);
    add_remote_arrivals(to, cluster);
    for (const std::uint32_t words : {1U, 2U, 4U}) {
      add_reads(to, cluster, words == 4 ? cluster - 1 : 1, words);
      add_writes(to, cluster, words == 4 ? cluster - 1 : 1, words);
    }
  }
  for (const std::uint32_t laps : {1U, 2U, 5U}) {
    add_phases(to, laps);
  }
}

}  // namespace captures
