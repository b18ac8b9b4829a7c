// Accumulators of matrix products, about as large as the products.
#pragma once

#include "emulator/captures/values.hpp"

namespace captures {

std::string_view name_of(Number number);
std::string_view name_of(Nasty nasty);
/// `count` words: of float formats binary32, else whole numbers.
Bytes accumulators(Number of, Nasty nasty, std::size_t count, std::uint64_t seed);

}  // namespace captures
