// Shared by the files of all operators: calling functions of libfovea.so, and registering with
// torch.
//
// libfovea.so lies beside this library and is opened with dlopen(), so that its own libraries come
// first in symbol lookup. As a dependency of this library it could be bound to other versions that
// other packages have loaded.
#pragma once

#include <torch/csrc/stable/library.h>

#include "fovea/c/operators.h"
#include "python/native/tensor.hpp"

namespace fovea::torch_operators {

/// The address of a function of libfovea.so, which is opened on first use. Throws with the loader's
/// message.
[[nodiscard]] void* find(const char* name);

/// Throws an exception with the message, which torch raises as RuntimeError.
void check(fovea_status status);

/// Runs the operator `name` of libfovea.so. Each operator has its own type `Args`.
template <typename Args>
void call(const char* name, const Args& args, const Place& place) {
  static const auto function =
      reinterpret_cast<fovea_status (*)(const Args*, const fovea_place*)>(find(name));
  check(function(&args, place.get()));
}

}  // namespace fovea::torch_operators

/// Registers the function `name` as torch.ops.fovea.<name>; torch.ops.load_library() runs this. One
/// function serves both devices: Place finds out where a tensor is. The stable interface of 2.9
/// passes no strings: a level of attention is passed as the number of a fovea_level, and fovea.ops
/// maps names to numbers.
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
