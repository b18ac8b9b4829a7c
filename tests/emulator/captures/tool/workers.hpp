// Kernels in processes of their own: what kills one loses one kernel.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "emulator/captures/micro_kernel.hpp"

namespace captures {

struct Outcome {
  std::vector<Bytes> outputs{};
  std::string error{};
};

/// In the worker: runs kernels from `first` on, and writes what comes of each to standard output, a
/// line each. After an error it ends, as the card may take nothing more of this process.
int work(std::size_t first, std::size_t count,
         const std::function<std::vector<Bytes>(std::size_t index)>& run);

/// Runs this program with the number of the first kernel behind `arguments`, again after each that
/// fails, until all `count` have come to something. One that says nothing for `seconds` is ended.
void run_workers(const std::vector<std::string>& arguments, std::size_t count, int seconds,
                 const std::function<void(std::size_t index, Outcome outcome)>& use);

}  // namespace captures
