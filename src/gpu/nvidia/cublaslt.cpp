// Declares the functions of cuBLASLt that are used, and runs plans with them.
#include "gpu/nvidia/cublaslt.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <string_view>
#include <utility>
#include <vector>

#include "core/error.hpp"

namespace fovea::gpu {
namespace {

// Constants of cuBLASLt's interface, as documented.
constexpr int kStatusSuccess = 0;
constexpr int kStatusNotSupported = 15;
constexpr int kComputeF32 = 68;
constexpr int kComputeS32 = 72;
constexpr int kCudaF32 = 0;
constexpr int kCudaS32 = 10;
constexpr int kTransposed = 1;
enum DescAttribute : int {
  kTransA = 3,
  kEpilogue = 7,
  kBiasPointer = 8,
  kScalePointerA = 17,
  kScalePointerB = 18,
  kScalePointerD = 20,
  kFastAccumulation = 25,
  kBiasType = 26,
  kScaleModeA = 31,
  kScaleModeB = 32,
};
constexpr int kScaleBlocksOf32 = 2;  // E8M0 scales
constexpr int kScaleOuterVector = 3;
constexpr int kEpilogueBias = 4;
constexpr int kEpilogueGeluBias = 36;
constexpr int kPreferenceWorkspace = 1;

struct Algorithm {
  std::array<std::uint64_t, 8> opaque{};
};
struct HeuristicResult {
  Algorithm algorithm;
  std::size_t workspace_bytes = 0;
  int state = 0;
  float waves = 0;
  std::array<int, 4> reserved{};
};

using Handle = void*;
struct LtApi {
  Library library;
  std::size_t (*version)() = library.function("cublasLtGetVersion");
  int (*create)(Handle*) = library.function("cublasLtCreate");
  int (*destroy)(Handle) = library.function("cublasLtDestroy");
  int (*desc_create)(Handle*, int compute_type,
                     int scale_type) = library.function("cublasLtMatmulDescCreate");
  int (*desc_destroy)(Handle) = library.function("cublasLtMatmulDescDestroy");
  int (*desc_set)(Handle, int attribute, const void* value,
                  std::size_t bytes) = library.function("cublasLtMatmulDescSetAttribute");
  int (*layout_create)(Handle*, int type, std::uint64_t rows, std::uint64_t columns,
                       std::int64_t leading) = library.function("cublasLtMatrixLayoutCreate");
  int (*layout_destroy)(Handle) = library.function("cublasLtMatrixLayoutDestroy");
  int (*preference_create)(Handle*) = library.function("cublasLtMatmulPreferenceCreate");
  int (*preference_destroy)(Handle) = library.function("cublasLtMatmulPreferenceDestroy");
  int (*preference_set)(Handle, int attribute, const void* value, std::size_t bytes) =
      library.function("cublasLtMatmulPreferenceSetAttribute");
  int (*heuristic)(Handle, Handle desc, Handle a, Handle b, Handle c, Handle d, Handle preference,
                   int wanted, void* results,
                   int* found) = library.function("cublasLtMatmulAlgoGetHeuristic");
  int (*matmul)(Handle, Handle desc, const void* alpha, const void* a, Handle layout_a,
                const void* b, Handle layout_b, const void* beta, const void* c, Handle layout_c,
                void* d, Handle layout_d, const void* algorithm, void* workspace,
                std::size_t workspace_bytes, void* stream) = library.function("cublasLtMatmul");
};

constexpr int kMaxAlgorithms = 8;
constexpr std::size_t kWorkspace = 64ULL << 20;  // Hopper's kernels need 32 MiB or more

void check_lt(int status, std::string_view what) {
  if (status != kStatusSuccess) {
    fail("cuBLASLt: {} failed with status {}", what, status);
  }
}

int cuda_type(DType type) {
  switch (type) {
    case DType::kI8:
      return 3;
    case DType::kF32:
      return kCudaF32;
    case DType::kF16:
      return 2;
    case DType::kBF16:
      return 14;
    case DType::kE4M3:
      return 28;
    default:
      fail("cuBLASLt: unsupported matrix type {}", to_string(type));
  }
}

/// Owns an object of the library.
class Object {
 public:
  Object() = default;
  Object(Handle handle, int (*destroy)(Handle)) : handle_(handle), destroy_(destroy) {}
  ~Object() {
    if (handle_ != nullptr) {
      destroy_(handle_);
    }
  }
  Object(Object&& other) noexcept { *this = std::move(other); }
  Object& operator=(Object&& other) noexcept {
    std::swap(handle_, other.handle_);
    std::swap(destroy_, other.destroy_);
    return *this;
  }
  [[nodiscard]] Handle get() const { return handle_; }

