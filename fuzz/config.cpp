// Fuzzes config.json and preprocessor_config.json: any bytes must be parsed into valid values or
// rejected with fovea::Error.
#include "model/config.hpp"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "fovea/error.hpp"
#include "image/target_size.hpp"
#include "model/architecture.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    const fovea::model::VisionConfig config = fovea::model::parse_config(text);
    if (config.heads < 1 || config.hidden % config.heads != 0 || config.patches() < 1 ||
        fovea::model::parameter_count(config) < 1 ||
        !(fovea::model::flop_per_image(config) > 0.0)) {
      std::abort();
    }
  } catch (const fovea::Error&) {
  }
  for (const bool naflex : {false, true}) {
    try {
      const fovea::model::VisionConfig vision =
          fovea::model::parse_config(naflex ? R"({"model_type":"siglip2_vision_model"})"
                                            : R"({"model_type":"siglip_vision_model"})");
      const fovea::Preprocessing pixels =
          fovea::model::parse_preprocessor_config(text, "preprocessor_config.json", vision);
      const auto [height, width] = fovea::image::target_size(pixels, 3000, 4000);
      if (height < 1 || width < 1 || pixels.keeps_proportions() != naflex ||
          !(pixels.std[0] > 0.0F)) {
        std::abort();
      }
    } catch (const fovea::Error&) {
    }
  }
  return 0;
}
