// `fovea heat`: shows which parts of a photo match a text.
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/commands.hpp"
#include "cli/model_option.hpp"
#include "cli/progress_line.hpp"
#include "cli/terminal.hpp"
#include "fovea/encoder.hpp"
#include "fovea/heat.hpp"
#include "fovea/search.hpp"

namespace fovea::cli {
namespace {

struct HeatArguments {
  std::vector<std::string> inputs;  // the model unless -m is given, the text, the photo
  std::string model;
  EncoderOptions encoder;
  std::string clean = "auto";
  std::string output;
  std::int64_t max_pixels = 0;
  JsonOutput json;
};

int run_heat(HeatArguments& arguments) {
  const std::string& text = arguments.inputs[0];
  const ImageInput photo{.path = arguments.inputs[1]};
  Encoder encoder(arguments.model, arguments.encoder);
  tell_device(encoder.device());
  const HeatMap map =
      encoder.heat(text, photo, parse_text_clean(arguments.clean), arguments.max_pixels);
  if (!arguments.output.empty()) {
    write_heat(photo, map, arguments.output, arguments.max_pixels);
    say(fmt::format("wrote {}", source_name(arguments.output)));
  }
  nlohmann::ordered_json values = nlohmann::ordered_json::array();
  for (std::int64_t row = 0; row < map.rows; ++row) {
    nlohmann::ordered_json line = nlohmann::ordered_json::array();
    for (std::int64_t column = 0; column < map.columns; ++column) {
      line.push_back(
          short_number(map.values[static_cast<std::size_t>(row * map.columns + column)]));
    }
    values.push_back(std::move(line));
  }
  arguments.json.write({{"text", text},
                        {"photo", source_name(photo.path)},
                        {"rows", map.rows},
                        {"columns", map.columns},
                        {"values", std::move(values)}});
  return kDone;
}

}  // namespace

void add_heat(CLI::App& app, Run& run) {
  const auto arguments = std::make_shared<HeatArguments>();
  CLI::App* command = app.add_subcommand("heat", "Show which parts of a photo match a text");
  const auto take_model = add_model(*command, arguments->model, arguments->inputs);
  add_texts(*command, "INPUT", arguments->inputs, "The text, such as \"a dog\", and the photo");
  add_max_pixels(*command, arguments->max_pixels);
  add_text_clean(*command, arguments->clean);
  without_variable(add_output_text(*command, "-o,--output", "FILE", arguments->output,
                                   OutputKind::kPicture,
                                   "Picture to write, as PNG: the photo in grey under the heat"))
      ->group(kOutputGroup);
  arguments->json.add_to(*command);
  add_threads(*command, arguments->encoder.threads);
  add_precision(*command, arguments->encoder.precision);
  add_calibration(*command, arguments->encoder.calibration);
  add_device(*command, arguments->encoder.device);
  explain(
      *command,
      {kModelRule,
       "The heat of a patch is the cosine between the text and the embedding that the photo would "
       "have if the model attended to that patch alone. Colours range from the lowest value in the "
       "photo, dark violet, to the highest, light yellow: some patch is always the hottest, "
       "whether or not the photo shows what the text says. --json prints the values."},
      {"fovea heat -m MODEL \"a cat\" cat.jpg -o heat.png",
       "fovea heat -m MODEL \"a cat\" cat.jpg --json"});
  command->callback([arguments, take_model, &run] {
    take_model();
    if (arguments->inputs.size() != 2) {
      throw CLI::ValidationError("expected a text and one photo, such as \"a dog\" photo.jpg",
                                 CLI::ExitCodes::ValidationError);
    }
    if (arguments->output.empty() && !arguments->json.is_requested()) {
      throw CLI::ValidationError("--output",
                                 "must name a picture to write, unless --json is given");
    }
    run = [arguments] { return run_heat(*arguments); };
  });
}

}  // namespace fovea::cli
