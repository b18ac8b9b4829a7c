// Kernels in processes of their own, which write a line of JSON of what comes of each.
#include "emulator/captures/tool/workers.hpp"

#include <exception>
#include <iostream>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "lab/system/process.hpp"

namespace captures {
namespace {

std::string line_of(const Outcome& outcome) {
  nlohmann::json outputs = nlohmann::json::array();
  for (const Bytes& output : outcome.outputs) {
    std::vector<int> numbers;
    for (const std::byte byte : output) {
      numbers.push_back(std::to_integer<int>(byte));
    }
    outputs.push_back(std::move(numbers));
  }
  return nlohmann::json{{"error", outcome.error}, {"outputs", std::move(outputs)}}.dump(
      -1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// None when the line is no outcome, because the process ended in its middle.
std::optional<Outcome> outcome_in(const std::string& line) {
  const auto json = nlohmann::json::parse(line, nullptr, false);
  if (json.is_discarded()) {
    return std::nullopt;
  }
  Outcome outcome{.error = json.at("error").get<std::string>()};
  for (const nlohmann::json& numbers : json.at("outputs")) {
    Bytes& output = outcome.outputs.emplace_back();
    for (const nlohmann::json& number : numbers) {
      output.push_back(static_cast<std::byte>(number.get<int>()));
    }
  }
  return outcome;
}

}  // namespace

int work(std::size_t first, std::size_t count,
         const std::function<std::vector<Bytes>(std::size_t index)>& run) {
  for (std::size_t index = first; index < count; ++index) {
    Outcome outcome;
    try {
      outcome.outputs = run(index);
    } catch (const std::exception& error) {
      outcome.error = error.what();
    }
    std::cout << line_of(outcome) << std::endl;
    if (!outcome.error.empty()) {
      return 1;
    }
  }
  return 0;
}

void run_workers(const std::vector<std::string>& arguments, std::size_t count, int seconds,
                 const std::function<void(std::size_t index, Outcome outcome)>& use) {
  std::size_t next = 0;
  while (next < count) {
    std::vector<std::string> command = {"/proc/self/exe"};
    command.insert(command.end(), arguments.begin(), arguments.end());
    command.push_back(std::to_string(next));
    fovea::lab::Child worker(command);
    while (next < count) {
      const std::optional<std::string> line = worker.read_line(seconds);
      std::optional<Outcome> outcome = line.has_value() ? outcome_in(*line) : std::nullopt;
      if (!outcome.has_value()) {
        use(next++, {.error = fmt::format("the process that ran it {}", worker.why_silent())});
        break;
      }
      const bool has_failed = !outcome->error.empty();
      use(next++, std::move(*outcome));
      if (has_failed) {
        break;
      }
    }
  }
}

}  // namespace captures
