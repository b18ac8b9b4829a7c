// Launches kernels of a PTX file in the emulator, as a launch file describes.
#include "lab/emulation/emulation.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <mutex>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/error.hpp"
#include "fovea_emulator/error.hpp"
#include "fovea_emulator/tensor_map.hpp"
#include "lab/emulation/findings_order.hpp"
#include "lab/emulation/memory_place.hpp"
#include "lab/emulation/schedule_search.hpp"

namespace fovea::emulation {
namespace {

constexpr std::size_t kLaunchBytes = 1024;  // memory of a launch, without its parameters

// Returns the size of an argument in bytes, or std::nullopt for structs, which take the parameter's
// size.
std::optional<std::size_t> size_of(const Argument& argument) {
  if (const auto* bytes = std::get_if<std::vector<std::byte>>(&argument.what)) {
    return bytes->size();
  }
  if (std::holds_alternative<BufferAddress>(argument.what)) {
    return sizeof(std::uint64_t);
  }
  if (std::holds_alternative<TensorMapArgument>(argument.what)) {
    return emu::kTensorMapBytes;
  }
  return std::nullopt;
}

bool is_near(const Comparison& comparison, double actual, double expected) {
  if (actual == expected || (std::isnan(actual) && std::isnan(expected))) {
    return true;
  }
  return std::isfinite(expected) &&
         std::abs(actual - expected) <=
             comparison.absolute + comparison.relative * std::abs(expected);
}

/// Returns the index of an element in its shape: "[0, 3]".
std::string index_text(std::size_t index, const Shape& shape) {
  std::vector<std::size_t> at(shape.rank());
  for (std::size_t axis = shape.rank(); axis-- > 0;) {
    const auto size = static_cast<std::size_t>(shape[axis]);
    at[axis] = index % size;
    index /= size;
  }
  return fmt::format("[{}]", fmt::join(at, ", "));
}

/// Compares a buffer with its expected content, bit by bit or with a tolerance. Numbers may then
/// differ by `absolute` + `relative` times the magnitude of the expected number, infinities must be
/// equal, and NaN matches only NaN.
std::optional<Mismatch> compare(const Buffer& buffer, std::span<const std::byte> bytes) {
  // NOLINTNEXTLINE(bugprone-unchecked-optional-access): throws
  const Comparison& comparison = buffer.compare.value();
  const std::size_t size = size_of(buffer.type);
  Mismatch mismatch{.buffer = buffer.name, .elements = bytes.size() / size};
  for (std::size_t offset = 0; offset < bytes.size(); offset += size) {
    const auto actual_bits = bytes.subspan(offset, size);
    if (std::ranges::equal(actual_bits, std::span(comparison.expected).subspan(offset, size))) {
      continue;
    }
    const double actual = get(buffer.type, actual_bits.data());
    const double expected = get(buffer.type, &comparison.expected[offset]);
    if (!comparison.is_exact && is_near(comparison, actual, expected)) {
      continue;
    }
    if (mismatch.wrong++ == 0) {
      mismatch.index = index_text(offset / size, buffer.shape);
      mismatch.actual = text_of(buffer.type, actual_bits.data());
      mismatch.expected = text_of(buffer.type, &comparison.expected[offset]);
    }
    const double error = std::abs(actual - expected);
    mismatch.largest_error = std::isnan(error) || std::isnan(mismatch.largest_error)
                                 ? std::numeric_limits<double>::quiet_NaN()
                                 : std::max(mismatch.largest_error, error);
  }
  return mismatch.wrong == 0 ? std::nullopt : std::optional(std::move(mismatch));
}

}  // namespace

std::string Mismatch::text() const {
  return fmt::format(
      "buffer {}: {} of {} elements are wrong, the first one at {}: {} instead of {}{}", buffer,
      wrong, elements, index, actual, expected,
      std::isnan(largest_error) ? ""
                                : fmt::format("; the largest difference is {:.6g}", largest_error));
}

Emulation::Emulation(const std::filesystem::path& ptx, LaunchFile file, const std::string& kernel,
                     const std::string& name)
    : module_(ptx, file.memory.left(), name), file_(std::move(file)) {
  take_memory("the PTX file", module_.device().host_bytes());
  for (Buffer& buffer : file_.buffers) {
    const std::size_t bytes = bytes_of(buffer.type, buffer.shape);
    take_memory("buffers." + buffer.name, 2 * bytes);
    addresses_.push_back(module_.device().allocate(bytes));
    if (buffer.content) {
      module_.device().write(addresses_.back(), *buffer.content);
      buffer.content.reset();
    }
  }
  for (std::size_t i = 0; i < addresses_.size(); ++i) {
    std::vector<std::uint64_t> words;
    for (const BufferAddress& address : file_.buffers[i].addresses) {
      words.push_back(addresses_[address.buffer] + address.offset);
    }
    if (!words.empty()) {
      module_.device().write(addresses_[i], std::as_bytes(std::span(words)));
    }
  }
  for (LaunchText& launch : file_.launches) {
    try {
      const emu::KernelHandle& handle =
          module_.find(launch.kernel.empty() ? kernel : launch.kernel);
      decode(handle);
      launches_.push_back({.kernel = handle,
                           .config = launch.config,
                           .parameters = encode_parameters(launch, handle)});
      file_.memory.take(kLaunchBytes + 2 * launches_.back().parameters.size());
    } catch (const Error& error) {
      rethrow_unless_finding(error);
      const std::string place = launch.path + (launch.kernel.empty() ? "" : ".kernel");
      const std::string text = error.what();
      fail("{}: {}{}", file_.name, text.starts_with(launch.path) ? "" : place + ": ", text);
    }
  }
}

// Decodes a kernel, whose memory is taken from the budget.
void Emulation::decode(const emu::KernelHandle& kernel) {
  const std::size_t before = module_.device().host_bytes();
  module_.decode(kernel);
  take_memory("the PTX file", module_.device().host_bytes() - before);
}

void Emulation::take_memory(const std::string& what, std::size_t bytes) {
  try {
    file_.memory.take(bytes);
  } catch (const Error& error) {
    fail("{}: {}: {}", file_.name, what, error.what());
  }
}

std::vector<std::byte> Emulation::encode_parameters(const LaunchText& launch,
                                                    const emu::KernelHandle& kernel) const {
  const std::vector<emu::Parameter>& parameters = kernel.parameters;
  if (launch.arguments.size() != parameters.size()) {
    fail("{}.arguments: got {} arguments, but {} has {} parameters", launch.path,
         launch.arguments.size(), source_name(kernel.name), parameters.size());
  }
  std::vector<std::byte> bytes(
      parameters.empty() ? 0 : parameters.back().offset + parameters.back().bytes);
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const Argument& argument = launch.arguments[i];
    const std::size_t size = size_of(argument).value_or(parameters[i].bytes);
    if (size != parameters[i].bytes) {
      fail("{}: the argument has {} bytes, but the parameter {} has {}", argument.path, size,
           parameters[i].name, parameters[i].bytes);
    }
    write_argument(argument, std::span(bytes).subspan(parameters[i].offset, size));
  }
  return bytes;
}

