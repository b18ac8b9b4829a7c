// What each operator's file is made of: libfovea.so's function, and the registration at torch.
//
// libfovea.so lies beside this library, and is opened by ourselves, not by the loader. As a
// dependency it would be bound to names of libraries that other packages have loaded, of other
// versions. Opened by itself it sees its own libraries first.
#pragma once

#include <torch/csrc/stable/library.h>

#include "fovea/c/operators.h"
#include "python/native/tensor.hpp"

namespace fovea::torch_operators {

/// The address of a function of libfovea.so, which is opened on first use. Throws with the loader's
/// message.
[[nodiscard]] void* find(const char* name);

/// Throws what went wrong, which torch raises as RuntimeError.
void check(fovea_status status);

/// Runs libfovea.so's operator of that name, which is the only one with such arguments.
template <typename Args>
void call(const char* name, const Args& args, const Place& place) {
  static const auto function =
      reinterpret_cast<fovea_status (*)(const Args*, const fovea_place*)>(find(name));
  check(function(&args, place.get()));
}

}  // namespace fovea::torch_operators

/// Registers the function `name` as torch.ops.fovea.<name>; torch.ops.load_library() runs this. One
/// function serves both devices: where a tensor is, Place finds out. The stable interface of 2.9
/// passes no strings: a level of attention is a fovea_level's number, which fovea.ops gives names.
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
