// A problem of a card file: its tensors, launches and expected results.
#include "lab/card_files/file_workload.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "core/error.hpp"
#include "gpu/device/kernel_image.hpp"
#include "lab/emulation/parameters.hpp"

namespace fovea::lab {
namespace {

using emulation::ElementType;

constexpr std::size_t kScratchAlignment = 256;

/// Returns the laboratory's type of an element, if it has one.
std::optional<DType> dtype_of(ElementType type) {
  switch (type) {
    case ElementType::kU8:
      return DType::kU8;
    case ElementType::kS8:
      return DType::kI8;
    case ElementType::kE4M3:
      return DType::kE4M3;
    case ElementType::kF16:
      return DType::kF16;
    case ElementType::kBF16:
      return DType::kBF16;
    case ElementType::kF32:
      return DType::kF32;
    default:
      return std::nullopt;
  }
}

/// The rows and columns of a buffer, whose last dimension is that of the columns.
std::pair<std::int64_t, std::int64_t> matrix_of(const Shape& shape) {
  const std::int64_t columns = shape.rank() == 0 ? 1 : shape[shape.rank() - 1];
  return {columns == 0 ? 0 : shape.elements() / columns, columns};
}

gpu::TensorMapDesc on_device(const emu::TensorMapDesc& map, gpu::DevicePtr address) {
  constexpr std::array kTypes = {std::pair{emu::TensorMapType::kU8, gpu::TensorMapType::kU8},
                                 std::pair{emu::TensorMapType::kF16, gpu::TensorMapType::kF16},
                                 std::pair{emu::TensorMapType::kBF16, gpu::TensorMapType::kBF16},
                                 std::pair{emu::TensorMapType::kF32, gpu::TensorMapType::kF32}};
  constexpr std::array kSwizzles = {std::pair{emu::TensorMapSwizzle::kNone, gpu::Swizzle::kNone},
                                    std::pair{emu::TensorMapSwizzle::k32, gpu::Swizzle::k32},
                                    std::pair{emu::TensorMapSwizzle::k64, gpu::Swizzle::k64},
                                    std::pair{emu::TensorMapSwizzle::k128, gpu::Swizzle::k128}};
  const auto type = std::ranges::find(kTypes, map.type, [](const auto& row) { return row.first; });
  const auto swizzle =
      std::ranges::find(kSwizzles, map.swizzle, [](const auto& row) { return row.first; });
  if (type == kTypes.end() || swizzle == kSwizzles.end()) {
    fail(
        "tensor maps of a card have elements of u8, f16, bf16 or f32, and the swizzle none, 32B, "
        "64B or 128B");
  }
  gpu::TensorMapDesc desc{
      .type = type->second, .address = address, .rank = map.rank, .swizzle = swizzle->second};
  const auto rank = static_cast<std::size_t>(map.rank);
  if (map.fill != emu::TensorMapFill::kZero ||
      std::any_of(map.element_strides.begin(), map.element_strides.begin() + map.rank,
                  [](auto stride) { return stride > 1; })) {
    fail("tensor maps of a card fill with zeros, and have no \"element_strides\"");
  }
  std::copy_n(map.dims.begin(), rank, desc.dims.begin());
  std::copy_n(map.strides.begin(), rank - 1, desc.strides.begin());
  std::copy_n(map.box.begin(), rank, desc.box.begin());
  return desc;
}

gpu::Dim3 size_of(const std::array<std::uint32_t, 3>& size) {
  return {size[0], size[1], size[2]};
}

}  // namespace

std::string text_of(const emulation::Values& problem) {
  std::string text;
  for (const auto& [name, value] : problem) {
    text += fmt::format("{}{}={}", text.empty() ? "" : ", ", name, value);
  }
  return text;
}

FileWorkload::FileWorkload(std::shared_ptr<const FileCard> card, emulation::Values problem,
                           std::uint64_t seed)
    : card_(std::move(card)),
      problem_(std::move(problem)),
      file_(card_->launch_file(problem_)),
      expression_(card_->reference) {
  place_buffers(seed);
}

void FileWorkload::place_buffers(std::uint64_t seed) {
  const nlohmann::json& buffers = card_->document.at("buffers");
  for (std::size_t i = 0; i < file_.buffers.size(); ++i) {
    const emulation::Buffer& buffer = file_.buffers[i];
    Place place{.is_output = buffer.name == card_->output};
    const bool has_content = buffers.at(buffer.name).contains("content");
    if (!buffer.addresses.empty()) {
      fail("{}: buffers.{}: a card's buffers cannot have addresses", card_->name, buffer.name);
    }
    if (has_content) {
      // Seeds differ between buffers and between workloads.
      place.input = inputs_.size();
      inputs_.push_back(tensor_of(buffer, seed * emulation::kMaxBuffers + i));
    }
    if (place.is_output) {
      const std::optional<DType> type = dtype_of(buffer.type);
      if (!type) {
        fail("{}: buffers.{}: results of a card are u8, s8, e4m3, f16, bf16 or f32, not {}",
             card_->name, buffer.name, emulation::name_of(buffer.type));
      }
      const auto [rows, columns] = matrix_of(buffer.shape);
      output_ = {.type = *type,
                 .rows = rows,
                 .columns = columns,
                 .initial = has_content ? static_cast<int>(*place.input) : -1};
    } else if (!has_content) {
      place.scratch = scratch_bytes_;
      const std::size_t bytes = emulation::bytes_of(buffer.type, buffer.shape);
      scratch_bytes_ += (bytes + kScratchAlignment - 1) / kScratchAlignment * kScratchAlignment;
    }
    places_.push_back(place);
  }
}

Tensor FileWorkload::tensor_of(const emulation::Buffer& buffer, std::uint64_t seed) const {
  const auto draw = [card = card_, problem = problem_, name = buffer.name, type = buffer.type,
                     shape = buffer.shape, seed] {
    emulation::Values names = problem;
    names.insert(card->macros.begin(), card->macros.end());
    const emulation::LaunchFolder folder(card->folder, true);
    emulation::MemoryBudget memory(std::numeric_limits<std::size_t>::max());
    const emulation::Source source{.folder = folder, .memory = memory, .seed = seed};
    try {
      const emulation::Field document(card->document, "", &names);
      return emulation::read_buffer_content(document.at("buffers").at(name),
                                            {.name = name, .type = type, .shape = shape}, source);
    } catch (const Error& error) {
      rethrow_unless_finding(error);
      fail("{}: {}", card->name, error.what());
    }
  };
  const std::optional<DType> type = dtype_of(buffer.type);
  const auto [rows, columns] = matrix_of(buffer.shape);
  return type
             ? Tensor::drawn_by(buffer.name, *type, rows, columns, draw)
             : Tensor::drawn_by(
                   buffer.name, DType::kU8, 1,
                   static_cast<std::int64_t>(emulation::bytes_of(buffer.type, buffer.shape)), draw);
}

std::string FileWorkload::describe() const {
  return fmt::format("{}, {}", card_->operation, text_of(problem_));
}

Support FileWorkload::can_run(const gpu::DeviceInfo& device) const {
  for (const FileKernel& kernel : card_->kernels) {
    if (Support support = gpu::has_kernel(kernel.id, device); !support) {
      return support;
    }
  }
  return {};
}

gpu::KernelId FileWorkload::kernel_of(const gpu::DeviceInfo& /*device*/,
                                      const Plan& /*plan*/) const {
  if (card_->kernels.size() != 1) {
    fail("{} has {} launches, and tuning parameters need one", card_->name, card_->kernels.size());
  }
  return card_->kernels.front().id;
}

gpu::DevicePtr FileWorkload::address(const Operands& operands,
                                     const emulation::BufferAddress& place) const {
  const Place& buffer = places_[place.buffer];
  const gpu::DevicePtr begin = buffer.is_output ? operands.output
                               : buffer.input   ? operands.inputs[*buffer.input]
                                                : operands.scratch + buffer.scratch;
  return begin + place.offset;
}

std::vector<gpu::Launch> FileWorkload::launches(gpu::Device& device, const Operands& operands,
                                                const Plan& /*plan*/) const {
  const emulation::ArgumentMeaning meaning{
      .address_of = [&](const auto& place) { return address(operands, place); },
      .encode_map =
          [&](const emulation::TensorMapArgument& map) {
            return gpu::to_bytes(
                device.encode(on_device(map.desc, address(operands, map.address))));
          },
  };
  std::vector<gpu::Launch> launches;
  for (std::size_t i = 0; i < file_.launches.size(); ++i) {
    const emulation::LaunchText& launch = file_.launches[i];
    try {
      if (launch.config.is_cooperative) {
        fail("{}.cooperative: a card's kernels cannot be launched cooperatively", launch.path);
      }
      launches.push_back(
          {.kernel = card_->kernels[i].id,
           .config = {.grid = size_of(launch.config.grid),
                      .block = size_of(launch.config.block),
                      .cluster = size_of(launch.config.cluster),
                      .dynamic_shared_bytes = launch.config.dynamic_shared_bytes,
                      .dependent = launch.config.is_dependent,
                      .packed_parameters = true},
           .params = emulation::encode_parameters(launch, card_->kernels[i].handle, meaning)});
    } catch (const Error& error) {
      rethrow_unless_finding(error);
      fail("{}: {}", card_->name, error.what());
    }
  }
  return launches;
}

const ReferenceResults& FileWorkload::results() const {
  std::call_once(results_->once, [&] {
    Expression expression{.text = expression_, .problem = problem_};
    for (std::size_t i = 0; i < file_.buffers.size(); ++i) {
      const emulation::Buffer& buffer = file_.buffers[i];
      if (buffer.name == card_->output) {
        expression.shape = buffer.shape;
      }
      if (places_[i].input) {
        const std::span<const std::byte> bytes = inputs_[*places_[i].input].block();
        expression.inputs.push_back({.name = buffer.name,
                                     .type = buffer.type,
                                     .shape = buffer.shape,
                                     .bytes = {bytes.begin(), bytes.end()}});
      }
    }
    try {
      results_->values = evaluate_reference(expression);
    } catch (const Error& error) {
      rethrow_unless_finding(error);
      fail("{}: {}", card_->name, error.what());
    }
    for (double& value : results_->values.framework) {
      value = double{rounded(output_.type, value)};
    }
  });
  return results_->values;
}

void FileWorkload::copy(const std::vector<double>& from, const Tile& tile,
                        std::span<double> values) const {
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = from[static_cast<std::size_t>(tile.output_row(i) * output_.columns +
                                              tile.output_column(i))];
  }
}

