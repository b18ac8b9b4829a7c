// Defines the mutations and the instructions that they apply to.
#include "lab/mutation/mutants.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <set>

#include <fmt/format.h>

#include "core/error.hpp"
#include "lab/mutation/ptx_text.hpp"

namespace fovea::mutation {
namespace {

/// Name of the register that mutants declare, which no kernel uses.
constexpr std::string_view kMutantRegister = "%fovea_mutant";
constexpr std::string_view kLeading = "descriptor: leading offset";

class Mutants {
 public:
  Mutants(std::string_view ptx, std::string_view kernel) : ptx_(ptx), kernel_(kernel) {
    const std::vector<Statement> statements = parse_statements(ptx, kernel);
    has_arrivals_ = std::ranges::any_of(
        statements, [](const Statement& statement) { return statement.is("bar.arrive"); });
    for (const Statement& statement : statements) {
      if (statement.is("mov") && statement.guard.empty() && is_digit(statement.operands.at(1))) {
        constants_.insert(statement.operands[0]);
      }
    }
    for (const Statement& statement : statements) {
      delete_statement(statement);
      leave_one_more(statement);
      alter_mbarrier(statement);
      alter_barrier(statement);
      alter_descriptors(statement);
      drop_xor(statement);
    }
  }

  [[nodiscard]] std::vector<PtxMutant> take() { return std::move(mutants_); }

 private:
  void add(const Statement& statement, std::string kind, std::string replacement) {
    std::string change = fmt::format("{} -> {}", shortened(statement.text),
                                     replacement.empty() ? "nothing" : shortened(replacement));
    // Preserves the number of lines, so that the numbers of later lines remain valid.
    const auto lines =
        std::ranges::count(statement.text, '\n') - std::ranges::count(replacement, '\n');
    replacement.append(static_cast<std::size_t>(lines), '\n');
    mutants_.push_back({.kernel = std::string(kernel_),
                        .kind = std::move(kind),
                        .line = statement.line,
                        .source = statement.source,
                        .change = std::move(change),
                        .begin = static_cast<std::size_t>(statement.text.data() - ptx_.data()),
                        .length = statement.text.size(),
                        .replacement = std::move(replacement)});
  }

  static bool is_digit(std::string_view operand) {
    return operand.front() >= '0' && operand.front() <= '9';
  }

  static std::string shortened(std::string_view text) {
    constexpr std::size_t kMax = 160;
    std::string one_line(text);
    std::ranges::replace(one_line, '\n', ' ');
    if (one_line.size() <= kMax) {
      return one_line;
    }
    return one_line.substr(0, kMax / 2) + " ... " + one_line.substr(one_line.size() - kMax / 2);
  }

  static std::string with_guard(const Statement& statement, std::string_view text) {
    return statement.guard.empty() ? std::string(text)
                                   : fmt::format("{} {}", statement.guard, text);
  }

  // Returns the statement with an operand, or a part of an operand, replaced.
  static std::string replaced(const Statement& statement, std::string_view part,
                              std::string_view replacement) {
    std::string text(statement.text);
    text.replace(static_cast<std::size_t>(part.data() - statement.text.data()), part.size(),
                 replacement);
    return text;
  }

  // Adds a mutant in which the operand is replaced by a register that is computed from it
  // beforehand.
  void compute(const Statement& statement, std::string kind, std::string_view operand, int bits,
               std::string_view operation, std::string_view argument) {
    add(statement, std::move(kind),
        fmt::format("{{ .reg .b{} {}; {} {}, {}, {}; {} }}", bits, kMutantRegister, operation,
                    kMutantRegister, operand, argument,
                    replaced(statement, operand, kMutantRegister)));
  }

