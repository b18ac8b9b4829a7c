// Calls functions of libfovea.so, and registers operators with torch.
//
// libfovea.so lies next to this library and is opened with dlopen(), so that its own dependencies
// come first in symbol lookup. If it were linked, it could be bound to other versions of them that
// other packages have loaded.
#pragma once

#include <torch/csrc/stable/library.h>

#include "fovea/c/operators.h"
#include "python/native/tensor.hpp"

namespace fovea::torch_operators {

/// Returns the address of a function in libfovea.so, which is opened on first use. Throws an
/// exception with the loader's message.
[[nodiscard]] void* find(const char* name);

/// Throws an exception with the engine's message if `status` is an error; torch raises it as
/// RuntimeError.
void check(fovea_status status);

/// Runs the operator `name` of libfovea.so. Each operator has its own type `Args`.
template <typename Args>
void call(const char* name, const Args& args, const Place& place) {
  static const auto function =
      reinterpret_cast<fovea_status (*)(const Args*, const fovea_place*)>(find(name));
  check(function(&args, place.get()));
}

}  // namespace fovea::torch_operators

/// Registers the function `name` as torch.ops.fovea.<name> when torch.ops.load_library() loads this
/// library. One function serves both devices, as Place tells where a tensor is. torch 2.9's stable
/// interface does not support strings, so a level of attention is passed as a fovea_level, and
/// fovea.ops maps names to numbers.
#define FOVEA_TORCH_OPERATOR(name, schema)          \
  STABLE_TORCH_LIBRARY_FRAGMENT(fovea, library) {   \
    library.def(schema);                            \
  }                                                 \
  STABLE_TORCH_LIBRARY_IMPL(fovea, CPU, library) {  \
    library.impl(#name, TORCH_BOX(&(name)));        \
  }                                                 \
  STABLE_TORCH_LIBRARY_IMPL(fovea, CUDA, library) { \
    library.impl(#name, TORCH_BOX(&(name)));        \
  }