void FileWorkload::reference(const Tile& tile, std::span<double> values) const {
  copy(results().exact, tile, values);
}

void FileWorkload::framework(const Tile& tile, std::span<double> values) const {
  copy(results().framework, tile, values);
}

std::vector<Mutant> FileWorkload::mutants() const {
  std::vector<Mutant> mutants;
  for (const auto& [name, expression] : card_->mutants) {
    const auto mutant = std::make_shared<FileWorkload>(*this);
    mutant->expression_ = expression;
    mutant->results_ = std::make_shared<Results>();
    mutants.push_back({.name = name, .workload = mutant, .launchable = false});
  }
  return mutants;
}

TorchTask FileWorkload::torch_task() const {
  return {.why_not = "a card file has no Model"};
}

double FileWorkload::flops() const {
  emulation::Values names = problem_;
  names.insert(card_->macros.begin(), card_->macros.end());
  const emulation::Field document(card_->document, "", &names);
  const auto flops = document.find("flops");
  return flops ? flops->number() : 0;
}

DType FileWorkload::operand_type() const {
  return inputs_.empty() ? output_.type : inputs_.front().type();
}

Poisoned FileWorkload::poisoned() const {
  if (card_->independent_rows.empty()) {
    return {};
  }
  const auto buffer =
      std::ranges::find(file_.buffers, card_->independent_rows, &emulation::Buffer::name);
  const Place place = buffer == file_.buffers.end()
                          ? Place{}
                          : places_[static_cast<std::size_t>(buffer - file_.buffers.begin())];
  if (!place.input || inputs_[*place.input].rows() != output_.rows ||
      !emulation::is_float(buffer->type)) {
    fail(
        "{}: independent_rows: {} is no input of numbers with a fraction that has a row for each "
        "row of {}",
        card_->name, card_->independent_rows, card_->output);
  }
  const auto poisoned = std::make_shared<FileWorkload>(*this);
  Tensor& input = poisoned->inputs_[*place.input];
  const std::int64_t row = output_.rows / 2;
  input = input.with_value(row, input.columns() - 1, std::numeric_limits<double>::quiet_NaN());
  poisoned->results_ = std::make_shared<Results>();
  return {.workload = poisoned, .row = row};
}

}  // namespace fovea::lab
