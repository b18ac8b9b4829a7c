// Released: a unique_ptr to an object of a C library, freed with a function of that library.
#pragma once

#include <memory>

namespace fovea {

template <auto kRelease>
struct Releaser {
  void operator()(auto* owned) const { kRelease(owned); }
};

template <typename T, auto kRelease>
using Released = std::unique_ptr<T, Releaser<kRelease>>;

}  // namespace fovea
