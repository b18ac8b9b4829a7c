// `fovea merge`: joins outputs of embed.
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/commands.hpp"
#include "cli/job_report.hpp"
#include "cli/progress_line.hpp"
#include "cli/terminal.hpp"
#include "fovea/merge.hpp"

namespace fovea::cli {
namespace {

std::string summary(const MergeReport& report, const MergeOptions& options) {
  if (report.interrupted) {
    return "interrupted: nothing was changed";
  }
  std::string text = fmt::format("{} {} outputs: {} rows, {} failed",
                                 report.already_done ? "already merged" : "merged",
                                 options.outputs.size(), report.rows, report.failed);
  if (report.left_out > 0) {
    text += fmt::format(", {} left out, because an earlier output contains them", report.left_out);
  }
  if (!report.missing.empty()) {
    text += fmt::format("; PARTIAL: {}", report.missing);
  }
  return text + fmt::format("; {}; {} {}",
                            report.in_input_order ? "in the order of a run without --shard"
                                                  : "one output after the other",
                            report.already_done ? "they are in" : "written to",
                            printable_name(options.output));
}

}  // namespace

void add_merge(CLI::App& app, Run& run) {
  CLI::App* command = app.add_subcommand("merge", "Join outputs of embed into one");
  const auto options = std::make_shared<MergeOptions>();
  const auto progress = std::make_shared<ProgressArguments>();
  const auto json = std::make_shared<JsonOutput>();
  add_texts(*command, "OUT", options->outputs, "Output folders of `fovea embed`, all finished")
      ->required();
  add_output(*command, options->output, OutputKind::kFolder, "MERGED", "Folder for the result");
  add_flag(*command, "--keep-first", options->keep_first,
           "If several outputs contain a photo, take it from the first of them");
  without_variable(add_flag(*command, "--partial", options->partial,
                            "Join the shards that exist when others are missing; the summary, "
                            "manifest.json, check and search name the missing ones"));
  const auto shard_rows = std::make_shared<std::optional<std::uint64_t>>();
  add_optional_integer(*command, "--shard-rows", {1}, *shard_rows,
                       "Rows per embeddings file (default: that of the first OUT)")
      ->group(kOutputGroup);
  json->add_to(*command);
  add_progress_options(*command, *progress);
  explain(*command,
          {"Outputs of --shard 0/N to N-1/N are joined in the order of a run without --shard, "
           "other outputs one after the other. A missing shard is an error."},
          {"fovea merge OUT-0 OUT-1 -o MERGED", "fovea merge OUT-* -o MERGED --keep-first"});
  command->callback([command, options, shard_rows, progress, json, &run] {
    options->overwrite = has_overwrite_flag(*command);
    options->shard_rows = shard_rows->value_or(0);
    run = [options, progress, json] {
      ProgressLine line(*progress);
      Interruption interruption;
      options->stop = Interruption::flag();
      options->on_progress = [&](std::uint64_t done, std::uint64_t total) {
        line.update("merging", "rows", done, total);
      };
      const MergeReport report = merge_outputs(*options);
      interruption.end();
      ProgressLine::clear();
      nlohmann::ordered_json fields{{"output", options->output},
                                    {"rows", report.rows},
                                    {"failed", report.failed},
                                    {"left_out", report.left_out},
                                    {"in_input_order", report.in_input_order},
                                    {"missing", report.missing},
                                    {"already_done", report.already_done},
                                    {"interrupted", report.interrupted}};
      json->write(fields);
      nlohmann::ordered_json event{{"event", "done"}};
      event.update(fields);
      print_event(summary(report, *options), event);
      return report.interrupted ? kInterrupted : kDone;
    };
  });
}

}  // namespace fovea::cli