void Emulation::write_argument(const Argument& argument, std::span<std::byte> to) const {
  if (const auto* bytes = std::get_if<std::vector<std::byte>>(&argument.what)) {
    std::ranges::copy(*bytes, to.begin());
  } else if (const auto* address = std::get_if<BufferAddress>(&argument.what)) {
    const std::uint64_t value = addresses_[address->buffer] + address->offset;
    std::memcpy(to.data(), &value, sizeof(value));
  } else if (const auto* map = std::get_if<TensorMapArgument>(&argument.what)) {
    emu::TensorMapDesc desc = map->desc;
    desc.address = addresses_[map->address.buffer] + map->address.offset;
    try {
      std::ranges::copy(emu::encode(desc), to.begin());
    } catch (const emu::Error& error) {
      fail("{}.tensor_map: {}", argument.path, error.what());
    }
  } else {
    const auto& parts = std::get<StructArgument>(argument.what);
    for (std::size_t i = 0; i < parts.fields.size(); ++i) {
      const Argument& field = parts.fields[i];
      const std::size_t offset = parts.offsets[i];
      const std::optional<std::size_t> size = size_of(field);
      const std::size_t rest = offset <= to.size() ? to.size() - offset : 0;
      if (offset > to.size() || size.value_or(rest) > rest) {
        fail("{}: the member ends beyond the {} bytes of the struct", field.path, to.size());
      }
      write_argument(field, to.subspan(offset, size.value_or(rest)));
    }
  }
}