 private:
  Handle handle_ = nullptr;
  int (*destroy_)(Handle) = nullptr;
};

class LtPlan final : public MatmulPlan {
 public:
  LtPlan(const LtApi& api, Handle handle, Device& device, const DeviceBuffer& workspace,
         const MatmulProblem& problem)
      : api_(api), handle_(handle), device_(device), workspace_(workspace), problem_(problem) {
    describe();
    choose_algorithms();
  }

  void run(const MatmulOperands& operands, Stream& stream) override {
    check_lt(launch(operands, stream, current_), to_string(problem_));
  }

  void tune(const MatmulOperands& operands, Stream& stream) override {
    constexpr int kRuns = 5;
    const std::unique_ptr<Event> start = device_.make_event();
    const std::unique_ptr<Event> end = device_.make_event();
    double best = std::numeric_limits<double>::infinity();
    for (std::size_t i = 0; i < results_.size(); ++i) {
      // The library refuses some algorithms that its heuristic proposes.
      if (launch(operands, stream, i) != kStatusSuccess) {
        continue;
      }
      double seconds = std::numeric_limits<double>::infinity();
      for (int run = 0; run < kRuns; ++run) {
        start->record(stream);
        check_lt(launch(operands, stream, i), to_string(problem_));
        end->record(stream);
        end->synchronize();
        seconds = std::min(seconds, device_.seconds_between(*start, *end));
      }
      if (seconds < best) {
        best = seconds;
        current_ = i;
      }
    }
    if (best == std::numeric_limits<double>::infinity()) {
      fail("cuBLASLt refuses every algorithm that it proposes for {}", to_string(problem_));
    }
  }

 private:
  template <typename T>
  void set(DescAttribute attribute, const T& value) {
    const void* const bytes = static_cast<const void*>(&value);
    check_lt(api_.desc_set(desc_.get(), attribute, bytes, sizeof value),
             fmt::format("setting attribute {}", int{attribute}));
  }

  [[nodiscard]] bool is_integer() const { return problem_.type == DType::kI8; }

  [[nodiscard]] Object layout(int cuda_type, std::int64_t rows, std::int64_t columns) const {
    Handle object = nullptr;
    check_lt(api_.layout_create(&object, cuda_type, static_cast<std::uint64_t>(rows),
                                static_cast<std::uint64_t>(columns), rows),
             "describing a matrix");
    return {object, api_.layout_destroy};
  }

  // The library's matrices are column-major: it computes output^T (n, m) = (b^T)^T a^T, so that its
  // A is our b.
  void describe() {
    Handle object = nullptr;
    check_lt(is_integer() ? api_.desc_create(&object, kComputeS32, kCudaS32)
                          : api_.desc_create(&object, kComputeF32, kCudaF32),
             "describing a product");
    desc_ = {object, api_.desc_destroy};
    set(kTransA, std::int32_t{kTransposed});
    if (problem_.epilogue != MatmulEpilogue::kNone) {
      set(kEpilogue, std::int32_t{problem_.epilogue == MatmulEpilogue::kBias ? kEpilogueBias
                                                                             : kEpilogueGeluBias});
      set(kBiasType, std::int32_t{cuda_type(problem_.bias)});
    }
    if (problem_.scale == MatmulScale::kOuter || problem_.scale == MatmulScale::kBlocks) {
      const std::int32_t mode =
          problem_.scale == MatmulScale::kOuter ? kScaleOuterVector : kScaleBlocksOf32;
      set(kScaleModeA, mode);
      set(kScaleModeB, mode);
    }
    if (problem_.type == DType::kE4M3) {
      set(kFastAccumulation, std::int8_t{1});  // on Hopper, partial sums have fewer bits
    }
    b_ = layout(cuda_type(problem_.type), problem_.k, problem_.n);
    a_ = layout(cuda_type(problem_.type), problem_.k, problem_.m);
    const int output = is_integer() ? kCudaS32 : cuda_type(problem_.output);
    // The addend C is bf16 if outputs are e4m3.
    c_ = layout(problem_.output == DType::kE4M3 ? cuda_type(DType::kBF16) : output, problem_.n,
                problem_.m);
    d_ = layout(output, problem_.n, problem_.m);
  }

