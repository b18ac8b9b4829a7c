// Launches kernels of a PTX file in the emulator, as a launch file describes.
#include "lab/emulation/emulation.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <mutex>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/error.hpp"
#include "fovea_emulator/error.hpp"
#include "fovea_emulator/tensor_map.hpp"
#include "lab/emulation/findings_order.hpp"
#include "lab/emulation/memory_place.hpp"
#include "lab/emulation/parameters.hpp"
#include "lab/emulation/schedule_search.hpp"

namespace fovea::emulation {
namespace {

constexpr std::size_t kLaunchBytes = 1024;  // memory of a launch, without its parameters

// Whether cards before sm_100 refuse the swizzle.
bool needs_blackwell(emu::TensorMapSwizzle swizzle) {
  return swizzle == emu::TensorMapSwizzle::k128Atom32 ||
         swizzle == emu::TensorMapSwizzle::k128Atom64;
}

// Returns the number in a target, 90 for "sm_90a".
int architecture_of(std::string_view target) {
  constexpr std::string_view kPrefix = "sm_";
  int number = 0;
  if (target.starts_with(kPrefix)) {
    std::from_chars(target.data() + kPrefix.size(), target.data() + target.size(), number);
  }
  return number;
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
      words.push_back(address_of(address));
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
      const ArgumentMeaning meaning{
          .address_of = [this](const BufferAddress& address) { return address_of(address); },
          .encode_map =
              [&](const TensorMapArgument& map) {
                emu::TensorMapDesc desc = map.desc;
                const std::string target = module_.device().info(handle).target;
                if (needs_blackwell(desc.swizzle) && architecture_of(target) < 100) {
                  fail("its swizzle needs PTX for sm_100 or later, not for {}", target);
                }
                desc.address = address_of(map.address);
                try {
                  const auto encoded = emu::encode(desc);
                  return std::vector<std::byte>(encoded.begin(), encoded.end());
                } catch (const emu::Error& error) {
                  fail("{}", error.what());
                }
              },
      };
      launches_.push_back({.kernel = handle,
                           .config = launch.config,
                           .parameters = encode_parameters(launch, handle, meaning)});
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