int Emulation::max_parallel_runs(const ScheduleOptions& options) const {
  // Memory per run: a copy of each compared or written buffer, and a second one for the run that is
  // shown.
  std::size_t bytes = 0;
  for (const Buffer& buffer : file_.buffers) {
    bytes += buffer.compare || !buffer.write.empty() ? 2 * bytes_of(buffer.type, buffer.shape) : 0;
  }
  try {
    bytes += module_.device().host_bytes_of_run(launches_, options.run);
  } catch (const emu::Error& error) {
    fail("{}: {}", file_.name, error.what());
  }
  const std::size_t left = file_.memory.left();
  if (bytes > left) {
    fail(
        "{}: a run takes {} MiB of memory, but only {} MiB are left; --most-memory allows more, "
        "and fewer --resident-blocks take less",
        file_.name, (bytes >> 20U) + 1, left >> 20U);
  }
  return static_cast<int>(
      std::min<std::uint64_t>({static_cast<std::uint64_t>(options.threads), options.count,
                               left / std::max(bytes, std::size_t{1})}));
}

std::string Emulation::place_text(std::uint64_t address) const {
  for (std::size_t i = 0; i < file_.buffers.size(); ++i) {
    const Buffer& buffer = file_.buffers[i];
    const NamedMemory memory{
        .begin = addresses_[i], .bytes = bytes_of(buffer.type, buffer.shape), .name = buffer.name};
    if (memory.contains(address)) {
      return buffer.name +
             index_text((address - memory.begin) / size_of(buffer.type), buffer.shape);
    }
    if (std::string text = text_beside(memory, address); !text.empty()) {
      return text;
    }
  }
  return "";
}

Outcome Emulation::run_one(const emu::RunOptions& options) const {
  Outcome outcome{.seed = options.seed};
  emu::Device device(module_.device());
  try {
    outcome.report = device.run(launches_, options);
  } catch (const emu::Error& error) {
    fail("{}: {}", file_.name, error.what());
  }
  put_causes_first(outcome.report.findings);
  say_what_raises_limits(outcome.report.findings);
  for (emu::Finding& finding : outcome.report.findings) {
    if (const std::string place = place_text(finding.global); !place.empty()) {
      finding.place = place;
    }
  }
  for (std::size_t i = 0; i < file_.buffers.size(); ++i) {
    const Buffer& buffer = file_.buffers[i];
    if (!buffer.compare && buffer.write.empty()) {
      continue;
    }
    std::vector<std::byte> bytes(bytes_of(buffer.type, buffer.shape));
    device.read(bytes, addresses_[i]);
    if (buffer.compare && outcome.report.has_ended) {
      if (auto mismatch = compare(buffer, bytes)) {
        outcome.mismatches.push_back(std::move(*mismatch));
      }
    }
    if (!buffer.write.empty()) {
      outcome.written.push_back(std::move(bytes));
    }
  }
  return outcome;
}

ScheduleReport Emulation::run(const ScheduleOptions& options) const {
  ScheduleReport report{.ignored_by = std::vector<std::uint64_t>(options.run.ignored.size())};
  std::mutex mutex;
  std::size_t first = options.count;  // number of the first schedule so far that is not clean
  const auto take = [&](std::size_t index, Outcome outcome) {
    const std::scoped_lock lock(mutex);
    ++report.run;
    report.steps += outcome.report.steps;
    for (std::size_t i = 0; i < outcome.report.ignored_by.size(); ++i) {
      report.ignored_by[i] += outcome.report.ignored_by[i];
    }
    const bool is_clean = outcome.is_clean();
    report.clean += is_clean ? 1 : 0;
    if (!is_clean && index < first) {
      first = index;
    }
    if (index == first || (is_clean && index == 0 && report.failed.empty())) {
      report.shown = outcome;
    }
    if (!is_clean) {
      // Only the shown schedule keeps its buffers and what it printed.
      outcome.written.clear();
      outcome.report.printed.clear();
      report.failed.push_back(std::move(outcome));
    }
    return is_clean;
  };
  search_schedules(
      {.end = options.count, .all = options.all, .threads = max_parallel_runs(options)},
      [&](std::size_t index) {
        emu::RunOptions run = options.run;
        run.seed = options.first_seed + index;
        return take(index, run_one(run));
      });
  std::ranges::sort(report.failed, {}, &Outcome::seed);
  if (!options.all && !report.failed.empty()) {
    report.failed.resize(1);
  }
  return report;
}

void Emulation::write(const Outcome& outcome) const {
  std::size_t next = 0;
  for (const Buffer& buffer : file_.buffers) {
    if (!buffer.write.empty()) {
      write_array(
          file_.folder, buffer.write,
          {.type = buffer.type, .shape = buffer.shape, .bytes = outcome.written.at(next++)});
    }
  }
}

}  // namespace fovea::emulation
