// `fovea check`: checks whether an output is intact, and repairs it.
#include <iostream>
#include <memory>
#include <string>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/commands.hpp"
#include "cli/terminal.hpp"
#include "fovea/check.hpp"

namespace fovea::cli {
namespace {

std::string describe_counts(const CheckReport& report) {
  return fmt::format("{} rows in {} complete files, {} failed inputs", report.rows, report.files,
                     report.failed);
}

std::string remedy(const CheckReport& report, const std::string& output) {
  if (report.problems.empty()) {
    return report.has_checksums ? "Every file is as it was written.\n"
                                : "All files have the right lengths. An earlier version of Fovea "
                                  "wrote this output and kept no checksums of its files.\n";
  }
  if (!report.has_checksums || !report.can_repair) {
    return "No part of this output can be verified, so nothing was changed: start again with "
           "--overwrite, or restore the files that are named above.\n";
  }
  const std::string kept_rows =
      report.kept_finished
          ? fmt::format("all {} rows", report.kept_rows)
          : fmt::format("the first {} rows; the same `fovea embed` command resumes from there",
                        report.kept_rows);
  return report.repaired ? fmt::format("Repaired: the output keeps {}.\n", kept_rows)
                         : fmt::format("`fovea check {} --repair` keeps {}.\n",
                                       printable_name(output), kept_rows);
}

void print_text(const CheckReport& report, const std::string& output) {
  for (const std::string& problem : report.problems) {
    std::cout << "wrong: " << io::printable(problem) << '\n';
  }
  const std::string partial = report.missing.empty() ? "" : ", partial: " + report.missing;
  std::cout << fmt::format("{}: {}{}, {}\n", printable_name(output),
                           report.finished ? "finished" : "not finished", partial,
                           describe_counts(report))
            << remedy(report, output);
}

nlohmann::ordered_json to_json(const CheckReport& report) {
  return {{"finished", report.finished},
          {"missing", report.missing},
          {"has_checksums", report.has_checksums},
          {"inputs", report.inputs},
          {"rows", report.rows},
          {"failed", report.failed},
          {"files", report.files},
          {"problems", report.problems},
          {"can_repair", report.can_repair},
          {"kept_finished", report.kept_finished},
          {"kept_inputs", report.kept_inputs},
          {"kept_rows", report.kept_rows},
          {"repaired", report.repaired}};
}

}  // namespace

void add_check(CLI::App& app, Run& run) {
  CLI::App* command = app.add_subcommand(
      "check", "Check that an output of embed is intact; repair it with --repair");
  const auto output = std::make_shared<std::string>();
  const auto repair = std::make_shared<bool>(false);
  const auto json = std::make_shared<JsonOutput>();
  add_text(*command, "OUT", "", *output, "Output folder of `fovea embed`, finished or not")
      ->required();
  // No FOVEA_REPAIR: a variable forgotten in a shell must not truncate outputs.
  without_variable(
      add_flag(*command, "--repair", *repair,
               "Go back to the last verified state, so that embed can resume from there"))
      ->group(kOptionsGroup);
  json->add_to(*command);
  explain(*command, {"Exit codes: 0 if the output is intact or was repaired, 1 if it is damaged."},
          {"fovea check OUT", "fovea check OUT --repair"});
  command->callback([output, repair, json, &run] {
    run = [output, repair, json] {
      const CheckReport report = check_output({.output = *output, .repair = *repair});
      if (json->prints_text()) {
        print_text(report, *output);
      }
      json->write(to_json(report));
      return report.problems.empty() || report.repaired ? kDone : kFailed;
    };
  });
}

}  // namespace fovea::cli
