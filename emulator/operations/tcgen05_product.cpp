// One tcgen05.mma: the places of its operands in shared and tensor memory, and the computation.
#include "emulator/operations/tcgen05_product.hpp"

#include <algorithm>
#include <string_view>

#include <fmt/format.h>

namespace emu {
namespace {

constexpr std::size_t kPartitionLanes =
    32;  // lanes of a partition, which one warp can access and which has its copy of the scales
constexpr std::size_t kPartitions = kTensorLanes / kPartitionLanes;
constexpr std::size_t kColumnsForA =
    8;  // columns in tensor memory for the 32 bytes of each row of A

// Removes the two highest bits of an address, which may repeat the byte index of the scale.
constexpr std::uint32_t scale_address(std::uint32_t address) {
  return address & 0x3FFFFFFFU;
}

// Part of D in one block: rows in lanes, and columns in consecutive columns of tensor memory.
struct OutputPart {
  std::size_t block = 0;
  std::size_t first_row = 0;
  std::size_t first_column = 0;
  std::size_t rows = 0;
  std::size_t columns = 0;
  std::size_t first_lane = 0;
  bool is_spread = false;  // 16 rows in each 32 lanes

  [[nodiscard]] std::size_t lane(std::size_t row) const {
    return first_lane + (is_spread ? row / 16 * kPartitionLanes + row % 16 : row);
  }
};

// Splits D into parts, according to layouts A, B, D and F of PTX ISA 9.7.16.10.5.
std::vector<OutputPart> output_parts(const UmmaProduct& product,
                                     const UmmaInstruction& instruction) {
  const std::size_t lane = tensor_lane(product.d);
  std::vector<OutputPart> parts;
  const std::size_t rows = instruction.rows / product.form.blocks;
  const bool is_halved = product.form.blocks == 2 && rows == 64;
  const std::size_t halves = is_halved ? 2 : 1;
  for (std::size_t block = 0; block < product.form.blocks; ++block) {
    for (std::size_t half = 0; half < halves; ++half) {
      const std::size_t columns = instruction.columns / halves;
      parts.push_back({.block = block,
                       .first_row = block * rows,
                       .first_column = half * columns,
                       .rows = rows,
                       .columns = columns,
                       .first_lane = lane + half * 64,
                       .is_spread = rows == 64 && !is_halved});
    }
  }
  return parts;
}

// Layout of the scales of `lines` lines: one byte of a word per line, down 32 lanes and then in the
// next column; each partition has a copy.
struct ScaleTable {
  std::size_t lines = 0;
  std::size_t column = 0;
  std::size_t byte = 0;
  std::size_t first_partition = 0;
  std::size_t copies = kPartitions;

