// The shared options, with validators for their values.
#include "cli/options.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <system_error>

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/device_name.hpp"
#include "core/precision_names.hpp"
#include "core/text.hpp"
#include "core/wording.hpp"
#include "io/nearest.hpp"

namespace fovea::cli {
namespace {

// The command whose words after `--` are a program and its arguments, which CLI11 must not read.
constexpr std::string_view kCommandWithProgram = "emulate";
std::vector<std::string> g_words_after_dashes;

constexpr const char* kNoVariable = "-";
constexpr std::int64_t kMaxBatchSize = 65536;
constexpr const char* kBatchSizeHelp = "Images per batch (0: chosen for the device)";
constexpr std::size_t kMaxListedWords = 8;
constexpr char kRangeMark = '\x1f';
constexpr char kWordMark = '\0';  // cannot occur in arguments or environment variables

// Adds a validator that may also rewrite the value. CLI11 appends its description, the range, to
// the type name of the option.
CLI::Option* add_validator(CLI::Option* option, const std::string& range,
                           std::function<std::string(std::string&)> check) {
  return option->transform(
      CLI::Validator(std::move(check), range.empty() ? "" : kRangeMark + range, "range"));
}

std::string range_text(IntegerRange range) {
  return range.max >= INT32_MAX ? fmt::format("at least {}", range.min)
                                : fmt::format("from {} to {}", range.min, range.max);
}

CLI::Option* restrict_to_range(CLI::Option* option, IntegerRange range) {
  option->type_name("N");
  return add_validator(option, range_text(range), [range](std::string& text) -> std::string {
    std::int64_t number = 0;
    const char* const last = text.data() + text.size();
    const auto [end, error] = std::from_chars(text.data(), last, number);
    const bool is_number = end == last && !text.empty() && error != std::errc::invalid_argument;
    if (!is_number) {
      return fmt::format("must be a whole number{} {}; '{}' is not one",
                         range.max >= INT32_MAX ? "," : "", range_text(range), text);
    }
    if (error != std::errc{} || number < range.min || number > range.max) {
      return fmt::format("must be {}, not {}", range_text(range), text);
    }
    text = std::to_string(number);  // decimal: CLI11 would read 010 as octal
    return "";
  });
}

CLI::Option* restrict_to_choices(CLI::Option* option, const std::vector<std::string>& choices) {
  option->type_name(fmt::format("{}", fmt::join(choices, "|")));
  return add_validator(option, "", [choices](std::string& text) -> std::string {
    std::string choice = lower_case(text);
    if (std::ranges::find(choices, choice) == choices.end()) {
      const std::string hint = io::did_you_mean(text, choices);
      return choices.size() > kMaxListedWords
                 ? fmt::format("'{}' is not one of the values that --help lists{}", text, hint)
                 : fmt::format("'{}' is not one of {}{}", text, fmt::join(choices, ", "), hint);
    }
    text = std::move(choice);
    return "";
  });
}

std::string check_device(std::string& text) {
  const std::string device = lower_case(text);
  if (!parse_device(device)) {
    return fmt::format("unknown device '{}'; use {}", text, kDeviceNames);
  }
  text = device;
  return "";
}

// Validates a size such as "2G", and rewrites it as a number of bytes.
std::string check_size(std::string& text) {
  std::uint64_t number = 0;
  const char* const last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, number);
  std::string unit = lower_case(std::string(end, last));
  unit.erase(0, std::min(unit.find_first_not_of(' '), unit.size()));
  constexpr std::string_view kUnits = "bkmgtpe";
  const std::size_t power = unit.empty() ? 0 : kUnits.find(unit.front());
  const std::string_view unit_suffix = unit.empty() ? "" : std::string_view(unit).substr(1);
  const bool is_unit =
      power != std::string_view::npos &&
      (unit_suffix.empty() ||
       (power > 0 && (unit_suffix == "b" || unit_suffix == "i" || unit_suffix == "ib")));
  constexpr std::size_t kBitsPerUnit = 10;
  if (error != std::errc{} || !is_unit || number > UINT64_MAX >> (kBitsPerUnit * power)) {
    return fmt::format("must be a size such as 512M or 2G; '{}' is not one", text);
  }
  text = std::to_string(number << (kBitsPerUnit * power));
  return "";
}

// Adds validators that remove the word marks. They run before the others, because CLI11 runs
// validators in the reverse order of their addition.
void remove_word_marks(CLI::App& app) {
  for (CLI::Option* option : app.get_options()) {
    if (option->get_items_expected_max() > 0) {
      option->transform(CLI::Validator(
          [](std::string& text) {
            text = remove_word_mark(text);
            return std::string();
          },
          ""));
    }
  }
  for (CLI::App* command : app.get_subcommands({})) {
    remove_word_marks(*command);
  }
}

// Makes the option a list in a single argument, so that a positional can follow it.
CLI::Option* make_list(CLI::Option* option) {
  return option->delimiter(',')->allow_extra_args(false);
}

}  // namespace