  void delete_statement(const Statement& statement) {
    static constexpr std::array<std::string_view, 23> kDeleted = {
        "fence.proxy.async",
        "fence.mbarrier_init",
        "wgmma.fence",
        "cp.async.wait_group",
        "cp.async.wait_all",
        "wgmma.wait_group",
        "cp.async.bulk.wait_group",
        "griddepcontrol.wait",
        "barrier.cluster.wait",
        "barrier.cluster.arrive",
        "bar.sync",
        "bar.arrive",
        "bar.warp.sync",
        "cp.async.commit_group",
        "wgmma.commit_group",
        "cp.async.bulk.commit_group",
        "tcgen05.fence::before_thread_sync",
        "tcgen05.fence::after_thread_sync",
        "tcgen05.wait::ld",
        "tcgen05.wait::st",
        "tcgen05.commit",
        "tcgen05.cp",
        "tcgen05.dealloc"};
    for (const std::string_view opcode : kDeleted) {
      if (statement.is(opcode)) {
        // Both kinds of waits for groups have the same name.
        const bool is_all = opcode == "cp.async.wait_all";
        add(statement, fmt::format("no {}", is_all ? "cp.async.wait_group" : opcode), "");
      }
    }
    if (statement.is("mbarrier.try_wait") || statement.is("mbarrier.test_wait")) {
      add(statement, "no mbarrier.try_wait",
          with_guard(statement, fmt::format("setp.eq.u32 {}, 0, 0;", statement.operands.at(0))));
    }
    if (statement.is("mbarrier.arrive")) {
      const std::string_view state = statement.operands.at(0);
      add(statement,
          statement.is("mbarrier.arrive.expect_tx") ? "no mbarrier.arrive.expect_tx"
                                                    : "no mbarrier.arrive",
          state == "_" ? "" : with_guard(statement, fmt::format("mov.b64 {}, 0;", state)));
    }
  }

  void leave_one_more(const Statement& statement) {
    for (const std::string_view opcode :
         {"cp.async.wait_group", "wgmma.wait_group", "cp.async.bulk.wait_group"}) {
      if (statement.is(opcode)) {
        const std::string_view groups = statement.operands.at(0);
        std::uint64_t count = 0;
        if (std::from_chars(groups.data(), groups.data() + groups.size(), count).ec !=
            std::errc()) {
          fail("line {} of the PTX waits for '{}' groups, which is not a number", statement.line,
               groups);
        }
        add(statement, fmt::format("{} leaves one more", opcode),
            replaced(statement, groups, std::to_string(count + 1)));
      }
    }
  }

  void alter_mbarrier(const Statement& statement) {
    if (statement.is("mbarrier.try_wait.parity") || statement.is("mbarrier.test_wait.parity")) {
      compute(statement, "parity flipped", statement.operands.at(2), 32, "xor.b32", "1");
    }
    if (statement.is("mbarrier.arrive.expect_tx")) {
      compute(statement, "16 bytes more awaited", statement.operands.at(2), 32, "add.u32", "16");
      compute(statement, "16 bytes fewer awaited", statement.operands.at(2), 32, "sub.u32", "16");
    }
    if (statement.is("mbarrier.init")) {
      compute(statement, "mbarrier of one arrival more", statement.operands.at(1), 32, "add.u32",
              "1");
      compute(statement, "mbarrier of one arrival fewer", statement.operands.at(1), 32, "sub.u32",
              "1");
    }
  }

  // Changing the number of a barrier only has an effect if other code uses the new number, or if
  // some of the barrier's threads still use the old one.
  void alter_barrier(const Statement& statement) {
    if ((statement.is("bar.sync") || statement.is("bar.arrive")) &&
        statement.operands.size() == 2) {
      if (has_arrivals_) {
        compute(statement, "barrier of another number", statement.operands[0], 32, "xor.b32", "8");
      } else if (!is_digit(statement.operands[0]) && !constants_.contains(statement.operands[0])) {
        add(statement, "barrier of all groups", replaced(statement, statement.operands[0], "1"));
      }
      compute(statement, "barrier of a warp more", statement.operands[1], 32, "add.u32", "32");
      compute(statement, "barrier of a warp fewer", statement.operands[1], 32, "sub.u32", "32");
    }
  }

  // The last operands of a wgmma with 16-bit floats are the scales of A and B and the transpose
  // flags; there is no flag for A in registers.
  static bool is_transposed(const Statement& statement, std::size_t operand) {
    constexpr std::size_t kInRegisters = 7;
    const std::vector<std::string_view>& operands = statement.operands;
    return operand == 2 ? operands.size() >= kInRegisters && operands.back() == "1"
                        : operands.size() > kInRegisters && operands[kInRegisters - 1] == "1";
  }

  // Returns the number of columns in a shape: 192 for "m64n192k16".
  static int product_columns(const Statement& statement) {
    const std::size_t begin = statement.opcode.find(".m64n") + 5;
    int columns = 0;
    if (std::from_chars(statement.opcode.data() + begin,
                        statement.opcode.data() + statement.opcode.size(), columns)
            .ec != std::errc()) {
      fail("line {} of the PTX: {} has no shape", statement.line, statement.opcode);
    }
    return columns;
  }

