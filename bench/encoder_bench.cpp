// Measures the encoder's rate at each batch size, and each operator's share of the time:
//   encoder_bench MODEL [--batch 1,32] [--precision fp32] [--device auto] [--threads 0] [--seconds
//   5]
// Prints one JSON object. It times encode() alone, on random pixels, after a warm-up.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <exception>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "backends.hpp"
#include "core/error.hpp"
#include "model/checkpoint.hpp"
#include "model/encoder.hpp"

namespace {

using namespace fovea;
using Clock = std::chrono::steady_clock;

struct Options {
  std::string model;
  std::vector<std::int64_t> batches{1, 32};
  EncoderOptions encoder;
  double seconds = 5;  // per batch size, and for kMinRepeats calls at least
};

constexpr std::size_t kMinRepeats = 3;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    if (!flag.starts_with("--")) {
      options.model = flag;
      continue;
    }
    if (++i == argc) {
      fail("{} needs a value", flag);
    }
    const std::string value = argv[i];
    if (flag == "--batch") {
      options.batches.clear();
      std::istringstream list(value);
      for (std::string item; std::getline(list, item, ',');) {
        options.batches.push_back(std::stoll(item));
      }
    } else if (flag == "--precision") {
      options.encoder.precision = parse_precision(value);
    } else if (flag == "--device") {
      options.encoder.device = value;
    } else if (flag == "--threads") {
      options.encoder.threads = std::stoi(value);
    } else if (flag == "--seconds") {
      options.seconds = std::stod(value);
    } else {
      fail("unknown option {}", flag);
    }
  }
  if (options.model.empty()) {
    fail(
        "usage: encoder_bench MODEL [--batch 1,32] [--precision fp32] [--device auto] [--threads "
        "0] "
        "[--seconds 5]");
  }
  return options;
}

std::string operators_json(const ops::Backend& backend) {
  const ops::Profile profile = backend.profile();
  std::vector<std::pair<double, std::string_view>> times;
  double total = 0;
  for (std::size_t i = 0; i < ops::kPlaces; ++i) {
    const auto place = static_cast<ops::Place>(i);
    if (profile[place].calls > 0) {
      times.emplace_back(profile[place].seconds, to_string(place));
      total += profile[place].seconds;
    }
  }
  std::ranges::sort(times, std::ranges::greater{});
  std::string json;
  for (const auto& [seconds, place] : times) {
    json += fmt::format("{}\"{}\": {:.4f}", json.empty() ? "" : ", ", place, seconds / total);
  }
  return "{" + json + "}";
}

std::string measure(model::Encoder& encoder, std::int64_t batch, double seconds) {
  const model::VisionConfig& vision = encoder.config().vision;
  std::vector<std::uint8_t> patches(
      static_cast<std::size_t>(batch * vision.patches() * vision.patch_elements()));
  std::minstd_rand random(static_cast<unsigned>(batch));
  std::ranges::generate(patches, [&] { return static_cast<std::uint8_t>(random() >> 8); });
  std::vector<float> embeddings(static_cast<std::size_t>(batch * vision.hidden), NAN);
  encoder.encode(patches, batch, embeddings);
  if (!std::ranges::all_of(embeddings, [](float value) { return std::isfinite(value); })) {
    fail("an embedding of a batch of {} is not finite", batch);
  }
  // The first call also creates oneDNN primitives, so the profile starts after it.
  encoder.reset_profile();
  std::vector<double> times;
  const auto start = Clock::now();
  while (times.size() < kMinRepeats || seconds_since(start) < seconds) {
    const auto call = Clock::now();
    encoder.encode(patches, batch, embeddings);
    times.push_back(seconds_since(call));
  }
  std::ranges::sort(times);
  const auto images = static_cast<double>(batch);
  const double median = times[times.size() / 2];
  return fmt::format(
      R"({{"batch": {}, "images_per_second": {:.3f}, "best": {:.3f}, "worst": {:.3f}, )"
      R"("milliseconds": {:.3f}, "calls": {}, "operators": {}}})",
      batch, images / median, images / times.front(), images / times.back(), median * 1e3,
      times.size(), operators_json(encoder.backend()));
}

int run(int argc, char** argv) {
  const Options options = parse(argc, argv);
  const auto start = Clock::now();
  const model::Checkpoint checkpoint(options.model);
  model::Encoder encoder(checkpoint, make_backend(options.encoder));
  const double load = seconds_since(start);
  std::string results;
  for (const std::int64_t batch : options.batches) {
    results += (results.empty() ? "\n  " : ",\n  ") + measure(encoder, batch, options.seconds);
  }
  fmt::print(
      "{{\"device\": \"{}\", \"precision\": \"{}\", \"threads\": {}, "
      "\"load_seconds\": {:.3f}, \"results\": [{}]}}\n",
      encoder.description(), to_string(encoder.backend().precision()), encoder.backend().threads(),
      load, results);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
