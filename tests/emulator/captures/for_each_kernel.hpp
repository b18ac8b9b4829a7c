// Micro-kernels on all cores.
#pragma once

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

#include "emulator/captures/micro_kernel.hpp"

namespace captures {

/// Calls use(index) for each of `count`, on all cores; `use` may be called by several threads.
template <typename Use>
void for_each_kernel(std::size_t count, Use&& use) {
  std::atomic<std::size_t> next = 0;
  const std::size_t workers = std::max(1U, std::thread::hardware_concurrency());
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
