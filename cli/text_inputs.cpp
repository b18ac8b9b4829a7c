// How texts are cleaned.
#include "cli/text_inputs.hpp"

#include "cli/options.hpp"

namespace fovea::cli {

CLI::Option* add_text_clean(CLI::App& command, std::string& clean) {
  return add_choice(command, "--text-clean", {"auto", "lower", "canonicalize", "none"}, clean,
                    "How a text is cleaned; auto: as the model was trained, lower for SigLIP 2, "
                    "canonicalize (no punctuation, too) for SigLIP")
      ->group(kInputGroup);
}

TextClean text_clean(const std::string& clean) {
  return clean == "auto"           ? TextClean::kAuto
         : clean == "lower"        ? TextClean::kLower
         : clean == "canonicalize" ? TextClean::kCanonicalize
                                   : TextClean::kNone;
}

}  // namespace fovea::cli