  void choose_algorithms() {
    // The heuristic only checks whether pointers are set and how they are aligned.
    bind({.a = 256,
          .b = 256,
          .output = 256,
          .bias = 256,
          .a_scale = 256,
          .b_scale = 256,
          .output_scale = 256});
    Handle object = nullptr;
    check_lt(api_.preference_create(&object), "creating a preference");
    const Object preference(object, api_.preference_destroy);
    const std::size_t bytes = workspace_.bytes();
    check_lt(api_.preference_set(object, kPreferenceWorkspace, &bytes, sizeof bytes),
             "setting the workspace's size");
    results_.resize(kMaxAlgorithms);
    int found = 0;
    const int status = api_.heuristic(handle_, desc_.get(), b_.get(), a_.get(), c_.get(), d_.get(),
                                      preference.get(), kMaxAlgorithms, results_.data(), &found);
    if (status != kStatusSuccess && status != kStatusNotSupported) {
      check_lt(status, "choosing an algorithm");
    }
    results_.resize(static_cast<std::size_t>(found));
    std::erase_if(results_,
                  [](const HeuristicResult& result) { return result.state != kStatusSuccess; });
    if (results_.empty()) {
      fail("cuBLASLt has no algorithm for {}", to_string(problem_));
    }
  }

  void bind(const MatmulOperands& operands) {
    if (problem_.epilogue != MatmulEpilogue::kNone) {
      set(kBiasPointer, pointer<const void>(operands.bias));
    }
    if (problem_.scale != MatmulScale::kNone) {
      set(kScalePointerA, pointer<const void>(operands.b_scale));
      set(kScalePointerB, pointer<const void>(operands.a_scale));
    }
    if (problem_.output == DType::kE4M3) {
      set(kScalePointerD, pointer<const void>(operands.output_scale));
    }
  }

  int launch(const MatmulOperands& operands, Stream& stream, std::size_t algorithm) {
    bind(operands);
    const float factors[2] = {1.0F, problem_.accumulate ? 1.0F : 0.0F};
    const std::int32_t integer_factors[2] = {1, problem_.accumulate ? 1 : 0};
    const auto factor = [&](int i) -> const void* {
      return is_integer() ? static_cast<const void*>(&integer_factors[i]) : &factors[i];
    };
    auto* const output = pointer<void>(operands.output);
    // C and D must have the same type if they have the same address.
    const void* const addend = problem_.output == DType::kE4M3 ? nullptr : output;
    return api_.matmul(handle_, desc_.get(), factor(0), pointer<const void>(operands.b), b_.get(),
                       pointer<const void>(operands.a), a_.get(), factor(1), addend, c_.get(),
                       output, d_.get(), &results_[algorithm].algorithm,
                       pointer<void>(workspace_.address()), workspace_.bytes(),
                       device_.native_handle(stream));
  }

  const LtApi& api_;
  Handle handle_;
  Device& device_;
  const DeviceBuffer& workspace_;
  MatmulProblem problem_;
  Object desc_, a_, b_, c_, d_;
  std::vector<HeuristicResult> results_;
  std::size_t current_ = 0;
};

class LoadedCublasLt final : public CublasLt {
 public:
  explicit LoadedCublasLt(Device& device)
      : api_{open_cublaslt_library()}, device_(device), workspace_(device, kWorkspace) {
    check_lt(api_.create(&handle_), "starting");
  }
  ~LoadedCublasLt() override { api_.destroy(handle_); }

  [[nodiscard]] std::string version() const override {
    const std::size_t number = api_.version();  // 130100 for 13.1.0
    return fmt::format("{}.{}.{}", number / 10000, number / 100 % 100, number % 100);
  }
  [[nodiscard]] std::unique_ptr<MatmulPlan> prepare(const MatmulProblem& problem) override {
    return std::make_unique<LtPlan>(api_, handle_, device_, workspace_, problem);
  }

 private:
  LtApi api_;
  Device& device_;
  DeviceBuffer workspace_;
  Handle handle_ = nullptr;
};

}  // namespace

std::string to_string(const MatmulProblem& problem) {
  constexpr std::array<std::string_view, 3> kEpilogues = {"", " + bias", " + bias, gelu"};
  constexpr std::array<std::string_view, 4> kScales = {"", ", scaled", ", scaled by row",
                                                       ", scaled by blocks of 32"};
  return fmt::format(
      "{} [{},{}] x [{},{}]^T -> {}{}{}{}", fovea::to_string(problem.type), problem.m, problem.k,
      problem.n, problem.k, problem.type == DType::kI8 ? "s32" : fovea::to_string(problem.output),
      kEpilogues[static_cast<std::size_t>(problem.epilogue)],
      kScales[static_cast<std::size_t>(problem.scale)], problem.accumulate ? " + output" : "");
}

Library open_cublaslt_library() {
  constexpr std::array<std::string_view, 3> kNames = {"libcublasLt.so.13", "libcublasLt.so.12",
                                                      "libcublasLt.so"};
  constexpr std::array<std::string_view, 2> kPackages = {"nvidia/cu13/lib", "nvidia/cublas/lib"};
  return Library::open("cuBLASLt", "FOVEA_CUBLASLT", kNames, kPackages);
}

std::unique_ptr<CublasLt> open_cublaslt(Device& device) {
  return std::make_unique<LoadedCublasLt>(device);
}

}  // namespace fovea::gpu
