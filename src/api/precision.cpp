// Precisions by name, and encoders by precision; a precision not asked for by name may be missing.
#include "api/precision.hpp"

#include <optional>

#include "backends.hpp"
#include "core/device_name.hpp"
#include "core/error.hpp"

namespace fovea {

Precision parse_precision(std::string_view name) {
  for (const Precision precision : {Precision::kAuto, Precision::kFp32, Precision::kBf16,
                                    Precision::kInt8, Precision::kFp8, Precision::kMxfp8}) {
    if (name == to_string(precision)) {
      return precision;
    }
  }
  fail("unknown precision '{}'; use auto, fp32, bf16, int8, fp8 or mxfp8", name);
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
  return means_gpu(device) ? std::vector{Precision::kBf16, Precision::kInt8, Precision::kFp8}
                           : std::vector{Precision::kFp32, Precision::kBf16, Precision::kInt8};
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
