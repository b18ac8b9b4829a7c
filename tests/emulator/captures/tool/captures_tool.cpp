// Micro-kernels from the command line: their PTX to a folder, their results on a card or in the
// emulator to a file, and a file compared with the emulator.
#include <atomic>
#include <exception>
#include <fstream>
#include <iostream>
#include <map>
#include <mutex>
#include <span>

#include <fmt/format.h>

#include "emulator/captures/emulate.hpp"
#include "emulator/captures/for_each_kernel.hpp"
#include "emulator/captures/tool/card.hpp"
#include "emulator/captures/tool/workers.hpp"
#include "lab/captures/results.hpp"

namespace captures {
namespace {

using fovea::captures::kAllWords;
using fovea::captures::read_results;
using fovea::captures::Results;
using fovea::captures::write_results;

constexpr std::string_view kUsage = R"(usage: captures_tool COMMAND
  list                                      names, families and launches
  emit FOLDER                               FOLDER/NAME.ptx of each
  run FILE FULL COMMIT [CUBINS] [PART]      runs them on the first GPU; of PTX, or of CUBINS/NAME.cubin ("-": PTX).
                                            FILE: hashes and samples; FULL: everything. PART: of names
  emulate FILE FULL COMMIT                  the same in the emulator
  check FILE [PART]                         what the emulator computes otherwise; of names with PART
  models [PART]                             what the emulator computes otherwise than the kernels' models
)";
constexpr int kSecondsOfSilence = 15;

using Arguments = std::vector<std::string>;

std::string argument(const Arguments& arguments, std::size_t index, std::string fallback = "") {
  return index < arguments.size() ? arguments[index] : fallback;
}

MicroKernels kernels_with(const std::string& part) {
  MicroKernels kernels = all_micro_kernels();
  std::erase_if(kernels, [&](const MicroKernel& kernel) {
    return kernel.name.find(part) == std::string::npos;
  });
  return kernels;
}

int list() {
  std::map<std::string, std::size_t> families;
  for (const MicroKernel& kernel : all_micro_kernels()) {
    ++families[kernel.family];
    fmt::print("{:18} {:40} {}x{} threads, cluster {}, {} inputs, {}\n", kernel.family, kernel.name,
               kernel.grid[0], kernel.block[0], kernel.cluster[0], kernel.inputs.size(),
               kernel.model ? "model" : "no model");
  }
  std::size_t all = 0;
  for (const auto& [family, count] : families) {
    fmt::print("{:5} {}\n", count, family);
    all += count;
  }
  fmt::print("{:5} in all\n", all);
  return 0;
}

int emit(const std::filesystem::path& folder) {
  std::filesystem::create_directories(folder);
  for (const MicroKernel& kernel : all_micro_kernels()) {
    std::ofstream(folder / (file_name(kernel) + ".ptx")) << kernel.ptx;
  }
  return 0;
}

// Results as they come: hashes and samples of all, and everything.
class Collected {
 public:
  void add(const MicroKernel& kernel, const Outcome& outcome) {
    const std::uint64_t number = identity(kernel, kernel.make_inputs());
    Record shortened = record_of(kernel, number, outcome.outputs);
    Record full = record_of(kernel, number, outcome.outputs, kAllWords);
    shortened.error = full.error = outcome.error;
    const std::lock_guard lock(mutex_);
    errors_ += outcome.error.empty() ? 0 : 1;
    if (!outcome.error.empty()) {
      fmt::print("{}: {}\n", kernel.name, outcome.error);
    }
    shortened_.kernels[kernel.name] = std::move(shortened);
    full_.kernels[kernel.name] = std::move(full);
  }
  int write(const std::string& path, const std::string& full_path, const Results& about) {
    for (Results* const results : {&shortened_, &full_}) {
      results->device = about.device;
      results->driver = about.driver;
      results->commit = about.commit;
      results->assembler = about.assembler;
    }
    write_results(path, shortened_);
    write_results(full_path, full_);
    fmt::print("{} kernels, {} errors; {} has {} bytes, {} has {}\n", shortened_.kernels.size(),
               errors_, path, std::filesystem::file_size(path), full_path,
               std::filesystem::file_size(full_path));
    return errors_ == 0 ? 0 : 1;
  }