void begin_group(CLI::App& command, const char* group) {
  command.option_defaults()->group(group);
}

CLI::Option* add_flag(CLI::App& command, const char* names, bool& variable, const char* help) {
  return command.add_flag(names, variable, help);
}

CLI::Option* add_text(CLI::App& command, const char* names, const char* value,
                      std::string& variable, const char* help) {
  return command.add_option(names, variable, help)->type_name(value);
}

CLI::Option* add_texts(CLI::App& command, const char* name, std::vector<std::string>& variable,
                       const char* help) {
  return command.add_option(name, variable, help)->type_name("")->default_str("");
}

CLI::Option* add_repeated(CLI::App& command, const char* name, const char* value,
                          std::vector<std::string>& variable, const char* help) {
  return add_texts(command, name, variable, help)->type_name(value)->allow_extra_args(false);
}

CLI::Option* add_choice(CLI::App& command, const char* names,
                        const std::vector<std::string>& choices, std::string& variable,
                        const char* help) {
  return restrict_to_choices(command.add_option(names, variable, help), choices);
}

CLI::Option* add_choices(CLI::App& command, const char* names,
                         const std::vector<std::string>& choices,
                         std::vector<std::string>& variable, const char* help) {
  return restrict_to_choices(make_list(command.add_option(names, variable, help)), choices)
      ->default_str(fmt::format("{}", fmt::join(variable, ",")));
}

CLI::Option* add_integer(CLI::App& command, const char* names, IntegerRange range, int& variable,
                         const char* help) {
  range.max = std::min<std::int64_t>(range.max, INT32_MAX);
  return restrict_to_range(command.add_option(names, variable, help), range);
}

CLI::Option* add_integer(CLI::App& command, const char* names, IntegerRange range,
                         std::int64_t& variable, const char* help) {
  return restrict_to_range(command.add_option(names, variable, help), range);
}

CLI::Option* add_integer(CLI::App& command, const char* names, IntegerRange range,
                         std::uint64_t& variable, const char* help) {
  return restrict_to_range(command.add_option(names, variable, help), range);
}

CLI::Option* add_optional_integer(CLI::App& command, const char* names, IntegerRange range,
                                  std::optional<std::uint64_t>& variable, const char* help) {
  return restrict_to_range(command.add_option(names, variable, help), range)->default_str("");
}

CLI::Option* add_integers(CLI::App& command, const char* names, IntegerRange range,
                          std::vector<std::int64_t>& variable, const char* help) {
  return restrict_to_range(make_list(command.add_option(names, variable, help)), range)
      ->default_str(fmt::format("{}", fmt::join(variable, ",")));
}

CLI::Option* add_size(CLI::App& command, const char* names, std::uint64_t& variable,
                      const char* help) {
  return add_validator(command.add_option(names, variable, help)->type_name("SIZE"), "",
                       check_size);
}