  [[nodiscard]] std::size_t columns() const {
    return (lines + kPartitionLanes - 1) / kPartitionLanes;
  }
};

ScaleTable scale_table_of_a(const UmmaProduct& product, const UmmaInstruction& instruction) {
  return {.lines = instruction.rows / product.form.blocks,
          .column = tensor_column(scale_address(product.scale_a)),
          .byte = instruction.scale_a_byte};
}

// If D is split into halves of columns, each half of the lanes holds the scales of its columns.
ScaleTable scale_table_of_b(const UmmaProduct& product, const UmmaInstruction& instruction,
                            const OutputPart& part) {
  const std::size_t halves = instruction.columns / part.columns;
  return {.lines = part.columns,
          .column = tensor_column(scale_address(product.scale_b)),
          .byte = instruction.scale_b_byte,
          .first_partition = part.first_lane / kPartitionLanes,
          .copies = kPartitions / halves};
}

CheckResult check_tensor_address(std::string_view name, std::uint32_t address, std::size_t columns,
                                 bool allows_lane_16) {
  const std::size_t lane = tensor_lane(address);
  if (lane != 0 && !(allows_lane_16 && lane == 16)) {
    return {fmt::format("{}: the first lane is {}, but must be 0{}", name, lane,
                        allows_lane_16 ? " or 16" : "")};
  }
  if (tensor_column(address) + columns > kTensorColumns) {
    return {fmt::format("{}: {} columns from column {} on exceed the {} columns of tensor memory",
                        name, columns, tensor_column(address), kTensorColumns)};
  }
  return {};
}

CheckResult check_scales(const UmmaProduct& product, const UmmaInstruction& instruction) {
  const OutputPart part = output_parts(product, instruction).front();
  if (part.columns != instruction.columns && part.columns % kPartitionLanes != 0) {
    return {
        fmt::format("N is {}, but must be a multiple of 64 where scales are split over halves of "
                    "the lanes",
                    instruction.columns)};
  }
  return check_tensor_address("A's scales", scale_address(product.scale_a),
                              scale_table_of_a(product, instruction).columns(), false)
      .and_then([&] {
        return check_tensor_address("B's scales", scale_address(product.scale_b),
                                    scale_table_of_b(product, instruction, part).columns(), false);
      });
}

// Prefixes a refusal with the name and the bits of the descriptor.
CheckResult add_prefix(std::string_view name, std::uint64_t bits, const CheckResult& result) {
  return result ? CheckResult{}
                : CheckResult{fmt::format("{} {:#x}: {}", name, bits, result.reason)};
}

// Adds the ranges of a matrix in shared memory. Elements of less than 8 bits do not fill their
// chunk.
void add_shared_ranges(std::vector<SharedRange>& to, std::size_t block, std::uint64_t bits,
                       const MatrixShape& shape, Element element) {
  const auto bytes =
      static_cast<std::uint32_t>(kChunkBytes / bytes_of(element) * bits_of(element) / 8);
  const ElementAddresses addresses(MatrixDescriptor::from_bits(bits), shape);
  std::vector<std::uint32_t> chunks;
  for_each_chunk(shape, shape.lines,
                 [&](std::size_t line, std::size_t k) { chunks.push_back(addresses(line, k)); });
  std::ranges::sort(chunks);
  const std::size_t first_index = to.size();
  for (const std::uint32_t chunk : chunks) {
    if (to.size() == first_index || to.back().first + to.back().bytes < chunk) {
      to.push_back({.block = block, .first = chunk, .bytes = bytes});
    } else {
      to.back().bytes = chunk + bytes - to.back().first;
    }
  }
}

void add_scale_ranges(std::vector<TensorRange>& to, std::size_t block, const ScaleTable& table) {
  const std::size_t full_columns = table.lines / kPartitionLanes;
  const std::size_t remaining_lines = table.lines % kPartitionLanes;
  for (std::size_t copy = 0; copy < table.copies; ++copy) {
    const std::size_t lane = (table.first_partition + copy) * kPartitionLanes;
    if (full_columns != 0) {
      to.push_back({block, lane, kPartitionLanes, table.column, full_columns});
    }
    if (remaining_lines != 0) {
      to.push_back({block, lane, remaining_lines, table.column + full_columns, 1});
    }
  }
}

bool is_disabled(const UmmaProduct& product, std::size_t block, std::size_t lane) {
  return (product.disabled_lanes.at(block * 4 + lane / 32) >> (lane % 32) & 1U) != 0;
}

// Adds the lanes of a part; if `is_written`, without the disabled ones.
void add_lane_ranges(std::vector<TensorRange>& to, const UmmaProduct& product,
                     const OutputPart& part, bool is_written, std::size_t column,
                     std::size_t columns) {
  const std::size_t first_index = to.size();
  for (std::size_t row = 0; row < part.rows; ++row) {
    const std::size_t lane = part.lane(row);
    if (is_written && is_disabled(product, part.block, lane)) {
      continue;
    }
    if (to.size() == first_index || to.back().lane + to.back().lanes != lane) {
      to.push_back({part.block, lane, 0, column, columns});
    }
    ++to.back().lanes;
  }
}

// Reads `shape.lines` lines from a block's shared memory and appends them.
void read_shared(Lines& lines, std::span<const std::byte> shared, std::uint64_t bits,
                 const MatrixShape& shape) {
  const ElementAddresses addresses(MatrixDescriptor::from_bits(bits), shape);
  const std::size_t first = lines.count;
  lines.resize(first + shape.lines);
  const bool is_whole = shape.is_k_major && bits_of(lines.element) >= 8;
  for_each_chunk(shape, shape.lines, [&](std::size_t line, std::size_t k) {
    const auto chunk = shared.subspan(addresses(line, k)).first<kChunkBytes>();
    if (is_whole) {
      put_words(lines, first + line, k * shape.element_bytes / 4, chunk.data());
    } else {
      put_chunk(lines, first + line, k, shape.is_k_major, chunk);
    }
  });
}

// Reads rows of A from the lanes of a part.
void read_lanes(Lines& lines, const UmmaMemory& memory, const OutputPart& part,
                std::uint32_t address) {
  lines.resize(part.rows);
  const std::size_t bits = bits_of(lines.element);
  for (std::size_t row = 0; row < part.rows; ++row) {
    for (std::size_t k = 0; k < lines.depth; ++k) {
      const std::size_t first = k * bits;
      const std::size_t column = tensor_column(address) + first / 32;
      const std::uint32_t word = memory.tensor[tensor_place(part.lane(row), column)];
      lines.set(row, k, word >> (first % 32) & ((1U << bits) - 1));
    }
  }
}

// Reads the scales of a table's lines, and checks that all copies are the same.
CheckResult read_scales(std::vector<std::uint8_t>& to, const UmmaMemory& memory,
                        const ScaleTable& table, std::string_view name) {
  for (std::size_t line = 0; line < table.lines; ++line) {
    const auto read_copy = [&](std::size_t copy) {
      const std::size_t lane =
          (table.first_partition + copy) * kPartitionLanes + line % kPartitionLanes;
      const std::size_t column = table.column + line / kPartitionLanes;
      return static_cast<std::uint8_t>(memory.tensor[tensor_place(lane, column)] >>
                                       (8 * table.byte));
    };
    to.push_back(read_copy(0));
    for (std::size_t copy = 1; copy < table.copies; ++copy) {
      if (read_copy(copy) != to.back()) {
        return {fmt::format(
            "the copies of {}'s scale of line {} differ: {} in lanes from {} on, but {} from {} on",
            name, line, to.back(), table.first_partition * kPartitionLanes, read_copy(copy),
            (table.first_partition + copy) * kPartitionLanes)};
      }
    }
  }
  return {};
}

// Reads the columns of B from all blocks, each of which holds a part.
Lines read_b(const UmmaProduct& product, const UmmaInstruction& instruction,
             std::span<const UmmaMemory> memory) {
  Lines lines{.element = instruction.b,
              .depth = product.form.depth(),
              .is_negated = instruction.is_b_negated};
  for (std::size_t block = 0; block < product.form.blocks; ++block) {
    read_shared(lines, memory[block].shared, product.b, instruction.shape_of_b(product.form));
  }
  return lines;
}

Lines read_a(const UmmaProduct& product, const UmmaInstruction& instruction,
             const UmmaMemory& memory, const OutputPart& part) {
  Lines lines{.element = instruction.a,
              .depth = product.form.depth(),
              .is_negated = instruction.is_a_negated};
  if (product.form.is_a_in_tensor_memory) {
    read_lanes(lines, memory, part, static_cast<std::uint32_t>(product.a));
  } else {
    read_shared(lines, memory.shared, product.a, instruction.shape_of_a(product.form));
  }
  return lines;
}

// Copies `count` of the lines.
Lines slice_lines(const Lines& lines, std::size_t first, std::size_t count) {
  Lines slice{.element = lines.element, .depth = lines.depth, .is_negated = lines.is_negated};
  slice.resize(count);
  const std::size_t width = lines.width();
  for (std::size_t line = 0; line < count; ++line) {
    for (std::size_t word = 0; word < width; ++word) {
      slice.words[Lines::index(line, word, width)] =
          lines.words[Lines::index(first + line, word, width)];
    }
  }
  return slice;
}

CheckResult check_a(const UmmaProduct& product, const UmmaInstruction& instruction,
                    const OutputPart& part) {
  if (!product.form.is_a_in_tensor_memory) {
    return add_prefix("A's descriptor", product.a,
                      check_umma_matrix(product.a, instruction.shape_of_a(product.form)));
  }
  const auto a = static_cast<std::uint32_t>(product.a);
  return check_tensor_address("A", a, kColumnsForA, part.is_spread).and_then([&]() -> CheckResult {
    if (tensor_lane(a) != tensor_lane(product.d)) {
      return {fmt::format("A's first lane is {}, but D's is {}", tensor_lane(a),
                          tensor_lane(product.d))};
    }
    return {};
  });
}

}  // namespace

CheckResult check_product(const UmmaProduct& product) {
  const UmmaForm& form = product.form;
  const UmmaInstruction instruction = UmmaInstruction::from_bits(form, product.instruction);
  const OutputPart part = output_parts(product, instruction).front();
  return add_prefix("the instruction descriptor", product.instruction,
                    check_instruction(form, product.instruction))
      .and_then([&] { return check_tensor_address("D", product.d, part.columns, part.is_spread); })
      .and_then([&] { return check_a(product, instruction, part); })
      .and_then([&] {
        return add_prefix("B's descriptor", product.b,
                          check_umma_matrix(product.b, instruction.shape_of_b(form)));
      })
      .and_then(
          [&] { return form.has_scales() ? check_scales(product, instruction) : CheckResult{}; });
}

UmmaAccesses accesses_of(const UmmaProduct& product) {
  const UmmaForm& form = product.form;
  const UmmaInstruction instruction = UmmaInstruction::from_bits(form, product.instruction);
  UmmaAccesses accesses;
  for (std::size_t block = 0; block < form.blocks; ++block) {
    if (!form.is_a_in_tensor_memory) {
      add_shared_ranges(accesses.a, block, product.a, instruction.shape_of_a(form), instruction.a);
    }
    add_shared_ranges(accesses.b, block, product.b, instruction.shape_of_b(form), instruction.b);
    if (form.has_scales()) {
      add_scale_ranges(accesses.scales, block, scale_table_of_a(product, instruction));
    }
  }
  for (const OutputPart& part : output_parts(product, instruction)) {
    add_lane_ranges(accesses.d, product, part, true, tensor_column(product.d), part.columns);
    if (form.is_a_in_tensor_memory) {
      add_lane_ranges(accesses.a_words, product, part, false,
                      tensor_column(static_cast<std::uint32_t>(product.a)), kColumnsForA);
    }
    if (form.has_scales()) {
      add_scale_ranges(accesses.scales, part.block, scale_table_of_b(product, instruction, part));
    }
  }
  return accesses;
}

CheckResult multiply(const UmmaProduct& product, std::span<const UmmaMemory> memory) {
  const UmmaInstruction instruction = UmmaInstruction::from_bits(product.form, product.instruction);
  const Lines b_lines = read_b(product, instruction, memory);
  const SumRule rule{.precision = kUmmaPrecision,
                     .accumulator = instruction.accumulator,
                     .is_saturating = instruction.is_saturating};
  for (const OutputPart& part : output_parts(product, instruction)) {
    const UmmaMemory& block_memory = memory[part.block];
    Lines a = read_a(product, instruction, block_memory, part);
    Lines b = slice_lines(b_lines, part.first_column, part.columns);
    if (product.form.has_scales()) {
      CheckResult result =
          read_scales(a.scales, block_memory, scale_table_of_a(product, instruction), "A")
              .and_then([&] {
                return read_scales(b.scales, block_memory,
                                   scale_table_of_b(product, instruction, part), "B");
              });
      if (!result) {
        return result;
      }
    }
    std::vector<std::uint32_t> d(part.rows * part.columns);
    const auto row_words = [&](std::size_t row) {
      return block_memory.tensor.subspan(tensor_place(part.lane(row), tensor_column(product.d)),
                                         part.columns);
    };
    for (std::size_t row = 0; product.adds && row < part.rows; ++row) {
      std::ranges::copy(row_words(row), &d[row * part.columns]);
    }
    multiply_add(a, b, d, rule);
    for (std::size_t row = 0; row < part.rows; ++row) {
      if (!is_disabled(product, part.block, part.lane(row))) {
        std::copy_n(&d[row * part.columns], part.columns, row_words(row).begin());
      }
    }
  }
  return {};
}

}  // namespace emu