 private:
  std::mutex mutex_;
  int errors_ = 0;
  Results shortened_;
  Results full_;
};

std::string cubins_of(const Arguments& arguments) {
  const std::string cubins = argument(arguments, 4);
  return cubins == "-" ? "" : cubins;
}

int run(const Arguments& arguments) {
  const MicroKernels kernels = kernels_with(argument(arguments, 5));
  Results about{.commit = arguments.at(3)};
  {
    const auto device = fovea::gpu::open_cuda_device();
    about.device = device->info().name;
    about.driver = std::to_string(device->info().driver_version);
  }
  about.assembler = cubins_of(arguments).empty() ? "the driver" : "ptxas";
  Collected collected;
  run_workers(
      {"worker", cubins_of(arguments), argument(arguments, 5)}, kernels.size(), kSecondsOfSilence,
      [&](std::size_t index, const Outcome& outcome) { collected.add(kernels[index], outcome); });
  return collected.write(arguments.at(1), arguments.at(2), about);
}

int worker(const Arguments& arguments) {
  const MicroKernels kernels = kernels_with(arguments.at(2));
  const auto device = fovea::gpu::open_cuda_device();
  return work(std::stoul(arguments.at(3)), kernels.size(), [&](std::size_t index) {
    return run_on_card(*device, kernels[index], arguments.at(1));
  });
}

int emulate_all(const Arguments& arguments) {
  const MicroKernels kernels = all_micro_kernels();
  Collected collected;
  for_each_kernel(kernels.size(), [&](std::size_t i) {
    Emulated emulated = emulate(kernels[i], kernels[i].make_inputs(), i);
    collected.add(kernels[i], {std::move(emulated.outputs), emulated.finding + emulated.error});
  });
  return collected.write(
      arguments.at(1), arguments.at(2),
      {.device = "emulator", .driver = "", .commit = arguments.at(3), .assembler = "none"});
}

// Runs all in the emulator, and tells of which judge(kernel, inputs, emulated) says what is wrong.
template <typename Judge>
int judge_all(const std::string& part, Judge&& judge) {
  const MicroKernels kernels = kernels_with(part);
  std::mutex mutex;
  std::map<std::string, std::array<std::size_t, 2>> families;  // alike, and not
  for_each_kernel(kernels.size(), [&](std::size_t i) {
    const std::vector<Bytes> inputs = kernels[i].make_inputs();
    const Emulated emulated = emulate(kernels[i], inputs, i);
    const std::string wrong = judge(kernels[i], inputs, emulated);
    const std::lock_guard lock(mutex);
    ++families[kernels[i].family].at(wrong.empty() ? 0 : 1);
    if (!wrong.empty()) {
      fmt::print("{}: {}\n", kernels[i].name, wrong);
    }
  });
  std::size_t differing = 0;
  for (const auto& [family, counts] : families) {
    fmt::print("{:20} {:4} alike, {:4} not\n", family, counts[0], counts[1]);
    differing += counts[1];
  }
  return differing == 0 ? 0 : 1;
}

int check(const Arguments& arguments) {
  const Results results = read_results(arguments.at(1));
  fmt::print("{}, driver {}, commit {}, assembled by {}\n", results.device, results.driver,
             results.commit, results.assembler);
  return judge_all(
      argument(arguments, 2),
      [&](const MicroKernel& kernel, const std::vector<Bytes>& inputs, const Emulated& emulated) {
        return unlike_card(results, kernel, inputs, emulated);
      });
}

int compare_models(const Arguments& arguments) {
  return judge_all(argument(arguments, 1), &unlike_model);
}

int command(const Arguments& arguments) {
  const std::string what = argument(arguments, 0);
  if (what == "list") {
    return list();
  }
  if (what == "emit" && arguments.size() == 2) {
    return emit(arguments[1]);
  }
  if (what == "run" && arguments.size() >= 4) {
    return run(arguments);
  }
  if (what == "worker" && arguments.size() == 4) {
    return worker(arguments);
  }
  if (what == "emulate" && arguments.size() == 4) {
    return emulate_all(arguments);
  }
  if (what == "check" && arguments.size() >= 2) {
    return check(arguments);
  }
  if (what == "models") {
    return compare_models(arguments);
  }
  std::cerr << kUsage;
  return 2;
}

}  // namespace
}  // namespace captures

int main(int argc, char** argv) {
  try {
    const std::span<char*> arguments(argv, static_cast<std::size_t>(argc));
    return captures::command({arguments.begin() + 1, arguments.end()});
  } catch (const std::exception& error) {
    std::cerr << "captures_tool: " << error.what() << '\n';
    return 1;
  }
}
