// All micro-kernels, and what tells them from others.
#include <cstring>
#include <string_view>
#include <utility>

#include "emulator/captures/builder.hpp"
#include "lab/captures/hash.hpp"

namespace captures {

std::vector<Bytes> MicroKernel::make_inputs() const {
  std::vector<Bytes> made;
  made.reserve(inputs.size());
  for (const auto& input : inputs) {
    made.push_back(input());
  }
  return made;
}

std::size_t parameter_bytes(const MicroKernel& kernel) {
  return kMapsOffset + kernel.maps.size() * kTensorMapBytes;
}

std::uint64_t identity(const MicroKernel& kernel, const std::vector<Bytes>& inputs) {
  fovea::captures::Hash hash;
  hash.add_text(kernel.name);
  hash.add_text(kernel.ptx);
  for (const auto& sizes : {kernel.grid, kernel.cluster, kernel.block}) {
    hash.add_numbers(sizes);
  }
  hash.add_number(kernel.dynamic_shared_bytes);
  for (const Bytes& input : inputs) {
    hash.add(input);
  }
  hash.add_numbers(kernel.outputs);
  for (const TensorMap& map : kernel.maps) {
    for (const std::uint64_t number :
         {std::uint64_t{map.buffer}, std::uint64_t{map.offset},
          static_cast<std::uint64_t>(map.element), static_cast<std::uint64_t>(map.rank),
          static_cast<std::uint64_t>(map.swizzle)}) {
      hash.add_number(number);
    }
    hash.add_numbers(map.dims);
    hash.add_numbers(map.strides);
    hash.add_numbers(map.box);
  }
  return hash.value();
}

Record record_of(const MicroKernel& kernel, std::uint64_t identity,
                 const std::vector<Bytes>& outputs, std::size_t most_words) {
  if (most_words == 0) {
    most_words = kernel.tolerance.is_exact() ? fovea::captures::kSampleWords
                                             : fovea::captures::kApproximateWords;
  }
  Record record{.identity = identity};
  for (const Bytes& output : outputs) {
    record.outputs.push_back(fovea::captures::record_of(output, most_words));
  }
  return record;
}

std::vector<MicroKernel> all_micro_kernels() {
  MicroKernels all;
  for (const auto add :
       {&add_integers, &add_floats, &add_comparisons, &add_conversions, &add_narrowing, &add_warps,
        &add_matrices, &add_products, &add_copies, &add_tensor_loads, &add_tensor_stores,
        &add_clusters, &add_wgmma, &add_rounded_floats, &add_halves, &add_wider_integers,
        &add_videos, &add_rounded_conversions}) {
    add(all);
  }
  return all;
}

std::vector<MicroKernel> modelled_micro_kernels() {
  MicroKernels all;
  add_newer_floats(all);
  add_tiny_floats(all);
  for (MicroKernel& kernel : all) {
    kernel.ptx = replaced(std::move(kernel.ptx), ".target sm_90a", ".target sm_100a");
  }
  return all;
}

}  // namespace captures
