// Inputs of micro-kernels: edge values, random ones, and matrices that are hard to add up.
#include "emulator/captures/values.hpp"

#include <algorithm>
#include <array>

namespace captures {
namespace {

std::uint64_t ones(int bits) {
  return bits == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << static_cast<unsigned>(bits)) - 1;
}

std::vector<std::uint64_t> integer_edges(int bits) {
  const std::uint64_t top = std::uint64_t{1} << static_cast<unsigned>(bits - 1);
  const std::uint64_t half = std::uint64_t{1} << static_cast<unsigned>(bits / 2);
  std::vector<std::uint64_t> edges = {0,
                                      1,
                                      2,
                                      3,
                                      7,
                                      10,
                                      31,
                                      32,
                                      33,
                                      255,
                                      half - 1,
                                      half,
                                      half + 1,
                                      top - 1,
                                      top - 2,
                                      top,
                                      top + 1,
                                      top + 2,
                                      ~0ULL,
                                      ~1ULL,
                                      ~2ULL,
                                      ~9ULL,
                                      ~31ULL,
                                      0x5555555555555555U,
                                      0xAAAAAAAAAAAAAAAAU,
                                      0x0123456789ABCDEFU};
  for (std::uint64_t& edge : edges) {
    edge &= ones(bits);
  }
  return edges;
}

// Of a format with so many bits of exponent and fraction.
std::vector<std::uint64_t> float_edges(int exponent_bits, int fraction_bits) {
  const auto e = static_cast<unsigned>(exponent_bits);
  const auto f = static_cast<unsigned>(fraction_bits);
  const std::uint64_t one = ((std::uint64_t{1} << (e - 1)) - 1) << f;
  const std::uint64_t step = std::uint64_t{1} << f;  // to the next power of two
  const std::uint64_t infinity = ((std::uint64_t{1} << e) - 1) << f;
  const std::uint64_t quiet = std::uint64_t{1} << (f - 1);
  std::vector<std::uint64_t> edges = {0,
                                      1,
                                      2,
                                      step / 2,
                                      step - 1,
                                      step,
                                      step + 1,
                                      one,
                                      one + 1,
                                      one - 1,
                                      one + step / 2,
                                      one - step,
                                      one + step,
                                      one + 3 * step + step / 4,
                                      one - step + 1,
                                      one + static_cast<std::uint64_t>(fraction_bits) * step,
                                      one + (static_cast<std::uint64_t>(fraction_bits) + 1) * step,
                                      infinity - 1,
                                      infinity - step,
                                      infinity,
                                      infinity + 1,
                                      infinity + quiet,
                                      infinity + quiet + 3,
                                      infinity + step - 1};
  const std::size_t count = edges.size();
  for (std::size_t i = 0; i < count; ++i) {
    edges.push_back(edges[i] | std::uint64_t{1} << (e + f));
  }
  return edges;
}

// An edge value for the first elements, so that two operands meet each pair of them; then edges and
// what `other` gives, at random.
template <typename Other>
std::vector<std::uint64_t> with_edges(std::size_t count, const std::vector<std::uint64_t>& edges,
                                      Position position, std::uint64_t seed, Other&& other) {
  Random random(seed * 31 + position.index);
  std::vector<std::uint64_t> values(count);
  const std::size_t size = edges.size();
  const std::size_t met = position.of == 1 ? size : size * size;
  for (std::size_t i = 0; i < count; ++i) {
    if (i < met && position.index < 2) {
      values[i] = edges[(position.index == 0 ? i : i / size) % size];
    } else if (random.below(4) == 0) {
      values[i] = edges[random.below(size)];
    } else {
      values[i] = other(random);
    }
  }
  return values;
}

// Of any bits, or not far from 1.
std::uint64_t random_float(Random& random, int exponent_bits, int fraction_bits, int spread) {
  const int bits = exponent_bits + fraction_bits + 1;
  const std::uint64_t any = random.next() & ones(bits);
  if (random.below(3) == 0) {
    return any;
  }
  const std::int64_t bias = (std::int64_t{1} << static_cast<unsigned>(exponent_bits - 1)) - 1;
  const auto exponent = static_cast<std::uint64_t>(
      bias - spread +
      static_cast<std::int64_t>(random.below(2 * static_cast<std::uint64_t>(spread) + 1)));
  const auto fraction = any & ones(fraction_bits);
  const std::uint64_t sign = any >> static_cast<unsigned>(bits - 1);
  return sign << static_cast<unsigned>(bits - 1) |
         exponent << static_cast<unsigned>(fraction_bits) | fraction;
}

std::vector<std::uint64_t> pairs(std::size_t count, Position position, std::uint64_t seed,
                                 int exponent_bits, int fraction_bits) {
  const auto other = [&](Random& random) {
    return random_float(random, exponent_bits, fraction_bits, 6);
  };
  const auto edges = float_edges(exponent_bits, fraction_bits);
  const auto low = with_edges(count, edges, position, seed, other);
  auto values = with_edges(count, edges, position, seed + 77, other);
  for (std::size_t i = 0; i < count; ++i) {
    values[i] = values[i] << 16U | low[(i + 5) % count];
  }
  return values;
}

}  // namespace

