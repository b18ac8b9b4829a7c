// Registers the operators: torch.ops.load_library() runs this.
#include <torch/csrc/stable/library.h>

#include "python/native/operators.hpp"

// The stable interface of 2.9 passes no strings: `level` is a fovea_level's number, which fovea.ops
// gives names.
STABLE_TORCH_LIBRARY(fovea, library) {
  library.def(
      "attention(Tensor q, Tensor k, Tensor v, bool is_causal=False, float? scale=None, "
      "int level=0) -> Tensor");
  library.def(
      "attention_varlen(Tensor q, Tensor k, Tensor v, Tensor cu_seqlens_q, Tensor cu_seqlens_k, "
      "int max_q, int max_k, bool is_causal=False, float? scale=None, int level=0) -> Tensor");
  library.def(
      "patch_embed(Tensor patches, Tensor weight, Tensor position, Tensor? scale=None) -> Tensor");
  library.def(
      "linear(Tensor x, Tensor weight, Tensor? bias=None, Tensor? residual=None, "
      "bool gelu=False) -> Tensor");
  library.def("layer_norm(Tensor x, Tensor weight, Tensor bias, float eps=1e-6) -> Tensor");
}

namespace {

// One function serves both: where a tensor is, Place finds out.
void implement(torch::stable::detail::StableLibrary& library) {
  using namespace fovea::torch_operators;  // NOLINT(google-build-using-namespace)
  library.impl("attention", TORCH_BOX(&attention));
  library.impl("attention_varlen", TORCH_BOX(&attention_varlen));
  library.impl("patch_embed", TORCH_BOX(&patch_embed));
  library.impl("linear", TORCH_BOX(&linear));
  library.impl("layer_norm", TORCH_BOX(&layer_norm));
}

}  // namespace

STABLE_TORCH_LIBRARY_IMPL(fovea, CPU, library) {
  implement(library);
}

STABLE_TORCH_LIBRARY_IMPL(fovea, CUDA, library) {
  implement(library);
}
