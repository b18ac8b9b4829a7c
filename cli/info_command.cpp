// `fovea info`: shows the content of a model folder.
#include <algorithm>
#include <filesystem>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "cli/commands.hpp"
#include "cli/model_option.hpp"
#include "cli/terminal.hpp"
#include "fovea/model.hpp"

namespace fovea::cli {
namespace {

std::string_view resample_name(Resample resample) {
  return resample == Resample::kBilinear ? "bilinear" : "bicubic";
}

nlohmann::ordered_json to_json(const Preprocessing& pre) {
  nlohmann::ordered_json json;
  if (pre.keeps_proportions()) {
    json = {{"max_patches", pre.max_patches}, {"patch", pre.patch}};
  } else {
    json = {{"height", pre.height}, {"width", pre.width}};
  }
  json["resample"] = resample_name(pre.resample);
  json["rescale"] = short_number(static_cast<float>(pre.rescale));
  json["mean"] = pre.mean;
  json["std"] = pre.std;
  return json;
}

std::vector<std::string> path_strings(const std::vector<std::filesystem::path>& paths) {
  return {paths.begin(), paths.end()};
}

nlohmann::ordered_json to_json(const ModelInfo& info) {
  using json = nlohmann::ordered_json;
  const Preprocessing& pre = info.preprocessing;
  json files = json::array();
  for (const auto& file : info.files) {
    files.push_back(file.filename().string());
  }
  return {
      {"folder", info.folder.string()},
      {"usable", info.usable()},
      {"hidden", info.hidden},
      {"mlp", info.mlp},
      {"layers", info.layers},
      {"heads", info.heads},
      {"head_dim", info.head_dim},
      {"image_size", pre.keeps_proportions() ? json() : json(info.image_size)},
      {"patch", info.patch},
      {"patches", info.patches},
      {"layer_norm_eps", info.layer_norm_eps},
      {"parameters", info.parameters},
      {"gflop_per_image", info.gflop_per_image},
      {"dtypes", info.dtypes},
      {"files", files},
      {"weight_bytes", info.weight_bytes},
      {"calibrations", path_strings(info.calibrations)},
      {"missing", info.missing},
      {"unusable", info.unusable},
      {"unused", info.unused},
      {"gpus", list_gpus()},
      {"preprocessing", to_json(pre)},
  };
}

void print_field(std::string_view name, const std::string& value) {
  std::cout << fmt::format("{:<15} {}\n", name, io::printable(value));
}

void print_list(std::string_view name, const std::vector<std::string>& entries) {
  constexpr std::size_t kMaxListed = 10;
  print_field(name, entries.empty() ? "none" : fmt::format("{}", entries.size()));
  for (std::size_t index = 0; index < std::min(kMaxListed, entries.size()); ++index) {
    print_field("", entries[index]);
  }
  if (entries.size() > kMaxListed) {
    print_field("", "... (--json lists all of them)");
  }
}

// Formats the work per image. Small test models need less than 0.1 GFLOP, so values below 1 GFLOP
// are shown in MFLOP.
std::string compute_text(double gflop) {
  return gflop < 1 ? fmt::format("{:.1f} MFLOP per image", gflop * 1e3)
                   : fmt::format("{:.1f} GFLOP per image", gflop);
}

void print_table(const ModelInfo& info) {
  const Preprocessing& pre = info.preprocessing;
  print_field("model", info.folder.string());
  print_field("embedding", fmt::format("{} numbers", info.hidden));
  print_field("layers",
              fmt::format("{} of hidden size {}, MLP {}", info.layers, info.hidden, info.mlp));
  print_field("attention", fmt::format("{} heads of {}", info.heads, info.head_dim));
  const std::string size = pre.keeps_proportions()
                               ? fmt::format("at most {} patches of {} x {}, proportions kept",
                                             pre.max_patches, pre.patch, pre.patch)
                               : fmt::format("{} x {}", pre.height, pre.width);
  print_field("image", pre.keeps_proportions()
                           ? fmt::format("any proportions, patch {}: at most {} tokens", info.patch,
                                         info.patches)
                           : fmt::format("{0} x {0} pixels, patch {1}: {2} tokens", info.image_size,
                                         info.patch, info.patches));
  print_field("parameters", fmt::format("{} (vision tower)",
                                        group_digits(static_cast<std::uint64_t>(info.parameters))));
  print_field("compute", compute_text(info.gflop_per_image));
  print_field("weights", fmt::format("{} in {} file{}, {:.1f} MB", fmt::join(info.dtypes, ", "),
                                     info.files.size(), info.files.size() == 1 ? "" : "s",
                                     static_cast<double>(info.weight_bytes) * 1e-6));
  print_field("preprocessing", fmt::format("resize to {}, {}; x {:.6g}; mean [{:g}]; std [{:g}]",
                                           size, resample_name(pre.resample), pre.rescale,
                                           fmt::join(pre.mean, ", "), fmt::join(pre.std, ", ")));
  std::string reason;
  const std::vector<std::string> gpus = list_gpus(&reason);
  print_field("GPUs", gpus.empty() ? "none: " + reason.substr(0, reason.find(';'))
                                   : fmt::format("{}", fmt::join(gpus, ", ")));
  print_list("calibrations", path_strings(info.calibrations));
  print_list("unused tensors", info.unused);
  print_list("missing", info.missing);
  if (!info.unusable.empty()) {
    print_list("unusable", info.unusable);
  }
}

}  // namespace

void add_info(CLI::App& app, Run& run) {
  struct Options {
    std::string model;
    std::filesystem::path calibration;
    JsonOutput json;
  };
  auto options = std::make_shared<Options>();
  CLI::App* command =
      app.add_subcommand("info", "Show a model's architecture, weights and preprocessing");
  const auto take_model = add_model(*command, options->model);
  add_calibration(*command, options->calibration);
  options->json.add_to(*command);
  explain(*command, {}, {"fovea info MODEL", "fovea info google/siglip2-base-patch16-224 --json"});
  command->callback([options, take_model, &run] {
    take_model();
    run = [options] {
      const ModelInfo info = inspect_model(options->model, options->calibration);
      if (options->json.prints_text()) {
        print_table(info);
      }
      options->json.write(to_json(info));
      if (!info.usable()) {
        say(fmt::format("the model cannot be used: {} tensors are missing, {} are unusable",
                        info.missing.size(), info.unusable.size()));
      }
      return info.usable() ? kDone : kFailed;
    };
  });
}

}  // namespace fovea::cli
