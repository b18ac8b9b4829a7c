// Reports matches as text, as JSON and on the page, in a single pass.
#include "cli/neighbours.hpp"

#include <iostream>
#include <system_error>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/model_option.hpp"
#include "cli/options.hpp"
#include "cli/terminal.hpp"
#include "core/device_name.hpp"
#include "fovea/error.hpp"
#include "io/output_place.hpp"

namespace fovea::cli {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

namespace {

/// Returns a callback that shows the progress of a search on the line, and clears the line before
/// results are printed.
SearchProgress search_progress(ProgressLine& line) {
  return [&line](std::int64_t done, std::int64_t total) {
    if (done < total) {
      line.update("comparing", "photos", static_cast<std::uint64_t>(done),
                  static_cast<std::uint64_t>(total));
    } else {
      ProgressLine::clear();  // because results may be printed on the same terminal
    }
  };
}

}  // namespace

void add_collection_options(CLI::App& command, NeighbourOptions& options, const char* model_help) {
  add_repeated(command, "-i,--in", "OUT", options.in,
               "Output of `fovea embed`: a folder or one .npy; may be repeated, to search several "
               "outputs of one model")
      ->required();
  add_integer(command, "-k,--neighbours,--neighbors", {1, INT32_MAX}, options.k,
              "Neighbours per query")
      ->group(kOptionsGroup);
  add_optional_model(command, options.model, model_help);
}

CLI::Option* add_report_options(CLI::App& command, NeighbourOptions& options) {
  options.json.add_to(command);
  CLI::Option* const page =
      add_output_text(command, "--html", "FILE", options.html, OutputKind::kPage,
                      "Write a self-contained page of pictures (instead of the table)")
          ->group(kReportGroup);
  add_text(command, "--root", "FOLDER", options.root,
           "Folder to which relative names of photos in OUT refer (default: the one where `fovea "
           "embed` ran)")
      ->group(kInputGroup);
  add_max_pixels(command, options.max_pixels);
  add_device(command, options.device,
             "Device for comparisons, and for embedding what is not in OUT; auto compares on a GPU "
             "if there are more than 1024 queries");
  add_threads(command, options.threads);
  add_progress_options(command, options.progress);
  return page;
}

NeighbourSearch::NeighbourSearch(const NeighbourOptions& options, const std::string& device)
    : neighbour_options_(options),
      line_(options.progress),
      collection_(std::vector<fs::path>(options.in.begin(), options.in.end()),
                  {.threads = options.threads,
                   .root = options.root,
                   .on_progress = search_progress(line_),
                   .device = device,
                   .on_device = tell_search_device,
                   .on_note = say}),
      report_(collection_.outputs()) {
  for (const std::string& sentence : collection_.missing_shards()) {
    say(sentence + "; searching the rest");
  }
  if (!collection_.is_finished()) {
    say(fmt::format(
        "{}: the job that writes it has not finished; searching the {} that are complete",
        output_names(collection_.outputs()), count_text(collection_.rows(), "row")));
  }
}

std::optional<std::int64_t> NeighbourSearch::find_row(const std::string& name) const {
  const auto row = collection_.find(name);
  return row ? row : collection_.find_file(name);
}

void NeighbourSearch::throw_unknown_name(const std::string& name) const {
  throw Error(fmt::format("{}: is neither the name of a photo in {} nor a file", source_name(name),
                          output_names(collection_.outputs())));
}

EncoderOptions NeighbourSearch::encoder_options(Tower first) const {
  const std::optional<DeviceName> name = parse_device(neighbour_options_.device);
  const bool on_gpu = name && name->is_gpu();
  return {.device = on_gpu ? neighbour_options_.device : "cpu",
          .precision = on_gpu ? Precision::kAuto : Precision::kFp32,
          .threads = neighbour_options_.threads,
          .first = first};
}

void NeighbourSearch::report_neighbours(std::span<const Query> queries,
                                        std::span<const std::vector<Match>> results,
                                        Page& page) const {
  Json list = Json::array();
  if (prints_table() && stdout_is_terminal() && !queries.empty()) {
    std::cout << PhotoReport::heading(queries.front().scale ? "  rank  prob. " : "  rank");
  }
  for (std::size_t index = 0; index < queries.size(); ++index) {
    const Query& query = queries[index];
    const std::string neighbour_count =
        count_text(static_cast<std::int64_t>(results[index].size()), "neighbour");
    PageSection section{query.is_text ? query.photo.source : neighbour_count, "", std::nullopt, {}};
    if (!query.is_text) {
      section.query = report_.picture(query.photo, std::nullopt);
    }
    Json matches = Json::array();
    if (prints_table()) {
      std::cout << printable_name(query.photo.source) << '\n';
    }
    int rank = 0;
    for (const Match& match : results[index]) {
      const Photo photo = collection_.photo(match.row);
      Json item = report_.json(photo, match.score);
      PagePicture picture = report_.picture(photo, match.score);
      std::string leading_columns = fmt::format("{:6}", ++rank);
      if (query.scale) {
        const double probability = query.scale->probability(match.score);
        item["logit"] = query.scale->logit(match.score);
        item["probability"] = probability;
        picture.facts.insert(picture.facts.begin(), fmt::format("probability {:.4f}", probability));
        leading_columns += fmt::format("  {:6.4f}", probability);
      }
      if (prints_table()) {
        std::cout << report_.line(leading_columns, match.score, photo);
      }
      matches.push_back(std::move(item));
      section.pictures.push_back(std::move(picture));
    }
    page.sections.push_back(std::move(section));
    Json item{{"query", query.photo.source}};
    if (query.photo.row >= 0) {
      item["row"] = query.photo.row;
    }
    item["matches"] = std::move(matches);
    list.push_back(std::move(item));
  }
  neighbour_options_.json.write({{"rows", collection_.rows()}, {"queries", std::move(list)}});
}

void NeighbourSearch::check_dimension(std::int64_t dimension, const std::string& what) const {
  if (dimension != collection_.dimension()) {
    throw Error(fmt::format("{}: the vectors have {} dimensions, but those in {} have {}",
                            source_name(what), dimension, output_names(collection_.outputs()),
                            collection_.dimension()));
  }
}

std::string NeighbourSearch::search_scope() const {
  const std::string scope = " in " + output_names(collection_.outputs());
  if (collection_.model().empty()) {
    return scope;
  }
  // A folder is shown by the last part of its path, a hub model by its full name.
  const fs::path path = collection_.model();
  const std::string title =
      path.is_absolute() ? (path.has_filename() ? path : path.parent_path()).filename().string()
                         : path.string();
  return fmt::format("{}, embedded by {}", scope, source_name(title));
}

void print_name_and_nul(const Photo& photo) {
  const std::string& name = photo.file.native();
  // A name that begins with a dash must not become an option of `rm`.
  std::cout << (name.starts_with('-') ? "./" : "") << name << '\0';
}

std::string output_names(const std::vector<fs::path>& outputs) {
  std::string names;
  for (const fs::path& output : outputs) {
    names += (names.empty() ? "" : ", ") + output.native();
  }
  return source_name(names);
}

void make_and_write_page(const std::string& html, int threads,
                         const std::function<Page(PageNotes& notes)>& make) {
  if (!html.empty()) {
    io::check_writable(html);
  }
  PageNotes notes;
  const Page page = make(notes);
  if (html.empty()) {
    return;
  }
  const std::int64_t missing_pictures = write_page(html, page, threads, notes.encoder);
  std::error_code size_error;
  const std::uintmax_t bytes = fs::file_size(html, size_error);
  say(fmt::format(
      "wrote {}{}", source_name(html),
      size_error ? "" : fmt::format(" ({})", bytes_text(static_cast<std::int64_t>(bytes)))));
  if (missing_pictures > 0) {
    say(fmt::format("{} could not be read and were replaced by placeholders{}",
                    count_text(missing_pictures, "picture"), notes.hint));
  }
}

}  // namespace fovea::cli
