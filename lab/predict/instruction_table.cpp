// The tables by architecture.
#include "lab/predict/instruction_table.hpp"

namespace fovea::lab {

std::span<const CountedCase> counted_cases(int arch) {
  return arch == 90    ? counted_on_sm90()
         : arch == 100 ? counted_on_sm100()
                       : decltype(counted_on_sm90()){};
}

}  // namespace fovea::lab
