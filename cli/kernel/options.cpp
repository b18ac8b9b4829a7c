// Options that several commands of `fovea kernel` take.
#include "cli/kernel/options.hpp"

#include <limits>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "core/device_name.hpp"
#include "lab/cards/problem_fields.hpp"

namespace fovea::cli::kernel {

void add_cards(CLI::App& command, CardOptions& options) {
  add_texts(command, "CARD", options.cards,
            "Cards, as listed by `fovea kernel list`, or files of your own (default: all)");
  options.json.add_to(command);
}

void add_gpu(CLI::App& command, int& index) {
  add_integer(command, "--gpu", {}, index, "Index of the GPU")->group(kComputeGroup);
}

CLI::Option* add_emulator(CLI::App& command, std::string& emulator) {
  CLI::Option* const device =
      add_text(command, "--device", "emu|emu:ARCH", emulator,
               fmt::format("Run the quick cases on {} instead of a GPU", emulator_words()).c_str());
  without_variable(device)->group(kComputeGroup)->check([](const std::string& text) -> std::string {
    const std::optional<DeviceName> name = parse_device(text);
    return name && name->kind == DeviceKind::kEmulator
               ? ""
               : fmt::format("'{}' is not one of {}", text, fmt::join(emulator_names(), ", "));
  });
  return device;
}

void add_schedules(CLI::App& command, int& schedules) {
  add_integer(command, "--schedules", {1, 1'000'000'000}, schedules,
              "Number of schedules (orders of warps and blocks) for each plan; all must give the "
              "same bytes")
      ->group(kInputGroup);
}

void add_case(CLI::App& command, std::string& name) {
  CLI::Option* const listed =
      add_text(
          command, "--case", "CASE", name,
          "Use only this case (default: every case that the command supports, or the timed one)")
          ->group(kInputGroup);
  // --problem sets the name of a case that no card lists; the case is made from the fields in the
  // name.
  add_text(command, "--problem", "FIELDS", name,
           "Use the timed case with other sizes, such as m=4099,n=1728,k=1152 (attention: batch, "
           "heads, kv_heads, length or queries and keys, width, causal, type)")
      ->group(kInputGroup)
      ->excludes(listed)
      ->check([](const std::string& text) {
        return lab::ProblemFields::are(text) ? "" : "expected name=value,name=value";
      });
}

void add_level(CLI::App& command, std::string& level) {
  add_text(command, "--level", "LEVEL", level, "Level to launch (default: the launcher's choice)")
      ->group(kInputGroup);
}

void add_plan(CLI::App& command, std::string& plan) {
  add_text(
      command, "--plan", "PLAN", plan,
      "Plan to launch, as listed by `fovea kernel bench --plans` (default: the launcher's choice)")
      ->group(kInputGroup);
}

void add_sources(CLI::App& command, std::string& folder) {
  add_text(command, "--sources", "FOLDER", folder,
           "Folder with kernels/, whose files replace the program's sources")
      ->group(kInputGroup);
}

void add_level_on_gpu(CLI::App& command, int& gpu, std::string& case_name, std::string& level) {
  add_gpu(command, gpu);
  add_case(command, case_name);
  add_level(command, level);
}

void add_only_kernel(CLI::App& command, std::string& name) {
  add_text(command, "--kernel", "KERNEL", name, "Use only this kernel of the cards")
      ->group(kInputGroup);
}

void add_first_kernel(CLI::App& command, std::string& name) {
  add_text(command, "--kernel", "KERNEL", name,
           "Kernel to start from (default: the launcher's choice, or the level's)")
      ->group(kInputGroup);
}

std::optional<Parameters> parameters_in(const nlohmann::json& json) {
  if (!json.is_object()) {
    return std::nullopt;
  }
  Parameters values;
  for (const auto& [name, value] : json.items()) {
    const bool is_int = value.is_number_integer() &&
                        value >= nlohmann::json(std::numeric_limits<int>::min()) &&
                        value <= nlohmann::json(std::numeric_limits<int>::max());
    if (!is_int) {
      return std::nullopt;
    }
    values[name] = value.get<int>();
  }
  return values;
}

void add_parameters_option(CLI::App& command, Parameters& parameters) {
  add_json_parameters(command, "--parameters",
                      "Tuning parameters that differ from the kernel's own, as JSON",
                      [&parameters](Parameters values) { parameters = std::move(values); });
}

void add_launch(CLI::App& command, int& gpu, lab::CaseSpec& launch) {
  add_level_on_gpu(command, gpu, launch.case_name, launch.level);
  add_plan(command, launch.plan);
  add_sources(command, launch.sources);
  add_parameters_option(command, launch.changes);
}

void add_json_parameters(CLI::App& command, const char* name, const char* help,
                         const std::function<void(Parameters)>& take) {
  command
      .add_option_function<std::string>(
          name,
          [name, take](const std::string& text) {
            auto values = parameters_in(nlohmann::json::parse(text, nullptr, false));
            if (!values.has_value()) {
              throw CLI::ValidationError(
                  std::string(name) +
                      " takes a JSON object of whole numbers, such as {\"stages\": 4}",
                  CLI::ExitCodes::ValidationError);
            }
            take(std::move(*values));
          },
          help)
      ->type_name("JSON")
      ->group(kInputGroup);
}

}  // namespace fovea::cli::kernel