std::vector<std::uint64_t> integers(std::size_t count, int bits, Position position,
                                    std::uint64_t seed) {
  return with_edges(count, integer_edges(bits), position, seed, [&](Random& random) {
    const std::uint64_t value = random.next() & ones(bits);
    return random.below(2) == 0 ? value : value >> random.below(static_cast<std::uint64_t>(bits));
  });
}

std::vector<std::uint64_t> shifts(std::size_t count, int /*bits*/, Position /*position*/,
                                  std::uint64_t seed) {
  constexpr std::array<std::uint64_t, 8> kFar = {96,  127,    128,        255,
                                                 256, 0x8000, 0x80000000, 0xFFFFFFFF};
  Random random(seed);
  std::vector<std::uint64_t> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint64_t pick = random.below(89);
    values[i] = pick < 81 ? pick : kFar.at(pick - 81);
  }
  return values;
}

std::vector<std::uint64_t> other_shifts(std::size_t count, int bits, Position position,
                                        std::uint64_t seed) {
  return shifts(count, bits, position, seed + 7);
}

std::vector<std::uint64_t> floats(std::size_t count, int /*bits*/, Position position,
                                  std::uint64_t seed) {
  return with_edges(count, float_edges(8, 23), position, seed,
                    [](Random& random) { return random_float(random, 8, 23, 12); });
}
std::vector<std::uint64_t> moderate_floats(std::size_t count, int /*bits*/, Position position,
                                           std::uint64_t seed) {
  return with_edges(count, {0, 0x80000000, 0x3F800000, 0xBF800000, 0x3F000000, 0x7FC00000},
                    position, seed, [](Random& random) {
                      std::uint64_t value = random_float(random, 8, 23, 3);
                      while ((value >> 23U & 0xFFU) > 129 || (value >> 23U & 0xFFU) < 100) {
                        value = random_float(random, 8, 23, 3);
                      }
                      return value;
                    });
}
std::vector<std::uint64_t> doubles(std::size_t count, int /*bits*/, Position position,
                                   std::uint64_t seed) {
  return with_edges(count, float_edges(11, 52), position, seed,
                    [](Random& random) { return random_float(random, 11, 52, 12); });
}
std::vector<std::uint64_t> halves(std::size_t count, int /*bits*/, Position position,
                                  std::uint64_t seed) {
  return with_edges(count, float_edges(5, 10), position, seed,
                    [](Random& random) { return random_float(random, 5, 10, 6); });
}
std::vector<std::uint64_t> bfloats(std::size_t count, int /*bits*/, Position position,
                                   std::uint64_t seed) {
  return with_edges(count, float_edges(8, 7), position, seed,
                    [](Random& random) { return random_float(random, 8, 7, 6); });
}
std::vector<std::uint64_t> half_pairs(std::size_t count, int /*bits*/, Position position,
                                      std::uint64_t seed) {
  return pairs(count, position, seed, 5, 10);
}
std::vector<std::uint64_t> bfloat_pairs(std::size_t count, int /*bits*/, Position position,
                                        std::uint64_t seed) {
  return pairs(count, position, seed, 8, 7);
}
std::vector<std::uint64_t> predicates(std::size_t count, int /*bits*/, Position position,
                                      std::uint64_t seed) {
  Random random(seed + position.index);
  std::vector<std::uint64_t> values(count);
  for (std::uint64_t& value : values) {
    value = random.below(2);
  }
  return values;
}
std::vector<std::uint64_t> counted(std::size_t count, int bits, Position /*position*/,
                                   std::uint64_t /*seed*/) {
  std::vector<std::uint64_t> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    values[i] = i & ones(bits);
  }
  return values;
}
std::vector<std::uint64_t> counted_pairs(std::size_t count, int /*bits*/, Position /*position*/,
                                         std::uint64_t /*seed*/) {
  std::vector<std::uint64_t> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    values[i] = ((i + count / 2) & 0xFFFFU) << 16U | (i & 0xFFFFU);
  }
  return values;
}

