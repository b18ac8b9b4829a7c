// Micro-kernels on all cores.
#pragma once

#include <atomic>
#include <thread>
#include <vector>

#include "core/thread_pool.hpp"
#include "emulator/captures/micro_kernel.hpp"

namespace captures {

/// Calls use(index) for each of `count`, on all cores; `use` may be called by several threads.
template <typename Use>
void for_each_kernel(std::size_t count, Use&& use) {
  std::atomic<std::size_t> next = 0;
  const std::size_t workers = static_cast<std::size_t>(fovea::available_threads());
  std::vector<std::jthread> threads;
  for (std::size_t i = 0; i < workers; ++i) {
    threads.emplace_back([&] {
      for (std::size_t index = next++; index < count; index = next++) {
        use(index);
      }
    });
  }
}

}  // namespace captures