  void alter_descriptors(const Statement& statement) {
    constexpr int kSpanColumns = 64;  // 16-bit values in 128 bytes
    const bool is_of_tensor_memory = statement.is("tcgen05.mma");
    if (!statement.is("wgmma.mma_async") && !is_of_tensor_memory) {
      return;
    }
    struct Field {
      std::string_view kind;
      std::uint64_t changed;  // bits to flip
    };
    static constexpr std::array kFields = {
        Field{"descriptor: start 32 bytes off", 2},
        Field{kLeading, 1ULL << 16U},
        Field{"descriptor: stride offset", 1ULL << 32U},
        Field{"descriptor: swizzle", 3ULL << 62U},
    };
    if (is_of_tensor_memory) {
      alter_tensor_product(statement);
    }
    for (const std::size_t number : {std::size_t{1}, std::size_t{2}}) {
      const std::string_view operand = statement.operands.at(number);
      if (operand.starts_with('{') || operand.starts_with('[')) {
        continue;  // A is in registers or in tensor memory
      }
      for (const Field& field : kFields) {
        if (field.kind == kLeading && (is_of_tensor_memory || !is_transposed(statement, number) ||
                                       product_columns(statement) <= kSpanColumns)) {
          continue;  // ignored in our swizzled layouts, unless transposed and more than one span
                     // wide
        }
        compute(statement, std::string(field.kind), operand, 64, "xor.b64",
                fmt::format("{:#x}", field.changed));
      }
    }
  }

  // Mutates the instruction descriptor: the types of A and B and the number of columns. The
  // transpose bits are not mutated, since the emulator does not check them and our kernels do not
  // use them.
  void alter_tensor_product(const Statement& statement) {
    struct Field {
      std::string_view kind;
      std::string_view changed;  // bits to flip
    };
    static constexpr std::array kFields = {Field{"instruction descriptor: A's type", "0x80"},
                                           Field{"instruction descriptor: B's type", "0x400"},
                                           Field{"instruction descriptor: columns", "0x80000"}};
    for (const Field& field : kFields) {
      compute(statement, std::string(field.kind), statement.operands.at(3), 32, "xor.b32",
              field.changed);
    }
  }

  void drop_xor(const Statement& statement) {
    constexpr std::uint64_t kMax = 1023;
    if (!statement.is("xor.b32") && !statement.is("xor.b64")) {
      return;
    }
    const std::string_view argument = statement.operands.at(2);
    std::uint64_t number = 0;
    const bool is_number = !argument.starts_with('%');
    if (is_number &&
        (std::from_chars(argument.data(), argument.data() + argument.size(), number).ec !=
             std::errc() ||
         number > kMax)) {
      return;  // flips signs or inverts all bits
    }
    add(statement, number == 1 ? "xor with 1 dropped" : "xor dropped",
        with_guard(statement, fmt::format("mov{} {}, {};", statement.opcode.substr(3),
                                          statement.operands[0], statement.operands[1])));
  }

  std::string_view ptx_;
  std::string_view kernel_;
  bool has_arrivals_ = false;  // whether threads arrive at named barriers without waiting
  std::set<std::string_view> constants_{};  // registers that hold constants
  std::vector<PtxMutant> mutants_;
};

std::uint32_t element_bytes(gpu::TensorMapType type) {
  switch (type) {
    case gpu::TensorMapType::kU8:
      return 1;
    case gpu::TensorMapType::kF16:
    case gpu::TensorMapType::kBF16:
      return 2;
    case gpu::TensorMapType::kF32:
      return 4;
  }
  fail("the tensor map has an unknown type");
}

}  // namespace

std::string PtxMutant::applied(std::string_view ptx) const {
  std::string text(ptx);
  text.replace(begin, length, replacement);
  return text;
}

std::vector<PtxMutant> make_mutants(std::string_view ptx, std::string_view kernel) {
  return Mutants(ptx, kernel).take();
}

PtxMutant tensor_map_mutant(std::string_view kernel, int number) {
  return {.kernel = std::string(kernel),
          .kind = "tensor map: swizzle",
          .change = fmt::format("another swizzle of tensor map {}", number),
          .tensor_map = number};
}

bool change_swizzle(gpu::TensorMapDesc& map) {
  constexpr std::uint32_t kSpan = 128;
  if (map.swizzle != gpu::Swizzle::kNone) {
    map.swizzle = gpu::Swizzle::kNone;
    return true;
  }
  const bool is_allowed = map.box[0] * element_bytes(map.type) <= kSpan;
  map.swizzle = is_allowed ? gpu::Swizzle::k128 : gpu::Swizzle::kNone;
  return is_allowed;
}

}  // namespace fovea::mutation