CLI::Option* add_real(CLI::App& command, const char* names, const char* value, RealRange range,
                      double& variable, const char* help) {
  const std::string range_words =
      std::isinf(range.max)
          ? fmt::format("{} {}", range.exclusive_min ? "more than" : "at least", range.min)
      : range.exclusive_min ? fmt::format("more than {} and at most {}", range.min, range.max)
                            : fmt::format("from {} to {}", range.min, range.max);
  CLI::Option* option = command.add_option(names, variable, help)->type_name(value);
  option->default_str(fmt::format("{}", variable));
  return add_validator(option, range_words, [range, range_words](std::string& text) -> std::string {
    double number = 0;
    const char* const last = text.data() + text.size();
    const auto [end, error] = std::from_chars(text.data(), last, number);
    if (end != last || error != std::errc{} || !std::isfinite(number)) {
      return fmt::format("must be a number {}; '{}' is not one", range_words, text);
    }
    const bool is_above_min = range.exclusive_min ? number > range.min : number >= range.min;
    return is_above_min && number <= range.max
               ? ""
               : fmt::format("must be {}, not {}", range_words, text);
  });
}

CLI::Option* add_output_text(CLI::App& command, const char* names, const char* value,
                             std::string& variable, OutputKind kind, const char* help) {
  return declare_output(command, add_text(command, names, value, variable, help), kind);
}

CLI::Option* add_output(CLI::App& command, std::string& output, OutputKind kind, const char* value,
                        const char* help) {
  return add_output_text(command, "-o,--output", value, output, kind, help)
      ->required()
      ->default_str("")
      ->group(kOutputGroup);
}

CLI::Option* add_trace(CLI::App& command, std::string& file) {
  return add_output_text(command, "--trace", "FILE", file, OutputKind::kTrace,
                         "Write the order of execution to this file, for a single schedule")
      ->group(kReportGroup);
}

// The option also accepts the names of emulators (docs/emulator.md), which only commands of `fovea
// kernel` list in their help.
CLI::Option* add_device(CLI::App& command, std::string& device, const char* help) {
  return add_validator(add_text(command, "--device", "auto|cpu|cuda|cuda:N", device, help), "",
                       check_device)
      ->group(kComputeGroup);
}

CLI::Option* add_batch_size(CLI::App& command, int& images) {
  return add_integer(command, "--batch-size", {0, kMaxBatchSize}, images, kBatchSizeHelp)
      ->group(kComputeGroup);
}

CLI::Option* add_batch_sizes(CLI::App& command, std::vector<std::int64_t>& images) {
  return without_variable(
             add_integers(command, "--batch-size", {0, kMaxBatchSize}, images, kBatchSizeHelp))
      ->group(kComputeGroup);
}

CLI::Option* add_precision(CLI::App& command, Precision& precision) {
  CLI::Option* const option = command.add_option_function<std::string>(
      "--precision", [&precision](const std::string& name) { precision = parse_precision(name); },
      "Precision to compute in; auto uses bf16 where the device supports it");
  return restrict_to_choices(option, precision_names())
      ->default_str(std::string(to_string(precision)))
      ->group(kComputeGroup);
}

std::string calibrated_precisions(std::string_view conjunction) {
  return listed(precision_names(&PrecisionInfo::calibrated), conjunction);
}

CLI::Option* add_calibration(CLI::App& command, std::filesystem::path& folder) {
  return add_calibration(command, folder,
                         fmt::format("Folder with the model's calibrations for {} (default: where "
                                     "`fovea calibrate` writes them)",
                                     calibrated_precisions("and")));
}

CLI::Option* add_calibration(CLI::App& command, std::filesystem::path& folder,
                             const std::string& help) {
  return command
      .add_option_function<std::string>(
          "--calibration", [&folder](const std::string& text) { folder = text; }, help)
      ->type_name("DIR")
      ->group(kComputeGroup);
}

CLI::Option* add_precisions(CLI::App& command, const std::vector<std::string>& choices,
                            std::vector<Precision>& precisions) {
  CLI::Option* const option = command.add_option_function<std::vector<std::string>>(
      "--precision",
      [&precisions](const std::vector<std::string>& names) {
        precisions.resize(names.size());
        std::ranges::transform(names, precisions.begin(), parse_precision);
      },
      "Precisions to run in");
  std::vector<std::string_view> initial(precisions.size());
  std::ranges::transform(precisions, initial.begin(),
                         [](Precision precision) { return to_string(precision); });
  return without_variable(restrict_to_choices(make_list(option), choices))
      ->default_str(fmt::format("{}", fmt::join(initial, ",")))
      ->group(kComputeGroup);
}

