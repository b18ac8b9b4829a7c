// Tiles for any CPU: vectors of four floats, in GCC's vector extension.
#include "cpu/tiles/tile-inl.hpp"

namespace fovea::cpu {
namespace {

struct F32 {
  static constexpr int kLanes = 4;
  static constexpr int kVectors = 2;
  /// Maximum number of products in one running sum, which limits rounding errors.
  static constexpr std::int64_t kMaxUnits = 256;
  using Vector [[gnu::vector_size(16)]] = float;
  using Sum = Vector;

  static Vector load(const Unit* from) {
    Vector vector;
    std::memcpy(&vector, from, sizeof(vector));
    return vector;
  }
  static Vector broadcast(const Unit* from) {
    float number = 0;
    std::memcpy(&number, from, sizeof(number));
    return Vector{number, number, number, number};
  }
  static Sum dot(Sum sum, Vector a, Vector b) { return sum + a * b; }
  static void store(Unit* to, Sum sum, bool add) {
    const Sum whole = add ? load(to) + sum : sum;
    std::memcpy(to, &whole, sizeof(whole));
  }
};

}  // namespace

constinit const TileKernel generic_f32 = make_tile_kernel<F32, 1, 2, 3, 4>(UnitType::kF32);

}  // namespace fovea::cpu
