// Runs Python on the expression of a card file.
#include "lab/card_files/numpy_reference.hpp"

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <span>
#include <string_view>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/error.hpp"
#include "io/file.hpp"
#include "io/text.hpp"
#include "lab/system/kernel_sources.hpp"
#include "lab/system/process.hpp"

namespace fovea::lab {

/// Returns reference.py; generated from it.
std::span<const std::string_view> reference_programs();

namespace {

namespace fs = std::filesystem;

constexpr double kMaxSeconds = 600;

std::string find_python() {
  // NOLINTNEXTLINE(concurrency-mt-unsafe): no thread sets variables
  const char* const variable = std::getenv("FOVEA_PYTHON");
  std::string interpreter = variable != nullptr ? variable : find_program("python3");
  if (interpreter.empty()) {
    fail(
        "the reference of a card file needs a python3 with NumPy, and none is on the PATH; set "
        "FOVEA_PYTHON");
  }
  return interpreter;
}

void write_doubles(const fs::path& path, const NamedArray& array) {
  const std::size_t size = emulation::size_of(array.type);
  std::vector<double> values(array.bytes.size() / size);
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = emulation::get(array.type, &array.bytes[i * size]);
  }
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(values.data()),
             static_cast<std::streamsize>(values.size() * sizeof(double)));
  if (!file.flush()) {
    fail("{}: cannot be written", path.string());
  }
}

}  // namespace

ReferenceResults evaluate_reference(const Expression& expression) {
  const TemporaryFolder folder;
  const fs::path output = folder.path() / "results";
  nlohmann::json question = {{"expression", expression.text},
                             {"problem", expression.problem},
                             {"shape", expression.shape.dims()},
                             {"inputs", nlohmann::json::object()},
                             {"output", output.string()}};
  for (std::size_t i = 0; i < expression.inputs.size(); ++i) {
    const NamedArray& array = expression.inputs[i];
    const fs::path path = folder.path() / fmt::format("input{}", i);
    write_doubles(path, array);
    question["inputs"][array.name] = {{"file", path.string()},
                                      {"shape", array.shape.dims()},
                                      {"real", emulation::is_float(array.type)}};
  }
  write_source(folder.path() / "question.json", question.dump());
  write_source(folder.path() / "reference.py", std::string(reference_programs().front()));
  const std::vector<std::string> command = {find_python(),
                                            (folder.path() / "reference.py").string(),
                                            (folder.path() / "question.json").string()};
  const ProcessResult result = run_process(command, {.max_seconds = kMaxSeconds});
  if (result.timed_out) {
    fail("the expression \"{}\" has not ended within {:.0f} s", io::printable(expression.text),
         kMaxSeconds);
  }
  if (result.exit_code != 0) {
    const std::string& errors = result.errors;
    fail("the expression \"{}\" failed: {}{}", io::printable(expression.text),
         io::printable(errors.substr(0, errors.find_last_not_of('\n') + 1)),
         errors.find("No module named") == std::string::npos
             ? ""
             : "; FOVEA_PYTHON chooses another Python than " + command.front());
  }
  const auto elements = static_cast<std::size_t>(expression.shape.elements());
  const std::string bytes = io::read_small_file(output, 2 * elements * sizeof(double));
  if (bytes.size() != 2 * elements * sizeof(double)) {
    fail("Python has written {} bytes of results, not {}", bytes.size(),
         2 * elements * sizeof(double));
  }
  ReferenceResults results{.exact = std::vector<double>(elements),
                           .framework = std::vector<double>(elements)};
  std::memcpy(results.exact.data(), bytes.data(), elements * sizeof(double));
  std::memcpy(results.framework.data(), bytes.data() + elements * sizeof(double),
              elements * sizeof(double));
  return results;
}

}  // namespace fovea::lab
