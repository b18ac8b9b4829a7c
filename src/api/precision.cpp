// Finds precisions by name and makes encoders by precision; a precision that was not named
// explicitly may be unavailable.
#include "api/precision.hpp"

#include <cstddef>
#include <optional>

#include "backends.hpp"
#include "core/device_name.hpp"
#include "core/error.hpp"
#include "core/precision_names.hpp"
#include "core/wording.hpp"

namespace fovea {
namespace {

constexpr bool rows_are_in_order() {
  for (std::size_t i = 0; i < kPrecisions.size(); ++i) {
    if (kPrecisions[i].precision != static_cast<Precision>(i)) {
      return false;
    }
  }
  return true;
}
static_assert(rows_are_in_order(), "the rows of kPrecisions must be in the order of Precision");

}  // namespace

Precision parse_precision(std::string_view name) {
  for (const PrecisionInfo& info : kPrecisions) {
    if (name == info.name) {
      return info.precision;
    }
  }
  fail("unknown precision '{}'; use {}", name, listed(precision_names(), "or"));
}

bool selects_gpu(const std::string& device) {
  const std::optional<DeviceName> name = parse_device(device);
  return name && (name->is_gpu() || (name->kind == DeviceKind::kAuto && auto_takes_gpu()));
}

std::vector<Precision> precisions_or_all(const std::vector<Precision>& named,
                                         const std::string& device) {
  if (!named.empty()) {
    return named;
  }
  const auto on_device = selects_gpu(device) ? &PrecisionInfo::on_gpus : &PrecisionInfo::on_cpus;
  std::vector<Precision> precisions;
  for (const PrecisionInfo& info : kPrecisions) {
    if (info.compared && info.*on_device) {
      precisions.push_back(info.precision);
    }
  }
  return precisions;
}

std::unique_ptr<model::Encoder> try_encoder(const model::Checkpoint& checkpoint,
                                            const EncoderOptions& options, bool optional,
                                            std::string& reason) {
  try {
    return std::make_unique<model::Encoder>(checkpoint, make_backend(options));
  } catch (const Error& error) {
    if (!optional) {
      throw;
    }
    reason = error.what();
    return nullptr;
  }
}

}  // namespace fovea