CLI::Option* add_threads(CLI::App& command, int& threads) {
  return add_integer(command, "--threads", {0, kMaxThreads}, threads,
                     "Compute threads (0: one per CPU)")
      ->group(kComputeGroup);
}

CLI::Option* add_decode_threads(CLI::App& command, int& threads) {
  return add_integer(command, "--decode-threads", {0, kMaxThreads}, threads,
                     "Decode threads (0: one per CPU)")
      ->group(kComputeGroup);
}

CLI::Option* add_text_clean(CLI::App& command, std::string& clean) {
  return add_choice(command, "--text-clean", {"auto", "lower", "canonicalize", "none"}, clean,
                    "How to clean texts; auto: as in the model's training, that is, lower for "
                    "SigLIP 2 and canonicalize (lower case without punctuation) for SigLIP")
      ->group(kInputGroup);
}

TextClean parse_text_clean(const std::string& clean) {
  return clean == "auto"           ? TextClean::kAuto
         : clean == "lower"        ? TextClean::kLower
         : clean == "canonicalize" ? TextClean::kCanonicalize
                                   : TextClean::kNone;
}

CLI::Option* add_max_pixels(CLI::App& command, std::int64_t& pixels) {
  return add_integer(
             command, "--max-pixels", {0, std::int64_t{1} << 40}, pixels,
             "Maximum pixels of an image (0: 178956970, as in Pillow); large images may also "
             "need more memory for decoding")
      ->group(kInputGroup);
}

CLI::Option* add_limit(CLI::App& command, std::int64_t& limit) {
  return add_integer(command, "--limit", {0, IntegerRange::kNoLimit}, limit,
                     "Use at most this many photos, starting with the first (0: all)")
      ->group(kInputGroup);
}

CLI::Option* add_seed(CLI::App& command, std::uint64_t& seed) {
  return add_integer(command, "--seed", {0, IntegerRange::kNoLimit}, seed,
                     "Seed of the random numbers");
}

std::pair<std::string, std::string> value_and_range(const CLI::Option& option) {
  const std::string type_and_range = option.get_type_name();
  const std::size_t mark = type_and_range.find(kRangeMark);
  return mark == std::string::npos
             ? std::pair{type_and_range, std::string()}
             : std::pair{type_and_range.substr(0, mark - 1), type_and_range.substr(mark + 1)};
}

std::string remove_word_mark(const std::string& word) {
  return word.starts_with(kWordMark) ? word.substr(1) : word;
}

const std::vector<std::string>& words_after_dashes() {
  return g_words_after_dashes;
}

void parse_command_line(CLI::App& app, const std::vector<std::string>& arguments) {
  remove_word_marks(app);
  std::vector<std::string> reversed_words(arguments.rbegin(), arguments.rend());
  const auto dashes = std::ranges::find(arguments, "--");
  if (dashes != arguments.end() && arguments.front() == kCommandWithProgram) {
    g_words_after_dashes.assign(std::next(dashes), arguments.end());
    reversed_words.assign(std::make_reverse_iterator(dashes), arguments.rend());
  }
  for (std::string& argument : reversed_words) {
    if (argument.starts_with('[') && argument.ends_with(']')) {
      argument.insert(argument.begin(), kWordMark);
    }
  }
  app.parse(std::move(reversed_words));
}

bool is_typed(const CLI::App& command, const CLI::Option& option) {
  return std::ranges::find(command.parse_order(), &option) != command.parse_order().end();
}

void reject_if_typed(const CLI::App& command, std::initializer_list<const char*> names,
                     std::string_view reason) {
  for (const char* const name : names) {
    if (is_typed(command, *command.get_option(name))) {
      throw CLI::ValidationError(fmt::format("{} {}", name, reason));
    }
  }
}

CLI::Option* without_variable(CLI::Option* option) {
  return option->envname(kNoVariable);
}

std::string variable_name(const CLI::Option& option) {
  const std::string& long_name =
      option.get_lnames().empty() ? std::string() : option.get_lnames().front();
  if (long_name.empty() || long_name == "help" || long_name == "version" ||
      option.get_envname() == kNoVariable) {
    return "";
  }
  std::string name = "FOVEA_";
  for (const char letter : long_name) {
    name +=
        letter == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(letter)));
  }
  return name;
}

}  // namespace fovea::cli
