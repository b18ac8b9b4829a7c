// A micro-kernel: one instruction, or one pattern of few, with its launch, its inputs and what of
// its results is compared. Captured on a card once, and replayed in the emulator.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "lab/captures/results.hpp"

namespace captures {

using fovea::captures::Bytes;
using fovea::captures::Record;
using fovea::captures::Tolerance;

/// What every byte of an output is before the kernel runs.
constexpr std::byte kUntouched{0xA5};
constexpr std::size_t kMaxBuffers = 8;
constexpr std::size_t kTensorMapBytes = 128;

enum class Element : std::uint8_t { kU8, kF16, kBF16, kF32 };
enum class Swizzle : std::uint8_t { kNone, k32, k64, k128 };

/// A tensor map over a buffer, counted with inputs first.
struct TensorMap {
  std::size_t buffer = 0;
  std::size_t offset = 0;  // bytes; a multiple of 16
  Element element = Element::kU8;
  int rank = 3;
  std::array<std::uint64_t, 5> dims{};
  std::array<std::uint64_t, 4> strides{};  // bytes
  std::array<std::uint32_t, 5> box{};
  Swizzle swizzle = Swizzle::kNone;
};

/// Inputs to outputs, by other means than the emulator's: outputs of which the model says nothing
/// are empty.
using Model = std::function<std::vector<Bytes>(const std::vector<Bytes>& inputs)>;

struct MicroKernel {
  std::string name{};
  std::string family{};
  std::string ptx{};
  std::array<std::uint32_t, 3> grid = {1, 1, 1};
  std::array<std::uint32_t, 3> cluster = {1, 1, 1};
  std::array<std::uint32_t, 3> block = {1, 1, 1};
  std::size_t dynamic_shared_bytes = 0;
  std::vector<std::function<Bytes()>> inputs{};
  std::vector<std::size_t> outputs{};  // bytes of each
  std::vector<TensorMap> maps{};
  Tolerance tolerance{};
  Model model{};
  Tolerance model_tolerance{};  // of what the model does not say
  bool is_illegal = false;      // a card stops with an illegal instruction
  /// Why a card computes something else, although PTX says what the emulator computes; else empty.
  std::string difference_on_cards{};

  [[nodiscard]] std::vector<Bytes> make_inputs() const;
};

/// Bytes of the one parameter: addresses of the buffers, inputs first, eight bytes each; from byte
/// 64 on the tensor maps.
constexpr std::size_t kMapsOffset = kMaxBuffers * 8;
std::size_t parameter_bytes(const MicroKernel& kernel);

/// What a kernel is: another text, launch or input has another number.
std::uint64_t identity(const MicroKernel& kernel, const std::vector<Bytes>& inputs);

/// `most_words` of each output are kept; 0: as many as is usual.
Record record_of(const MicroKernel& kernel, std::uint64_t identity,
                 const std::vector<Bytes>& outputs, std::size_t most_words = 0);

/// All of them, the same ones every time.
std::vector<MicroKernel> all_micro_kernels();

/// Kernels that sm_90a does not have, and no card has run: only their models say what they compute.
std::vector<MicroKernel> modelled_micro_kernels();

using MicroKernels = std::vector<MicroKernel>;
void add_rounded_floats(MicroKernels& to);
void add_newer_floats(MicroKernels& to);
void add_halves(MicroKernels& to);
void add_wider_integers(MicroKernels& to);
void add_videos(MicroKernels& to);
void add_rounded_conversions(MicroKernels& to);
void add_tiny_floats(MicroKernels& to);
void add_integers(MicroKernels& to);
void add_floats(MicroKernels& to);
void add_comparisons(MicroKernels& to);
void add_conversions(MicroKernels& to);
void add_narrowing(MicroKernels& to);
void add_warps(MicroKernels& to);
void add_matrices(MicroKernels& to);
void add_products(MicroKernels& to);
void add_copies(MicroKernels& to);
void add_tensor_loads(MicroKernels& to);
void add_tensor_stores(MicroKernels& to);
void add_clusters(MicroKernels& to);
void add_wgmma(MicroKernels& to);

}  // namespace captures