Bytes random_bytes(std::size_t count, std::uint64_t seed) {
  Random random(seed);
  Bytes bytes(count);
  for (std::byte& byte : bytes) {
    byte = static_cast<std::byte>(random.next() >> 56U);
  }
  return bytes;
}

Bytes packed(const std::vector<std::uint64_t>& values, int bits) {
  const auto size = static_cast<std::size_t>(bits) / 8;
  Bytes bytes(values.size() * size);
  for (std::size_t i = 0; i < values.size(); ++i) {
    std::memcpy(bytes.data() + i * size, &values[i], size);
  }
  return bytes;
}

namespace {

struct Shape {
  int exponent_bits;
  int fraction_bits;
};
Shape shape_of(Number number) {
  switch (number) {
    case Number::kBF16:
      return {8, 7};
    case Number::kF16:
      return {5, 10};
    case Number::kE4M3:
      return {4, 3};
    case Number::kE5M2:
      return {5, 2};
    default:
      return {8, 23};
  }
}

std::uint64_t nasty_float(Number number, Nasty nasty, Random& random) {
  const auto [exponent_bits, fraction_bits] = shape_of(number);
  const auto f = static_cast<unsigned>(fraction_bits);
  const std::int64_t bias = (std::int64_t{1} << static_cast<unsigned>(exponent_bits - 1)) - 1;
  const auto most = static_cast<std::int64_t>(ones(exponent_bits));
  const std::uint64_t fraction = random.next() & ones(fraction_bits);
  const std::uint64_t sign = random.below(2)
                             << static_cast<unsigned>(exponent_bits + fraction_bits);
  const auto made = [&](std::int64_t exponent, std::uint64_t bits) {
    return sign | static_cast<std::uint64_t>(std::clamp<std::int64_t>(exponent, 0, most - 1)) << f |
           bits;
  };
  const auto near_one = [&](std::int64_t spread) {
    const auto by = static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(spread)));
    return bias - by;
  };
  switch (nasty) {
    case Nasty::kRandom:
      return made(near_one(3), fraction);
    case Nasty::kWide:  // products stay finite
      return made(
          bias / 2 + static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(bias))),
          fraction);
    case Nasty::kCancelling:
      return random.below(3) == 0 ? made(near_one(bias > 30 ? 30 : bias), fraction)
                                  : made(bias + 4, (random.below(2) << f) / 2);
    case Nasty::kSpecial:
      if (random.below(160) == 0) {
        const std::uint64_t all = ones(exponent_bits) << f;
        return number == Number::kE4M3 ? sign | all | ones(fraction_bits)
                                       : sign | all | (random.below(3) == 0 ? fraction : 0);
      }
      return random.below(9) == 0 ? sign : made(near_one(4), fraction);
    case Nasty::kSubnormal:
      return made(random.below(2) == 0 ? 0 : 1 + static_cast<std::int64_t>(random.below(2)),
                  fraction);
    case Nasty::kHuge:
      return made(random.below(3) == 0 ? most - 1 : bias + 3,
                  number == Number::kE4M3 ? fraction / 2 : fraction);
  }
  return 0;
}

std::uint64_t nasty_integer(int bits, Nasty nasty, Random& random) {
  const std::uint64_t top = std::uint64_t{1} << static_cast<unsigned>(bits - 1);
  switch (nasty) {
    case Nasty::kRandom:
    case Nasty::kWide:
      return random.next() & ones(bits);
    case Nasty::kCancelling:
      return (random.below(2) == 0 ? 100 : ~std::uint64_t{99}) & ones(bits);
    default: {
      const std::array<std::uint64_t, 4> edges = {top, top - 1, ones(bits), 0};
      return edges.at(random.below(nasty == Nasty::kHuge ? 2 : 4));
    }
  }
}

}  // namespace

Bytes matrix_elements(Number number, Nasty nasty, std::size_t bytes, std::uint64_t seed) {
  Random random(seed * 1009 + static_cast<std::uint64_t>(nasty));
  const int bits = bits_of(number);
  const bool is_float = number != Number::kS8 && number != Number::kU8 && number != Number::kS32;
  std::vector<std::uint64_t> values(bytes * 8 / static_cast<std::size_t>(bits));
  for (std::uint64_t& value : values) {
    value = is_float ? nasty_float(number, nasty, random) : nasty_integer(bits, nasty, random);
  }
  return packed(values, bits);
}

}  // namespace captures
