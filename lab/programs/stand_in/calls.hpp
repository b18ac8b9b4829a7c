// Wrapper of every function that the program calls, and the types of CUDA's interfaces.
#pragma once

#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "lab/programs/error_codes.hpp"
#include "lab/programs/stand_in/gpu.hpp"

namespace fovea::programs {

/// Returns the code of the exception being handled, and tells the user what its message says.
[[nodiscard]] int report_exception(const char* function);

/// Runs the body of a function of the driver, which may throw or return an error code.
template <typename Body>
int driver_call(const char* function, const Body& body) {
  Gpu& gpu = Gpu::instance();
  const std::scoped_lock lock(gpu.mutex());
  try {
    if constexpr (std::is_void_v<decltype(body(gpu))>) {
      body(gpu);
      return kSuccess;
    } else {
      return body(gpu);
    }
  } catch (...) {
    return report_exception(function);
  }
}

/// The last error of the thread, which cudaGetLastError returns.
[[nodiscard]] int& last_error();

/// Runs the body of a function of the runtime, which keeps its error as the thread's last one.
template <typename Body>
int runtime_call(const char* function, const Body& body) {
  const int code = driver_call(function, body);
  if (code != kSuccess && code != kNotReady) {
    last_error() = code;
  }
  return code;
}

/// Begins an exported function, and gives one that exists a second name, such as for programs that
/// have a default stream per thread.
// NOLINTBEGIN(bugprone-macro-parentheses): GCC warns of a declared name in parentheses
#define FOVEA_ENTRY extern "C" [[gnu::visibility("default")]] int
#define FOVEA_ALIAS(function, name) \
  extern "C" [[gnu::visibility("default"), gnu::alias(#function)]] decltype(function) name;
// NOLINTEND(bugprone-macro-parentheses)

/// Stores a result where the program asks for it. Throws CallError for a null pointer.
template <typename Type, typename Value>
void store(Type* to, const Value& value) {
  if (to == nullptr) {
    throw CallError{kInvalidValue, "the address for the result is null"};
  }
  *to = static_cast<Type>(value);
}

// Types of the interfaces, with the layout of NVIDIA's headers; tests/programs compares them.

struct Dim3 {
  unsigned x = 1;
  unsigned y = 1;
  unsigned z = 1;
};

struct PitchedPointer {
  void* address;
  std::size_t pitch;
  std::size_t x_bytes;
  std::size_t rows;
};

struct Extent {
  std::size_t width;
  std::size_t height;
  std::size_t depth;
};

struct Position {
  std::size_t x;
  std::size_t y;
  std::size_t z;
};

struct Copy3D {  // cudaMemcpy3DParms
  void* source_array;
  Position source_position;
  PitchedPointer source;
  void* target_array;
  Position target_position;
  PitchedPointer target;
  Extent extent;
  int kind;
};

struct Copy2D {  // CUDA_MEMCPY2D
  struct Side {
    std::size_t x_bytes;
    std::size_t y;
    int memory_type;
    const void* host;
    std::uint64_t device;
    void* array;
    std::size_t pitch;
  };
  Side source;
  Side target;
  std::size_t width_bytes;
  std::size_t height;
};

struct PointerAttributes {  // cudaPointerAttributes
  int type;
  int device;
  void* device_pointer;
  void* host_pointer;
};

struct FunctionAttributes {  // cudaFuncAttributes
  std::size_t shared_bytes;
  std::size_t constant_bytes;
  std::size_t local_bytes;
  int max_threads;
  int registers;
  int ptx_version;
  int binary_version;
  int cache_mode;
  int max_dynamic_shared_bytes;
  int shared_carveout;
  int must_have_cluster;
  int cluster_width;
  int cluster_height;
  int cluster_depth;
};

/// Converts addresses, which the interfaces have as pointers or as numbers.
inline std::uint64_t number_of(const void* address) {
  return std::bit_cast<std::uint64_t>(address);
}
inline void* pointer_to(std::uint64_t address) {
  return std::bit_cast<void*>(address);
}

/// Streams and events: all work is in order, so that a stream has no state but its flags.
struct Stream {
  unsigned flags = 0;
  int priority = 0;
};

struct Event {
  std::chrono::steady_clock::time_point time{};
};

/// Memory of rows with a pitch.
struct Rows {
  std::uint64_t address = 0;
  std::size_t pitch = 0;
};
/// Returns the pitch of rows that are allocated together.
[[nodiscard]] std::size_t pitch_of(std::size_t row_bytes);
/// Returns the size of so many rows; the largest number for more than there is.
[[nodiscard]] std::size_t bytes_of_rows(std::size_t pitch, std::size_t rows);

/// Copies rows of memory.
void copy_rows(Gpu& gpu, Rows to, Rows from, std::size_t row_bytes, std::size_t rows);
/// Attributes of the emulated GPU, by the numbers that both interfaces share. Throws CallError for
/// one that is not known.
[[nodiscard]] int device_attribute(const Gpu& gpu, int attribute);
/// Name of the emulated GPU, and of its place on the bus.
[[nodiscard]] const char* device_name(const Gpu& gpu);
constexpr const char* kBusId = "0000:00:00.0";
/// Stores a text, or as much of it as there is room for. Throws CallError without any room.
void store_text(char* to, int bytes, const char* text);
/// Stores how much memory the emulated GPU has left, and has in all.
void store_memory_info(const Gpu& gpu, std::size_t* free, std::size_t* total);
/// Version that both interfaces report.
constexpr int kCudaVersion = 13000;

/// Attributes of a kernel, by their numbers.
enum FunctionAttribute : int {
  kMaxThreadsAttribute = 0,
  kSharedBytesAttribute = 1,
  kConstantBytesAttribute = 2,
  kLocalBytesAttribute = 3,
  kRegistersAttribute = 4,
  kPtxVersionAttribute = 5,
  kBinaryVersionAttribute = 6,
  kMaxDynamicSharedBytesAttribute = 8,
};
[[nodiscard]] FunctionAttributes function_attributes(Gpu& gpu, Function& function);
void set_function_attribute(Gpu& gpu, Function& function, int attribute, int value);

/// Finds an exported function by its name, in its newest version; null if there is none.
[[nodiscard]] void* find_entry_point(const char* name);

}  // namespace fovea::programs
