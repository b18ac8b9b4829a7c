// The results of a card file's expression, computed by Python with NumPy.
#pragma once

#include <string>
#include <vector>

#include "core/tensor_view.hpp"
#include "lab/emulation/elements.hpp"
#include "lab/emulation/expression.hpp"

namespace fovea::lab {

/// An input of an expression.
struct NamedArray {
  std::string name;
  emulation::ElementType type{};
  Shape shape{};
  std::vector<std::byte> bytes{};
};

/// An expression in NumPy or torch, and what it names.
struct Expression {
  std::string text;  // "gelu(x @ w.T + bias)"
  std::vector<NamedArray> inputs{};
  emulation::Values problem{};
  Shape shape{};  // of the result
};

struct ReferenceResults {
  std::vector<double> exact;      // computed in float64
  std::vector<double> framework;  // computed in f32, as a framework computes
};

/// Runs the Python interpreter in FOVEA_PYTHON, or python3, which needs NumPy, and torch for
/// expressions that name it. The expression runs with the permissions of the user. Throws
/// fovea::Error with Python's message if it fails, or if the result has another shape.
[[nodiscard]] ReferenceResults evaluate_reference(const Expression& expression);

}  // namespace fovea::lab
