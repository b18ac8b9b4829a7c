// What `fovea similar` and `fovea search` share: neighbours as lines, JSON and pages of pictures.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <CLI/App.hpp>
#include <nlohmann/json.hpp>

#include "cli/progress_line.hpp"
#include "cli/similar_report.hpp"
#include "fovea/encoder.hpp"
#include "fovea/search.hpp"

namespace fovea::cli {

/// What neighbours are searched of: a photo or a vector, whose row is -1 when it has none; or
/// words, which have no picture.
struct Query {
  Photo photo;
  bool is_text = false;
  /// Set for texts alone: their matches also have logits and probabilities.
  std::optional<LogitScale> scale = std::nullopt;
};

/// Prints each query with its matches on the standard output when `prints_table`, adds them to the
/// page, and returns them as JSON: {"rows": N, "queries": [{"query": ..., "matches": [...]}]}.
[[nodiscard]] nlohmann::ordered_json report_neighbours(const Collection& collection,
                                                       const PhotoReport& report,
                                                       std::span<const Query> queries,
                                                       std::span<const std::vector<Match>> results,
                                                       bool prints_table, Page& page);

/// Prints the name of a photo's file as the file system knows it, and a NUL byte.
void print_file0(const Photo& photo);

/// The names of outputs, separated by commas.
[[nodiscard]] std::string names_of(const std::vector<std::filesystem::path>& outputs);
/// " in OUT, embedded by base".
[[nodiscard]] std::string where_searched(const Collection& collection);
/// Tells of an output that a job still writes.
void say_if_unfinished(const Collection& collection);

/// Shows how far a search is on the line, which then makes room for results.
[[nodiscard]] SearchProgress progress_on(ProgressLine& line);

/// --in OUT, --device, --html FILE and --root FOLDER.
CLI::Option* add_search_device(CLI::App& command, std::string& device);
CLI::Option* add_outputs(CLI::App& command, std::vector<std::string>& outputs);
CLI::Option* add_page(CLI::App& command, std::string& html);
CLI::Option* add_root(CLI::App& command, std::string& root);

/// What the writing of a page takes, beside the page.
struct PageNotes {
  std::string hint;            // ends the sentence about pictures that could not be read
  Encoder* encoder = nullptr;  // see write_page
};
/// Makes the results, and writes the page for --html FILE, unless that is "". The page is written
/// last, after all the work, so its place is tried first. Says what was written. Throws
/// fovea::Error.
void with_page(const std::string& html, int threads,
               const std::function<Page(PageNotes& notes)>& make);

/// How queries are embedded: on the GPU that was asked for; else in fp32 on the CPU, because a GPU
/// would take longer to start than to compute a few of them.
[[nodiscard]] EncoderOptions encoder_for_queries(const std::string& device, int threads,
                                                 Tower first);

/// Throws fovea::Error when vectors of `dimension` numbers, which are of `what`, cannot be compared
/// with the collection.
void check_dimension(const Collection& collection, std::int64_t dimension, const std::string& what);

}  // namespace fovea::cli
