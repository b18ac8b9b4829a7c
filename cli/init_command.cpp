// `fovea init`: writes a checkpoint with random weights, to try the program without a download.
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/commands.hpp"
#include "cli/terminal.hpp"
#include "fovea/model.hpp"

namespace fovea::cli {
namespace {

struct InitArguments {
  InitOptions options;
  std::string dtype = "f32";
  std::string folder;
  bool images_only = false;
  JsonOutput json;
};

WeightType weight_type(const std::string& name) {
  if (name == "bf16") {
    return WeightType::kBF16;
  }
  return name == "f16" ? WeightType::kF16 : WeightType::kF32;
}

}  // namespace

void add_init(CLI::App& app, Run& run) {
  auto arguments = std::make_shared<InitArguments>();
  InitOptions& options = arguments->options;
  CLI::App* command = app.add_subcommand("init", "Write a model folder with random weights");
  const std::vector<std::string> names(preset_names().begin(), preset_names().end());
  add_choice(*command, "--preset", names, options.preset, "Architecture")
      ->required()
      ->default_str("");
  add_seed(*command, options.seed);
  add_integer(*command, "--layers", {0, 512}, options.layers,
              "Layers per tower (0: as in the preset)");
  add_integer(*command, "--vocabulary", {0, 1 << 24}, options.vocabulary,
              "Rows of the text tower's token table (0: the size of the small tokenizer; the "
              "published models have 256000)");
  add_flag(*command, "--images-only", arguments->images_only, "Write no text tower");
  without_variable(
      add_output(*command, arguments->folder, OutputKind::kFolder, "FOLDER", "Folder to write"));
  without_variable(add_choice(*command, "--dtype", {"f32", "bf16", "f16"}, arguments->dtype,
                              "Type of the written numbers"))
      ->group(kOutputGroup);
  add_integer(*command, "--max-shard-bytes", {1}, options.max_shard_bytes,
              "Split the weights into files of at most this many bytes")
      ->group(kOutputGroup);
  add_threads(*command, options.threads);
  arguments->json.add_to(*command);
  explain(*command,
          {"The embeddings of such a model are meaningless; it serves to try out the program."},
          {"fovea init --preset tiny -o models/tiny"});
  command->callback([command, arguments, &run] {
    arguments->options.overwrite = has_overwrite_flag(*command);
    run = [arguments] {
      arguments->options.dtype = weight_type(arguments->dtype);
      arguments->options.folder = arguments->folder;
      arguments->options.texts = !arguments->images_only;
      init_checkpoint(arguments->options);
      const InitOptions& written = arguments->options;
      if (arguments->json.prints_text()) {
        say(fmt::format("wrote {} with random weights, seed {}, to {}", written.preset,
                        written.seed, printable_name(written.folder.native())));
      }
      arguments->json.write({{"folder", written.folder.string()},
                             {"preset", written.preset},
                             {"seed", written.seed},
                             {"dtype", arguments->dtype}});
      return kDone;
    };
  });
}

}  // namespace fovea::cli
