// Attention on a GPU: which kernel runs a problem, in which pieces, with which parameters.
#include "gpu/launch/attention.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdlib>
#include <numbers>
#include <utility>

#include <fmt/ranges.h>

#include "core/error.hpp"
#include "gpu/device/kernel_image.hpp"
#include "kernels/attention/params.hpp"

namespace fovea::gpu {
namespace {

using attention::FlashLevers;
using attention::kFlashKernels;
using attention::kOutputRows;
using attention::kPortableColumns;
using attention::kShortKernels;
using attention::kTileRows;
using attention::ShortLevers;

constexpr std::array<std::string_view, 4> kLevelNames = {"scalar", "wmma", "mma", "wgmma"};

std::int64_t divide_up(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

std::string_view name_of(DType type) {
  return type == DType::kF16 ? "f16" : "bf16";
}

/// Whether the copy engine reads (or writes) tensors with these strides, in bytes.
bool copyable(const AttentionStrides& strides, std::size_t element) {
  const auto size = static_cast<std::int64_t>(element);
  return strides.batch * size % 16 == 0 && strides.row * size % 16 == 0 &&
         strides.head * size % 16 == 0;
}

/// The narrowest head of these kernels that a problem's fits in.
template <typename Kernels>
int least_columns(const Kernels& kernels, const AttentionProblem& problem) {
  int least = 0;
  for (const auto& kernel : kernels) {
    if (kernel.head_dim >= problem.head_dim && (least == 0 || kernel.head_dim < least)) {
      least = kernel.head_dim;
    }
  }
  return least;
}

bool fits(const ShortLevers& kernel, const AttentionProblem& problem) {
  return !problem.causal && kernel.head_dim == least_columns(kShortKernels, problem) &&
         problem.keys <= kernel.keys && problem.keys > kernel.keys - 8;
}

std::string why_not_wgmma(const AttentionProblem& problem, const DeviceInfo& device) {
  if (device.arch() != 90) {
    return fmt::format("wgmma needs compute capability 9.0, {} has {}.{}", device.name,
                       device.compute_major, device.compute_minor);
  }
  if (problem.varlen) {
    return "wgmma stores whole tiles and would write over the next sequence of a varlen problem";
  }
  // Rows of e4m3 that the copy engine cannot store are copied eight bytes at a time, by kernels
  // whose heads are no multiple of 16 columns.
  if (problem.output == DType::kE4M3 && !copyable(problem.o, size_of(problem.output)) &&
      !attention::copies_bytes(least_columns(kFlashKernels, problem))) {
    return fmt::format("{}: the copy engine stores rows of e4m3 at multiples of 16 bytes",
                       to_string(problem));
  }
  return "";
}

/// The map of columns `span` wide of a tensor (head_dim, rows, heads, images). Columns beyond the
/// head are read as zeros and not written.
attention::TensorMap encode(Device& device, const AttentionProblem& problem, DType type,
                            DevicePtr address, const AttentionStrides& strides, std::int64_t rows,
                            std::int64_t heads, std::int64_t box_rows, std::int64_t span) {
  const auto size = static_cast<std::int64_t>(size_of(type));
  // A dimension of one element has no stride that matters, but the driver checks it.
  const auto stride = [&](std::int64_t count, std::int64_t elements) {
    return static_cast<std::uint64_t>(count == 1 ? 16 : elements * size);
  };
  TensorMapDesc desc;
  desc.type = type == DType::kE4M3  ? TensorMapType::kU8
              : type == DType::kF16 ? TensorMapType::kF16
                                    : TensorMapType::kBF16;
  desc.address = address;
  desc.rank = 4;
  desc.dims = {static_cast<std::uint64_t>(problem.head_dim), static_cast<std::uint64_t>(rows),
               static_cast<std::uint64_t>(heads), static_cast<std::uint64_t>(problem.batch)};
  desc.strides = {stride(rows, strides.row), stride(heads, strides.head),
                  stride(problem.batch, strides.batch)};
  desc.box = {static_cast<std::uint32_t>(span), static_cast<std::uint32_t>(box_rows), 1, 1};
  switch (span * size) {
    case 128:
      desc.swizzle = Swizzle::k128;
      break;
    case 64:
      desc.swizzle = Swizzle::k64;
      break;
    default:
      desc.swizzle = Swizzle::k32;
  }
  return std::bit_cast<attention::TensorMap>(device.encode(desc));
}

/// For a kernel of heads `columns` wide.
attention::OperandMaps encode_operand(Device& device, const AttentionProblem& problem, DType type,
                                      DevicePtr address, const AttentionStrides& strides,
                                      std::int64_t rows, std::int64_t heads, std::int64_t box_rows,
                                      int columns) {
  attention::OperandMaps maps{};
  maps.wide = encode(device, problem, type, address, strides, rows, heads, box_rows, 64);
  if (const int rest = attention::rest_columns(columns); rest != 0) {
    maps.rest = encode(device, problem, type, address, strides, rows, heads, box_rows, rest);
  }
  return maps;
}

/// What the environment asks for.
std::optional<AttentionLevel> forced_level() {
  constexpr const char* kVariable = "FOVEA_FORCE_KERNEL";
  const char* const name = std::getenv(kVariable);  // NOLINT(concurrency-mt-unsafe): only read
  if (name == nullptr || *name == '\0') {
    return std::nullopt;
  }
  const std::optional<AttentionLevel> level = parse_attention_level(name);
  if (!level.has_value()) {
    fail("{}={}: the levels are {}", kVariable, name, fmt::join(kLevelNames, ", "));
  }
  return level;
}

float scale_log2(const AttentionProblem& problem) {
  return static_cast<float>(problem.scale * std::numbers::log2e);
}

/// Everything but how the work is cut.
attention::Sm90Params sm90_params(Device& device, const AttentionProblem& problem,
                                  const AttentionOperands& operands, std::int64_t key_rows,
                                  int columns) {
  attention::Sm90Params params{};
  params.q = encode_operand(device, problem, problem.type, operands.q, problem.q, problem.queries,
                            problem.heads, kTileRows, columns);
  params.k = encode_operand(device, problem, problem.type, operands.k, problem.k, problem.keys,
                            problem.key_heads(), key_rows, columns);
  params.v = encode_operand(device, problem, problem.type, operands.v, problem.v, problem.keys,
                            problem.key_heads(), key_rows, columns);
  const bool e4m3 = problem.output == DType::kE4M3;
  if (!e4m3 || !attention::copies_bytes(columns)) {
    params.o = encode_operand(device, problem, problem.output, operands.o, problem.o,
                              problem.queries, problem.heads, kOutputRows, columns);
  }
  params.scale_log2 = scale_log2(problem);
  params.heads = static_cast<std::int32_t>(problem.heads);
  params.head_group = static_cast<std::int32_t>(problem.heads / problem.key_heads());
  params.queries = static_cast<std::int32_t>(problem.queries);
  params.keys = static_cast<std::int32_t>(problem.keys);
  params.causal = problem.causal ? 1 : 0;
  params.output_e4m3 = e4m3 ? 1 : 0;
  const auto size = static_cast<std::int64_t>(size_of(problem.output));
  params.output = std::bit_cast<std::uint8_t*>(operands.o);
  params.output_row = problem.o.row * size;
  params.output_head = problem.o.head * size;
  params.output_batch = problem.o.batch * size;
  return params;
}

Launch short_launch(Device& device, const AttentionProblem& problem,
                    const AttentionOperands& operands, const ShortLevers& kernel) {
  const std::int64_t both = problem.batch * problem.heads;
  const std::int64_t tiles = divide_up(problem.queries, kTileRows);
  // A whole head an item, so that its keys are read once; one tile when heads are too few to go
  // round.
  const bool whole = both >= device.info().sm_count;
  attention::Sm90Params params =
      sm90_params(device, problem, operands, attention::key_rows(kernel.keys), kernel.head_dim);
  params.parts = static_cast<std::int32_t>(whole ? 1 : tiles);
  params.tiles = static_cast<std::int32_t>(whole ? tiles : 1);
  params.items = static_cast<std::int32_t>(both * params.parts);
  params.heads_together = 1;

  Launch launch;
  launch.config.grid.x = static_cast<std::uint32_t>(std::min(params.items, device.info().sm_count));
  launch.config.block.x = static_cast<std::uint32_t>(attention::threads_of(kernel.consumers));
  launch.config.dynamic_shared_bytes = attention::shared_bytes(kernel);
  launch.config.dependent = true;
  launch.params = to_bytes(params);
  return launch;
}

/// Heads whose keys and values fill at most two thirds of the L2 cache, and that divide all.
std::int64_t heads_in_l2(const AttentionProblem& problem, const DeviceInfo& device) {
  const std::int64_t both = problem.batch * problem.heads;
  const std::int64_t bytes = problem.keys * problem.head_dim * 4;
  std::int64_t count =
      std::clamp<std::int64_t>(static_cast<std::int64_t>(device.l2_bytes) * 2 / 3 / bytes, 1, both);
  while (both % count != 0) {
    --count;
  }
  return count;
}

Launch flash_launch(Device& device, const AttentionProblem& problem,
                    const AttentionOperands& operands, const FlashLevers& kernel) {
  attention::Sm90Params params =
      sm90_params(device, problem, operands, kernel.keys, kernel.head_dim);
  params.parts = static_cast<std::int32_t>(
      divide_up(problem.queries, std::int64_t{kTileRows} * kernel.consumers));
  params.tiles = kernel.consumers;
  params.items = static_cast<std::int32_t>(problem.batch * problem.heads * params.parts);
  params.heads_together =
      problem.causal ? static_cast<std::int32_t>(heads_in_l2(problem, device.info())) : 1;

  Launch launch;
  launch.config.grid.x = static_cast<std::uint32_t>(std::min(params.items, device.info().sm_count));
  launch.config.block.x = static_cast<std::uint32_t>(attention::threads_of(kernel.consumers));
  launch.config.dynamic_shared_bytes = attention::shared_bytes(kernel);
  launch.config.dependent = true;
  launch.params = to_bytes(params);
  return launch;
}

Launch portable_launch(const AttentionProblem& problem, const AttentionOperands& operands,
                       const DeviceInfo& device, int columns) {
  const auto operand = [](DevicePtr address, const AttentionStrides& strides) {
    return attention::PortableOperand{.data = std::bit_cast<std::uint8_t*>(address),
                                      .batch = strides.batch,
                                      .row = strides.row,
                                      .head = strides.head};
  };
  attention::PortableParams params{};
  params.q = operand(operands.q, problem.q);
  params.k = operand(operands.k, problem.k);
  params.v = operand(operands.v, problem.v);
  params.o = operand(operands.o, problem.o);
  params.scale_log2 = scale_log2(problem);
  params.query_starts = std::bit_cast<const std::int32_t*>(operands.query_starts);
  params.key_starts = std::bit_cast<const std::int32_t*>(operands.key_starts);
  params.varlen = problem.varlen ? 1 : 0;
  params.heads = static_cast<std::int32_t>(problem.heads);
  params.head_group = static_cast<std::int32_t>(problem.heads / problem.key_heads());
  params.queries = static_cast<std::int32_t>(problem.queries);
  params.keys = static_cast<std::int32_t>(problem.keys);
  params.head_dim = static_cast<std::int32_t>(problem.head_dim);
  params.causal = problem.causal ? 1 : 0;
  params.output_e4m3 = problem.output == DType::kE4M3 ? 1 : 0;

  Launch launch;
  launch.config.grid = {.x = static_cast<std::uint32_t>(problem.batch * problem.heads),
                        .y = static_cast<std::uint32_t>(divide_up(problem.queries, kTileRows)),
                        .z = 1};
  launch.config.block.x = attention::kPortableThreads;
  launch.config.dynamic_shared_bytes =
      attention::kPortableTiles * attention::portable_tile_bytes(columns);
  launch.config.dependent = device.arch() >= 90;
  launch.params = to_bytes(params);
  return launch;
}

}  // namespace

AttentionProblem packed_attention(std::int64_t images, std::int64_t tokens, std::int64_t heads,
                                  std::int64_t head_dim, double scale, DType type, DType output) {
  const std::int64_t width = heads * head_dim;
  const AttentionStrides packed{.batch = tokens * 3 * width, .row = 3 * width, .head = head_dim};
  return {.batch = images,
          .heads = heads,
          .queries = tokens,
          .keys = tokens,
          .head_dim = head_dim,
          .scale = scale,
          .type = type,
          .output = output,
          .q = packed,
          .k = packed,
          .v = packed,
          .o = {.batch = tokens * width, .row = width, .head = head_dim}};
}

AttentionOperands packed_operands(const AttentionProblem& problem, DevicePtr qkv,
                                  DevicePtr output) {
  const auto width = static_cast<DevicePtr>(problem.heads * problem.head_dim) *
                     static_cast<DevicePtr>(size_of(problem.type));
  return {.q = qkv, .k = qkv + width, .v = qkv + 2 * width, .o = output};
}

std::string to_string(const AttentionProblem& problem) {
  std::string text = fmt::format("attention ({},{}", problem.batch, problem.heads);
  if (problem.key_heads() != problem.heads) {
    text += fmt::format("/{}", problem.key_heads());
  }
  text += fmt::format(",{}", problem.queries);
  if (problem.keys != problem.queries) {
    text += fmt::format("x{}", problem.keys);
  }
  return text + fmt::format(",{}){}{} {} -> {}", problem.head_dim, problem.causal ? " causal" : "",
                            problem.varlen ? " varlen" : "", to_string(problem.type),
                            to_string(problem.output));
}

std::string can_run(const AttentionProblem& problem, const DeviceInfo& device,
                    AttentionLevel level) {
  if (std::string reason = can_run(problem, device); !reason.empty()) {
    return reason;
  }
  switch (level) {
    case AttentionLevel::kWgmma:
      return why_not_wgmma(problem, device);
    case AttentionLevel::kMma:
      return "";
    case AttentionLevel::kWmma:
    case AttentionLevel::kScalar:
      break;
  }
  return fmt::format("this program has no {} kernels of attention", to_string(level));
}

std::string can_run(const AttentionProblem& problem, const DeviceInfo& device) {
  if (problem.batch < 1 || problem.heads < 1 || problem.queries < 1 || problem.keys < 1) {
    return fmt::format("{} is empty", to_string(problem));
  }
  if (problem.kv_heads < 0 || problem.heads % problem.key_heads() != 0) {
    return fmt::format("{}: the heads of queries are no multiple of the {} of keys",
                       to_string(problem), problem.kv_heads);
  }
  if (problem.type != DType::kBF16 && problem.type != DType::kF16) {
    return fmt::format("{}: queries, keys and values are bf16 or f16", to_string(problem));
  }
  if (problem.output != problem.type && problem.output != DType::kE4M3) {
    return fmt::format("{}: the output is of the input's type or e4m3", to_string(problem));
  }
  if (problem.head_dim < 8 || problem.head_dim > 128 || problem.head_dim % 8 != 0) {
    return fmt::format("{}: head dimensions are multiples of 8 up to 128", to_string(problem));
  }
  if (!(problem.scale > 0.0)) {
    return fmt::format("{}: the scale {} is not positive", to_string(problem), problem.scale);
  }
  if (problem.causal && !problem.varlen && problem.queries > problem.keys) {
    return fmt::format("{}: the first queries of a causal problem would see no key",
                       to_string(problem));
  }
  for (const AttentionStrides* const strides : {&problem.q, &problem.k, &problem.v, &problem.o}) {
    if (strides->batch % 8 != 0 || strides->row % 8 != 0 || strides->head % 8 != 0) {
      return fmt::format("{}: strides are multiples of 8 elements", to_string(problem));
    }
  }
  // Kernels count heads, rows and items in 32 bits; grids have up to 65535 rows of blocks.
  constexpr std::int64_t kMost = std::int64_t{1} << 31;
  constexpr std::int64_t kMostRows = std::int64_t{65535} * kTileRows;
  if (problem.queries > kMostRows || problem.keys > kMostRows ||
      problem.batch * problem.heads * divide_up(problem.queries, kTileRows) >= kMost) {
    return fmt::format("{} is too large for one launch", to_string(problem));
  }
  if (device.arch() < 80) {
    return fmt::format("{} has compute capability {}.{}; attention needs 8.0 or later", device.name,
                       device.compute_major, device.compute_minor);
  }
  if (problem.output == DType::kE4M3 && device.arch() < 89) {
    return fmt::format("{}: {} has no e4m3; compute capability 8.9 is the first that does",
                       to_string(problem), device.name);
  }
  return "";
}

std::string_view to_string(AttentionLevel level) {
  return kLevelNames.at(static_cast<std::size_t>(level));
}

std::optional<AttentionLevel> parse_attention_level(std::string_view name) {
  const auto* const found = std::ranges::find(kLevelNames, name);
  if (found == kLevelNames.end()) {
    return std::nullopt;
  }
  return static_cast<AttentionLevel>(found - kLevelNames.begin());
}

AttentionLevel level_of(const AttentionPlan& plan) {
  return plan.design == AttentionDesign::kPortable ? AttentionLevel::kMma : AttentionLevel::kWgmma;
}

std::string to_string(const AttentionPlan& plan) {
  const auto at = static_cast<std::size_t>(plan.kernel);
  switch (plan.design) {
    case AttentionDesign::kShort:
      return fmt::format("short_d{}_k{}", kShortKernels.at(at).head_dim, kShortKernels.at(at).keys);
    case AttentionDesign::kFlash:
      return fmt::format("flash_d{}_k{}", kFlashKernels.at(at).head_dim, kFlashKernels.at(at).keys);
    case AttentionDesign::kPortable:
      return fmt::format("portable_d{}", kPortableColumns.at(at));
  }
  return "";
}

std::vector<AttentionPlan> attention_plans(const AttentionProblem& problem,
                                           const DeviceInfo& device) {
  std::vector<AttentionPlan> plans;
  if (!can_run(problem, device).empty()) {
    return plans;
  }
  if (why_not_wgmma(problem, device).empty()) {
    for (std::size_t i = 0; i < kShortKernels.size(); ++i) {
      if (fits(kShortKernels.at(i), problem)) {
        plans.push_back({.design = AttentionDesign::kShort, .kernel = static_cast<int>(i)});
      }
    }
    std::vector<AttentionPlan> streaming;
    for (std::size_t i = 0; i < kFlashKernels.size(); ++i) {
      if (kFlashKernels.at(i).head_dim == least_columns(kFlashKernels, problem)) {
        streaming.push_back({.design = AttentionDesign::kFlash, .kernel = static_cast<int>(i)});
      }
    }
    // Those first whose blocks fit the keys best, and the widest among equals.
    std::ranges::sort(streaming, {}, [&](const AttentionPlan& plan) {
      const int keys = kFlashKernels.at(static_cast<std::size_t>(plan.kernel)).keys;
      return std::pair(divide_up(problem.keys, keys) * keys, -keys);
    });
    plans.insert(plans.end(), streaming.begin(), streaming.end());
  }
  const auto* const columns =
      std::ranges::find_if(kPortableColumns, [&](int most) { return problem.head_dim <= most; });
  plans.push_back({.design = AttentionDesign::kPortable,
                   .kernel = static_cast<int>(columns - kPortableColumns.begin())});
  return plans;
}

AttentionPlan attention_plan(const AttentionProblem& problem, const DeviceInfo& device,
                             std::optional<AttentionLevel> level) {
  if (!level.has_value()) {
    level = forced_level();
  }
  if (const std::string reason =
          level.has_value() ? can_run(problem, device, *level) : can_run(problem, device);
      !reason.empty()) {
    throw Error(reason);
  }
  const std::vector<AttentionPlan> plans = attention_plans(problem, device);
  return *std::ranges::find_if(plans, [&](const AttentionPlan& plan) {
    return !level.has_value() || level_of(plan) == *level;
  });
}

Launch attention_launch(Device& device, const AttentionProblem& problem,
                        const AttentionOperands& operands, const AttentionPlan& plan) {
  Launch launch;
  const auto at = static_cast<std::size_t>(plan.kernel);
  switch (plan.design) {
    case AttentionDesign::kShort:
      launch = short_launch(device, problem, operands, kShortKernels.at(at));
      break;
    case AttentionDesign::kFlash:
      launch = flash_launch(device, problem, operands, kFlashKernels.at(at));
      break;
    case AttentionDesign::kPortable:
      launch = portable_launch(problem, operands, device.info(), kPortableColumns.at(at));
      break;
  }
  const std::string name = to_string(plan);
  const std::size_t design = name.find('_');
  launch.kernel = fmt::format("attention_{}_{}{}", std::string_view(name).substr(0, design),
                              name_of(problem.type), std::string_view(name).substr(design));
  return launch;
}

Launch attention_launch(Device& device, const AttentionProblem& problem,
                        const AttentionOperands& operands) {
  return attention_launch(device, problem, operands, attention_plan(problem, device.info()));
}

}  // namespace fovea::gpu
