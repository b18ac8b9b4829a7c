// kernels/ptx/wgmma.cuh on the host: names alone, kernels of warpgroups do not run here.
#pragma once

namespace fovea::ptx {

template <int N, int kTransB = 0>
struct WgmmaBf16;
template <int N, int kTransB = 0>
struct WgmmaF16;

}  // namespace fovea::ptx
