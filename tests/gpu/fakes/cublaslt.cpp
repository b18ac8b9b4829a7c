// A stand-in for libcublasLt: computes products of 8-bit whole numbers on host memory, and knows no
// others. It refuses what the library would: other types of sums, factors or outputs than s32.
#include <cstdint>

namespace {

constexpr int kSuccess = 0;
constexpr int kNotSupported = 15;
constexpr int kComputeS32 = 72;
constexpr int kS8 = 3;
constexpr int kS32 = 10;
constexpr int kTransA = 3;

struct Description {
  int compute, scale;
  std::int32_t transposed_a;
};
struct Layout {
  int type;
  std::int64_t rows, columns, leading;
};

const Layout& layout(const void* handle) {
  return *static_cast<const Layout*>(handle);
}

bool can_run(const void* description, const void* a, const void* b, const void* c, const void* d) {
  const auto& asked = *static_cast<const Description*>(description);
  return asked.compute == kComputeS32 && asked.scale == kS32 && asked.transposed_a == 1 &&
         layout(a).type == kS8 && layout(b).type == kS8 && layout(c).type == kS32 &&
         layout(d).type == kS32 && layout(a).rows == layout(b).rows;
}

}  // namespace

extern "C" {

std::size_t cublasLtGetVersion() {
  return 130100;
}
int cublasLtCreate(void** handle) {
  static int one = 0;
  *handle = &one;
  return kSuccess;
}
int cublasLtDestroy(void* /*handle*/) {
  return kSuccess;
}
int cublasLtMatmulDescCreate(void** made, int compute, int scale) {
  *made = new Description{compute, scale, 0};
  return kSuccess;
}
int cublasLtMatmulDescDestroy(void* description) {
  delete static_cast<Description*>(description);
  return kSuccess;
}
int cublasLtMatmulDescSetAttribute(void* description, int attribute, const void* value,
                                   std::size_t /*bytes*/) {
  if (attribute == kTransA) {
    static_cast<Description*>(description)->transposed_a = *static_cast<const std::int32_t*>(value);
  }
  return kSuccess;
}
int cublasLtMatrixLayoutCreate(void** made, int type, std::uint64_t rows, std::uint64_t columns,
                               std::int64_t leading) {
  *made = new Layout{type, static_cast<std::int64_t>(rows), static_cast<std::int64_t>(columns),
                     leading};
  return kSuccess;
}
int cublasLtMatrixLayoutDestroy(void* made) {
  delete static_cast<Layout*>(made);
  return kSuccess;
}
int cublasLtMatmulPreferenceCreate(void** made) {
  return cublasLtCreate(made);
}
int cublasLtMatmulPreferenceDestroy(void* /*preference*/) {
  return kSuccess;
}
int cublasLtMatmulPreferenceSetAttribute(void* /*preference*/, int /*attribute*/,
                                         const void* /*value*/, std::size_t /*bytes*/) {
  return kSuccess;
}
int cublasLtMatmulAlgoGetHeuristic(void* /*handle*/, void* description, void* a, void* b, void* c,
                                   void* d, void* /*preference*/, int /*wanted*/, void* /*results*/,
                                   int* found) {
  *found = can_run(description, a, b, c, d) ? 1 : 0;  // the first result, as it was: of state 0
  return *found == 1 ? kSuccess : kNotSupported;
}
int cublasLtMatmul(void* /*handle*/, void* description, const void* alpha, const void* a,
                   void* layout_a, const void* b, void* layout_b, const void* beta, const void* c,
                   void* layout_c, void* d, void* layout_d, const void* /*algorithm*/,
                   void* /*workspace*/, std::size_t /*workspace_bytes*/, void* /*stream*/) {
  if (!can_run(description, layout_a, layout_b, layout_c, layout_d)) {
    return kNotSupported;
  }
  const Layout& output = layout(layout_d);
  for (std::int64_t column = 0; column < output.columns; ++column) {
    for (std::int64_t row = 0; row < output.rows; ++row) {
      std::int32_t sum = 0;
      for (std::int64_t k = 0; k < layout(layout_a).rows; ++k) {
        sum += static_cast<const std::int8_t*>(a)[row * layout(layout_a).leading + k] *
               static_cast<const std::int8_t*>(b)[column * layout(layout_b).leading + k];
      }
      const std::int64_t at = column * output.leading + row;
      static_cast<std::int32_t*>(d)[at] =
          *static_cast<const std::int32_t*>(alpha) * sum +
          *static_cast<const std::int32_t*>(beta) * static_cast<const std::int32_t*>(c)[at];
    }
  }
  return kSuccess;
}

}  // extern "C"
