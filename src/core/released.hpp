// Released: owns what a C library gave, and gives it back by that library's function.
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
