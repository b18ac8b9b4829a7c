// `fovea info`: shows what a model folder holds.
#include <algorithm>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "cli/commands.hpp"
#include "cli/terminal.hpp"
#include "fovea/model.hpp"

namespace fovea::cli {
namespace {

std::string_view resample_name(Resample resample) {
  return resample == Resample::kBilinear ? "bilinear" : "bicubic";
}

void print_json(const ModelInfo& info) {
  using json = nlohmann::ordered_json;
  const Preprocessing& pre = info.preprocessing;
  json files = json::array();
  for (const auto& file : info.files) {
    files.push_back(file.filename().string());
  }
  const json root{
      {"folder", info.folder.string()},
      {"usable", info.usable()},
      {"hidden", info.hidden},
      {"mlp", info.mlp},
      {"layers", info.layers},
      {"heads", info.heads},
      {"head_dim", info.head_dim},
      {"image_size", info.image_size},
      {"patch", info.patch},
      {"patches", info.patches},
      {"layer_norm_eps", info.layer_norm_eps},
      {"parameters", info.parameters},
      {"gflop_per_image", info.gflop_per_image},
      {"dtypes", info.dtypes},
      {"files", files},
      {"weight_bytes", info.weight_bytes},
      {"missing", info.missing},
      {"unusable", info.unusable},
      {"unused", info.unused},
      {"gpus", list_gpus()},
      {"preprocessing",
       {{"height", pre.height},
        {"width", pre.width},
        {"resample", resample_name(pre.resample)},
        {"rescale", pre.rescale},
        {"mean", pre.mean},
        {"std", pre.std}}},
  };
  std::cout << json_text(root, 2) << '\n';
}

void row(std::string_view name, const std::string& value) {
  std::cout << fmt::format("{:<15} {}\n", name, io::printable(value));
}

void list(std::string_view name, const std::vector<std::string>& entries) {
  constexpr std::size_t kShown = 10;
  row(name, entries.empty() ? "none" : fmt::format("{}", entries.size()));
  for (std::size_t index = 0; index < std::min(kShown, entries.size()); ++index) {
    row("", entries[index]);
  }
  if (entries.size() > kShown) {
    row("", "... (--json lists all of them)");
  }
}

// Small test models take hundredths of a GFLOP.
std::string compute(double gflop) {
  return gflop < 1 ? fmt::format("{:.1f} MFLOP per image", gflop * 1e3)
                   : fmt::format("{:.1f} GFLOP per image", gflop);
}

void print_table(const ModelInfo& info) {
  const Preprocessing& pre = info.preprocessing;
  row("model", info.folder.string());
  row("embedding", fmt::format("{} numbers", info.hidden));
  row("layers", fmt::format("{} of hidden size {}, MLP {}", info.layers, info.hidden, info.mlp));
  row("attention", fmt::format("{} heads of {}", info.heads, info.head_dim));
  row("image", fmt::format("{0} x {0} pixels, patch {1}: {2} tokens", info.image_size, info.patch,
                           info.patches));
  row("parameters", fmt::format("{} (vision tower)", info.parameters));
  row("compute", compute(info.gflop_per_image));
  row("weights", fmt::format("{} in {} file{}, {:.1f} MB", fmt::join(info.dtypes, ", "),
                             info.files.size(), info.files.size() == 1 ? "" : "s",
                             static_cast<double>(info.weight_bytes) * 1e-6));
  row("preprocessing", fmt::format("resize to {} x {}, {}; x {:.6g}; mean [{:g}]; std [{:g}]",
                                   pre.height, pre.width, resample_name(pre.resample), pre.rescale,
                                   fmt::join(pre.mean, ", "), fmt::join(pre.std, ", ")));
  std::string why;
  const std::vector<std::string> gpus = list_gpus(&why);
  row("GPUs", gpus.empty() ? "none: " + why : fmt::format("{}", fmt::join(gpus, ", ")));
  list("unused tensors", info.unused);
  list("missing", info.missing);
  if (!info.unusable.empty()) {
    list("unusable", info.unusable);
  }
}

}  // namespace

void add_info(CLI::App& app, Run& run) {
  struct Options {
    std::string model;
    bool json = false;
  };
  auto options = std::make_shared<Options>();
  CLI::App* command =
      app.add_subcommand("info", "Show a model's architecture, weights and preprocessing");
  command->add_option("MODEL", options->model, "Model folder, or a name in the Hugging Face cache")
      ->required();
  command->add_flag("--json", options->json, "Print JSON");
  command->callback([options, &run] {
    run = [options] {
      const ModelInfo info = inspect_model(options->model);
      options->json ? print_json(info) : print_table(info);
      if (!info.usable()) {
        say(fmt::format("the model cannot be used: {} tensors are missing, {} are unusable",
                        info.missing.size(), info.unusable.size()));
      }
      return info.usable() ? kDone : kFailed;
    };
  });
}

}  // namespace fovea::cli
