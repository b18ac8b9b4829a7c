// The C interface's numbers as the project's own types.
#pragma once

#include "core/dtype.hpp"
#include "core/error.hpp"
#include "fovea/c/operators.h"
#include "ops/problem.hpp"

namespace fovea::c {

inline DType type_of(std::int32_t type) {
  switch (type) {
    case FOVEA_U8:
      return DType::kU8;
    case FOVEA_I8:
      return DType::kI8;
    case FOVEA_F16:
      return DType::kF16;
    case FOVEA_BF16:
      return DType::kBF16;
    case FOVEA_F32:
      return DType::kF32;
    default:
      fail("{} is no fovea_type", type);
  }
}

inline ops::Epilogue epilogue_of(std::int32_t epilogue) {
  switch (epilogue) {
    case FOVEA_EPILOGUE_NONE:
      return ops::Epilogue::kNone;
    case FOVEA_EPILOGUE_GELU:
      return ops::Epilogue::kGeluTanh;
    case FOVEA_EPILOGUE_RESIDUAL:
      return ops::Epilogue::kResidual;
    default:
      fail("{} is no fovea_epilogue", epilogue);
  }
}

}  // namespace fovea::c
