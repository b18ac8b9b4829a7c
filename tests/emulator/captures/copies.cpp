// Micro-kernels of cp.async: 4, 8 and 16 bytes, with zeros for what is not read.
#include <fmt/format.h>

#include "emulator/captures/builder.hpp"

namespace captures {
namespace {

constexpr std::uint32_t kThreads = 128;
constexpr std::uint32_t kBlocks = 4;
constexpr std::size_t kSharedBytes = kThreads * 16;
constexpr std::size_t kFromBytes = 4096;

// Where each thread copies from, and how many bytes of its 16 are read.
Bytes places(std::uint32_t bytes, std::uint64_t seed) {
  Random random(seed);
  std::vector<std::uint32_t> words;
  for (std::uint32_t i = 0; i < kThreads * kBlocks; ++i) {
    words.push_back(bytes * static_cast<std::uint32_t>(random.below(kFromBytes / bytes)));
    words.push_back(static_cast<std::uint32_t>(random.below(bytes + 1)));
  }
  return bytes_of(words);
}

enum class Wait : std::uint8_t { kGroup0, kGroup1, kAll };

void add(MicroKernels& to, std::string_view cached, std::uint32_t bytes, bool fills,
         std::string_view hint, Wait wait) {
  MicroKernel kernel{
      .name = fmt::format("cp.async.{}.{}{}{}{}", cached, bytes, fills ? ".fill" : "", hint,
                          wait == Wait::kGroup0   ? ""
                          : wait == Wait::kGroup1 ? ".two_groups"
                                                  : ".wait_all"),
      .family = "cp.async",
      .ptx = {}};
  kernel.block = {kThreads, 1, 1};
  kernel.grid = {kBlocks, 1, 1};
  kernel.dynamic_shared_bytes = kSharedBytes;
  const std::uint64_t seed = to.size() * 4;
  kernel.inputs.emplace_back([=] { return random_bytes(kFromBytes, seed); });
  kernel.inputs.emplace_back([=] { return places(bytes, seed + 1); });
  kernel.outputs = {kBlocks * kSharedBytes};
  // Of two groups, the first one's bytes are there when one is left; the second one's copies are
  // empty, and go where nobody looks.
  const std::string_view waits = wait == Wait::kAll ? "  cp.async.wait_all;"
                                 : wait == Wait::kGroup1
                                     ? "  cp.async.commit_group;\n  cp.async.commit_group;\n"
                                       "  cp.async.wait_group 1;"
                                     : "  cp.async.commit_group;\n  cp.async.wait_group 0;";
  set_text(kernel,
           fmt::format(R"(
  mov.u32 %r10, buffer;
  mad.lo.s32 %r11, %r1, 16, %r10;
  mov.u32 %r12, 0x5A5A5A5A;
  st.shared.v4.u32 [%r11], {{%r12, %r12, %r12, %r12}};
  bar.sync 0;
  mul.wide.u32 %rd10, %r3, 8;
  add.s64 %rd11, %rd2, %rd10;
  ld.global.v2.u32 {{%r13, %r14}}, [%rd11];
  cvt.u64.u32 %rd12, %r13;
  add.s64 %rd13, %rd1, %rd12;
  cp.async.{}.shared.global{} [%r11], [%rd13], {}{};
{}
  bar.sync 0;
  mul.wide.u32 %rd14, %r2, {};
  add.s64 %rd15, %rd3, %rd14;
)",
                       cached, hint, bytes, fills ? ", %r14" : "", waits, kSharedBytes) +
               copy_from_shared("%r10", "%rd15", kSharedBytes, kThreads, "OUT"),
           ".extern .shared .align 1024 .b8 buffer[];");
  kernel.model = [=](const std::vector<Bytes>& inputs) {
    const auto words = values_of<std::uint32_t>(inputs[1]);
    Bytes result(kBlocks * kSharedBytes, std::byte{0x5A});
    for (std::size_t i = 0; i < std::size_t{kThreads} * kBlocks; ++i) {
      for (std::size_t byte = 0; byte < bytes; ++byte) {
        const bool is_read = !fills || byte < words[i * 2 + 1];
        result[i * 16 + byte] = is_read ? inputs[0][words[i * 2] + byte] : std::byte{0};
      }
    }
    return std::vector<Bytes>{result};
  };
  to.push_back(std::move(kernel));
}

}  // namespace

void add_copies(MicroKernels& to) {
  for (const std::uint32_t bytes : {4U, 8U, 16U}) {
    add(to, "ca", bytes, false, "", Wait::kGroup0);
    add(to, "ca", bytes, true, "", Wait::kGroup0);
  }
  add(to, "cg", 16, false, "", Wait::kGroup0);
  add(to, "cg", 16, true, "", Wait::kGroup0);
  add(to, "cg", 16, true, ".L2::128B", Wait::kGroup0);
  add(to, "cg", 16, true, "", Wait::kGroup1);
  add(to, "cg", 16, true, "", Wait::kAll);
}

}  // namespace captures
