// Table of operations: for each mnemonic, the function that decodes its family of instructions.
#include "emulator/operations/operations.hpp"

#include <map>

namespace emu {

const Operation* find_operation(std::string_view mnemonic) {
  static const auto kOperations = [] {
    std::map<std::string_view, const Operation*> operations;
    for (const auto family : {integer_operations(),     extended_operations(),
                              dot_product_operations(), video_operations(),
                              bit_operations(),         bit_field_operations(),
                              float_operations(),       float_function_operations(),
                              float_bit_operations(),   comparison_operations(),
                              data_operations(),        conversion_operations(),
                              memory_operations(),      atomic_operations(),
                              warp_operations(),        barrier_operations(),
                              mbarrier_operations(),    cluster_operations(),
                              matrix_operations(),      wgmma_operations(),
                              tensor_operations(),      copy_operations(),
                              trap_operations(),        address_operations(),
                              stack_operations(),       hint_operations(),
                              system_operations(),      launch_control_operations()}) {
      for (const Operation& operation : family) {
        operations.emplace(operation.mnemonic, &operation);
      }
    }
    return operations;
  }();
  const auto row = kOperations.find(mnemonic);
  return row == kOperations.end() ? nullptr : row->second;
}

}  // namespace emu
