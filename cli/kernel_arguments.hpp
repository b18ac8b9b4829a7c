// The arguments of `fovea kernel`, and what its commands do with them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cli/json_output.hpp"
#include "gpu/device/device.hpp"
#include "lab/bench_cards.hpp"
#include "lab/card.hpp"
#include "lab/check_cards.hpp"

namespace fovea::cli {

struct KernelArguments {
  std::vector<std::string> names;
  int device = 0;
  lab::CheckOptions check;
  lab::BenchOptions bench;
  JsonOutput json;
  bool verbose = false;
  bool dump = false;
  std::string level;
  bool gate = false;
  int times = 1;
};

/// The GPU of --gpu.
[[nodiscard]] std::unique_ptr<gpu::Device> open_gpu(const KernelArguments& arguments);

/// Throws fovea::Error unless one of the cards has the case, before a GPU is opened.
void require_case(const std::vector<const lab::Card*>& cards, const std::string& name);

// Each returns the exit code.
int run_list(const KernelArguments& arguments);
int run_check(const KernelArguments& arguments);
int run_kernel_bench(const KernelArguments& arguments);
int run_once(const KernelArguments& arguments);
int run_profile(const KernelArguments& arguments);
int run_resources(const KernelArguments& arguments);
int run_sass(const KernelArguments& arguments);

}  // namespace fovea::cli
