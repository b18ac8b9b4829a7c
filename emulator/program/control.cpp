// Decodes the instructions that change what is executed next: branches, calls and returns.
#include <fmt/format.h>

#include "emulator/program/decoder.hpp"
#include "emulator/program/layout.hpp"
#include "emulator/program/reachable.hpp"

namespace emu {
namespace {

using syntax::Operand;
using syntax::OperandKind;

void require_instruction(const Decoder& decoder, const syntax::Function& function, int target) {
  if (static_cast<std::size_t>(target) == function.instructions.size()) {
    decoder.fail("no instruction follows the label");
  }
}

void decode_branch(Decoder& decoder) {
  decoder.take("uni");
  decoder.expect_operands(1);
  if (decoder.operand(0).kind != OperandKind::kLabel) {
    decoder.fail("expected a label");
  }
  decoder.op().flow = Flow::kBranch;
  decoder.op().target = decoder.operand(0).index;
  require_instruction(decoder, decoder.layout().function(), decoder.op().target);
}

// Slots: the index in the list of targets.
void decode_indirect_branch(Decoder& decoder) {
  decoder.require("idx");
  decoder.take("uni");
  decoder.expect_operands(2);
  decoder.add(decoder.source(0, Type::kB32));
  if (decoder.operand(1).kind != OperandKind::kTargets) {
    decoder.fail("expected the label of a .branchtargets");
  }
  const syntax::Function& function = decoder.layout().function();
  decoder.op().flow = Flow::kIndirectBranch;
  decoder.op().target = decoder.operand(1).index;
  for (const int target : function.branch_targets[static_cast<std::size_t>(decoder.op().target)]) {
    require_instruction(decoder, function, target);
  }
}

// Returns the parts of (a, b, ...), or nothing if the operand is not there.
std::span<const Operand> list_at(const Decoder& decoder, std::size_t index) {
  const std::vector<Operand>& operands = decoder.instruction().operands;
  return index < operands.size() && operands[index].kind == OperandKind::kList
             ? std::span(operands[index].parts)
             : std::span<const Operand>();
}

// Adds the arguments or results of a call; the sizes are those of the function, if it is known.
std::vector<PassedValue> passed_values(const Decoder& decoder, std::span<const Operand> operands,
                                       const std::vector<syntax::Variable>* formal,
                                       bool is_result) {
  if (formal != nullptr && formal->size() != operands.size()) {
    decoder.fail(fmt::format("expected {} {}, got {}", formal->size(),
                             is_result ? "results" : "arguments", operands.size()));
  }
  std::vector<PassedValue> values;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const std::size_t bytes =
        formal != nullptr ? (*formal)[i].bytes : decoder.passed_bytes(operands[i]);
    values.push_back(decoder.passed_value(operands[i], bytes, is_result));
  }
  return values;
}

// call (results), function, (arguments), prototype
void decode_call(Decoder& decoder,
                 const std::map<std::string, std::int32_t, std::less<>>& functions,
                 FindOperation find_operation) {
  decoder.take("uni");
  const std::span<const Operand> results = list_at(decoder, 0);
  const std::size_t number = decoder.operand(0).kind == OperandKind::kList ? 1 : 0;
  const Operand& called = called_operand(decoder.instruction());
  decoder.expect_operands(number + 1, number + 3);
  const std::span<const Operand> arguments = list_at(decoder, number + 1);
  Program& program = decoder.layout().shared().program();
  Call call;
  const syntax::Function* function = nullptr;
  if (called.kind == OperandKind::kSymbol) {
    const bool is_variable = called.index >= 0;
    function = is_variable ? nullptr : program.module->find_function(called.name);
    if (function == nullptr) {
      decoder.fail(fmt::format("{} is not a function", called.name));
    }
  } else {
    call.target = decoder.source(called, Type::kB64);
  }
  call.arguments = passed_values(decoder, arguments,
                                 function != nullptr ? &function->parameters : nullptr, false);
  call.results =
      passed_values(decoder, results, function != nullptr ? &function->results : nullptr, true);
  Op& op = decoder.op();
  op.flow = Flow::kCall;
  op.target = static_cast<std::int32_t>(program.calls.size());
  if (function != nullptr && function->is_defined) {
    call.function = functions.find(function->name)->second;
    if (call.function == 0) {  // the kernel comes first
      decoder.fail(fmt::format("{} is also the name of the kernel", function->name));
    }
  }
  program.calls.push_back(std::move(call));
  if (function != nullptr && !function->is_defined) {
    const Operation* const operation = find_operation("call " + function->name);
    if (operation == nullptr) {
      decoder.fail(
          fmt::format("unsupported function {}, which the file does not define", function->name));
    }
    op.flow = Flow::kNext;
    operation->decode(decoder);
  }
}

}  // namespace

const Call& Decoder::call() const {
  return layout_.shared().program().calls[static_cast<std::size_t>(op_.target)];
}

bool decode_control(Decoder& decoder,
                    const std::map<std::string, std::int32_t, std::less<>>& functions,
                    FindOperation find_operation) {
  const std::string_view mnemonic = decoder.mnemonic();
  if (mnemonic == "bra") {
    decode_branch(decoder);
  } else if (mnemonic == "brx") {
    decode_indirect_branch(decoder);
  } else if (mnemonic == "call") {
    decode_call(decoder, functions, find_operation);
  } else if (mnemonic == "ret" || mnemonic == "exit") {
    decoder.take("uni");
    decoder.expect_operands(0);
    decoder.op().flow =
        mnemonic == "exit" || decoder.layout().function().is_kernel ? Flow::kExit : Flow::kReturn;
  } else {
    return false;
  }
  decoder.finish();
  return true;
}

}  // namespace emu
