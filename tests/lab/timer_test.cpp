// What is said of timings, and what may be timed as a graph.
#include "lab/measure/timer.hpp"

#include <limits>
#include <memory>
#include <string>

#include <gtest/gtest.h>

#include "fovea/error.hpp"
#include "gpu/bare_device.hpp"

namespace fovea::lab {
namespace {

Timing timing(double seconds, double spread) {
  Timing timing;
  timing.seconds = seconds;
  timing.spread = spread;
  return timing;
}

TEST(Timing, IsAmbiguousWithinTheSpreadOfEither) {
  const Timing ours = timing(1.00, 0.02);
  EXPECT_FALSE(ours.ambiguous_with(timing(1.05, 0.04)));
  EXPECT_TRUE(ours.ambiguous_with(timing(1.05, 0.06)));
  EXPECT_TRUE(timing(1.05, 0.06).ambiguous_with(ours));
  EXPECT_TRUE(ours.ambiguous_with(timing(1.00, 0.0)));
  EXPECT_TRUE(ours.ambiguous_with(timing(std::numeric_limits<double>::quiet_NaN(), 0.0)));
}

TEST(Percentile, IsAValueOfTheSorted) {
  EXPECT_EQ(percentile({5, 1, 3, 2, 4}, 0.0), 1);
  EXPECT_EQ(percentile({5, 1, 3, 2, 4}, 0.5), 3);
  EXPECT_EQ(percentile({5, 1, 3, 2, 4}, 1.0), 5);
  EXPECT_EQ(percentile({7}, 0.9), 7);
}

/// Counts captures; one that was spoilt fails when it ends, as the driver's does.
class CapturingDevice final : public gpu::BareDevice {
 public:
  class SilentStream final : public gpu::Stream {
   public:
    void synchronize() override {}
    void wait_for(const gpu::Event& /*event*/) override {}
  };

  [[nodiscard]] std::unique_ptr<gpu::Stream> make_stream() override {
    return std::make_unique<SilentStream>();
  }
  void begin_capture(gpu::Stream& /*stream*/) override { ++open; }
  [[nodiscard]] std::unique_ptr<gpu::Graph> end_capture(gpu::Stream& /*stream*/) override {
    --open;
    if (spoilt) {
      throw Error("capturing a graph: it was spoilt");
    }
    return nullptr;
  }

  int open = 0;
  bool spoilt = false;
};

TEST(Graphs, ThatAPeerRefusesAreTold) {
  CapturingDevice device;
  Contender contender{"a peer", 1, [](int, gpu::Stream&) {}};
  EXPECT_TRUE(runs_in_graph(device, contender));
  EXPECT_EQ(device.open, 0);

  device.spoilt = true;
  EXPECT_NE(runs_in_graph(device, contender).why.find("spoilt"), std::string::npos);
  EXPECT_EQ(device.open, 0);

  contender.enqueue = [](int, gpu::Stream&) { throw Error("not within a graph"); };
  EXPECT_EQ(runs_in_graph(device, contender).why, "not within a graph");
  EXPECT_EQ(device.open, 0) << "a capture was left open";
}

}  // namespace
}  // namespace fovea::lab
