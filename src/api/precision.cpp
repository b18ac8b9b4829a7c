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

constexpr bool in_order() {
  for (std::size_t i = 0; i < kPrecisions.size(); ++i) {
    if (kPrecisions[i].precision != static_cast<Precision>(i)) {
      return false;
    }
  }
  return true;
}
static_assert(in_order(), "info_of finds a row of kPrecisions by its place");

}  // namespace

Precision parse_precision(std::string_view name) {
  for (const PrecisionInfo& info : kPrecisions) {
    if (name == info.name) {
      return info.precision;
    }
  }
  fail("unknown precision '{}'; use {}", name, listed(precision_names(), "or"));
}

bool means_gpu(const std::string& device) {
  const std::optional<DeviceName> name = parse_device(device);
  return name && (name->is_gpu() || (name->kind == DeviceKind::kAuto && auto_takes_gpu()));
}

std::vector<Precision> precisions_or_all(const std::vector<Precision>& named,
                                         const std::string& device) {
  if (!named.empty()) {
    return named;
  }
  const auto on_device = means_gpu(device) ? &PrecisionInfo::on_gpus : &PrecisionInfo::on_cpus;
  std::vector<Precision> all;
  for (const PrecisionInfo& info : kPrecisions) {
    if (info.compared && info.*on_device) {
      all.push_back(info.precision);
    }
  }
  return all;
}

std::unique_ptr<model::Encoder> try_encoder(const model::Checkpoint& checkpoint,
                                            const EncoderOptions& options, bool optional,
                                            std::string& why) {
  try {
    return std::make_unique<model::Encoder>(checkpoint, make_backend(options));
  } catch (const Error& error) {
    if (!optional) {
      throw;
    }
    why = error.what();
    return nullptr;
  }
}

}  // namespace fovea
