// Implements the step protocol.
#include "lab/measure/steps.hpp"

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "core/error.hpp"
#include "lab/check/check_cards.hpp"
#include "lab/check/judge.hpp"
#include "lab/measure/rotation.hpp"
#include "lab/measure/timer.hpp"
#include "lab/system/machine.hpp"
#include "lab/system/nvml.hpp"

namespace fovea::lab {
namespace {

using Json = nlohmann::ordered_json;

}  // namespace

void run_steps(gpu::Device& device, const CaseSpec& spec, std::istream& in, std::ostream& out) {
  PreparedCase prepared(device, spec);
  const std::unique_ptr<gpu::Stream> stream = device.make_stream();
  const Rotation rotation(device, prepared.workload(), *stream);
  std::vector<TileValues> values = expectations(prepared.workload(), kTilesBeforeTiming, spec.seed);
  if (const Verdict verdict =
          prepared.judge(rotation.first(), values, spec.card->tolerance, *stream);
      !verdict.passes()) {
    fail("{} {} is not timed because its output is wrong: {}", spec.card->name,
         prepared.case_name(), verdict.reason);
  }
  const Nvml nvml(device.info().pci_bus_id);
  const Contender contender =
      rotation.contender(spec.card->name, [&](const Operands& operands, gpu::Stream& run_stream) {
        prepared.run(operands, run_stream);
      });
  Sampler sampler(device, nvml, contender);
  const Json ready = {{"ready",
                       {{"card", spec.card->name},
                        {"case", prepared.case_name()},
                        {"problem", prepared.workload().describe()},
                        {"plan", to_string(prepared.plan())},
                        {"kernels", prepared.kernels()},
                        {"bus", device.info().pci_bus_id},
                        {"machine", Json::parse(machine_json(device.info()))}}}};
  out << ready.dump() << std::endl;
  for (std::string line; std::getline(in, line);) {
    if (line != "sample") {
      out << Json{{"error", "unknown request; the only valid one is: sample"}}.dump() << std::endl;
      continue;
    }
    const Sample sample = sampler.next();
    const GpuState state = sample.state.value_or(GpuState{});
    out << Json{{"seconds", sample.seconds},
                {"sm_mhz", state.sm_mhz},
                {"watts", state.watts},
                {"slowed", state.slowed}}
               .dump()
        << std::endl;
  }
}

}  // namespace fovea::lab
